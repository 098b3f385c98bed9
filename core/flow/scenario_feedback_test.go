package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirflow/weir/core/flow"
)

// review is the feedback of a scenario's method. The reference takes the first outcome for
// blank feedback without a default; here the scenario says so.
func (s *step) review(sc *scenario) flow.Review {
	r := flow.Review{Message: "feedback on " + s.name}
	for _, o := range items(s.feedback["emit"]) {
		r.Outcomes = append(r.Outcomes, flow.Label[flow.Feedback](o.(string)))
	}
	if d, ok := s.feedback["default_outcome"].(string); ok {
		r.Default = flow.Label[flow.Feedback](d)
	} else if len(r.Outcomes) > 0 {
		r.Default = r.Outcomes[0]
	}
	r.Classify = func(_ context.Context, _ string, outcomes []string) (string, error) {
		if own := items(s.feedback["outcomes"]); len(own) > 0 {
			return pop(s.feedback, "outcomes"), nil
		}
		if len(items(sc.flow["collapse_outcomes"])) > 0 {
			return pop(sc.flow, "collapse_outcomes"), nil
		}
		return outcomes[0], nil // as the reference does without a model
	}
	return r
}

// pop takes the first of a queue.
func pop(from map[string]any, key string) string {
	list := items(from[key])
	from[key] = list[1:]
	text, _ := list[0].(string)
	return text
}

// Request makes the player the one who is asked.
func (p *player) Request(_ context.Context, r flow.Request) (flow.Reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(r.ID, "/ask-") {
		list := items(p.sc.flow["ask_replies"])
		if len(list) == 0 {
			return flow.Reply{}, errors.New("the scenario has no reply left")
		}
		p.sc.flow["ask_replies"] = list[1:]
		if m, fails := list[0].(map[string]any); fails {
			return flow.Reply{}, fmt.Errorf("%v", m["$error"])
		}
		return flow.Reply{Text: pythonText(list[0])}, nil
	}
	i := slices.IndexFunc(p.sc.methods, func(m *step) bool { return m.name == r.Method })
	config := p.sc.methods[i].feedback
	if config["mode"] == "pause" {
		return flow.Reply{Later: true}, nil
	}
	if len(items(config["replies"])) == 0 {
		return flow.Reply{}, errors.New("the scenario has no reply left")
	}
	return flow.Reply{Text: pop(config, "replies")}, nil
}

// ask has the method ask and keeps the answer in the state. An error is no answer: a method of
// a scenario goes on without.
func (s *step) ask(ctx context.Context, run *flow.Run[doc]) error {
	if s.asks == "" {
		return nil
	}
	var value any
	answer, err := run.Ask(ctx, s.asks)
	switch {
	case errors.Is(err, flow.ErrPaused), ctx.Err() != nil:
		return err
	case err == nil:
		value = answer
	}
	return run.State().Update(func(st *doc) error { (*st)["answer"] = value; return nil })
}

// pauses reports whether some method of the scenario waits for an answer that comes later.
func (sc *scenario) pauses() bool {
	return slices.ContainsFunc(sc.methods, func(m *step) bool { return m.feedback["mode"] == "pause" })
}

// resume answers the oldest open request of an instance, or, if there is none, the one that
// was answered last.
func (p *player) resume(in *instance, op map[string]any, out *outcome) {
	args, _ := op["resume"].(map[string]any)
	if err := onlyKeys(args, "feedback", "from", "same_instance"); err != nil {
		out.err = err
		return
	}
	from := "main"
	if name, ok := args["from"].(string); ok {
		from = name
	}
	source := p.instances[from]
	if source == nil {
		out.err = fmt.Errorf("there is no instance %q", from)
		return
	}
	if open, err := flow.Pending(context.Background(), p.store, source.id); err == nil && len(open) > 0 {
		p.answered = open[0].ID
	}
	text, _ := args["feedback"].(string)
	opts := append(p.options(out), flow.Answer(p.answered, flow.Reply{Text: text}))
	out.resumed = source.outputs
	out.res, out.err = p.def.Resume(context.Background(), source.id, opts...)
	if out.res != nil {
		in.before = maps.Clone(source.completed)
		in.completed = out.res.Completed
	}
}

func checkPaused(_ *player, want any, out *outcome, _ *instance) string {
	if out.res == nil || !out.res.Paused {
		return "it is not"
	}
	if !slices.ContainsFunc(out.res.Pending, func(r flow.Request) bool { return r.Method == want }) {
		return fmt.Sprintf("the open requests are %v", out.res.Pending)
	}
	return ""
}

func checkPending(p *player, want any, _ *outcome, in *instance) string {
	id := in.id
	if id == "" && p.instances["main"] != nil {
		id = p.instances["main"].id
	}
	open, err := flow.Pending(context.Background(), p.store, id)
	if err != nil {
		return err.Error()
	}
	return differ(want, len(open))
}

func checkHistory(_ *player, want any, out *outcome, _ *instance) string {
	got := []any{}
	if out.res != nil {
		for _, f := range out.res.Feedback {
			got = append(got, map[string]any{"method": f.Method, "feedback": f.Text, "outcome": orNil(f.Outcome)})
		}
	}
	return differ(want, got)
}

func orNil(outcome string) any {
	if outcome == "" {
		return nil
	}
	return outcome
}

// neutral writes feedback records as the scenario files do.
func neutral(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = neutral(v[i])
		}
		return out
	case map[string]any:
		if _, record := v["request"]; record && v["at"] != nil {
			outcome, _ := v["outcome"].(string)
			return map[string]any{"$feedback": map[string]any{
				"output": neutral(v["output"]), "feedback": v["feedback"], "outcome": orNil(outcome), "method": v["method"],
			}}
		}
		out := map[string]any{}
		for k := range v {
			out[k] = neutral(v[k])
		}
		return out
	}
	return v
}

// pausedOutput reports whether the expected output is the pause itself.
func pausedOutput(want any) (method any, ok bool) {
	m, _ := want.(map[string]any)
	method, ok = m["$paused"]
	return method, ok
}

// afterMethod is the event by which the reference begins to resume.
func (o *outcome) afterMethod(e flow.Event) string {
	if a, ok := e.(flow.RequestAnswered); ok && o.resuming && !strings.Contains(a.Feedback.Request, "/ask") {
		o.resuming = false
		return "method_execution_started:" + a.Method
	}
	return ""
}

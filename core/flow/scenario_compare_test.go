package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/weirflow/weir/core/flow"
)

// pythonEvent is the reference's name for an event, or "" if it has none.
func pythonEvent(e flow.Event) string {
	switch e := e.(type) {
	case flow.FlowStarted:
		return "flow_started"
	case flow.FlowFinished:
		return "flow_finished"
	case flow.FlowFailed:
		return "flow_failed"
	case flow.MethodStarted:
		return "method_execution_started:" + e.Method
	case flow.MethodFinished:
		return "method_execution_finished:" + e.Method
	case flow.RequestOpened:
		if strings.Contains(e.Request.ID, "/ask-") {
			return "flow_input_requested:" + e.Request.Method
		}
	case flow.RequestAnswered:
		if strings.Contains(e.Feedback.Request, "/ask-") {
			return "flow_input_received:" + e.Method
		}
	case flow.MethodPaused:
		return "method_execution_paused:" + e.Request.Method
	case flow.FlowPaused:
		return "flow_paused"
	case flow.MethodFailed:
		if errors.Is(e.Err, flow.ErrLost) {
			return "" // a canceled task of the reference says nothing
		}
		return "method_execution_failed:" + e.Method
	}
	return ""
}

// python is the reference's name for an event of this step.
func (o *outcome) python(e flow.Event) string {
	if name := o.afterMethod(e); name != "" {
		return name
	}
	return pythonEvent(e)
}

// exceptions says what stands for an exception of the reference here.
var exceptions = map[string]func(error) bool{
	"ValueError": func(err error) bool {
		return is[valueError](err) || is[*flow.InputError](err) || is[*flow.BuildError](err) || errors.Is(err, errGrammar) || errors.Is(err, flow.ErrAnswered) || is[*flow.OutcomeError](err)
	},
	"RecursionError": is[*flow.BudgetError],
	"RuntimeError":   is[*flow.SaveError],
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// check is one key of an expectation.
type check func(p *player, want any, out *outcome, in *instance) string

var checks map[string]check

func init() {
	checks = map[string]check{
		"order":        func(_ *player, want any, out *outcome, _ *instance) string { return differ(want, out.begins()) },
		"finish_order": func(_ *player, want any, out *outcome, _ *instance) string { return differ(want, out.finishes()) },
		"after":        checkAfter,
		"never": func(_ *player, want any, out *outcome, _ *instance) string {
			for _, m := range items(want) {
				if slices.Contains(out.begins(), m.(string)) {
					return fmt.Sprintf("%v ran", m)
				}
			}
			return ""
		},
		"runs": func(_ *player, want any, out *outcome, _ *instance) string { return subset(want, count(out.begins())) },
		"completed": func(_ *player, want any, _ *outcome, in *instance) string {
			return either(subset(want, in.completed), subset(want, in.since()))
		},
		"output": func(_ *player, want any, out *outcome, _ *instance) string {
			if out.res == nil {
				return "there is no result"
			}
			if method, ok := pausedOutput(want); ok {
				return checkPaused(nil, method, out, nil)
			}
			return differ(want, neutral(decoded(out.res.Output)))
		},
		"outputs": func(_ *player, want any, out *outcome, _ *instance) string {
			return either(differ(want, out.outputs()), differ(want, out.outputs()[min(out.resumed, len(out.outputs())):]))
		},
		"outputs_unordered": checkUnordered,
		"received": func(p *player, want any, _ *outcome, _ *instance) string {
			return subset(want, neutral(decoded([]byte(canonical(p.received)))))
		},
		"state":         func(_ *player, want any, out *outcome, _ *instance) string { return subset(want, out.state()) },
		"state_missing": checkMissing,
		"paused":        checkPaused,
		"pending":       checkPending,
		"history":       checkHistory,
		"error":         checkError,
		"events":        checkEvents,
		"load": func(_ *player, want any, out *outcome, _ *instance) string {
			return differ(want, map[bool]string{true: "ok", false: "error"}[out.err == nil])
		},
		"saves": func(_ *player, want any, out *outcome, _ *instance) string { return differ(want, out.saves()) },
	}
}

// compare returns how a step differs from what is expected of it.
func (p *player) compare(expect map[string]any, out *outcome, in *instance) []string {
	var problems []string
	if _, fails := expect["error"]; !fails && out.err != nil && expect["load"] != "error" {
		problems = append(problems, "unexpected error: "+out.err.Error())
	}
	for key, want := range expect {
		c, ok := checks[key]
		if !ok {
			problems = append(problems, fmt.Sprintf("the expectation %q is not supported", key))
			continue
		}
		if text := c(p, want, out, in); text != "" {
			problems = append(problems, key+": "+text)
		}
	}
	sort.Strings(problems)
	return problems
}

func (o *outcome) begins() []string {
	out := []string{}
	for _, e := range o.log {
		if e, ok := e.(flow.MethodStarted); ok {
			out = append(out, e.Method)
		}
	}
	return out
}

func (o *outcome) finishes() []string {
	out := []string{}
	for _, e := range o.log {
		if e, ok := e.(flow.MethodFinished); ok {
			out = append(out, e.Method)
		}
	}
	return out
}

func (o *outcome) saves() []string {
	out, asked := []string{}, map[string]bool{}
	for _, e := range o.log {
		e, ok := e.(flow.StateSaved)
		switch {
		case ok && e.Request == "":
			out = append(out, e.Method)
		case ok && strings.Contains(e.Request, "/ask-") && !asked[e.Request]:
			asked[e.Request] = true // it is stored again with its answer
			out = append(out, "_ask_checkpoint")
		}
	}
	return out
}

func (o *outcome) outputs() []any {
	out := []any{}
	if o.res != nil {
		for _, m := range o.res.Outputs {
			out = append(out, neutral(decoded(m.Output)))
		}
	}
	return out
}

// either is for what the reference forgets at a pause: expectations of resumed runs may count
// from there.
func either(whole, since string) string {
	if since == "" {
		return ""
	}
	return whole
}

// since counts what completed after the instance was resumed.
func (in *instance) since() map[string]int {
	n := map[string]int{}
	for m, all := range in.completed {
		n[m] = all - in.before[m]
	}
	return n
}

func (o *outcome) state() doc {
	if o.res == nil {
		return doc{}
	}
	return o.res.State
}

func checkAfter(_ *player, want any, out *outcome, _ *instance) string {
	for _, pair := range items(want) {
		x, y := items(pair)[0], items(pair)[1]
		end := slices.IndexFunc(out.log, func(e flow.Event) bool { f, ok := e.(flow.MethodFinished); return ok && f.Method == x })
		begin := slices.IndexFunc(out.log, func(e flow.Event) bool { s, ok := e.(flow.MethodStarted); return ok && s.Method == y })
		if end < 0 || begin < end {
			return fmt.Sprintf("%v did not begin after %v had finished", y, x)
		}
	}
	return ""
}

func checkUnordered(_ *player, want any, out *outcome, _ *instance) string {
	sorted := func(list []any) []string {
		texts := make([]string, len(list))
		for i, v := range list {
			texts[i] = canonical(v)
		}
		sort.Strings(texts)
		return texts
	}
	return differ(sorted(items(want)), sorted(out.outputs()))
}

func checkMissing(_ *player, want any, out *outcome, _ *instance) string {
	for _, k := range items(want) {
		if v, have := out.state()[k.(string)]; have {
			return fmt.Sprintf("%v is there: %v", k, v)
		}
	}
	return ""
}

// checkError compares type and text. The case of letters does not matter: errors of Go
// programs begin in lower case.
func checkError(_ *player, want any, out *outcome, _ *instance) string {
	w := want.(map[string]any)
	if out.err == nil {
		return "there is none"
	}
	if typ, ok := w["type"].(string); ok {
		same, known := exceptions[typ]
		if !known || !same(out.err) {
			return fmt.Sprintf("it is a %T, not the like of %s: %v", out.err, typ, out.err)
		}
	}
	if text, ok := w["contains"].(string); ok && !strings.Contains(strings.ToLower(out.err.Error()), strings.ToLower(text)) {
		return fmt.Sprintf("%q does not contain %q", out.err, text)
	}
	return ""
}

// checkEvents compares names; one without a method matches any.
func checkEvents(_ *player, want any, out *outcome, _ *instance) string {
	got := out.events
	list := items(want)
	same := len(list) == len(got)
	for i := 0; same && i < len(list); i++ {
		name, _, _ := strings.Cut(got[i], ":")
		same = list[i] == got[i] || list[i] == name
	}
	if !same {
		return differ(want, got)
	}
	return ""
}

func count(names []string) map[string]int {
	n := map[string]int{}
	for _, name := range names {
		n[name]++
	}
	return n
}

// subset compares the keys of want; an absent number is 0.
func subset(want, got any) string {
	have, _ := decoded([]byte(canonical(got))).(map[string]any)
	for k, w := range want.(map[string]any) {
		v, ok := have[k]
		if !ok && canonical(w) == "0" {
			continue
		}
		if !ok || canonical(v) != canonical(w) {
			return fmt.Sprintf("%s is %s, want %s", k, canonical(v), canonical(w))
		}
	}
	return ""
}

func differ(want, got any) string {
	if w, g := canonical(want), canonical(got); w != g {
		return fmt.Sprintf("got %s, want %s", g, w)
	}
	return ""
}

func canonical(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v)
	}
	return string(raw)
}

func decoded(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	_ = dec.Decode(&v)
	return v
}

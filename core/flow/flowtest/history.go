package flowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core/flow"
)

// history is what the observers of all processes of a flow were told, in order: completions
// and answers. What was told but not stored when a process died did not happen, and is told
// again by the next.
type history struct {
	told    []string
	durable int             // so many of told are stored
	saved   bool            // the next completion or answer is stored already
	reviews map[string]bool // requests that follow a method, by id
	stored  map[uint64]bool // calls whose completion is stored, by number
	gaps    bool            // a process died between a save and its announcement
}

func newHistory() history {
	return history{reviews: map[string]bool{}, stored: map[uint64]bool{}}
}

// processBegins forgets what was not stored.
func (h *history) processBegins() {
	h.told, h.saved = h.told[:h.durable], false
}

// unheard is called when a save is made of which the run will not hear.
func (h *history) unheard() { h.gaps = true }

// note takes an event in and returns what is wrong with it.
func (h *history) note(e flow.Event, plans map[string]plan) string {
	switch e := e.(type) {
	case flow.StateSaved:
		h.durable, h.saved = len(h.told), true
	case flow.RequestOpened:
		h.reviews[e.Request.ID] = e.Request.Output != nil
		h.saved = false
	case flow.RequestAnswered:
		at := "answer " + e.Feedback.Request[strings.LastIndexByte(e.Feedback.Request, '-')+1:]
		h.told = append(h.told, fmt.Sprintf("%s of %s: %s", at, e.Method, e.Feedback.Text))
		if !h.saved {
			return "an answer was announced before it was stored: " + e.Feedback.Request
		}
		h.durable = len(h.told)
		h.saved = h.reviews[e.Feedback.Request]
	case flow.MethodFinished:
		h.told = append(h.told, fmt.Sprintf("%s %d %s", e.Method, seqOf(e.ActivationID), e.Label))
		if !h.saved {
			if !plans[e.Method].noPersist {
				return "a completion was announced before it was stored: " + e.ActivationID
			}
			return ""
		}
		h.durable, h.saved = len(h.told), false
		h.stored[seqOf(e.ActivationID)] = true
	}
	return ""
}

// check looks at what can be judged without a run to compare with.
func (s *subject) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Errorf("seed %d, cut %s: %s", s.seed, s.when, w)
	}
	log := slices.Clone(s.res.State.Log)
	slices.Sort(log)
	if once := slices.Compact(slices.Clone(log)); len(once) < len(log) {
		t.Errorf("seed %d, cut %s: a call has left updates twice: %q", s.seed, s.when, s.res.State.Log)
	}
	for method := range s.res.Completed {
		if !slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, method+"/") }) {
			t.Errorf("seed %d, cut %s: method %s completed and has left no update: %q", s.seed, s.when, method, log)
		}
	}
	if s.res.Finished && len(s.res.Pending) > 0 {
		t.Errorf("seed %d, cut %s: it finished with open requests %+v", s.seed, s.when, s.res.Pending)
	}
}

// differs compares a cut run to the uncut one.
func (s *subject) differs(cut *subject) string {
	a, b := s.res, cut.res
	a.State.ID, b.State.ID = "", "" // the two have ids of their own
	switch {
	case !reflect.DeepEqual(a.State, b.State):
		return fmt.Sprintf("the state is\n%+v, uncut it is\n%+v", b.State, a.State)
	case !slices.Equal(outputs(a), outputs(b)):
		return fmt.Sprintf("the outputs are\n%s, uncut they are\n%s", outputs(b), outputs(a))
	case !maps.Equal(a.Completed, b.Completed) || lasting(a.Output) != lasting(b.Output):
		return fmt.Sprintf("%v %s completed, uncut %v %s", b.Completed, b.Output, a.Completed, a.Output)
	case !slices.Equal(opinions(a), opinions(b)):
		return fmt.Sprintf("the feedback is\n%s, uncut it is\n%s", opinions(b), opinions(a))
	case !cut.history.gaps && !slices.Equal(s.history.told, cut.history.told):
		return fmt.Sprintf("the order of events is\n%s, uncut it is\n%s", strings.Join(cut.history.told, ", "), strings.Join(s.history.told, ", "))
	}
	if got, want := budgetError(cut.err), budgetError(s.err); got != want || (cut.err == nil) != (s.err == nil) {
		return fmt.Sprintf("the error is %v, uncut it is %v", cut.err, s.err)
	}
	return ""
}

// budgetError is the one that ended the run, as far as two flows can have it in common.
func budgetError(err error) flow.BudgetError {
	var b *flow.BudgetError
	if !errors.As(err, &b) {
		return flow.BudgetError{}
	}
	out := *b
	out.FlowID = ""
	return out
}

func outputs(r *flow.Result[world]) []string {
	var out []string
	for _, o := range r.Outputs {
		out = append(out, o.Method+": "+lasting(o.Output))
	}
	return out
}

func opinions(r *flow.Result[world]) []string {
	var out []string
	for _, f := range r.Feedback {
		out = append(out, fmt.Sprintf("%s %s: %q %q", f.Method, f.Output, f.Text, f.Outcome))
	}
	return out
}

// lasting is JSON without what differs from flow to flow.
func lasting(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	return fmt.Sprint(impersonal(v))
}

// impersonal takes the id and the time out of feedback, which differ from flow to flow.
func impersonal(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	delete(m, "request")
	delete(m, "at")
	return m
}

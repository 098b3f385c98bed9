package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
)

// feedbackScenarios are pauses for people, and what becomes of their answers.
var feedbackScenarios = []scenario{
	{"PF-01", pauseKeepsRequestAndState},
	{"PF-02", unknownFlowsHaveNoRequests},
	{"PF-03", answeredIsGoneButItsHistory},
	{"PF-04", newestPauseCounts},
	{"PF-05", outputsComeBack},
	{"PF-07", pauseIsNoError},
	{"PF-09", resumeOfAnUnknownFlow},
	{"PF-10", stateOfThePauseIsBack},
	{"PF-11", answerReachesWhatFollows},
	{"PF-12", feedbackIsTheOutput},
	{"PF-14", blankAndUnclearAnswers},
	{"PF-15", answerIsOneSave},
	{"PF-16", secondPause},
	{"PF-19", failureAfterTheAnswer},
	{"PF-20", oneAnswerCounts},
	{"PF-21", twoBranchesPause},
}

func TestScenariosFeedback(t *testing.T) { play(t, feedbackScenarios) }

const (
	approved flow.Label[flow.Feedback] = "approved"
	rejected flow.Label[flow.Feedback] = "rejected"
)

var outcomes = []flow.Label[flow.Feedback]{approved, rejected}

// generate is a start whose output is to be reviewed.
func (s *stage) generate(b *flow.Builder[ledger], name string, r flow.Review, opts ...flow.MethodOption) flow.Handle[string] {
	return flow.Start(b, name, func(_ context.Context, run *ledgerRun) (string, error) {
		return s.note(run, "generated content")
	}, append(opts, r)...)
}

// reviewed is generate and process, which hears what the reviewer said.
func (s *stage) reviewed(t *testing.T, opts ...flow.MethodOption) *flow.Definition[ledger] {
	t.Helper()
	b := flow.New[ledger]("reviewed")
	flow.Listen(b, "process", s.hear, flow.Reviewed(s.generate(b, "generate", flow.Review{Message: "Fine?"}, opts...)))
	return build(t, b)
}

// judged is generate, whose reviewer decides between two methods.
func (s *stage) judged(t *testing.T, byDefault flow.Label[flow.Feedback]) *flow.Definition[ledger] {
	t.Helper()
	b := flow.New[ledger]("judged")
	s.generate(b, "generate", flow.Review{Message: "Send it?", Outcomes: outcomes, Default: byDefault})
	flow.Listen(b, "send", s.hear, approved)
	flow.Listen(b, "drop", s.hear, rejected)
	return build(t, b)
}

// paused runs the flow "f" until it waits, and returns what it waits for.
func paused[S any](t *testing.T, def *flow.Definition[S], store core.FlowPersistence, opts ...flow.RunOption) []flow.Request {
	t.Helper()
	res := kickoff(t, def, flow.Inputs{"id": "f"}, append(opts, flow.WithStore(store), flow.WithProvider(later))...)
	if !res.Paused || res.Finished || len(res.Pending) == 0 {
		t.Fatalf("it does not pause: %+v", res)
	}
	return res.Pending
}

// answer is the option of a Resume that says something to a request.
func answer(r flow.Request, text string) flow.RunOption {
	return flow.Answer(r.ID, flow.Reply{Text: text})
}

func pauseKeepsRequestAndState(t *testing.T) {
	store := newStore(t, persistence.WithHistory(10))
	b := flow.New[map[string]any]("review")
	flow.Start(b, "review", func(context.Context, *flow.Run[map[string]any]) (map[string]string, error) {
		return map[string]string{"data": "test"}, nil
	}, flow.Review{Outcomes: outcomes})
	in := flow.Inputs{"id": "persist-test-123", "counter": 10, "items": []string{"a", "b"}}
	kickoff(t, build(t, b), in, flow.WithStore(store), flow.WithProvider(later))

	open := pendingOf(t, store.elsewhere(), "persist-test-123")
	if len(open) != 1 || open[0].Method != "review" || string(open[0].Output) != `{"data":"test"}` || !slices.Equal(open[0].Outcomes, []string{"approved", "rejected"}) {
		t.Errorf("stored as open is %+v", open)
	}
	state := stateOf[map[string]any](t, store.elsewhere(), "persist-test-123")
	want(t, "the state beside it", encoded(t, state), `{"counter":10,"id":"persist-test-123","items":["a","b"]}`)
	if history := collect(t, store.History(t.Context(), "persist-test-123")); len(history) != 1 || history[0].Method != "review" {
		t.Errorf("the history is %+v", history)
	}
}

func unknownFlowsHaveNoRequests(t *testing.T) {
	store, s := newStore(t), &stage{}
	if open, err := flow.Pending(t.Context(), store, "nobody"); len(open) != 0 || !errors.Is(err, core.ErrNotFound) {
		t.Errorf("of a flow that is not there: %+v, %v", open, err)
	}
	if err := store.Delete(t.Context(), "nobody"); err != nil {
		t.Errorf("Delete of a flow that is not there: %v", err)
	}
	kickoff(t, s.chain(t, "a"), flow.Inputs{"id": "asks nobody"}, flow.WithStore(store), flow.Persist())
	want(t, "requests of a flow that asks nobody", len(pendingOf(t, store, "asks nobody")), 0)
}

func answeredIsGoneButItsHistory(t *testing.T) {
	store, s := newStore(t, persistence.WithHistory(10)), &stage{}
	def := s.reviewed(t)
	open := paused(t, def, store)
	atThePause := collect(t, store.History(t.Context(), "f"))[0]
	resume(t, def, "f", flow.WithStore(store), answer(open[0], "fine"))
	want(t, "open after the answer", len(pendingOf(t, store, "f")), 0)
	history := collect(t, store.History(t.Context(), "f"))
	if oldest := history[len(history)-1]; len(history) < 2 || oldest.Revision != atThePause.Revision || !strings.Contains(string(oldest.Progress), open[0].ID) {
		t.Errorf("the pause is not in the history: %+v", history)
	}
}

// A flow that is kicked off anew has a new run, and what the older one asked is no more.
func newestPauseCounts(t *testing.T) {
	store, s := newStore(t), &stage{}
	first := paused(t, s.reviewed(t), store)
	b := flow.New[ledger]("reviewed")
	s.generate(b, "generate anew", flow.Review{Message: "Version 2?"})
	second := paused(t, build(t, b), store)
	open := pendingOf(t, store, "f")
	if len(open) != 1 || open[0].ID != second[0].ID || open[0].Method != "generate anew" || open[0].Message != "Version 2?" {
		t.Errorf("open is %+v", open)
	}
	want(t, "the counter beside it", stateOf[ledger](t, store, "f").Counter, 2)
	if _, err := build(t, b).Resume(t.Context(), "f", flow.WithStore(store), answer(first[0], "fine")); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an answer to the older run's request: %v", err)
	}
}

func outputsComeBack(t *testing.T) {
	type deep struct {
		Items  []map[string]int `json:"items"`
		Nested map[string]any   `json:"nested"`
		Opaque netip.Addr       `json:"opaque"` // has no fields to encode, but a text
	}
	output := deep{
		Items: []map[string]int{{"id": 1}, {"id": 2}}, Nested: map[string]any{"deep": map[string]any{"value": "test"}},
		Opaque: netip.MustParseAddr("192.0.2.1"),
	}
	store := newStore(t)
	b := flow.New[ledger]("deep")
	flow.Start(b, "generate", func(context.Context, *ledgerRun) (deep, error) { return output, nil }, flow.Review{})
	def := build(t, b)
	open := paused(t, def, store)
	const text = `{"items":[{"id":1},{"id":2}],"nested":{"deep":{"value":"test"}},"opaque":"192.0.2.1"}`
	want(t, "the output as it is stored", string(pendingOf(t, store.elsewhere(), "f")[0].Output), text)
	res := resume(t, def, "f", flow.WithStore(store.elsewhere()), answer(open[0], "fine"))
	want(t, "the output in the feedback", string(res.Feedback[0].Output), text)
}

func pauseIsNoError(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	open := paused(t, s.reviewed(t), store, told.option())
	want(t, "the method that waits", open[0].Method, "generate")
	want(t, "events", told.String(), "FlowStarted MethodStarted:generate RequestOpened MethodPaused FlowPaused")
	want(t, "stored as open", pendingOf(t, store.elsewhere(), "f")[0].ID, open[0].ID)
}

func resumeOfAnUnknownFlow(t *testing.T) {
	store, s := newStore(t), &stage{}
	_, err := s.reviewed(t).Resume(t.Context(), "nonexistent-id", flow.WithStore(store), answer(flow.Request{ID: "r"}, "fine"))
	if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "nonexistent-id") {
		t.Errorf("got %v", err)
	}
}

func stateOfThePauseIsBack(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.reviewed(t)
	in := flow.Inputs{"id": "test-restore-123", "counter": 41}
	kickoff(t, def, in, flow.WithStore(store), flow.WithProvider(later))
	res := resume(t, def, "test-restore-123", flow.WithStore(store.elsewhere()))
	want(t, "the counter", res.State.Counter, 42)
	if !res.Paused || len(res.Pending) != 1 {
		t.Errorf("resumed without an answer: %+v", res)
	}
	want(t, "methods that ran", s.takeRan(), "generate")
}

func answerReachesWhatFollows(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.reviewed(t)
	open := paused(t, def, store)
	s.takeRan()
	res := resume(t, def, "f", flow.WithStore(store.elsewhere()), answer(open[0], "looks good!"), told.option())
	wantList(t, "what is written", res.State.Log, "generated content", "process: looks good!")
	want(t, "what was reviewed", string(res.Feedback[len(res.Feedback)-1].Output), `"generated content"`)
	want(t, "open after the answer", len(pendingOf(t, store, "f")), 0)
	want(t, "methods that ran", s.takeRan(), "process")
	want(t, "FlowStarted", strings.Count(told.String(), "FlowStarted"), 1)
	want(t, "FlowFinished", strings.Count(told.String(), "FlowFinished"), 1)
}

func feedbackIsTheOutput(t *testing.T) {
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("terminal")
	s.generate(b, "generate", flow.Review{Metadata: map[string]string{"channel": "mail"}})
	def := build(t, b)
	open := paused(t, def, store, flow.KeepOutputs())
	res := resume(t, def, "f", flow.WithStore(store), answer(open[0], "fine"))
	var fb flow.Feedback
	if err := json.Unmarshal(res.Output, &fb); err != nil {
		t.Fatalf("the output is %s: %v", res.Output, err)
	}
	if string(fb.Output) != `"generated content"` || fb.Text != "fine" || fb.Outcome != "" || fb.Metadata["channel"] != "mail" {
		t.Errorf("the output is %s", res.Output)
	}
	if len(res.Outputs) != 1 || string(res.Outputs[0].Output) != string(res.Output) {
		t.Errorf("the outputs are %s", res.Outputs)
	}
}

// A blank answer is the default outcome. Where there is none, and where a text is no outcome,
// the original takes the first one; here the request stays open, since nobody has approved.
func blankAndUnclearAnswers(t *testing.T) {
	for _, c := range []struct {
		byDefault flow.Label[flow.Feedback]
		text, ran string // "": refused
	}{
		{rejected, "  ", "drop"}, {approved, "", "send"}, {"", "", ""}, {rejected, "hm", ""}, {"", "hm", ""}, {"", "Approved", "send"},
	} {
		store, s := newStore(t), &stage{}
		def := s.judged(t, c.byDefault)
		open := paused(t, def, store)
		s.takeRan()
		res, err := def.Resume(t.Context(), "f", flow.WithStore(store), answer(open[0], c.text))
		var unclear *flow.OutcomeError
		if (c.ran == "") != errors.As(err, &unclear) || c.ran != "" && (err != nil || !res.Finished) {
			t.Errorf("%q with the default %q: %v", c.text, c.byDefault, err)
		}
		want(t, "what follows from "+c.text, s.takeRan(), c.ran)
		want(t, "still open", len(pendingOf(t, store, "f")) == 1, c.ran == "")
	}
}

func answerIsOneSave(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.reviewed(t, flow.Persist())
	open := paused(t, def, store)
	want(t, "saves until the pause", store.takeSaves(), "generate")
	resume(t, def, "f", flow.WithStore(store), answer(open[0], "fine"))
	want(t, "saves of the resumed run", store.takeSaves(), "generate")
}

func secondPause(t *testing.T) {
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("twice")
	first := s.generate(b, "generate", flow.Review{Message: "Fine?"})
	flow.Listen(b, "refine", s.hear, flow.Reviewed(first), flow.Review{Message: "And now?"})
	def := build(t, b)
	open := paused(t, def, store)
	res := resume(t, def, "f", flow.WithStore(store), flow.WithProvider(later), answer(open[0], "shorter"))
	now := pendingOf(t, store, "f")
	if !res.Paused || len(now) != 1 || now[0].ID == open[0].ID || now[0].Method != "refine" || string(now[0].Output) != `"refine: shorter"` {
		t.Fatalf("after the first answer: %+v, open is %+v", res, now)
	}
	res = resume(t, def, "f", flow.WithStore(store), answer(now[0], "fine"))
	if !res.Finished || len(res.Feedback) != 2 {
		t.Errorf("after the second answer: %+v", res)
	}
}

// The answer is not lost: a Resume without one takes up what failed.
func failureAfterTheAnswer(t *testing.T) {
	boom := errors.New("boom")
	store, s := newStore(t), &stage{before: map[string]func() error{"process": func() error { return boom }}}
	def := s.reviewed(t)
	open := paused(t, def, store)
	if _, err := def.Resume(t.Context(), "f", flow.WithStore(store), answer(open[0], "fine")); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	delete(s.before, "process")
	s.takeRan()
	res := resume(t, def, "f", flow.WithStore(store.elsewhere()))
	wantList(t, "what is written in the end", res.State.Log, "generated content", "process: fine")
	want(t, "methods that ran", s.takeRan(), "process")
}

func oneAnswerCounts(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.reviewed(t)
	open := paused(t, def, store)
	s.takeRan()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = def.Resume(t.Context(), "f", flow.WithStore(store.elsewhere()), answer(open[0], "fine"))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) {
			t.Errorf("a loser is told %v", err)
		}
	}
	want(t, "answers that counted", won, 1)
	want(t, "methods that ran", s.takeRan(), "process")
}

func twoBranchesPause(t *testing.T) {
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("branches")
	left := s.generate(b, "left", flow.Review{Message: "left?"})
	right := s.generate(b, "right", flow.Review{Message: "right?"})
	flow.Listen(b, "join", s.listen, flow.And(left, right))
	def := build(t, b)
	paused(t, def, store)
	open := pendingOf(t, store.elsewhere(), "f")
	want(t, "requests that are open", len(open), 2)
	s.takeRan()
	slices.Reverse(open)
	for i, r := range open {
		res := resume(t, def, "f", flow.WithStore(store.elsewhere()), answer(r, "fine"))
		want(t, "paused after an answer", res.Paused, i == 0)
		want(t, "open after an answer", len(res.Pending), 1-i)
	}
	want(t, "methods that ran", s.takeRan(), "join")
}

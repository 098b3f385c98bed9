package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

func pausesAreClaimedOnce() law {
	return law{
		layer: runtimeLayer, name: "pauses_are_claimed_once",
		text: "A pause is stored with its state before anyone is asked; of several answers exactly one goes on, and as if it had come at once.",
		cases: []testCase{
			{"stored_before_anyone_is_told", storedBeforeTold},
			{"one_of_many_answers_wins", func(c *caseRun) { racingAnswers(c, 0) }},
			{"one_of_many_answers_wins_large_states", func(c *caseRun) { racingAnswers(c, 700) }},
			{"answer_is_stored_before_what_follows", answerStoredFirst},
			{"later_is_as_at_once", laterIsAsAtOnce},
			{"several_open_at_once", severalOpen},
		},
	}
}

// letter is the state of the flow that asks people.
type letter struct {
	ID  string   `json:"id"`
	Log []string `json:"log"`
	Pad string   `json:"pad"`
}

// letterFlow has two drafts side by side, each of which is reviewed, and a method for each
// outcome.
func letterFlow(c *caseRun, drafts []string, pad string) *flow.Definition[letter] {
	c.Helper()
	const send, drop = flow.Label[flow.Feedback]("send"), flow.Label[flow.Feedback]("drop")
	note := func(run *flow.Run[letter], text string) (string, error) {
		return text, run.State().Update(func(s *letter) error {
			s.Log, s.Pad = append(slices.Clone(s.Log), text), pad
			return nil
		})
	}
	b := flow.New[letter]("letters")
	for _, name := range drafts {
		flow.Start(b, name, func(_ context.Context, run *flow.Run[letter]) (string, error) { return note(run, run.Method()) },
			flow.Review{Message: name, Outcomes: []flow.Label[flow.Feedback]{send, drop}})
	}
	act := func(_ context.Context, run *flow.Run[letter], f flow.Feedback) (string, error) {
		return note(run, run.Method()+" "+f.Text)
	}
	flow.Listen(b, "sent", act, send)
	flow.Listen(b, "dropped", act, drop)
	def, err := b.Build()
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	return def
}

// askLater is a provider whose answers come to another process.
func askLater(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Later: true}, nil }

// paused runs the flow until it waits for a person, and returns what it asks.
func (c *caseRun) paused(def *flow.Definition[letter], s core.FlowPersistence, flowID string, want int) []flow.Request {
	c.Helper()
	res, err := def.Kickoff(c.ctx, flow.Inputs{"id": flowID}, flow.WithStore(s), flow.Persist(), flow.WithProvider(flow.ProviderFunc(askLater)))
	if err != nil || !res.Paused || res.Finished {
		c.Fatalf("a flow that asks people does not pause: %+v, %v", res, err)
	}
	open, err := flow.Pending(c.ctx, s, flowID)
	if err != nil || len(open) != want || len(res.Pending) != want {
		c.Fatalf("stored as open are %d requests, told %d, want %d (%v)", len(open), len(res.Pending), want, err)
	}
	return open
}

func storedBeforeTold(c *caseRun) {
	d := c.openTight()
	id, told := c.flow("f"), 0
	provider := flow.ProviderFunc(func(ctx context.Context, r flow.Request) (flow.Reply, error) {
		told++
		other := c.store(d)
		open, err := flow.Pending(ctx, other, id)
		if err != nil || len(open) != 1 || open[0].ID != r.ID {
			c.Errorf("asked %q while the store has %+v (%v)", r.ID, open, err)
		}
		snap, err := other.LoadState(ctx, id)
		if err != nil || !strings.Contains(string(snap.State), "draft") {
			c.Errorf("asked %q while the state beside it is %s (%v)", r.ID, clip(snap.State), err)
		}
		return flow.Reply{Later: true}, nil
	})
	res, err := letterFlow(c, []string{"draft"}, "").Kickoff(c.ctx, flow.Inputs{"id": id}, flow.WithStore(c.store(d)), flow.Persist(), flow.WithProvider(provider))
	if err != nil || !res.Paused || told != 1 {
		c.Errorf("the flow does not pause: %+v, %v; %d were asked", res, err, told)
	}
}

// meeting is a store that holds back what a load returns until all have loaded, so that
// every one of them believes that the request is open.
type meeting struct {
	core.FlowPersistence

	once    sync.Once
	arrived *sync.WaitGroup
}

func (m *meeting) LoadState(ctx context.Context, flowID string) (core.Snapshot, error) {
	snap, err := m.FlowPersistence.LoadState(ctx, flowID)
	m.once.Do(func() {
		m.arrived.Done()
		m.arrived.Wait()
	})
	return snap, err
}

func racingAnswers(c *caseRun, size int) {
	const resumers = 3
	d, id, pad := c.openTight(), c.flow("f"), string(c.noise(size))
	def := letterFlow(c, []string{"draft"}, pad)
	open := c.paused(def, c.store(d), id, 1)
	var arrived sync.WaitGroup
	arrived.Add(resumers)
	texts, errs := []string{"a", "b", "c"}, make([]error, resumers)
	events := make([]int, resumers)
	c.parallel(resumers, func(i int) error {
		_, errs[i] = def.Resume(c.ctx, id, flow.WithStore(&meeting{FlowPersistence: c.store(d), arrived: &arrived}),
			flow.Answer(open[0].ID, flow.Reply{Text: texts[i], Outcome: "send"}),
			flow.WithObserver(func(context.Context, flow.Event) { events[i]++ }))
		return nil
	})
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			c.Errorf("resumers %d and %d both went on with their answers", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict):
			c.Errorf("a resumer that came too late is told %v, want ErrAnswered and ErrConflict", err)
		case events[i] > 0:
			c.Errorf("a resumer that came too late announced %d events", events[i])
		}
	}
	if winner < 0 {
		c.Fatalf("nobody went on: %v", errs)
	}
	c.wantLog(c.store(d), id, "draft", "sent "+texts[winner])
	if left, err := flow.Pending(c.ctx, c.store(d), id); err != nil || len(left) > 0 {
		c.Errorf("after the answer %+v is open (%v)", left, err)
	}
	before := c.load(c.store(d), id)
	_, err := def.Resume(c.ctx, id, flow.WithStore(c.store(d)), flow.Answer(open[0].ID, flow.Reply{Text: "late", Outcome: "drop"}))
	c.wantErr(err, flow.ErrAnswered, "an answer after all")
	if after := c.load(c.store(d), id); after.Revision != before.Revision {
		c.Errorf("an answer after all moved the revision from %v to %v", before.Revision, after.Revision)
	}
}

// wantLog demands what the methods have written into the stored state.
func (c *caseRun) wantLog(s core.FlowPersistence, flowID string, want ...string) {
	c.Helper()
	snap, err := s.LoadState(c.ctx, flowID)
	if err != nil {
		c.Fatalf("load: %v", err)
	}
	var got letter
	if err := json.Unmarshal(snap.State, &got); err != nil || !slices.Equal(got.Log, want) {
		c.Errorf("the stored log is %q (%v), want %q", got.Log, err, want)
	}
}

// answerStoredFirst looks into the store when the answer is announced: the methods that follow
// have not run, and the state is what it was.
func answerStoredFirst(c *caseRun) {
	d, id := c.openTight(), c.flow("f")
	def := letterFlow(c, []string{"draft"}, "")
	open := c.paused(def, c.store(d), id, 1)
	announced := 0
	_, err := def.Resume(c.ctx, id, flow.WithStore(c.store(d)), flow.Answer(open[0].ID, flow.Reply{Text: "yes", Outcome: "send"}),
		flow.WithObserver(func(ctx context.Context, e flow.Event) {
			if _, ok := e.(flow.RequestAnswered); !ok {
				return
			}
			announced++
			if left, err := flow.Pending(ctx, c.store(d), id); err != nil || len(left) > 0 {
				c.Errorf("an answer was announced while %+v is stored as open (%v)", left, err)
			}
		}))
	if err != nil || announced != 1 {
		c.Errorf("an answer was announced %d times, and the run ended with %v", announced, err)
	}
}

func laterIsAsAtOnce(c *caseRun) {
	d := c.openTight()
	for _, outcome := range []string{"send", "drop"} {
		def := letterFlow(c, []string{"draft"}, "")
		blocking, paused := c.flow("now "+outcome), c.flow("later "+outcome)
		reply := flow.Reply{Text: "so be it", Outcome: outcome}
		want, err := def.Kickoff(c.ctx, flow.Inputs{"id": blocking}, flow.WithStore(c.store(d)), flow.Persist(),
			flow.WithProvider(flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return reply, nil })))
		if err != nil || !want.Finished {
			c.Fatalf("%s, at once: %+v, %v", outcome, want, err)
		}
		open := c.paused(def, c.store(d), paused, 1)
		got, err := letterFlow(c, []string{"draft"}, "").Resume(c.ctx, paused, flow.WithStore(c.store(d)), flow.Answer(open[0].ID, reply))
		if err != nil || !got.Finished {
			c.Fatalf("%s, later: %+v, %v", outcome, got, err)
		}
		if string(got.Output) != string(want.Output) || !maps.Equal(got.Completed, want.Completed) || !slices.Equal(got.State.Log, want.State.Log) {
			c.Errorf("%s: later it ends with %s, %v, %q; at once with %s, %v, %q", outcome,
				got.Output, got.Completed, got.State.Log, want.Output, want.Completed, want.State.Log)
		}
		c.wantLog(c.store(d), paused, want.State.Log...)
	}
}

// severalOpen answers the newest request first.
func severalOpen(c *caseRun) {
	d, id := c.openTight(), c.flow("f")
	def := letterFlow(c, []string{"first", "second"}, "")
	open := c.paused(def, c.store(d), id, 2)
	slices.Reverse(open)
	for i, r := range open {
		res, err := def.Resume(c.ctx, id, flow.WithStore(c.store(d)), flow.Answer(r.ID, flow.Reply{Text: r.Method, Outcome: "send"}))
		if err != nil || res.Finished != (i == 1) {
			c.Fatalf("answer %d of 2: %+v, %v", i+1, res, err)
		}
		left, err := flow.Pending(c.ctx, c.store(d), id)
		if err != nil || len(left) != 1-i || len(left) == 1 && left[0].ID != open[1].ID {
			c.Fatalf("after answer %d of 2 there are open %+v (%v)", i+1, left, err)
		}
	}
	snap := c.load(c.store(d), id)
	for _, r := range open {
		if n := strings.Count(string(snap.State), `"sent `+r.Method+`"`); n != 1 {
			c.Errorf("the answer to %s was acted on %d times", r.Method, n)
		}
	}
}

package flow_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// interview asks two questions in one method, with an update before, between and after them.
func interview(t testing.TB, begun *int) *flow.Definition[tally] {
	t.Helper()
	b := flow.New[tally]("interview")
	s := flow.Start(b, "ask", func(ctx context.Context, run *tallyRun) (string, error) {
		if begun != nil {
			*begun++
		}
		var answers []string
		for _, q := range []string{"name?", "city?"} {
			if _, err := note(q)(ctx, run); err != nil {
				return "", err
			}
			answer, err := run.Ask(ctx, q)
			if err != nil {
				return "", err
			}
			answers = append(answers, answer)
		}
		return note(strings.Join(answers, " of "))(ctx, run)
	})
	flow.Listen(b, "then", func(_ context.Context, _ *tallyRun, in string) (string, error) { return "hello " + in, nil }, s)
	return mustBuild(t, b)
}

// The method runs again from its start for each answer that comes later, and what it did
// before does not count twice.
func TestAnAskedMethodRunsAgainWithTheRecordedAnswers(t *testing.T) {
	store, begun := coretest.New(), 0
	res := pause(t, interview(t, &begun), store)
	if len(res.State.Log) != 0 || res.Pending[0].Message != "name?" {
		t.Errorf("a method that waits has left %+v", res)
	}
	for i, text := range []string{"Ada", "London"} {
		id := res.Pending[0].ID
		var err error
		res, err = interview(t, &begun).Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{Text: text}))
		if err != nil || res.Paused != (i == 0) {
			t.Fatalf("answer %d: %+v, %v", i, res, err)
		}
		if _, err = interview(t, nil).Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{})); !errors.Is(err, flow.ErrAnswered) {
			t.Errorf("a second answer: %v", err)
		}
	}
	if got := strings.Join(res.State.Log, ", "); got != "name?, city?, Ada of London" || string(res.Output) != `"hello Ada of London"` || begun != 3 {
		t.Errorf("log %q, output %s, %d begins", got, res.Output, begun)
	}
	if snap, _ := store.LoadState(t.Context(), "f"); strings.Contains(string(snap.Progress), "Ada\"]") {
		t.Errorf("the answers are kept for ever: %s", snap.Progress)
	}
}

func TestBlockingAnswersAreTheSameAsLaterOnes(t *testing.T) {
	answers := map[string]string{"name?": "Ada", "city?": "London"}
	provider := flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
		return flow.Reply{Text: answers[r.Message]}, nil
	})
	for _, opts := range [][]flow.RunOption{nil, {flow.WithStore(coretest.New()), flow.Persist()}} {
		res, err := interview(t, nil).Kickoff(t.Context(), nil, append(opts, flow.WithProvider(provider))...)
		if err != nil || string(res.Output) != `"hello Ada of London"` || len(res.Pending) != 0 {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// A process that dies between two questions has the first answer recorded, and the next one
// does not ask it again.
func TestARecordedAnswerIsNotAskedForAgain(t *testing.T) {
	store, asked := coretest.New(), []string{}
	ctx, die := context.WithCancel(t.Context())
	_, err := interview(t, nil).Kickoff(ctx, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(),
		flow.WithProvider(flow.ProviderFunc(func(ctx context.Context, r flow.Request) (flow.Reply, error) {
			if asked = append(asked, r.Message); len(asked) == 2 {
				die()
			}
			return flow.Reply{Text: "Ada"}, ctx.Err()
		})))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	res, err := interview(t, nil).Resume(t.Context(), "f", flow.WithStore(store),
		flow.WithProvider(flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
			asked = append(asked, r.Message)
			return flow.Reply{Text: "London"}, nil
		})))
	if err != nil || string(res.Output) != `"hello Ada of London"` || strings.Join(asked, " ") != "name? city? city?" {
		t.Errorf("asked %v; %+v, %v", asked, res, err)
	}
}

func TestAskReturnsTheProvidersError(t *testing.T) {
	down := errors.New("down")
	b, tries := flow.New[tally]("ask"), 0
	var first, after error
	var leaked *tallyRun
	flow.Start(b, "m", func(ctx context.Context, run *tallyRun) (string, error) {
		leaked = run
		_, first = run.Ask(ctx, "well?")
		return run.Ask(ctx, "well?")
	})
	ids := map[string]bool{}
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.WithProvider(flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
		ids[r.ID] = true
		if tries++; tries == 1 {
			return flow.Reply{}, down
		}
		return flow.Reply{Text: "fine"}, nil
	})))
	if err != nil || string(res.Output) != `"fine"` || !errors.Is(first, down) || len(ids) != 1 {
		t.Errorf("%s, %v; first %v, ids %v", res.Output, err, first, ids)
	}
	if _, after = leaked.Ask(t.Context(), "late?"); !errors.Is(after, flow.ErrOver) {
		t.Errorf("after the method: %v", after)
	}
	if _, err = interview(t, nil).Kickoff(t.Context(), nil, flow.WithProvider(later)); err == nil || errors.Is(err, flow.ErrPaused) {
		t.Errorf("a pause without a store: %v", err)
	}
}

// A member of a race that only asked has not done its work: another one can still win, and
// the question is withdrawn.
func TestAQuestionDoesNotEndARace(t *testing.T) {
	b := flow.New[tally]("race")
	x := flow.Start(b, "x", func(ctx context.Context, run *tallyRun) (string, error) { return run.Ask(ctx, "x?") })
	y := flow.Start(b, "y", func(ctx context.Context, run *tallyRun) (string, error) { return run.Ask(ctx, "y?") })
	flow.Listen(b, "h", func(_ context.Context, _ *tallyRun, in string) (string, error) { return in, nil }, flow.FirstOf(x, y))
	store, def := coretest.New(), mustBuild(t, b)
	open := pause(t, def, store).Pending
	if len(open) != 2 {
		t.Fatalf("open are %+v", open)
	}
	res, err := def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(open[1].ID, flow.Reply{Text: "mine"}))
	if err != nil || !res.Finished || string(res.Output) != `"mine"` || len(res.Pending) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err = def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(open[0].ID, flow.Reply{})); !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) {
		t.Errorf("the withdrawn question: %v", err)
	}
}

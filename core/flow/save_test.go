package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// scripted is a store whose saves fail as a script says: by number, from 1.
type scripted struct {
	core.FlowPersistence
	saves int
	fail  func(n int, write func() (core.Saved, error)) (core.Saved, error)
}

func (s *scripted) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	s.saves++
	return s.fail(s.saves, func() (core.Saved, error) { return s.FlowPersistence.SaveState(ctx, snap, opts...) })
}

func TestAnUnavailableStoreIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{FlowPersistence: coretest.New(), fail: func(n int, write func() (core.Saved, error)) (core.Saved, error) {
			if n <= 2 {
				return core.Saved{}, &core.Error{Op: "save", Err: core.ErrUnavailable}
			}
			return write()
		}}
		var rec recorder
		began := time.Now()
		_, err := chain(t, "a", "b").Kickoff(t.Context(), nil, flow.WithStore(store), flow.Persist(), rec.option())
		if err != nil || time.Since(began) != 150*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		want := "FlowStarted MethodStarted:a SaveFailed:a SaveFailed:a StateSaved:a MethodFinished:a MethodStarted:b StateSaved:b MethodFinished:b FlowFinished"
		if rec.names() != want {
			t.Errorf("events %s", rec.names())
		}
	})
}

func TestASaveThatFailsIsNotTheMethodsFailure(t *testing.T) {
	for _, cause := range []error{core.ErrUnavailable, core.ErrTooLarge, core.ErrDenied, errors.New("disk full")} {
		store := &scripted{FlowPersistence: coretest.New(), fail: func(int, func() (core.Saved, error)) (core.Saved, error) {
			return core.Saved{}, cause
		}}
		var rec recorder
		res, err := chain(t, "a", "b").Kickoff(t.Context(), nil, flow.WithStore(store), flow.Persist(), rec.option(), flow.SaveRetry{Attempts: 2})
		var save *flow.SaveError
		var method *flow.MethodError
		if !errors.As(err, &save) || save.Method != "a" || errors.As(err, &method) || !errors.Is(err, cause) || res.Finished {
			t.Errorf("%v: got %v", cause, err)
		}
		want := "FlowStarted MethodStarted:a SaveFailed:a FlowFailed"
		if errors.Is(cause, core.ErrUnavailable) {
			want = "FlowStarted MethodStarted:a SaveFailed:a SaveFailed:a FlowFailed"
		}
		if rec.names() != want || res.Completed["a"] != 1 || res.State.N != 1 {
			t.Errorf("%v: events %s, result %+v", cause, rec.names(), res)
		}
	}
}

// After a save failed nothing is saved any more: what is stored stays a moment of the run that
// its caller was told of.
func TestAfterAFailedSaveThereIsNone(t *testing.T) {
	failed := make(chan struct{})
	model := coretest.New()
	store := &scripted{FlowPersistence: model, fail: func(n int, write func() (core.Saved, error)) (core.Saved, error) {
		if n == 1 {
			return core.Saved{}, errors.New("disk full")
		}
		return write()
	}}
	b := flow.New[tally]("f")
	flow.Start(b, "a", note("a"))
	flow.Start(b, "late", func(ctx context.Context, run *tallyRun) (string, error) {
		<-failed
		return note("late")(ctx, run)
	})
	watch := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if _, ok := e.(flow.SaveFailed); ok {
			close(failed)
		}
	})
	_, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), watch)
	if err == nil || !strings.Contains(err.Error(), `"late" completed, but`) || store.saves != 1 || model.Saves("x") != nil {
		t.Errorf("%d saves tried, stored %v, %v", store.saves, model.Saves("x"), err)
	}
}

// A save whose answer was lost is recognized in the store, and is not a conflict with itself.
func TestALostAnswerIsRecognized(t *testing.T) {
	model := coretest.New()
	for _, c := range []struct {
		save    int
		written bool
	}{{1, true}, {1, false}, {2, true}, {2, false}} {
		store := &scripted{FlowPersistence: model, fail: func(n int, write func() (core.Saved, error)) (core.Saved, error) {
			if n != c.save {
				return write()
			}
			if c.written {
				if saved, err := write(); err != nil {
					return saved, err
				}
			}
			return core.Saved{}, core.WithOutcomeUnknown(fmt.Errorf("reset: %w", core.ErrUnavailable))
		}}
		id := fmt.Sprint(c)
		res, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": id}, flow.WithStore(store), flow.Persist(), flow.SaveRetry{Attempts: 2})
		if err != nil || !reflect.DeepEqual(model.Saves(id), []string{"a", "b"}) {
			t.Errorf("%+v: saves %v, %v", c, model.Saves(id), err)
		}
		if snap, _ := model.LoadState(t.Context(), id); snap.Revision != res.Revision {
			t.Errorf("%+v: revision %v, stored %v", c, res.Revision, snap.Revision)
		}
	}
}

// Another process may have written meanwhile: that is a conflict, not an own save.
func TestALostAnswerIsNotMistaken(t *testing.T) {
	model := coretest.New()
	store := &scripted{FlowPersistence: model, fail: func(int, func() (core.Saved, error)) (core.Saved, error) {
		_, err := chain(t, "a", "b").Kickoff(context.Background(), flow.Inputs{"id": "x"}, flow.WithStore(model), flow.Persist())
		return core.Saved{}, core.WithOutcomeUnknown(errors.Join(err, core.ErrUnavailable))
	}}
	_, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), flow.SaveRetry{})
	if err == nil || !core.OutcomeUnknown(err) {
		t.Errorf("got %v", err)
	}
}

// unheard is a store that writes the first save and loses the answer, and then can be reached
// for saves only.
type unheard struct {
	core.FlowPersistence

	saves int
}

func (s *unheard) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	saved, err := s.FlowPersistence.SaveState(ctx, snap, opts...)
	if s.saves++; s.saves == 1 && err == nil {
		err = core.WithOutcomeUnknown(core.ErrUnavailable)
	}
	return saved, err
}

func (s *unheard) LoadState(ctx context.Context, id string) (core.Snapshot, error) {
	if s.saves > 0 {
		return core.Snapshot{}, core.ErrUnavailable
	}
	return s.FlowPersistence.LoadState(ctx, id)
}

// A save that was written, and is refused when it is tried again because it was, is not told
// to be lost, as long as nobody could look: neither a completion nor an answer to a request,
// whose giver would be told that somebody else was first.
func TestAConflictWithItselfStaysInDoubt(t *testing.T) {
	model := coretest.New()
	_, err := chain(t, "a").Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(&unheard{FlowPersistence: model}), flow.Persist(), flow.SaveRetry{Attempts: 2})
	if !core.OutcomeUnknown(err) || len(model.Saves("x")) != 1 {
		t.Errorf("a completion: %v, stored %v", err, model.Saves("x"))
	}

	b := flow.New[tally]("asks")
	flow.Start(b, "a", note("a"), flow.Review{Message: "well?"})
	def := mustBuild(t, b)
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "y"}, flow.WithStore(model), flow.Persist())
	if err != nil || len(res.Pending) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	_, err = def.Resume(t.Context(), "y", flow.WithStore(&unheard{FlowPersistence: model}), flow.SaveRetry{Attempts: 2}, flow.Answer(res.Pending[0].ID, flow.Reply{Text: "fine"}))
	if !core.OutcomeUnknown(err) || errors.Is(err, flow.ErrAnswered) {
		t.Errorf("an answer: %v", err)
	}
	if open, err := flow.Pending(t.Context(), model, "y"); err != nil || len(open) != 0 {
		t.Errorf("the answer was not taken: %v, %v", open, err)
	}
}

// Nor is it told to be lost when others have written since: its own write may be under theirs.
func TestAConflictAfterOthersStaysInDoubt(t *testing.T) {
	model := coretest.New()
	store := &scripted{FlowPersistence: model, fail: func(n int, write func() (core.Saved, error)) (core.Saved, error) {
		if n > 1 {
			return write()
		}
		_, err := write()
		if err == nil {
			_, err = model.SaveState(t.Context(), core.Snapshot{FlowID: "x", State: []byte(`{"id":"x"}`)})
		}
		return core.Saved{}, core.WithOutcomeUnknown(errors.Join(err, core.ErrUnavailable))
	}}
	_, err := chain(t, "a").Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), flow.SaveRetry{Attempts: 2})
	if !errors.Is(err, core.ErrConflict) || !core.OutcomeUnknown(err) {
		t.Errorf("got %v", err)
	}
}

// Somebody else's write on the revision that a save builds on makes it certain that the save
// was not written.
func TestAConflictWithAnotherIsCertain(t *testing.T) {
	model := coretest.New()
	store := &scripted{FlowPersistence: model, fail: func(n int, write func() (core.Saved, error)) (core.Saved, error) {
		if n > 1 {
			return write()
		}
		_, err := chain(t, "b").Kickoff(context.Background(), flow.Inputs{"id": "x"}, flow.WithStore(model), flow.Persist())
		return core.Saved{}, core.WithOutcomeUnknown(errors.Join(err, core.ErrUnavailable))
	}}
	_, err := chain(t, "a").Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), flow.SaveRetry{Attempts: 2})
	if !errors.Is(err, core.ErrConflict) || core.OutcomeUnknown(err) {
		t.Errorf("got %v", err)
	}
}

// pruning is a store that keeps only the last two entries of "log".
type pruning struct{ core.FlowPersistence }

func (s pruning) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	var state map[string]any
	_ = json.Unmarshal(snap.State, &state)
	log, _ := state["log"].([]any)
	var pruned []json.RawMessage
	for ; len(log) > 2; log = log[1:] {
		raw, _ := json.Marshal(log[0])
		pruned = append(pruned, raw)
	}
	if pruned == nil {
		return s.FlowPersistence.SaveState(ctx, snap, opts...)
	}
	state["log"] = log
	snap.State, _ = json.Marshal(state)
	saved, err := s.FlowPersistence.SaveState(ctx, snap, opts...)
	saved.State, saved.Pruned = snap.State, pruned
	return saved, err
}

func TestAPrunedStateIsTakenOver(t *testing.T) {
	var rec recorder
	res, err := chain(t, "a", "b", "c", "d").Kickoff(t.Context(), nil, flow.WithStore(pruning{coretest.New()}), flow.Persist(), rec.option())
	if err != nil || !reflect.DeepEqual(res.State.Log, []string{"c", "d"}) || res.State.N != 4 {
		t.Errorf("%+v, %v", res.State, err)
	}
	var pruned []string
	for _, e := range rec.events {
		if p, ok := e.(flow.MessagesPruned); ok {
			pruned = append(pruned, p.Method+":"+string(p.Pruned[0]))
		}
	}
	if !reflect.DeepEqual(pruned, []string{`c:"a"`, `d:"b"`}) {
		t.Errorf("pruned %v", pruned)
	}
}

// An update that a method made before the pruning is applied to the pruned state.
func TestAnUpdateInFlightIsAppliedToThePrunedState(t *testing.T) {
	b := flow.New[tally]("f")
	saved := make(chan struct{})
	flow.Start(b, "slow", func(ctx context.Context, run *tallyRun) (string, error) {
		out, err := note("slow")(ctx, run)
		<-saved
		return out, err
	})
	flow.Start(b, "fast", func(_ context.Context, run *tallyRun) (string, error) {
		return "", run.State().Update(func(s *tally) error { s.Log = append(s.Log, "1", "2", "3"); return nil })
	})
	wait := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if f, ok := e.(flow.MethodFinished); ok && f.Method == "fast" {
			close(saved)
		}
	})
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.WithStore(pruning{coretest.New()}), flow.Persist(), wait)
	if err != nil || !reflect.DeepEqual(res.State.Log, []string{"3", "slow"}) {
		t.Errorf("%+v, %v", res.State, err)
	}
}

func TestAListenerStartsOnlyWhenItsTriggerIsDurable(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", func(ctx context.Context, run *tallyRun, _ string) (int, error) {
		snap, err := store.LoadState(ctx, run.FlowID())
		if err != nil || snap.Method != "a" || !strings.Contains(string(snap.State), `"log":["a"]`) {
			t.Errorf("when b begins, stored is %s of %q, %v", snap.State, snap.Method, err)
		}
		return 0, nil
	}, a)
	if _, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.WithStore(store), flow.Persist()); err != nil {
		t.Fatal(err)
	}
}

func TestTheMethodsOwnPersistenceWins(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", note("a"), flow.NoPersist())
	flow.Listen(b, "b", noteAny("b"), flow.Any(a), flow.Persist())
	flow.Listen(b, "c", noteAny("c"), flow.On[any]("b"))
	def := mustBuild(t, b)
	for id, opts := range map[string][]flow.RunOption{"whole": {flow.Persist()}, "some": nil} {
		if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": id}, append(opts, flow.WithStore(store))...); err != nil {
			t.Fatal(err)
		}
	}
	if whole, some := store.Saves("whole"), store.Saves("some"); !reflect.DeepEqual(whole, []string{"b", "c"}) || !reflect.DeepEqual(some, []string{"b"}) {
		t.Errorf("with Persist %v, without %v", whole, some)
	}
}

// The size of what is saved depends on the state, not on how many calls were made.
func TestASaveDoesNotGrowWithTheCalls(t *testing.T) {
	var sizes []int
	sized := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if s, ok := e.(flow.StateSaved); ok {
			sizes = append(sizes, s.Bytes)
		}
	})
	_, err := spinner(t, 2000).Kickoff(t.Context(), nil, flow.MethodBudget(-1), flow.WithStore(coretest.New()), flow.Persist(), sized)
	if err != nil || len(sizes) < 2000 || sizes[1990] > sizes[100]+40 {
		t.Errorf("%d saves; the 100th has %d bytes, the 1990th %d; %v", len(sizes), sizes[100], sizes[1990], err)
	}
}

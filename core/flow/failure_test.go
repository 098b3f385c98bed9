package flow_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

func TestErrorsOfSiblingsAreJoined(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	started := make(chan struct{})
	b := flow.New[tally]("f")
	flow.Start(b, "a", func(context.Context, *tallyRun) (int, error) { <-started; return 0, one })
	flow.Start(b, "b", func(ctx context.Context, _ *tallyRun) (int, error) { close(started); <-ctx.Done(); return 0, two })
	flow.Start(b, "c", func(ctx context.Context, _ *tallyRun) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	_, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"})
	if !errors.Is(err, one) || !errors.Is(err, two) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	var m *flow.MethodError
	if !errors.As(err, &m) || m.Method != "a" || m.Flow != "f" || m.FlowID != "x" || !strings.Contains(err.Error(), `method "a": one`) {
		t.Errorf("got %v", err)
	}
}

// What a sibling completes although the run is failing is recorded and saved, and what would
// follow from it is left to Resume.
func TestALateCompletionIsNotLost(t *testing.T) {
	store := coretest.New()
	failed := make(chan struct{})
	build := func(fail bool) *flow.Definition[tally] {
		b := flow.New[tally]("f")
		flow.Start(b, "a", func(ctx context.Context, run *tallyRun) (string, error) {
			if fail {
				return "", errors.New("boom")
			}
			return note("a")(ctx, run)
		})
		late := flow.Start(b, "late", func(ctx context.Context, run *tallyRun) (string, error) {
			<-failed
			return note("late")(ctx, run)
		})
		flow.Listen(b, "after", noteAny("after"), flow.Any(late))
		return mustBuild(t, b)
	}
	watch := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if _, ok := e.(flow.MethodFailed); ok {
			close(failed)
		}
	})
	res, err := build(true).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), watch)
	if err == nil || !reflect.DeepEqual(res.State.Log, []string{"late"}) || !reflect.DeepEqual(store.Saves("x"), []string{"late"}) {
		t.Fatalf("%+v, saves %v, %v", res.State, store.Saves("x"), err)
	}
	var rec recorder
	res, err = build(false).Resume(t.Context(), "x", flow.WithStore(store), rec.option())
	if err != nil || res.Completed["late"] != 1 || res.Completed["after"] != 1 || res.Completed["a"] != 1 || strings.Contains(rec.names(), "MethodStarted:late") {
		t.Errorf("resumed: %v, %s, %v", res.Completed, rec.names(), err)
	}
}

func TestAPanicIsAnErrorOfItsMethod(t *testing.T) {
	for name, fn := range map[string]func(){"value": func() { panic("oh") }, "type": func() { _ = any(1).(string) }, "exit": runtime.Goexit} {
		b := flow.New[tally]("f")
		flow.Start(b, "a", func(context.Context, *tallyRun) (int, error) { fn(); return 0, nil })
		res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
		var p *flow.PanicError
		if !errors.As(err, &p) || res.Finished || name != "exit" && !strings.Contains(string(p.Stack), "failure_test.go") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPanicOfAnObserverLeavesNothingBehind(t *testing.T) {
	ended := false
	b := flow.New[tally]("f")
	flow.Start(b, "slow", func(ctx context.Context, _ *tallyRun) (int, error) {
		<-ctx.Done()
		ended = true
		return 0, nil
	})
	flow.Start(b, "fast", func(context.Context, *tallyRun) (int, error) { return 0, nil })
	defer func() {
		if recover() != "observer" || !ended {
			t.Errorf("ended: %t", ended)
		}
	}()
	_, _ = mustBuild(t, b).Kickoff(t.Context(), nil, flow.WithObserver(func(_ context.Context, e flow.Event) {
		if _, ok := e.(flow.MethodFinished); ok {
			panic("observer")
		}
	}))
}

func TestTheCallersContextEndsTheRun(t *testing.T) {
	store := coretest.New()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the worker is shutting down")
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", func(ctx context.Context, _ *tallyRun, _ string) (int, error) {
		cancel(cause)
		<-ctx.Done()
		return 0, ctx.Err()
	}, a)
	flow.Listen(b, "c", func(ctx context.Context, _ *tallyRun, _ string) (int, error) { <-ctx.Done(); return 0, nil }, a)
	res, err := mustBuild(t, b).Kickoff(ctx, flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || res.Finished {
		t.Errorf("got %v", err)
	}
	if !reflect.DeepEqual(store.Saves("x"), []string{"a"}) {
		t.Errorf("saved after the end of the context: %v", store.Saves("x"))
	}
	if res, err := mustBuild(t, b).Kickoff(ctx, nil); res == nil || !errors.Is(err, cause) || len(res.Completed) != 0 {
		t.Errorf("with a context that has ended: %+v, %v", res, err)
	}
}

func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []flow.RunOption
		method []flow.MethodOption
		want   flow.BudgetError
		calls  int
	}{
		{"default", nil, nil, flow.BudgetError{Method: "spin", Limit: flow.DefaultMethodBudget}, 201},
		{"of the run's methods", []flow.RunOption{flow.MethodBudget(5)}, nil, flow.BudgetError{Method: "spin", Limit: 5}, 11},
		{"of the method", []flow.RunOption{flow.MethodBudget(5)}, []flow.MethodOption{flow.Budget(3)}, flow.BudgetError{Method: "spin", Limit: 3}, 7},
		{"of the run", []flow.RunOption{flow.RunBudget(20)}, nil, flow.BudgetError{Method: "back", Limit: 20, OfRun: true}, 20},
	} {
		store := coretest.New()
		def := spinner(t, 1000, c.method...)
		res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "x"}, append(c.opts, flow.WithStore(store), flow.Persist())...)
		var e *flow.BudgetError
		if !errors.As(err, &e) || e.Method != c.want.Method || e.Limit != c.want.Limit || e.OfRun != c.want.OfRun {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		if n := res.Completed["s"] + res.Completed["spin"] + res.Completed["back"]; n != c.calls {
			t.Errorf("%s: %d calls, want %d", c.name, n, c.calls)
		}
		if _, err := def.Resume(t.Context(), "x", append(c.opts, flow.WithStore(store))...); !errors.As(err, &e) {
			t.Errorf("%s: resumed with the same budget: %v", c.name, err)
		}
		if c.method != nil {
			continue
		}
		res, err = def.Resume(t.Context(), "x", flow.WithStore(store), flow.MethodBudget(-1))
		if err != nil || res.Completed["spin"] != 1001 {
			t.Errorf("%s: resumed without a budget: %d, %v", c.name, res.Completed["spin"], err)
		}
	}
}

// spinner is a loop of a router and a listener that goes around n times.
func spinner(t testing.TB, n int, opts ...flow.MethodOption) *flow.Definition[struct{}] {
	t.Helper()
	const again flow.Label[int] = "again"
	b := flow.New[struct{}]("spinner")
	s := flow.Start(b, "s", func(context.Context, *flow.Run[struct{}]) (int, error) { return 0, nil })
	flow.Router(b, "spin", func(_ context.Context, _ *flow.Run[struct{}], i int) (flow.Route, error) {
		if i == n {
			return flow.Route{}, nil
		}
		return flow.To(again, i+1), nil
	}, flow.Or(s, flow.On[int]("back")), append(opts, flow.Emits(again))...)
	flow.Listen(b, "back", func(_ context.Context, _ *flow.Run[struct{}], i int) (int, error) { return i, nil }, again)
	return mustBuild(t, b)
}

func TestARouterKeepsToItsLabels(t *testing.T) {
	const known, unknown flow.Label[any] = "known", "unknown"
	b := flow.New[tally]("f")
	flow.StartRouter(b, "r", func(context.Context, *tallyRun) (flow.Route, error) { return flow.To[any](unknown, nil), nil }, flow.Emits(known))
	_, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	var e *flow.UndeclaredLabelError
	if !errors.As(err, &e) || e.Label != "unknown" || !reflect.DeepEqual(e.Declared, []string{"known"}) {
		t.Errorf("got %v", err)
	}
}

func TestAPayloadThatDoesNotFitFailsTheMethod(t *testing.T) {
	b := flow.New[tally]("f")
	flow.StartRouter(b, "r", func(context.Context, *tallyRun) (flow.Route, error) { return flow.To[any]("x", "text"), nil })
	flow.Listen(b, "l", func(context.Context, *tallyRun, int) (int, error) { t.Error("it ran"); return 0, nil }, flow.Label[int]("x"))
	_, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	var m *flow.MethodError
	if !errors.As(err, &m) || m.Method != "l" || !strings.Contains(err.Error(), "payload") {
		t.Errorf("got %v", err)
	}
	b = flow.New[tally]("f")
	flow.Start(b, "a", func(context.Context, *tallyRun) (any, error) { return func() {}, nil })
	if _, err := mustBuild(t, b).Kickoff(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "output") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheStoreReachTheCaller(t *testing.T) {
	_, err := chain(t, "a").Resume(t.Context(), "x", flow.WithStore(outage{coretest.New()}))
	if !errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

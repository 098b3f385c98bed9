package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

func TestParallelMethodsLoseNoUpdate(t *testing.T) {
	b := flow.New[tally]("f")
	for i := range 100 {
		flow.Start(b, fmt.Sprint("s", i), func(ctx context.Context, run *tallyRun) (string, error) {
			var wg sync.WaitGroup
			for range 3 { // the goroutines of one method share its view
				wg.Go(func() {
					if err := run.State().Update(func(s *tally) error { s.N++; return nil }); err != nil {
						t.Error(err)
					}
					_ = run.State().View(func(s *tally) error { _ = s.N; return nil })
				})
			}
			wg.Wait()
			return note("x")(ctx, run)
		})
	}
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	if err != nil || res.State.N != 400 || len(res.State.Log) != 100 {
		t.Errorf("n is %d, %d logged, %v", res.State.N, len(res.State.Log), err)
	}
}

// A view sees what is committed and its own updates; the updates of others it sees when they
// complete.
func TestAViewSeesCommittedStateAndItsOwnUpdates(t *testing.T) {
	updated, look, committed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := flow.New[tally]("f")
	flow.Start(b, "writer", func(ctx context.Context, run *tallyRun) (string, error) {
		out, err := note("writer")(ctx, run)
		close(updated)
		<-look
		return out, err
	})
	read := func(run *tallyRun) (log []string) {
		if err := run.State().View(func(s *tally) error { log = append(log, s.Log...); return nil }); err != nil {
			t.Error(err)
		}
		return log
	}
	flow.Start(b, "reader", func(ctx context.Context, run *tallyRun) (string, error) {
		<-updated
		if got := read(run); got != nil {
			t.Errorf("before the commit the reader sees %v", got)
		}
		out, err := note("reader")(ctx, run)
		if got := read(run); !reflect.DeepEqual(got, []string{"reader"}) {
			t.Errorf("the reader sees of its own updates %v", got)
		}
		close(look)
		<-committed
		if got := read(run); !reflect.DeepEqual(got, []string{"writer", "reader"}) {
			t.Errorf("after the commit the reader sees %v", got)
		}
		return out, err
	})
	seen := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if f, ok := e.(flow.MethodFinished); ok && f.Method == "writer" {
			close(committed)
		}
	})
	if _, err := mustBuild(t, b).Kickoff(t.Context(), nil, seen); err != nil {
		t.Fatal(err)
	}
}

func TestWhatFailsLeavesNothing(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", func(ctx context.Context, run *tallyRun) (string, error) {
		err := run.State().Update(func(s *tally) error { s.N = 1000; return errors.New("no") })
		func() {
			defer func() { _ = recover() }()
			_ = run.State().Update(func(s *tally) error { s.N = 2000; panic("no") })
		}()
		for _, n := range []int{0, 3000} { // what a View does to the state is lost
			_ = run.State().View(func(s *tally) error {
				if n == 0 && s.N != 0 {
					t.Errorf("after two failed updates n is %d", s.N)
				}
				s.N = n
				return nil
			})
		}
		if err == nil {
			t.Error("the error of the closure is lost")
		}
		_ = run.State().Update(func(s *tally) error {
			if s.N != 0 {
				t.Errorf("an update sees what a view did: n is %d", s.N)
			}
			return nil
		})
		return note("a")(ctx, run)
	})
	flow.Listen(b, "b", func(ctx context.Context, run *tallyRun, in any) (string, error) {
		_, _ = noteAny("b")(ctx, run, in)
		return "", errors.New("b failed")
	}, flow.Any(a))
	res, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist())
	if err == nil || res.State.N != 1 || !reflect.DeepEqual(res.State.Log, []string{"a"}) {
		t.Errorf("%+v, %v", res.State, err)
	}
	if snap, _ := store.LoadState(t.Context(), "x"); string(snap.State) != `{"id":"x","n":1,"log":["a"]}` {
		t.Errorf("stored is %s", snap.State)
	}
}

func TestAViewIsClosedWhenItsMethodHasReturned(t *testing.T) {
	var kept *flow.State[tally]
	b := flow.New[tally]("f")
	flow.Start(b, "a", func(_ context.Context, run *tallyRun) (string, error) {
		kept = run.State()
		return "", nil
	})
	if _, err := mustBuild(t, b).Kickoff(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	nothing := func(*tally) error { return nil }
	if err := kept.Update(nothing); !errors.Is(err, flow.ErrOver) {
		t.Errorf("update: %v", err)
	}
	if err := kept.View(nothing); !errors.Is(err, flow.ErrOver) {
		t.Errorf("view: %v", err)
	}
}

// What a method keeps of the state after it returned is its own.
func TestNothingOfTheStateIsShared(t *testing.T) {
	var kept []*tally
	b := flow.New[tally]("f")
	keep := func(_ context.Context, run *tallyRun) (string, error) {
		return "", run.State().Update(func(s *tally) error {
			for _, k := range kept {
				k.Log[0], k.N = "changed from outside", -1
			}
			s.Log = append(s.Log, "x")
			s.N++
			kept = append(kept, s)
			return nil
		})
	}
	a := flow.Start(b, "a", keep)
	flow.Listen(b, "b", func(ctx context.Context, run *tallyRun, _ any) (string, error) { return keep(ctx, run) }, flow.Any(a))
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	if err != nil || res.State.N != 2 || !reflect.DeepEqual(res.State.Log, []string{"x", "x"}) {
		t.Errorf("%+v, %v", res.State, err)
	}
}

// An update that no longer applies to what others committed fails its method.
func TestAnUpdateThatNoLongerAppliesFailsItsMethod(t *testing.T) {
	took := make(chan struct{})
	done := make(chan struct{})
	b := flow.New[tally]("f")
	take := func(run *tallyRun) error {
		return run.State().Update(func(s *tally) error {
			if s.N != 0 {
				return errors.New("the seat is taken")
			}
			s.N = 1
			return nil
		})
	}
	flow.Start(b, "first", func(_ context.Context, run *tallyRun) (string, error) {
		<-took
		defer close(done)
		return "", take(run)
	})
	flow.Start(b, "second", func(_ context.Context, run *tallyRun) (string, error) {
		err := take(run)
		close(took)
		<-done
		return "", err
	})
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	var m *flow.MethodError
	if !errors.As(err, &m) || !strings.Contains(err.Error(), "the seat is taken") || res.State.N != 1 {
		t.Errorf("%+v, %v", res.State, err)
	}
}

func TestAStateThatCannotBeStoredFailsTheMethodThatMadeIt(t *testing.T) {
	type odd struct {
		ID  string
		F   float64
		S   []string
		Map map[string]string
	}
	for _, c := range []struct {
		change func(*odd)
		says   string
	}{
		{func(o *odd) { o.F = math.NaN() }, "NaN"},
		{func(o *odd) { o.F = math.Inf(1) }, "Inf"},
		{func(o *odd) { o.S = []string{"fine", "\xff"} }, "/S/1"},
		{func(o *odd) { o.Map = map[string]string{"k": "a\xc3"} }, "/Map/k"},
		{func(o *odd) { o.Map = map[string]string{"\xff": ""} }, "UTF-8"},
	} {
		b := flow.New[odd]("f")
		flow.Start(b, "a", func(_ context.Context, run *flow.Run[odd]) (int, error) {
			return 0, run.State().Update(func(o *odd) error { c.change(o); return nil })
		})
		_, err := mustBuild(t, b).Kickoff(t.Context(), nil)
		var m *flow.MethodError
		if !errors.Is(err, core.ErrInvalidState) || !errors.As(err, &m) || m.Method != "a" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}

func TestTheReplacementCharacterIsLegal(t *testing.T) {
	b := flow.New[tally]("f")
	flow.Start(b, "a", func(_ context.Context, run *tallyRun) (string, error) {
		return "\\ufffd \ufffd <&>", run.State().Update(func(s *tally) error { s.Log = []string{"\\ufffd", "\ufffd"}; return nil })
	})
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	if err != nil || !reflect.DeepEqual(res.State.Log, []string{"\\ufffd", "\ufffd"}) || string(res.Output) != `"\\ufffd `+"\ufffd <&>\"" {
		t.Errorf("%q, %s, %v", res.State.Log, res.Output, err)
	}
}

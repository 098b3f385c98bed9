package flow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// racer returns a method that takes a while, writes its name and fails if it is told to.
func racer(name string, takes time.Duration, fails error) func(context.Context, *tallyRun, any) (string, error) {
	return func(ctx context.Context, run *tallyRun, in any) (string, error) {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if fails != nil {
			return "", fails
		}
		return noteAny(name)(ctx, run, in)
	}
}

func TestARaceIsDecidedWhenAMethodCompletesAndItsHandlerIsNotInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		b := flow.New[tally]("race")
		s := flow.Start(b, "s", start)
		fast := flow.Listen(b, "fast", racer("fast", time.Second, nil), flow.Any(s))
		slow := flow.Listen(b, "slow", func(ctx context.Context, run *tallyRun, in any) (string, error) {
			if _, err := noteAny("slow")(ctx, run, in); err != nil {
				return "", err
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(time.Minute) // the handler has ended long before
			return "it completes all the same", nil
		}, flow.Any(s))
		h := flow.Listen(b, "h", racer("h", 10*time.Second, nil), flow.Any(flow.FirstOf(fast, slow)))
		rec := &recorder{}
		res, err := mustBuild(t, b).Kickoff(t.Context(), nil, rec.option())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(res.State.Log, " "); got != "fast h" || !errors.Is(cause, flow.ErrLost) {
			t.Errorf("the state is %q, the loser's context ended with %v", got, cause)
		}
		if out, ok, err := flow.Latest(res, h); out != "h" || !ok || err != nil || res.Completed["slow"] != 0 {
			t.Errorf("the handler's output is %q, %v, %v; completed are %v", out, ok, err, res.Completed)
		}
		if got := rec.names(); !strings.HasSuffix(got, "MethodFinished:h MethodFailed:slow FlowFinished") {
			t.Errorf("the run did not wait for the loser: %s", got)
		}
	})
}

func TestAFailedRacerDoesNotMatterIfAnotherWins(t *testing.T) {
	nope, bad := errors.New("nope"), errors.New("bad")
	for name, c := range map[string]struct {
		b, beside error
		want      []error
		state     string
	}{
		"one fails":            {nil, nil, nil, "b h"},
		"all fail":             {bad, nil, []error{nope, bad}, ""},
		"a sibling fails, too": {nil, bad, []error{nope, bad}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := flow.New[tally]("race")
			s := flow.Start(b, "s", start)
			x := flow.Listen(b, "a", racer("a", time.Second, nope), flow.Any(s))
			y := flow.Listen(b, "b", racer("b", 3*time.Second, c.b), flow.Any(s))
			if c.beside != nil {
				flow.Listen(b, "beside", racer("beside", 2*time.Second, c.beside), flow.Any(s))
			}
			flow.Listen(b, "h", noteAny("h"), flow.Any(flow.FirstOf(x, y)))
			res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
			if (err == nil) != (c.want == nil) {
				t.Errorf("%s: %v", name, err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v is not in %v", name, want, err)
				}
			}
			if got := strings.Join(res.State.Log, " "); got != c.state {
				t.Errorf("%s: the state is %q, want %q", name, got, c.state)
			}
		})
	}
}

// Each round of a loop is a race of its own, and a method that lost can win the next.
func TestARaceIsRunAnewInEachRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const again flow.Label[any] = "again"
		b := flow.New[tally]("rounds")
		s := flow.Start(b, "s", start)
		turn := func(name string, odd bool) flow.Handle[string] {
			return flow.Listen(b, name, func(ctx context.Context, run *tallyRun, in any) (string, error) {
				takes := time.Second
				if (run.Call()%2 == 1) != odd {
					takes = time.Hour
				}
				return racer(name, takes, nil)(ctx, run, in)
			}, flow.Or(flow.Any(s), again))
		}
		x, y := turn("x", true), turn("y", false)
		h := flow.Listen(b, "h", noteAny("h"), flow.Any(flow.FirstOf(x, y)))
		flow.Router(b, "r", func(_ context.Context, run *tallyRun, _ any) (flow.Route, error) {
			if run.Call() == 3 {
				return flow.Route{}, nil
			}
			return flow.To[any](again, nil), nil
		}, flow.Any(h), flow.Emits(again))
		res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(res.State.Log, " "); got != "x h y h x h" {
			t.Errorf("the rounds were %q", got)
		}
	})
}

// What is stored when a race is decided says so: the losers are not run again.
func TestALoserIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, die := context.WithCancel(t.Context())
		build := func(alive bool) *flow.Definition[tally] {
			b := flow.New[tally]("race")
			x, y := flow.Start(b, "x", note("x")), flow.Start(b, "y", func(ctx context.Context, _ *tallyRun) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
			flow.Listen(b, "h", func(ctx context.Context, run *tallyRun, in string) (string, error) {
				if !alive {
					die()
				}
				return in, ctx.Err()
			}, flow.FirstOf(x, y))
			return mustBuild(t, b)
		}
		store := coretest.New()
		if _, err := build(false).Kickoff(ctx, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist()); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		res, err := build(true).Resume(t.Context(), "f", flow.WithStore(store))
		if err != nil || string(res.Output) != `"x"` || res.Completed["h"] != 1 {
			t.Errorf("%s %v %v", res.Output, res.Completed, err)
		}
	})
}

func TestBuildRefusesWhatCannotRace(t *testing.T) {
	const label flow.Label[string] = "label"
	b := flow.New[tally]("race")
	x := flow.Start(b, "x", note("x"))
	r := flow.Router(b, "r", func(context.Context, *tallyRun, string) (flow.Route, error) { return flow.To(label, ""), nil }, x, flow.Emits(label))
	again := flow.Start(b, "again", note("again"), flow.When(label))
	y := flow.Start(b, "y", note("y"))
	flow.Listen(b, "router", noteAny("router"), flow.FirstOf(r, flow.Any(y)))
	flow.Listen(b, "h", noteAny("h"), flow.Any(flow.FirstOf(x, label, again, y)))
	var bad *flow.BuildError
	if _, err := b.Build(); !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var got []string
	for _, d := range bad.Diagnostics {
		if d.Code == flow.Racers {
			got = append(got, d.Method+":"+d.Event)
		}
	}
	if s := strings.Join(got, " "); s != "router:r h:label h:again h:y" {
		t.Errorf("found %s", s)
	}
}

package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirflow/weir/core/flow"
)

func TestAFailingMethodIsAttemptedAgain(t *testing.T) {
	flaky, hopeless := errors.New("flaky"), errors.New("hopeless")
	for name, c := range map[string]struct {
		fails []error // by attempt
		want  error
		log   string
		took  time.Duration
	}{
		"cured":       {[]error{flaky, flaky, nil}, nil, "third", 3 * time.Second},
		"not cured":   {[]error{flaky, flaky, flaky, nil}, flaky, "", 3 * time.Second},
		"not curable": {[]error{hopeless, nil}, hopeless, "", 0},
		"first go":    {[]error{nil}, nil, "first", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, n, ids := flow.New[tally]("retry"), 0, map[string]bool{}
			flow.Start(b, "m", func(_ context.Context, run *tallyRun) (int, error) {
				n++
				ids[run.ActivationID()] = true
				err := run.State().Update(func(s *tally) error {
					s.Log = append(s.Log, []string{"first", "second", "third", "fourth"}[n-1])
					return nil
				})
				return n, errors.Join(err, c.fails[n-1])
			}, flow.Retry{Attempts: 3, Wait: time.Second, If: func(err error) bool { return errors.Is(err, flaky) }})
			began, rec := time.Now(), &recorder{}
			res, err := mustBuild(t, b).Kickoff(t.Context(), nil, rec.option())
			if !errors.Is(err, c.want) || strings.Join(res.State.Log, " ") != c.log || time.Since(began) != c.took || len(ids) != 1 {
				t.Errorf("%s: %v, log %q, %v, ids %v", name, err, res.State.Log, time.Since(began), ids)
			}
			if got := strings.Count(rec.names(), "MethodRetrying"); got != n-1 {
				t.Errorf("%s: %d attempts, %d events", name, n, got)
			}
		})
	}
}

func TestAPanicIsNotAttemptedAgain(t *testing.T) {
	b, n := flow.New[tally]("retry"), 0
	flow.Start(b, "m", func(context.Context, *tallyRun) (int, error) { n++; panic("oops") }, flow.Retry{Attempts: 3})
	_, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	var p *flow.PanicError
	if !errors.As(err, &p) || n != 1 {
		t.Errorf("%d attempts, %v", n, err)
	}
}

func TestATimeoutIsOfEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := flow.New[tally]("timeout"), 0
		flow.Start(b, "m", func(ctx context.Context, _ *tallyRun) (string, error) {
			if n++; n == 2 {
				time.Sleep(time.Minute) // it is waited for, and its completion counts
				return "late", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}, flow.Timeout(time.Second), flow.Retry{Attempts: 2})
		rec := &recorder{}
		res, err := mustBuild(t, b).Kickoff(t.Context(), nil, rec.option())
		if err != nil || string(res.Output) != `"late"` {
			t.Errorf("%s, %v", res.Output, err)
		}
		for _, e := range rec.events {
			if e, ok := e.(flow.MethodRetrying); ok && !errors.Is(e.Err, context.DeadlineExceeded) {
				t.Errorf("the first attempt failed with %v", e.Err)
			}
		}
	})
}

func TestConcurrencyLimitsTheCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		b := flow.New[tally]("limit")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			flow.Start(b, name, func(context.Context, *tallyRun) (int, error) {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return 0, nil
			})
		}
		rec, began := &recorder{}, time.Now()
		if _, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.Concurrency(2), rec.option()); err != nil {
			t.Fatal(err)
		}
		if most.Load() != 2 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at a time, %v in all", most.Load(), time.Since(began))
		}
	})
}

// A member of a race that still waits for its turn when the race is decided never starts.
func TestALoserThatWaitsForItsTurnNeverStarts(t *testing.T) {
	b := flow.New[tally]("limit")
	x, y := flow.Start(b, "x", note("x")), flow.Start(b, "y", note("y"))
	flow.Listen(b, "h", noteAny("h"), flow.Any(flow.FirstOf(x, y)))
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.Concurrency(1))
	if got := strings.Join(res.State.Log, " "); err != nil || got != "x h" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHooksRewriteOrStop(t *testing.T) {
	const left, right flow.Label[string] = "left", "right"
	stop := errors.New("stop")
	build := func() *flow.Definition[tally] {
		b := flow.New[tally]("hooks")
		s := flow.Start(b, "s", func(context.Context, *tallyRun) (string, error) { return "in", nil })
		flow.Router(b, "r", func(_ context.Context, _ *tallyRun, in string) (flow.Route, error) { return flow.To(left, in), nil }, s, flow.Emits(left, right))
		flow.Listen(b, "l", func(_ context.Context, _ *tallyRun, in string) (string, error) { return "left " + in, nil }, left)
		flow.Listen(b, "x", func(_ context.Context, _ *tallyRun, in string) (string, error) { return "right " + in, nil }, right)
		return mustBuild(t, b)
	}
	label := func(to string) flow.Hooks {
		return flow.Hooks{After: func(_ context.Context, c flow.Call, done flow.Completion) (flow.Completion, error) {
			if c.Method == "r" {
				done.Label = to
			}
			return done, nil
		}}
	}
	payload := flow.Hooks{Before: func(_ context.Context, c flow.Call, p json.RawMessage) (json.RawMessage, error) {
		if c.Method == "r" {
			return json.RawMessage(`"rewritten"`), nil
		}
		return p, nil
	}}
	res, err := build().Kickoff(t.Context(), nil, label("right"), payload)
	if err != nil || string(res.Output) != `"right rewritten"` {
		t.Errorf("%s, %v", res.Output, err)
	}
	var undeclared *flow.UndeclaredLabelError
	if _, err = build().Kickoff(t.Context(), nil, label("up")); !errors.As(err, &undeclared) {
		t.Errorf("an undeclared label: %v", err)
	}
	stops := flow.Hooks{Before: func(_ context.Context, c flow.Call, p json.RawMessage) (json.RawMessage, error) {
		if c.Method == "l" {
			return nil, stop
		}
		return p, nil
	}}
	res, err = build().Kickoff(t.Context(), nil, stops)
	var m *flow.MethodError
	if !errors.As(err, &m) || m.Method != "l" || !errors.Is(err, stop) || res.Completed["r"] != 1 {
		t.Errorf("a hook that stops: %v", err)
	}
}

// Package flowtest holds the law of resume as a test that any store can be put under: a run
// that is cut at any point, and continued by another process from what is stored, ends in the
// same state, with the same outputs and in the same order of events as one that was never cut.
//
// Random flows check it. Their methods change the state before and after waits in ways that
// neither commute nor bear repetition (an append, a counter, a read-modify-write), ask people,
// fail and are attempted again, race, choose labels by the state they see, and several run at
// a time. A gate decides who goes on by the identity of the calls, so that the order is a
// property of the flow and not of the machine.
package flowtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weirflow/weir/core"
)

// Seeds names random flows: those of the numbers From, From+1 and so on, before To.
type Seeds struct{ From, To uint64 }

// CutAnywhere fails the test if one of the flows ends differently when it is cut. Each flow
// runs once uncut and once for each way to be cut, under ids of its own that no earlier call
// has used, so one store may serve many seeds and many calls.
//
// open is called for each process that a flow takes and returns its store: a new handle, which
// knows nothing but what the earlier ones have stored. It may be called by several goroutines.
// It, and all that the stores do, happens outside the synctest bubbles in which the flows run,
// so a store may use the network, and the time of day.
//
// The environment variable WEIR_SEEDS=from-to runs other seeds. A failing seed ends the test
// and prints the command that runs it alone.
func CutAnywhere(t *testing.T, seeds Seeds, open func() (core.FlowPersistence, error)) {
	t.Helper()
	if v := os.Getenv("WEIR_SEEDS"); v != "" {
		if _, err := fmt.Sscanf(v, "%d-%d", &seeds.From, &seeds.To); err != nil {
			t.Fatalf("WEIR_SEEDS=%q: %v", v, err)
		}
	}
	l := &law{open: open, ids: "cut-" + rand.Text(), test: t.Name(), pkg: callerPackage()}
	var next atomic.Uint64
	next.Store(seeds.From)
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < seeds.To && !l.broken.Load(); seed = next.Add(1) - 1 {
					l.judge(t, seed)
				}
			})
		}
	})
	t.Logf("%d seeds, %d saves, %d cuts and resumes, %d late answers refused", l.judged.Load(), l.saves.Load(), l.cuts.Load(), l.refused.Load())
	if l.judged.Load() == 0 && !t.Failed() {
		t.Errorf("there is no seed in %+v", seeds)
	}
}

// callerPackage returns the path of the package whose test calls CutAnywhere.
func callerPackage() string {
	pc := make([]uintptr, 1)
	runtime.Callers(3, pc)
	frame, _ := runtime.CallersFrames(pc).Next()
	name := frame.Function // path/of/package_test.TestName.func1
	slash := strings.LastIndexByte(name, '/') + 1
	last, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + strings.TrimSuffix(last, "_test")
}

// law is one call of CutAnywhere.
type law struct {
	open      func() (core.FlowPersistence, error)
	ids       string
	test, pkg string

	judged, saves, cuts, refused atomic.Int64
	broken                       atomic.Bool
}

// judge runs the flow of a seed uncut and cut.
func (l *law) judge(t *testing.T, seed uint64) {
	t.Helper()
	calls := goOutside()
	defer calls.end()
	held := false
	defer func() { // also when the flow deadlocks, which is a panic of its bubble
		if !held {
			l.broken.Store(true)
			t.Errorf("seed %d; to replay it alone:\nWEIR_SEEDS=%d-%d go test %s -run '%s'", seed, seed, seed+1, l.pkg, l.pattern())
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		whole := l.newSubject(seed, never, calls)
		whole.toTheEnd(t)
		whole.check(t)
		for _, when := range everyCutting {
			cut := l.newSubject(seed, when, calls)
			cut.at = 1 + int(hash(seed)%uint64(max(1, whole.saves)))
			cut.toTheEnd(t)
			cut.check(t)
			if diff := whole.differs(cut); diff != "" {
				t.Errorf("seed %d, cut %s: %s", seed, when, diff)
			}
			l.saves.Add(int64(cut.saves))
			l.cuts.Add(int64(cut.cuts))
			l.refused.Add(int64(cut.refused))
		}
		l.saves.Add(int64(whole.saves))
	})
	held = !t.Failed()
	l.judged.Add(1)
}

// pattern matches the test alone.
func (l *law) pattern() string {
	return "^" + strings.ReplaceAll(l.test, "/", "$/^") + "$"
}

// cutting says when a process dies.
type cutting string

const (
	never           cutting = "never"
	afterEachSave   cutting = "after each save"
	unheardEachSave cutting = "after each save, before the run hears of it" // and so before anything is announced
	beforeEachSave  cutting = "before each save"                            // once for each; the method runs again
	once            cutting = "once"
	whileAsked      cutting = "at each question, while someone is asked"
	atEachQuestion  cutting = "at each question" // every answer comes later, to another process
)

var everyCutting = []cutting{afterEachSave, unheardEachSave, beforeEachSave, once, whileAsked, atEachQuestion}

// outside performs calls on a goroutine that is in no bubble. Who waits for one in a bubble is
// not durably blocked, so the bubble's time stands still and nothing counts as settled until
// the call is over.
type outside struct {
	calls chan func(ctx context.Context)
	done  chan struct{}
}

// goOutside must be called outside the bubble.
func goOutside() *outside {
	o := &outside{calls: make(chan func(context.Context)), done: make(chan struct{})}
	go func() {
		for call := range o.calls {
			call(context.Background())
			o.done <- struct{}{}
		}
		close(o.done)
	}()
	return o
}

// do calls f, with a context of the outside, and waits for it. One call at a time.
func (o *outside) do(f func(ctx context.Context)) {
	o.calls <- f
	<-o.done
}

func (o *outside) end() {
	close(o.calls)
	<-o.done
}

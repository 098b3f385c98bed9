package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// lastOnly is the smallest store: it keeps the newest snapshot of one flow, by reference, so
// that what is measured is the runtime.
type lastOnly struct {
	mu   sync.Mutex
	snap core.Snapshot
}

func (s *lastOnly) SaveState(_ context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := core.NewSaveSettings(opts); c.If != nil && *c.If != s.snap.Revision {
		return core.Saved{}, core.ErrConflict
	}
	snap.Revision = core.Revision{N: s.snap.Revision.N + 1, Tag: fmt.Sprint(s.snap.Revision.N + 1)}
	s.snap = snap
	return core.Saved{Revision: snap.Revision}, nil
}

func (s *lastOnly) LoadState(context.Context, string) (core.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap.Revision.IsZero() {
		return core.Snapshot{}, core.ErrNotFound
	}
	return s.snap, nil
}

// braid is a loop with everything in it: two parallel branches, a join of all, a one-shot
// join, a conditional start, and a state that is updated in each round.
func braid(t testing.TB, rounds int) *flow.Definition[tally] {
	t.Helper()
	const round, again flow.Label[any] = "round", "again"
	b := flow.New[tally]("braid")
	count := func(_ context.Context, run *tallyRun, _ any) (int, error) {
		return run.Call(), run.State().Update(func(s *tally) error { s.N++; return nil })
	}
	s := flow.Start(b, "s", start)
	flow.Router(b, "r", func(_ context.Context, run *tallyRun, _ any) (flow.Route, error) {
		if run.Call() > rounds {
			return flow.Route{}, nil
		}
		return flow.To[any](round, run.Call()), nil
	}, flow.Or(flow.Any(s), again), flow.Emits(round))
	left := flow.Listen(b, "left", count, flow.Any(round))
	right := flow.Listen(b, "right", count, flow.Any(round))
	flow.Listen(b, "either", count, flow.Any(flow.Or(left, right)))
	join := flow.Listen(b, "join", count, flow.And(left, right))
	flow.StartRouter(b, "next", func(context.Context, *tallyRun) (flow.Route, error) { return flow.To[any](again, nil), nil },
		flow.When(join), flow.Emits(again))
	return mustBuild(t, b)
}

// Heap and stack do not depend on how many calls a run has made.
func TestMemoryStaysConstant(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it takes a while, and the race detector's own memory is no measure")
	}
	type run func(at flow.RunOption) error
	for name, kickoff := range map[string]run{
		"loop": func(at flow.RunOption) error {
			_, err := spinner(t, 50_000).Kickoff(t.Context(), nil, flow.MethodBudget(-1), at)
			return err
		},
		"braid, persisted": func(at flow.RunOption) error {
			_, err := braid(t, 17_000).Kickoff(t.Context(), nil, flow.MethodBudget(-1), at, flow.WithStore(&lastOnly{}), flow.Persist())
			return err
		},
	} {
		var heap, stack []uint64
		calls := 0
		at := flow.WithObserver(func(_ context.Context, e flow.Event) {
			if _, ok := e.(flow.MethodStarted); !ok {
				return
			}
			if calls++; calls == 10_000 || calls == 100_000 {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap, stack = append(heap, m.HeapAlloc), append(stack, m.StackInuse)
			}
		})
		if err := kickoff(at); err != nil || len(heap) != 2 {
			t.Fatalf("%s: %d calls, %v", name, calls, err)
		}
		t.Logf("%s: heap %d KiB after 10,000 calls, %d KiB after 100,000; stacks %d and %d KiB", name, heap[0]>>10, heap[1]>>10, stack[0]>>10, stack[1]>>10)
		if heap[1] > heap[0]+heap[0]/10 {
			t.Errorf("%s: the heap grows from %d to %d bytes", name, heap[0], heap[1])
		}
		if stack[1] > stack[0]+1<<18 {
			t.Errorf("%s: the stacks grow from %d to %d bytes", name, stack[0], stack[1])
		}
	}
}

// large returns a builder of a graph with n methods of every kind.
func large(n int) *flow.Builder[tally] {
	b := flow.New[tally]("large")
	last := flow.Start(b, "m0", start)
	var before flow.Condition = last
	for i := 1; i < n; i++ {
		name := fmt.Sprint("m", i)
		switch i % 5 {
		case 1:
			flow.Router(b, name, route, flow.Any(last), flow.Emits(flow.Label[any](fmt.Sprint("l", i))))
		case 2:
			last = flow.Listen(b, name, listen, flow.Or(flow.Label[any](fmt.Sprint("l", i-1)), flow.On[any](fmt.Sprint("m", (i+7)%n))))
		case 3:
			last = flow.Listen(b, name, listen, flow.And(last, before))
		default:
			before = last
			last = flow.Listen(b, name, listen, flow.Any(last))
		}
	}
	return b
}

func TestALargeDefinitionBuildsFast(t *testing.T) {
	b := large(2000)
	best := time.Hour
	for range 5 {
		began := time.Now()
		mustBuild(t, b)
		best = min(best, time.Since(began))
	}
	t.Logf("2,000 methods build in %v", best)
	if limit := 100 * time.Millisecond; best > limit && !raceDetector {
		t.Errorf("2,000 methods build in %v, want less than %v", best, limit)
	}
}

func BenchmarkBuild2000(b *testing.B) {
	builder := large(2000)
	b.ReportAllocs()
	for b.Loop() {
		mustBuild(b, builder)
	}
}

// BenchmarkCall is one method call of a run without a store.
func BenchmarkCall(b *testing.B) {
	def := spinner(b, b.N/2)
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := def.Kickoff(context.Background(), nil, flow.MethodBudget(-1)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSavedCall is one method call that updates a state of the given size and is saved.
// The baseline is what no runtime can avoid: the state decoded once and encoded once.
func BenchmarkSavedCall(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 64 << 10} {
		seed := tally{Log: strings.Split(strings.Repeat(strings.Repeat("x", 99)+" ", size/100), " ")}
		b.Run(fmt.Sprintf("state=%dKiB", size>>10), func(b *testing.B) {
			def := braid(b, b.N/6)
			b.ReportAllocs()
			b.ResetTimer()
			_, err := def.Kickoff(context.Background(), flow.Inputs{"log": seed.Log}, flow.MethodBudget(-1), flow.WithStore(&lastOnly{}), flow.Persist())
			if err != nil {
				b.Fatal(err)
			}
		})
		b.Run(fmt.Sprintf("state=%dKiB/baseline", size>>10), func(b *testing.B) {
			raw, _ := json.Marshal(seed)
			b.ReportAllocs()
			for b.Loop() {
				var s tally
				if err := json.Unmarshal(raw, &s); err != nil {
					b.Fatal(err)
				}
				s.N++
				if _, err := json.Marshal(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

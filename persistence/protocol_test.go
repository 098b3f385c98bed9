package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// The tests in this file run the protocol for states larger than one record, "payload before
// pointer", through every order in which its driver calls can interleave, over the real Store
// and the real in-memory driver. After each step a reader must be able to load a whole state;
// at the end nothing may be left that no head names.

const flowID = "f"

// world is what the actors of one schedule share.
type world struct {
	drv     driver.Driver
	clock   *clock
	results *results
	base    core.Revision // of the state that was there before, zero for none
	opts    []persistence.Option
	also    func(w *world) error // must hold after every step, too
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type results struct {
	mu sync.Mutex
	of map[string]error

	kept map[string]string // checkpoints that were acknowledged, by actor
}

func (r *results) set(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[name] = err
}

func (w *world) store() *persistence.Store {
	return persistence.New(w.drv, append(slices.Clone(w.opts), persistence.WithClock(w.clock.read))...)
}

// bigState takes two segments under the limits of the world: what it holds does not compress.
func bigState(name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"by":%q,"filler":"%s"}`, name, filler()))
}

var filler = sync.OnceValue(func() string {
	noise := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 900)
	for i := range b {
		b[i] = byte('#' + noise.IntN('Z'-'#'))
	}
	return string(b)
})

func save(name string) actor {
	return actor{name: name, run: func(w *world) {
		_, err := w.store().SaveState(context.Background(), core.Snapshot{FlowID: flowID, Method: name, State: bigState(name)})
		w.results.set(name, err)
	}}
}

// continueRun is the save of a live Run: a compare-and-swap on the revision it has.
func continueRun(name string) actor {
	return actor{name: name, run: func(w *world) {
		_, err := w.store().SaveState(context.Background(),
			core.Snapshot{FlowID: flowID, Method: name, State: bigState(name)}, core.IfRevision(w.base))
		w.results.set(name, err)
	}}
}

func sweep(name string) actor {
	return actor{name: name, run: func(w *world) {
		_, err := w.store().Sweep(context.Background(), flowID)
		w.results.set(name, err)
	}}
}

func remove(name string) actor {
	return actor{name: name, run: func(w *world) {
		w.results.set(name, w.store().Delete(context.Background(), flowID))
	}}
}

func expire(name string) actor { return elapse(name, time.Hour) }

func elapse(name string, d time.Duration) actor {
	return actor{name: name, run: func(w *world) {
		_, _ = w.drv.Get(context.Background(), driver.Partition("none").Head()) // the step before which others may act
		w.clock.advance(d)
		w.results.set(name, nil)
	}}
}

func lossy(a actor) actor {
	a.loseReply = 1
	return a
}

// protocolCase is one set of actors; initial says that a large state is there before.
type protocolCase struct {
	name    string
	initial bool
	actors  []actor
	opts    []persistence.Option
	also    func(w *world) error
	// mayConflict lists the actors that may end in ErrConflict.
	mayConflict []string
}

func protocolPairs() []protocolCase {
	ttl := []persistence.Option{persistence.WithTTL(30 * time.Minute)}
	return []protocolCase{
		{name: "save, sweep", initial: true, actors: []actor{save("A"), sweep("W")}},
		{name: "first save, sweep", actors: []actor{save("A"), sweep("W")}},
		{name: "save, delete", initial: true, actors: []actor{save("A"), remove("D")}},
		{name: "run, sweep", initial: true, actors: []actor{continueRun("R"), sweep("W")}},
		{name: "run, delete", initial: true, actors: []actor{continueRun("R"), remove("D")}, mayConflict: []string{"R"}},
		{name: "run, run", initial: true, actors: []actor{continueRun("R"), continueRun("S")}, mayConflict: []string{"R", "S"}},
		{name: "first save, first save", actors: []actor{save("A"), save("B")}},
		{name: "first save, delete", actors: []actor{save("A"), remove("D")}},
		{name: "lost reply: save, sweep", initial: true, actors: []actor{lossy(save("A")), sweep("W")}},
		{name: "lost reply: run, sweep", initial: true, actors: []actor{lossy(continueRun("R")), sweep("W")}},
		{name: "lost reply: run, save", initial: true, actors: []actor{lossy(continueRun("R")), save("A")}, mayConflict: []string{"R"}},
		{name: "lost reply: first save, delete", actors: []actor{lossy(save("A")), remove("D")}},
		{name: "expiry: save, sweep", initial: true, actors: []actor{save("A"), sweep("W"), expire("T")}, opts: ttl},
		{name: "expiry: run, sweep", initial: true, actors: []actor{continueRun("R"), sweep("W"), expire("T")}, opts: ttl, mayConflict: []string{"R"}},
		{name: "expiry: first save, delete", actors: []actor{save("A"), remove("D"), expire("T")}, opts: ttl},
		{name: "history: save, sweep", initial: true, actors: []actor{save("A"), sweep("W")}, opts: []persistence.Option{persistence.WithHistory(2)}},
	}
}

func protocolTriples() []protocolCase {
	return []protocolCase{
		{name: "save, save, sweep", initial: true, actors: []actor{save("A"), save("B"), sweep("W")}},
		{name: "save, sweep, delete", initial: true, actors: []actor{save("A"), sweep("W"), remove("D")}},
		{name: "run, save, sweep", initial: true, actors: []actor{continueRun("R"), save("A"), sweep("W")}, mayConflict: []string{"R"}},
		{name: "first save, sweep, sweep", actors: []actor{save("A"), sweep("V"), sweep("W")}},
		{name: "run, sweep, delete", initial: true, actors: []actor{continueRun("R"), sweep("W"), remove("D")}, mayConflict: []string{"R"}},
		{name: "lost reply: run, save, sweep", initial: true, actors: []actor{lossy(continueRun("R")), save("A"), sweep("W")}, mayConflict: []string{"R"}},
	}
}

// With the race detector, which makes a schedule some ten times slower, only the first ones of
// each case run; make check runs all of them without it.
func TestProtocolHoldsInEveryInterleavingOfPairs(t *testing.T) {
	for _, c := range append(protocolPairs(), besideHeadPairs()...) {
		bound := 0
		switch {
		case raceEnabled || testing.Short():
			bound = 150
		case c.also != nil:
			bound = 800
		case len(c.actors) > 2 || len(c.opts) > 0:
			bound = 3_000
		}
		explore(t, c, bound)
	}
}

var exploreBound = flag.Int("explore", 4_000, "interleavings of three actors to run, in order and again at random")

// Three actors have too many interleavings to take them all in a test that runs often.
func TestProtocolHoldsInInterleavingsOfTriples(t *testing.T) {
	bound := *exploreBound
	if raceEnabled || testing.Short() {
		bound = 150
	}
	for _, c := range protocolTriples() {
		explore(t, c, bound)
	}
	for _, c := range besideHeadTriples() {
		explore(t, c, bound/4)
	}
}

// explore runs every schedule of c, or with a bound the first ones in depth-first order and as
// many at random.
func explore(t *testing.T, c protocolCase, bound int) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			explored, violation := exploreAll(c, bound)
			if violation == nil && bound > 0 {
				violation = exploreRandomly(c, bound, rand.New(rand.NewPCG(7, uint64(bound))))
			}
			if violation != nil {
				t.Fatal(violation)
			}
			t.Logf("%d schedules in order, %d at random", explored, bound)
		})
	})
}

// TestExplorerFindsAViolation runs a sweep that fences before it lists, the naive order that
// loses data, to prove that the explorer would see it.
func TestExplorerFindsAViolation(t *testing.T) {
	naive := actor{name: "W", run: func(w *world) {
		ctx, part := context.Background(), driver.Partition(flowID)
		head, err := w.drv.Get(ctx, part.Head())
		if err != nil {
			return
		}
		if _, err := w.drv.Put(ctx, part.Head(), head, driver.IfTag(head.Tag)); err != nil {
			return
		}
		for r := range w.drv.Range(ctx, part, driver.RangeOptions{KeysOnly: true}) {
			if !strings.Contains(string(head.Data), strings.Split(r.Sort, "/")[2]) {
				_ = w.drv.Delete(ctx, part.Sibling(r.Sort), driver.Condition{})
			}
		}
	}}
	_, violation := exploreAll(protocolCase{initial: true, actors: []actor{save("A"), naive}}, 0)
	if violation == nil {
		t.Fatal("a sweep that fences before it lists went unnoticed")
	}
	t.Log("found:", violation)
}

// inBubble runs f where the pauses between the attempts of a save take no time. The shared
// compressor is made before, since it must not belong to one bubble.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	w := newWorld(protocolCase{})
	state := json.RawMessage(`{"by":"init","filler":"` + strings.Repeat("long ", 500) + `"}`)
	if _, err := w.store().SaveState(t.Context(), core.Snapshot{FlowID: flowID, State: state}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store().LoadState(t.Context(), flowID); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, f)
}

// exploreAll runs every schedule, depth first, or the first bound of them.
func exploreAll(c protocolCase, bound int) (int, error) {
	schedules := 0
	for prefix := []int{}; prefix != nil; {
		taken, open, err := runSchedule(c, func(step int, alive []int) int {
			if step < len(prefix) {
				return prefix[step]
			}
			return 0
		})
		schedules++
		if err != nil {
			return schedules, fmt.Errorf("schedule %v: %w", taken, err)
		}
		if bound > 0 && schedules >= bound {
			return schedules, nil
		}
		prefix = next(taken, open)
	}
	return schedules, nil
}

// next returns the prefix of the next schedule in depth-first order: the last choice that can
// be raised is raised.
func next(taken, open []int) []int {
	for i, choice := range slices.Backward(taken) {
		if choice+1 < open[i] {
			return append(slices.Clone(taken[:i]), choice+1)
		}
	}
	return nil
}

func exploreRandomly(c protocolCase, n int, r *rand.Rand) error {
	for range n {
		taken, _, err := runSchedule(c, func(_ int, alive []int) int { return r.IntN(len(alive)) })
		if err != nil {
			return fmt.Errorf("schedule %v: %w", taken, err)
		}
	}
	return nil
}

// runSchedule runs the actors once. choose picks one of the actors that are not over; the
// choices, and how many there were to choose from, come back.
func runSchedule(c protocolCase, choose func(step int, alive []int) int) (taken, open []int, err error) {
	w := newWorld(c)
	var actors []*running
	for _, a := range c.actors {
		actors = append(actors, start(a, w))
	}
	for step := 0; ; step++ {
		if err == nil {
			err = w.check()
		}
		var alive []int
		for i, a := range actors {
			if !a.over {
				alive = append(alive, i)
			}
		}
		if len(alive) == 0 {
			break
		}
		pick := choose(step, alive)
		taken, open = append(taken, pick), append(open, len(alive))
		actors[alive[pick]].step()
	}
	if err == nil {
		err = w.checkEnd(c)
	}
	return taken, open, err
}

// protocolLimits makes bigState take segments.
var protocolLimits = driver.Limits{Record: 1 << 10, Inline: 512}

func newWorld(c protocolCase) *world {
	clk := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w := &world{
		drv:     inmem.New(inmem.Config{Limits: protocolLimits, Now: clk.read}),
		clock:   clk,
		results: &results{of: map[string]error{}, kept: map[string]string{}},
		opts:    c.opts,
		also:    c.also,
	}
	if c.initial {
		saved, err := w.store().SaveState(context.Background(), core.Snapshot{FlowID: flowID, Method: "init", State: bigState("init")})
		if err != nil {
			panic(err)
		}
		w.base = saved.Revision
	}
	return w
}

// check is what must hold after every step: whoever reads finds a whole state or none.
func (w *world) check() error {
	if w.also != nil {
		if err := w.also(w); err != nil {
			return err
		}
	}
	snap, err := w.store().LoadState(context.Background(), flowID)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if want := bigState(snap.Method); string(snap.State) != string(want) {
		return fmt.Errorf("the state of %q is not the one that %q saved", snap.Method, snap.Method)
	}
	return nil
}

// checkEnd is what must hold when all actors are over.
func (w *world) checkEnd(c protocolCase) error {
	for name, err := range w.results.of {
		if err == nil || errors.Is(err, core.ErrConflict) && slices.Contains(c.mayConflict, name) {
			continue
		}
		return fmt.Errorf("%s ended in %w", name, err)
	}
	if c.name == "run, run" && (w.results.of["R"] == nil) == (w.results.of["S"] == nil) {
		return fmt.Errorf("of two runs exactly one must win: R: %w, S: %w", w.results.of["R"], w.results.of["S"])
	}
	if _, err := w.store().Sweep(context.Background(), flowID); err != nil {
		return err
	}
	return w.checkLeftovers()
}

// checkLeftovers compares the siblings with what the head names.
func (w *world) checkLeftovers() error {
	ctx, part := context.Background(), driver.Partition(flowID)
	head, err := w.drv.Get(ctx, part.Head())
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	for r, err := range w.drv.Range(ctx, part, driver.RangeOptions{}) {
		if err != nil {
			return err
		}
		kind, rest, _ := strings.Cut(r.Sort, "/")
		id := strings.Split(rest, "/")[1]
		if w.isCheckpoint(rest) {
			continue
		}
		if kind == "seg" && len(w.opts) == 0 && !strings.Contains(string(head.Data), id) {
			return fmt.Errorf("the segment %s is left, and no head names it", r.Sort)
		}
		if head.Data == nil {
			return fmt.Errorf("the sibling %s is left without a head", r.Sort)
		}
	}
	return w.check()
}

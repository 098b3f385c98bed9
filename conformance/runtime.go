package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func resumeIsExact() law {
	return law{
		layer: runtimeLayer, name: "resume_is_exact",
		text: "A flow that was cut off anywhere and resumed ends like one that never was; what was saved never runs again.",
		cases: []testCase{
			{"cut_after_every_write", func(c *caseRun) { cutAndResume(c, c.open(), 0) }},
			{"cut_after_every_write_large_states", func(c *caseRun) { cutAndResume(c, c.openTight(), 700) }},
			{"replies_lost", repliesLost},
			{"finished_runs_nothing", finishedRunsNothing},
			{"outage_is_no_fresh_start", outageIsNoFreshStart},
			{"changed_graph_is_refused", changedGraph},
			{"state_with_a_new_field", newField},
		},
	}
}

// tally is the state of the suite's flow.
type tally struct {
	ID    string         `json:"id"`
	Count int            `json:"count"`
	Calls map[string]int `json:"calls"`
	Exact json.Number    `json:"exact"` // one that a float64 does not hold
	Pad   string         `json:"pad"`
}

// witness sees what the methods of a run do, outside of its state.
type witness struct {
	mu     sync.Mutex
	ran    []string        // activation ids, in order
	saved  map[string]bool // activation ids whose completion was announced as stored
	before func(method string)
}

func (w *witness) enter(method, activation string) {
	w.mu.Lock()
	w.ran = append(w.ran, activation)
	before := w.before
	w.mu.Unlock()
	if before != nil {
		before(method)
	}
}

// observe notes completions that are stored: the runtime announces none before.
func (w *witness) observe(_ context.Context, e flow.Event) {
	if f, ok := e.(flow.MethodFinished); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.saved == nil {
			w.saved = map[string]bool{}
		}
		w.saved[f.ActivationID] = true
	}
}

// rounds of the suite's flow's loop.
const loops = 3

// tallyFlow has a start, two listeners side by side, their join, and a loop that a router
// leaves after three rounds. All methods do the same: they count themselves.
func tallyFlow(w *witness, pad string) (*flow.Definition[tally], error) {
	const more, done = flow.Label[int]("more"), flow.Label[int]("done")
	count := func(_ context.Context, run *flow.Run[tally]) (int, error) {
		w.enter(run.Method(), run.ActivationID())
		var n int
		err := run.State().Update(func(s *tally) error {
			calls := maps.Clone(s.Calls)
			if calls == nil {
				calls = map[string]int{}
			}
			calls[run.Method()]++
			s.Count++
			s.Calls, s.Exact, s.Pad, n = calls, "9007199254740993", pad, s.Count
			return nil
		})
		return n, err
	}
	listener := func(ctx context.Context, run *flow.Run[tally], _ int) (int, error) { return count(ctx, run) }
	b := flow.New[tally]("conformance")
	receive := flow.Start(b, "receive", count)
	left := flow.Listen(b, "left", listener, receive)
	right := flow.Listen(b, "right", listener, receive)
	joined := flow.Listen(b, "joined", func(ctx context.Context, run *flow.Run[tally], _ any) (int, error) { return count(ctx, run) }, flow.And(left, right))
	flow.Router(b, "decide", func(ctx context.Context, run *flow.Run[tally], _ int) (flow.Route, error) {
		n, err := count(ctx, run)
		if run.Call() <= loops {
			return flow.To(more, n), err
		}
		return flow.To(done, n), err
	}, flow.Or(joined, flow.On[int]("work")), flow.Emits(more, done))
	flow.Listen(b, "work", listener, more)
	flow.Listen(b, "finish", listener, done, flow.Output())
	return b.Build()
}

// attempt is one process: it runs or resumes a flow over a store until that fails.
type attempt struct {
	witness
	result *flow.Result[tally]
	err    error
}

// run resumes the flow, or begins it where there is none yet.
func (c *caseRun) run(s core.FlowPersistence, flowID, pad string, before func(method string)) *attempt {
	a := &attempt{witness: witness{before: before}}
	def, err := tallyFlow(&a.witness, pad)
	if err != nil {
		a.err = fmt.Errorf("building the flow: %w", err)
		return a
	}
	opts := []flow.RunOption{flow.WithStore(s), flow.Persist(), flow.WithObserver(a.observe), flow.SaveRetry{Attempts: 1}}
	a.result, a.err = def.Resume(c.ctx, flowID, opts...)
	if errors.Is(a.err, core.ErrNotFound) {
		a.result, a.err = def.Kickoff(c.ctx, flow.Inputs{"id": flowID}, opts...)
	}
	return a
}

// wantFinal demands the end that a run without interruption has.
func (c *caseRun) wantFinal(d driver.Driver, a *attempt, flowID, pad, what string) {
	c.Helper()
	if a.err != nil || a.result == nil || !a.result.Finished {
		c.Errorf("%s: the run did not finish: %v", what, a.err)
		return
	}
	want := tally{ID: flowID, Count: 2*loops + 6, Exact: "9007199254740993", Pad: pad, Calls: map[string]int{
		"receive": 1, "left": 1, "right": 1, "joined": 1, "decide": loops + 1, "work": loops, "finish": 1,
	}}
	if got := a.result.State; !maps.Equal(got.Calls, want.Calls) || got.Count != want.Count || got.Exact != want.Exact || got.Pad != want.Pad || got.ID != flowID {
		c.Errorf("%s: the final state is %+v, want %+v", what, got, want)
	}
	if !maps.Equal(a.result.Completed, want.Calls) {
		c.Errorf("%s: completed are %v, want %v", what, a.result.Completed, want.Calls)
	}
	if string(a.result.Output) != strconv.Itoa(want.Count) {
		c.Errorf("%s: the output is %s, want %d", what, a.result.Output, want.Count)
	}
	text, err := json.Marshal(want)
	if err != nil {
		c.Fatalf("%v", err)
	}
	if err := sameJSON(c.load(c.store(d), flowID).State, text); err != nil {
		c.Errorf("%s: the stored state: %v", what, err)
	}
}

// wantNoRepeats demands that nothing ran after it had been announced as stored.
func (c *caseRun) wantNoRepeats(what string, attempts ...*attempt) {
	c.Helper()
	stored := map[string]bool{}
	for i, a := range attempts {
		for _, id := range a.ran {
			if stored[id] {
				c.Errorf("%s: attempt %d ran %s again, of which the completion was stored", what, i+1, id)
			}
		}
		maps.Copy(stored, a.saved)
	}
	if want := 2*loops + 6; len(stored) != want {
		c.Errorf("%s: %d completions were announced in all, want %d", what, len(stored), want)
	}
}

// cutAndResume cuts the store off after every physical write in turn.
func cutAndResume(c *caseRun, d driver.Driver, size int) {
	pad := string(c.noise(size))
	for cut := 0; ; cut++ {
		id, what := c.flow(fmt.Sprint("f", cut)), fmt.Sprintf("cut after %d writes", cut)
		f := newFaultDriver(d)
		f.cut = cut
		first := c.run(c.store(f), id, pad, nil)
		if first.err == nil {
			if cut == 0 {
				c.Fatalf("the flow finished without a write")
			}
			c.wantFinal(d, first, id, pad, "never cut")
			c.wantNoRepeats("never cut", first)
			return
		}
		if !errors.Is(first.err, core.ErrUnavailable) {
			c.Errorf("%s: the run returned %v, want one that wraps ErrUnavailable", what, first.err)
		}
		second := c.run(c.store(d), id, pad, nil)
		c.wantFinal(d, second, id, pad, what)
		c.wantNoRepeats(what, first, second)
		if c.Failed() {
			return
		}
	}
}

// repliesLost drops the reply to each head in turn, without anything being cut: the run must
// recognize its own save, or stop and be resumed.
func repliesLost(c *caseRun) {
	d := c.open()
	for n := range 2*loops + 6 {
		for kind, name := range map[reply]string{lost: "lost", retried: "lost and retried"} {
			id, what := c.flow(fmt.Sprintf("f%d %s", n, name)), fmt.Sprintf("reply %d %s", n, name)
			f := newFaultDriver(d)
			f.lose = map[int]reply{n: kind}
			first := c.run(c.store(f), id, "", nil)
			if errors.Is(first.err, core.ErrConflict) {
				c.Errorf("%s: the run took its own save for another's: %v", what, first.err)
			}
			attempts := []*attempt{first}
			if first.err != nil {
				attempts = append(attempts, c.run(c.store(d), id, "", nil))
			}
			c.wantFinal(d, attempts[len(attempts)-1], id, "", what)
		}
	}
}

func finishedRunsNothing(c *caseRun) {
	d := c.openTight()
	id := c.flow("f")
	first := c.run(c.store(d), id, "", nil)
	c.wantFinal(d, first, id, "", "first")
	before := c.dump(d)
	again := c.run(c.store(d), id, "", nil)
	if len(again.ran) > 0 {
		c.Errorf("Resume of a finished flow ran %q", again.ran)
	}
	c.wantFinal(d, again, id, "", "resumed when finished")
	c.wantUnchanged(d, before, "after Resume of a finished flow")
}

// outageIsNoFreshStart demands that a store that cannot be read stops a run before it starts.
func outageIsNoFreshStart(c *caseRun) {
	d := c.openTight()
	id := c.flow("f")
	c.wantFinal(d, c.run(c.store(d), id, "", nil), id, "", "first")
	before := c.dump(d)
	f := newFaultDriver(d)
	f.reads = core.ErrUnavailable
	var w witness
	def, err := tallyFlow(&w, "")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	_, err = def.Resume(c.ctx, id, flow.WithStore(c.store(f)))
	c.wantErr(err, core.ErrUnavailable, "Resume in an outage")
	_, err = def.Kickoff(c.ctx, flow.Inputs{"id": id}, flow.WithStore(c.store(f)), flow.Persist())
	c.wantErr(err, core.ErrUnavailable, "Kickoff in an outage")
	if len(w.ran) > 0 {
		c.Errorf("in an outage these ran: %q", w.ran)
	}
	c.wantUnchanged(d, before, "after an outage")
}

func oneResumerWins() law {
	return law{
		layer: runtimeLayer, name: "one_resumer_wins",
		text: "Of two processes that resume one flow exactly one goes on; the other is told ErrConflict and has stored nothing.",
		cases: []testCase{
			{"small_states", func(c *caseRun) { twoResumers(c, 0) }},
			{"large_states", func(c *caseRun) { twoResumers(c, 700) }},
		},
	}
}

// twoResumers holds both at the first method that they run, so that each has loaded the flow
// before the other saves.
func twoResumers(c *caseRun, size int) {
	d := c.openTight()
	pad := string(c.noise(size))
	id := c.flow("f")
	f := newFaultDriver(d)
	f.cut = 3
	first := c.run(c.store(f), id, pad, nil)
	if first.err == nil {
		c.Fatalf("a flow that was cut off after three writes finished")
	}
	const workers = 2
	var arrived sync.WaitGroup
	arrived.Add(workers)
	attempts := make([]*attempt, workers)
	c.parallel(workers, func(i int) error {
		var once sync.Once
		attempts[i] = c.run(c.store(d), id, pad, func(string) {
			once.Do(func() {
				arrived.Done()
				arrived.Wait()
			})
		})
		return nil
	})
	won := slices.IndexFunc(attempts, func(a *attempt) bool { return a.err == nil })
	if won < 0 {
		c.Fatalf("neither of two resumers finished: %v; %v", attempts[0].err, attempts[1].err)
	}
	loser := attempts[1-won]
	c.wantErr(loser.err, core.ErrConflict, "the second of two resumers")
	if len(loser.saved) > 0 {
		c.Errorf("the resumer that lost has stored %d completions", len(loser.saved))
	}
	c.wantFinal(d, attempts[won], id, pad, "the resumer that won")
	c.wantNoRepeats("the resumer that won", first, attempts[won])
}

func forksAreApart() law {
	return law{
		layer: runtimeLayer, name: "forks_are_apart",
		text: "A fork begins with the state of another flow under an id of its own, and never writes to the flow it came from.",
		cases: []testCase{
			{"source_is_untouched", sourceIsUntouched},
			{"missing_source", missingSource},
			{"onto_an_existing_flow", forkOntoFlow},
		},
	}
}

func sourceIsUntouched(c *caseRun) {
	d := c.openTight()
	source, fork := c.flow("f"), c.flow("f/fork")
	s := c.store(d, persistence.WithHistory(2))
	c.wantFinal(d, c.run(s, source, "", nil), source, "", "source")
	before := c.dump(d)
	var w witness
	def, err := tallyFlow(&w, "")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	result, err := def.Kickoff(c.ctx, flow.Inputs{"id": fork}, flow.RestoreFrom(source), flow.WithStore(c.store(d)), flow.Persist())
	if err != nil {
		c.Fatalf("Kickoff of a fork failed: %v", err)
	}
	if result.FlowID != fork || result.State.ID != fork || result.State.Count != 2*(2*loops+6) || result.State.Exact != "9007199254740993" {
		c.Errorf("the fork %q ended with the state %+v, want the source's, counted on", result.FlowID, result.State)
	}
	after := c.dump(d)
	for k := range after {
		if string(k.Partition) == fork {
			delete(after, k)
		}
	}
	if !slices.Equal(before.keys(), after.keys()) {
		c.Errorf("a fork changed the records of its source from %q to %q", before.keys(), after.keys())
	}
	for k, r := range before {
		if after[k].Tag != r.Tag {
			c.Errorf("a fork wrote %s", show(k))
		}
	}
	if n := c.load(c.store(d), fork).Revision.N; n != 2*loops+6 {
		c.Errorf("the fork has the revision %d after %d completions", n, 2*loops+6)
	}
}

func missingSource(c *caseRun) {
	d := c.openTight()
	var w witness
	def, err := tallyFlow(&w, "")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	_, err = def.Kickoff(c.ctx, flow.Inputs{"id": c.flow("fork")}, flow.RestoreFrom(c.flow("absent")), flow.MustExist(), flow.WithStore(c.store(d)), flow.Persist())
	c.wantErr(err, core.ErrNotFound, "Kickoff of a fork of no flow")
	if len(w.ran) > 0 {
		c.Errorf("a fork of no flow ran %q", w.ran)
	}
	if left := c.dump(d); len(left) > 0 {
		c.Errorf("a fork of no flow left %q", left.keys())
	}
}

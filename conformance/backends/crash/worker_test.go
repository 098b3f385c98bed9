//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// workerJob is the environment variable that makes a process of this binary a worker.
const workerJob = "WEIR_CRASH_WORKER"

// job is what a worker has to do.
type job struct {
	Seed   uint64 `json:"seed"`
	URL    string `json:"url"`
	Ledger string `json:"ledger"`
	Strike strike `json:"strike"`
}

// How a worker ends, by its exit status, if it is not killed.
const (
	exitDone   = 0 // the flow is at its end; the outcome is on the standard output
	exitFailed = 1
	exitPaused = 3 // it waits for an answer, from another process
	exitLost   = 4 // another process was faster
)

// keepCheckpoints is how many a flow keeps.
const keepCheckpoints = 2

func flowID(seed uint64) string { return fmt.Sprintf("crash/%d", seed) }

// outcome is what a flow came to.
type outcome struct {
	State     world           `json:"state"`
	Output    json.RawMessage `json:"output"`
	Outputs   []string        `json:"outputs"`
	Completed map[string]int  `json:"completed"`
	Feedback  []string        `json:"feedback"`
}

func outcomeOf(r *flow.Result[world]) outcome {
	out := outcome{State: r.State, Output: r.Output, Completed: r.Completed}
	for _, o := range r.Outputs {
		out.Outputs = append(out.Outputs, o.Method+": "+string(o.Output))
	}
	for _, f := range r.Feedback {
		out.Feedback = append(out.Feedback, fmt.Sprintf("%s %s: %q %q", f.Method, f.Output, f.Text, f.Outcome))
	}
	return out
}

// runWorker is the main function of a worker.
func runWorker(text string) int {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	var res *flow.Result[world]
	if err == nil {
		res, err = j.run(context.Background())
	}
	switch {
	case errors.Is(err, core.ErrConflict):
		return exitLost
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	case res.Paused:
		return exitPaused
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcomeOf(res)); err != nil {
		return exitFailed
	}
	return exitDone
}

func (j *job) run(ctx context.Context) (*flow.Result[world], error) {
	book, err := openLedger(j.Ledger)
	if err != nil {
		return nil, err
	}
	m := lay(j.Strike, book)
	d, err := persistence.OpenDriver(ctx, j.URL)
	if err != nil {
		return nil, err
	}
	watched, err := newMined(d, m)
	if err != nil {
		return nil, err
	}
	fmt.Println("ready")
	w := &worker{player: player{seed: j.Seed, out: &minedBook{m}}, mine: m, store: &bookedStore{openStore(watched), book}}
	res, err := w.play(ctx)
	return res, errors.Join(err, d.Close())
}

// openStore makes small states and logs take several records.
func openStore(d driver.Driver) *persistence.Store {
	return persistence.New(d, persistence.WithLimits(driver.Limits{Record: 2048, Inline: 1600}), persistence.WithHistory(2))
}

// worker is a process that takes a flow as far as it comes.
type worker struct {
	player

	mine  *mine // nil: nothing strikes
	store core.FlowPersistence
	wrong error // of the observer, which cannot return one
}

// play goes on with the flow and answers what it waited for; not what it waits for then.
func (w *worker) play(ctx context.Context) (*flow.Result[world], error) {
	res, err := w.goOn(ctx)
	if err != nil || !res.Paused {
		return res, err
	}
	first := res.Pending[0]
	return w.goOn(ctx, flow.Answer(first.ID, w.opinion(first)))
}

func (w *worker) goOn(ctx context.Context, more ...flow.RunOption) (*flow.Result[world], error) {
	def, err := w.definition()
	if err != nil {
		return nil, err
	}
	id := flowID(w.seed)
	opts := slices.Concat(more, []flow.RunOption{
		flow.WithStore(w.store), flow.Persist(), flow.KeepLog(), flow.KeepOutputs(), flow.Concurrency(1),
		flow.WithCheckpoints(checkpoint.Config{Keep: keepCheckpoints, Required: true}), flow.WithObserver(w.observe),
	})
	var res *flow.Result[world]
	switch _, missing := w.store.LoadState(ctx, id); {
	case errors.Is(missing, core.ErrNotFound):
		res, err = def.Kickoff(ctx, flow.Inputs{"id": id}, opts...)
	case missing != nil:
		return nil, missing
	default:
		res, err = def.Resume(ctx, id, opts...)
	}
	return res, errors.Join(err, w.wrong)
}

// told are the points at which a run tells about itself.
func told(e flow.Event) string {
	switch e.(type) {
	case flow.StateSaved:
		return "save told"
	case flow.MethodFinished:
		return "finish told"
	case flow.RequestOpened:
		return "request told"
	case flow.RequestAnswered:
		return "answer told"
	case flow.CheckpointSaved:
		return "checkpoint told"
	}
	return ""
}

func (w *worker) observe(_ context.Context, e flow.Event) {
	if w.mine == nil {
		return
	}
	if a, ok := e.(flow.RequestAnswered); ok {
		w.wrong = errors.Join(w.wrong, w.mine.book.write(line{Kind: lineAnswered, Request: a.Feedback.Request}))
	}
	if point := told(e); point != "" {
		w.wrong = errors.Join(w.wrong, w.mine.pass(point))
	}
}

// minedBook writes side effects down, with a point before and after.
type minedBook struct{ mine *mine }

func (b *minedBook) did(call string) error {
	if err := b.mine.pass("method"); err != nil {
		return err
	}
	if err := b.mine.book.write(line{Kind: lineDid, Call: call}); err != nil {
		return err
	}
	return b.mine.pass("method done")
}

// bookedStore is a Store whose saves and loads are written down.
type bookedStore struct {
	*persistence.Store

	book *ledger
}

func (s *bookedStore) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	l, err := snapshot(lineSaving, snap, nil)
	if err != nil {
		return core.Saved{}, err
	}
	if err := s.book.write(l); err != nil {
		return core.Saved{}, err
	}
	saved, err := s.Store.SaveState(ctx, snap, opts...)
	if err == nil {
		l.Kind, l.N = lineSaved, saved.Revision.N
		err = s.book.write(l)
	}
	return saved, err
}

func (s *bookedStore) LoadState(ctx context.Context, id string) (core.Snapshot, error) {
	snap, err := s.Store.LoadState(ctx, id)
	if err != nil {
		return snap, err
	}
	open, err := flow.Pending(ctx, given{snap}, id)
	if err != nil {
		return snap, err
	}
	l, err := snapshot(lineLoaded, snap, open)
	if err != nil {
		return snap, err
	}
	return snap, s.book.write(l)
}

// given holds one snapshot that was loaded already.
type given struct{ snap core.Snapshot }

func (g given) LoadState(context.Context, string) (core.Snapshot, error) { return g.snap, nil }

func (given) SaveState(context.Context, core.Snapshot, ...core.SaveOption) (core.Saved, error) {
	return core.Saved{}, core.ErrUnsupported
}

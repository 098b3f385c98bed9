package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// Kickoff performs one run of the flow from its starts and returns when all of it is over.
//
// The state is made of three layers, each replacing top-level keys of the one below: the
// flow's initial state; a stored one, if there is a store and it holds the flow that the
// input "id" names, or that RestoreFrom names; the inputs. An input that the state has no
// field for is an error. Kickoff always begins a new run, also on a flow that has run
// before; Resume is what continues one.
//
// The error is a MethodError for each method that failed, joined; a SaveError, BudgetError
// or InputError; or wraps a sentinel of package core or the context's error. Once the run
// has begun the Result is not nil, whatever the error. When one method fails, the context of
// the others ends and Kickoff waits for them: what they still complete is recorded and saved,
// and what would follow is left to Resume.
func (d *Definition[S]) Kickoff(ctx context.Context, in Inputs, opts ...RunOption) (*Result[S], error) {
	cfg := newRunConfig(opts)
	if err := d.needStore(&cfg); err != nil {
		return nil, fail("kickoff", "", err)
	}
	if len(cfg.answers) > 0 {
		return nil, fail("kickoff", "", errors.New("Answer is for Resume"))
	}
	if err := cfg.check(); err != nil {
		return nil, fail("kickoff", "", err)
	}
	if cfg.from != nil {
		return d.kickoffFrom(ctx, in, &cfg)
	}
	h, err := d.hydrate(ctx, in, &cfg)
	if err != nil {
		return nil, err
	}
	e := d.newEngine(&cfg)
	e.flowID, e.revision, e.committed = h.flowID, h.revision, h.state
	begins := LogEntry{}
	if h.from != h.flowID {
		e.from, begins.FromRevision = h.from, h.restored.N
	}
	e.runID = newUUID()
	if cfg.persist {
		e.runID = derivedRunID(&h)
	}
	e.sched = scheduler.NewState(d.graph, e.limits())
	e.noteStart(begins)
	e.open(ctx, FlowStarted{EventOrigin: e.origin(), RestoredFrom: h.from, RestoredRevision: h.restored, State: slices.Clone(h.state)})
	err = e.run(ctx, e.sched.Kickoff())
	return d.result(e, err)
}

// derivedRunID names a run after what it begins with: the flow, the revision it builds on and
// the state. Only one run can be stored on top of a revision, so the name is unique among
// stored runs; and when a process dies before its first save, the kickoff that is made in its
// place has the same one, and with it the same activation ids.
func derivedRunID(h *hydrated) string {
	return derivedName([]byte(h.flowID), []byte(h.revision.Tag), h.state)
}

// derivedName is a name made of parts: the same for the same ones, and for no others.
func derivedName(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Resume goes on with the newest run of a flow exactly where its last save left it: methods
// that were due or in flight are started (again, with the activation ids they had), and
// nothing that completed is. A run that had finished returns its recorded result without
// running anything. It needs WithStore and goes on saving as the run did.
//
// A flow that another program paused for a person, and whose request Pending lists (see
// core.ForeignRequests), is taken over with the state it was paused with: the method of the
// request needs a Review, everything that follows from the answer follows, and the run saves
// as with Persist. What that program did not store is not known: other branches that were
// under way, and what a join has seen.
//
// The error is core.ErrNotFound if there is no such flow; core.ErrUnsupported if the flow has
// state but neither progress nor such a request (another program wrote it; Kickoff restores
// it), if its request is for a method without a Review, or if its progress has a newer format;
// a ChangedError if the graph is not the one it was saved with; and whatever Kickoff may return.
func (d *Definition[S]) Resume(ctx context.Context, flowID string, opts ...RunOption) (*Result[S], error) {
	cfg := newRunConfig(opts)
	if err := cfg.checkResume(); err != nil {
		return nil, fail("resume", flowID, err)
	}
	var lost error // why an attempt was in vain that no next one may tell
	for attempt := 1; ; attempt++ {
		e, step, err := d.reload(ctx, flowID, &cfg)
		if errors.Is(err, errNoProgress) && lost != nil {
			err = lost
		}
		if err != nil {
			return nil, fail("resume", flowID, err)
		}
		if step.Finished && len(cfg.answers) == 0 {
			return d.result(e, nil)
		}
		started := FlowStarted{EventOrigin: e.origin(), Resumed: true, State: slices.Clone(e.committed)}
		err = e.claim(ctx, &step)
		if errors.Is(err, core.ErrConflict) && !errors.Is(err, ErrAnswered) && !core.OutcomeUnknown(err) && attempt < maxClaims {
			if e.answering != "" { // if it is gone next time, its own program took an answer
				lost = notOpen(cfg.answers[0].id)
			}
			continue // the flow went on meanwhile; the request may still be open, and this answer was not taken
		}
		if err != nil {
			return nil, fail("resume", flowID, err)
		}
		if len(cfg.answers) == 0 && cfg.provider != nil {
			e.untold = slices.Clone(e.pending)
		}
		e.open(ctx, started)
		err = e.run(ctx, step)
		return d.result(e, err)
	}
}

// checkResume refuses options that are not for Resume.
func (c *runConfig) checkResume() error {
	switch {
	case c.store == nil:
		return errNoStore
	case c.restoring:
		return errors.New("RestoreFrom is for Kickoff; a resumed flow has its state already")
	case len(c.answers) > 1:
		return errors.New("there are several answers; give them one after another")
	case c.from != nil || c.fork:
		return errors.New("FromCheckpoint and Fork are for Kickoff; Resume goes on from what was saved last")
	}
	return c.check()
}

// maxClaims is how often an answer is tried while the flow goes on under another process.
const maxClaims = 20

// reload makes an engine of what is stored.
func (d *Definition[S]) reload(ctx context.Context, flowID string, cfg *runConfig) (*engine, scheduler.Step, error) {
	snap, foreign, err := load(ctx, cfg.store, flowID)
	if err != nil {
		return nil, scheduler.Step{}, err
	}
	e := d.newEngine(cfg)
	if foreign != nil {
		step, err := d.inherit(e, foreign)
		return e, step, err
	}
	step, err := e.restore(snap, &d.fingerprint)
	if err != nil {
		return nil, step, err
	}
	if err := decodeJSON(snap.State, new(S)); err != nil {
		return nil, step, fmt.Errorf("the stored state does not fit the flow's: %w", err)
	}
	return e, step, nil
}

// needStore refuses persistence without a store before anything runs.
func (d *Definition[S]) needStore(cfg *runConfig) error {
	if cfg.store != nil {
		return nil
	}
	if cfg.persist {
		return fmt.Errorf("Persist: %w", errNoStore)
	}
	for i := range d.methods {
		if d.methods[i].persist == persistOn {
			return fmt.Errorf("method %q has Persist: %w", d.methods[i].name, errNoStore)
		}
	}
	return nil
}

func (d *Definition[S]) newEngine(cfg *runConfig) *engine {
	return &engine{
		flow: d.name, methods: d.methods, graph: d.graph, output: d.output,
		fingerprint: &d.fingerprint, cfg: cfg,
		writer: newUUID(), last: map[string]json.RawMessage{}, answers: map[uint64][]string{}, recorder: cfg.newRecorder(),
	}
}

// result is what a run came to.
func (d *Definition[S]) result(e *engine, runErr error) (*Result[S], error) {
	r := &Result[S]{
		FlowID: e.flowID, Outputs: e.outputs, Completed: make(map[string]int),
		Revision: e.revision, Finished: runErr == nil && !e.paused, Paused: e.paused && runErr == nil, last: e.last, Output: e.finalOutput(),
		Pending: requests(e.pending), Feedback: slices.Clone(e.feedback),
	}
	for i := range d.methods {
		if n := e.sched.Completed(i); n > 0 {
			r.Completed[d.methods[i].name] = n
		}
	}
	if err := decodeJSON(e.committed, &r.State); err != nil {
		runErr = errors.Join(runErr, fail("decode state", e.flowID, err))
	}
	return r, runErr
}

var errNoProgress = fmt.Errorf("it has state but no progress to go on from (another program may have written it; Kickoff with its id restores the state): %w", core.ErrUnsupported)

// restore takes a snapshot over into an engine that has not run.
func (e *engine) restore(snap core.Snapshot, now *fingerprint) (scheduler.Step, error) {
	if len(snap.Progress) == 0 {
		return scheduler.Step{}, errNoProgress
	}
	p, err := decodeProgress(snap.Progress)
	if err != nil {
		return scheduler.Step{}, err
	}
	if changed := now.compare(p.Flow, p.Methods); changed != nil && !e.cfg.acceptChanges {
		changed.FlowID = snap.FlowID
		return scheduler.Step{}, changed
	}
	e.flowID, e.revision, e.committed = snap.FlowID, snap.Revision, snap.State
	e.runID, e.saves, e.lastMethod, e.from = p.Run, p.Saves, p.Last, p.From
	e.outputs, e.keepOutputs = p.Outputs, p.KeepOutputs
	e.cfg.persist = e.cfg.persist || p.Persist
	if p.Latest != nil {
		e.last = p.Latest
	}
	sched, step, err := scheduler.Decode(e.graph, e.limits(), p.Scheduler)
	switch {
	case errors.Is(err, scheduler.ErrVersion):
		return step, fmt.Errorf("%w: %w", core.ErrUnsupported, err)
	case err != nil:
		return step, fmt.Errorf("%w: %w", core.ErrCorrupt, err)
	}
	e.sched = sched
	e.feedback = p.Feedback
	e.journal = journal{keep: p.Log || e.cfg.keepLog, previous: p.Entry, triggers: p.Triggers}
	if p.Branch != "" {
		e.recorder.Branch = p.Branch
	}
	e.recorder.Follow(p.ParentFlow, p.Parent)
	e.recorder.Continue(e.flowID, e.runID)
	if p.Answers != nil {
		e.answers = p.Answers
	}
	return e.restorePending(p.Pending, step)
}

// restorePending takes the open requests over and has their calls wait, also one that was in
// flight when the process died. Those of calls that are gone with their methods are dropped.
func (e *engine) restorePending(list []*pending, step scheduler.Step) (scheduler.Step, error) {
	for _, p := range list {
		if err := e.sched.Park(p.Seq); err != nil && !e.cfg.acceptChanges {
			return step, fmt.Errorf("%w: request %q: %w", core.ErrCorrupt, p.ID, err)
		} else if err == nil {
			p.stored, p.FlowID = true, e.flowID
			e.pending = append(e.pending, p)
		}
	}
	for _, a := range e.sched.Active() {
		if a.Waiting && !slices.ContainsFunc(e.pending, func(p *pending) bool { return p.Seq == a.Seq }) {
			return step, fmt.Errorf("%w: call %d waits for no request", core.ErrCorrupt, a.Seq)
		}
	}
	return e.sched.Restart(), nil
}

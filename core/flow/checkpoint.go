package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// WithCheckpoints has the run keep checkpoints of itself. It holds for that Kickoff or Resume
// only. The store of FromCheckpoint is the Config's provider, too.
func WithCheckpoints(c checkpoint.Config) RunOption {
	return runOption(func(r *runConfig) { r.checkpoints = &c })
}

// FromCheckpoint makes Kickoff begin from a checkpoint instead of from the flow's starts: the
// run goes on from there as Resume would have at that moment, with the inputs merged over the
// state. Methods that had completed are not run again.
//
// It is the same flow, which goes back to that checkpoint: if the run persists, that is stored
// before anything runs, as the flow's newest revision. With Fork it is another flow. Either
// way it is a new run, whose calls have activation ids of their own.
//
// A checkpoint of another definition is refused as by Resume, see AcceptChanges. FromCheckpoint
// and RestoreFrom exclude each other.
func FromCheckpoint(ref checkpoint.Ref) RunOption {
	return runOption(func(r *runConfig) { r.from = &ref })
}

// Fork has FromCheckpoint begin a new flow, on a branch of that name: the flow with the id of
// the inputs, or a random one. A name that the flow has a branch of already is
// core.ErrConflict; an empty one stands for one that is made from the two ids. What was open
// at the checkpoint, such as requests to people, is open in the fork by itself.
func Fork(branch string) RunOption {
	return runOption(func(r *runConfig) { r.fork, r.branch = true, branch })
}

// CheckpointError says that a checkpoint that was required could not be kept. The completion
// before it is stored.
type CheckpointError struct {
	Flow    string
	FlowID  string
	Trigger checkpoint.Trigger
	Err     error // the provider's
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("flow %q (id %q): the checkpoint for %s could not be kept: %v", e.Flow, e.FlowID, e.Trigger, e.Err)
}

// Unwrap returns the provider's error.
func (e *CheckpointError) Unwrap() error { return e.Err }

var (
	errNoProvider = errors.New("there is nothing that keeps checkpoints: give WithStore a store that does, or WithCheckpoints a Provider")
	errFromNoFlow = fmt.Errorf("FromCheckpoint names no flow; its Ref needs a FlowID: %w", core.ErrInvalidID)
	errForkOfNone = errors.New("Fork needs FromCheckpoint, which says where the fork begins")
)

// check sees to it that the options about checkpoints and logs go together.
func (c *runConfig) check() error {
	if err := c.checkLog(); err != nil {
		return err
	}
	if c.from != nil && c.restoring {
		return fmt.Errorf("FromCheckpoint (%v) and RestoreFrom (flow %q) are both given: one takes a run up from a checkpoint, the other begins a new run with the state that a flow saved last; give one of them", *c.from, c.restoreFrom)
	}
	if c.from != nil && c.from.FlowID == "" {
		return errFromNoFlow
	}
	if c.fork && c.from == nil {
		return errForkOfNone
	}
	if c.checkpoints == nil && c.from == nil {
		return nil
	}
	if c.checkpoints != nil {
		if err := c.checkpoints.Validate(); err != nil {
			return err
		}
	}
	if c.keeper() == nil {
		return errNoProvider
	}
	return nil
}

// keeper returns what keeps checkpoints, nil for nothing.
func (c *runConfig) keeper() core.CheckpointProvider {
	if c.checkpoints != nil && c.checkpoints.Provider != nil {
		return c.checkpoints.Provider
	}
	p, _ := c.store.(core.CheckpointProvider)
	return p
}

// newRecorder returns what takes the checkpoints of a run on a branch.
func (c *runConfig) newRecorder() *checkpoint.Recorder {
	r := &checkpoint.Recorder{Branch: core.MainBranch}
	if c.checkpoints != nil {
		r.Config = *c.checkpoints
	}
	r.Config.Provider = c.keeper()
	return r
}

// checkpoint keeps the run as it is, if it is to be for that trigger.
func (e *engine) checkpoint(ctx context.Context, t checkpoint.Trigger) {
	if e.cfg.checkpoints == nil || e.unsaved || !e.recorder.Config.Takes(t) {
		return
	}
	err := e.takeCheckpoint(ctx, t)
	if err != nil && e.recorder.Config.Required {
		e.fails(&CheckpointError{Flow: e.flow, FlowID: e.flowID, Trigger: t, Err: err})
	}
}

func (e *engine) takeCheckpoint(ctx context.Context, t checkpoint.Trigger) error {
	progress, err := e.encodeProgress()
	if err != nil {
		return err
	}
	state, _ := e.snapshot()
	info, pruned, err := e.recorder.Take(ctx, core.Checkpoint{
		CheckpointInfo: core.CheckpointInfo{
			FlowID: e.flowID, Trigger: string(t), Method: e.lastMethod, Flow: e.flow, Fingerprint: e.fingerprint.sum, Run: e.runID,
		},
		State: state, Progress: progress,
	})
	if info.ID != "" {
		e.emit(ctx, CheckpointSaved{EventOrigin: e.origin(), Checkpoint: info, Pruned: pruned})
	}
	if err != nil {
		e.emit(ctx, CheckpointFailed{EventOrigin: e.origin(), Trigger: string(t), Err: err, Pruning: info.ID != ""})
	}
	if info.ID != "" {
		return nil
	}
	return err
}

// kickoffFrom is Kickoff from a checkpoint.
func (d *Definition[S]) kickoffFrom(ctx context.Context, in Inputs, cfg *runConfig) (*Result[S], error) {
	given, err := inputID(in)
	if err != nil {
		return nil, &InputError{Flow: d.name, Err: err}
	}
	from, err := cfg.from.Load(ctx, cfg.keeper())
	if err != nil {
		return nil, fail("restore "+cfg.from.String(), cfg.from.FlowID, err)
	}
	flowID := from.FlowID
	switch {
	case !cfg.fork && given != "" && given != flowID:
		return nil, &InputError{Flow: d.name, FlowID: given, Err: fmt.Errorf("a checkpoint of flow %q is restored under that id; Fork makes another flow of it", flowID)}
	case cfg.fork && given != "":
		flowID = given
	case cfg.fork:
		flowID = newUUID()
	}
	e, step, err := d.rewind(ctx, in, cfg, from, flowID)
	if err != nil {
		return nil, err
	}
	if err := d.needStore(e.cfg); err != nil {
		return nil, fail("kickoff", flowID, err)
	}
	if err := e.branchOff(ctx, from); err != nil {
		return nil, err
	}
	if e.cfg.persist || e.cfg.store != nil && len(e.pending) > 0 {
		// Before anything runs, so that the flow is at the checkpoint whatever happens next.
		if err := e.write(ctx, from.Method, ""); err != nil {
			return nil, &SaveError{Flow: e.flow, FlowID: e.flowID, Method: from.Method, Err: err}
		}
	}
	started := FlowStarted{EventOrigin: e.origin(), RestoredFrom: from.FlowID, Checkpoint: from.ID, State: slices.Clone(e.committed)}
	if step.Finished {
		return d.result(e, nil)
	}
	if cfg.provider != nil {
		e.untold = slices.Clone(e.pending)
	}
	e.open(ctx, started)
	err = e.run(ctx, step)
	return d.result(e, err)
}

// rewind makes an engine that stands where the checkpoint does, as the flow flowID.
func (d *Definition[S]) rewind(ctx context.Context, in Inputs, cfg *runConfig, from core.Checkpoint, flowID string) (*engine, scheduler.Step, error) {
	e := d.newEngine(cfg)
	var revision core.Revision
	if cfg.store != nil {
		now, err := cfg.store.LoadState(ctx, flowID)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return nil, scheduler.Step{}, fail("restore", flowID, err)
		}
		if err == nil && flowID != from.FlowID {
			return nil, scheduler.Step{}, fail("fork", flowID, fmt.Errorf("%w: there is such a flow already, a fork needs an id of its own", core.ErrConflict))
		}
		revision = now.Revision
	}
	snap := core.Snapshot{FlowID: flowID, Revision: revision, State: from.State, Progress: from.Progress}
	step, err := e.restore(snap, &d.fingerprint)
	if err != nil {
		return nil, step, fail("restore "+cfg.from.String()+" as", flowID, err)
	}
	if e.committed, err = d.mergeInto(from, flowID, in); err != nil {
		return nil, step, err
	}
	e.rename(rewoundRunID(flowID, revision, from.ID, e.committed))
	if flowID != from.FlowID {
		e.from = from.FlowID
	}
	e.noteStart(LogEntry{Checkpoint: from.ID})
	e.recorder = cfg.newRecorder()
	e.recorder.Branch = from.Branch
	e.recorder.Follow(from.FlowID, from.ID)
	return e, step, nil
}

// mergeInto lays the inputs over the state of a checkpoint, and gives it its flow's id.
func (d *Definition[S]) mergeInto(from core.Checkpoint, flowID string, in Inputs) (json.RawMessage, error) {
	state, err := parseObject(from.State)
	if err != nil {
		return nil, fail("restore", from.FlowID, fmt.Errorf("%w: the state of checkpoint %q: %w", core.ErrCorrupt, from.ID, err))
	}
	if err := decodeJSON(from.State, new(S)); err != nil {
		return nil, fail("restore", from.FlowID, fmt.Errorf("the state of checkpoint %q does not fit the flow's: %w", from.ID, err))
	}
	raw, err := d.merge(flowID, state, in)
	if err != nil {
		return nil, &InputError{Flow: d.name, FlowID: flowID, Err: err}
	}
	return raw, nil
}

// rewoundRunID names a run after what it begins with, as derivedRunID does: a restore that is
// made again because a process died before anything was stored is the same run.
func rewoundRunID(flowID string, revision core.Revision, checkpointID string, state json.RawMessage) string {
	return derivedName([]byte(flowID), []byte(revision.Tag), []byte(checkpointID), state)
}

// rename gives the run, and the requests that are open, another id: a request that was
// answered after the checkpoint is not the one that is open again.
func (e *engine) rename(run string) {
	e.journal.inherit(e)
	for _, p := range e.pending {
		p.FlowID, p.stored = e.flowID, e.cfg.store != nil
		p.ID = run + strings.TrimPrefix(p.ID, e.runID)
		p.ActivationID = run + strings.TrimPrefix(p.ActivationID, e.runID)
	}
	e.runID = run
}

// branchOff records the branch of a fork with the flow it comes from.
func (e *engine) branchOff(ctx context.Context, from core.Checkpoint) error {
	if !e.cfg.fork {
		return nil
	}
	name := e.cfg.branch
	if name == "" {
		sum := sha256.Sum256([]byte(e.flowID))
		name = "fork/" + from.ID + "_" + hex.EncodeToString(sum[:3])
	}
	err := e.cfg.keeper().CreateBranch(ctx, core.Branch{FlowID: from.FlowID, Name: name, Checkpoint: from.ID, Into: e.flowID})
	if err != nil {
		return err
	}
	e.recorder.Branch = name
	return nil
}

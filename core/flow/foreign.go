package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// foreignRequest returns the request at which another program paused a flow, nil if there is
// none or the store cannot hold any.
func foreignRequest(ctx context.Context, store core.FlowPersistence, flowID string) (*core.ForeignRequest, error) {
	foreign, ok := store.(core.ForeignRequests)
	if !ok {
		return nil, nil
	}
	r, err := foreign.LoadForeignRequest(ctx, flowID)
	if errors.Is(err, core.ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

// load returns the newest snapshot of a flow and, if that has no progress, the request at
// which another program paused the flow, if there is one.
func load(ctx context.Context, store core.FlowPersistence, flowID string) (core.Snapshot, *core.ForeignRequest, error) {
	snap, err := store.LoadState(ctx, flowID)
	if err != nil || len(snap.Progress) > 0 {
		return snap, nil, err
	}
	r, err := foreignRequest(ctx, store, flowID)
	if err != nil || r != nil {
		return snap, r, err
	}
	// It may have been answered since the snapshot was read, which that does not show.
	snap, err = store.LoadState(ctx, flowID)
	return snap, nil, err
}

// inheritedSeq is the call that waits for a foreign request: the first of its run here.
const inheritedSeq = 1

// inheritedRunID names the run that answers a foreign request after that request, so that who
// lists the request and who answers it know it under one id.
func inheritedRunID(r *core.ForeignRequest) string {
	return derivedName([]byte("foreign"), []byte(r.FlowID), []byte(r.ID))
}

// inherited is a foreign request as one of this package.
func inherited(r *core.ForeignRequest) *pending {
	call := callID(inheritedRunID(r), inheritedSeq)
	return &pending{Seq: inheritedSeq, Review: true, stored: true, Request: Request{
		ID: reviewID(call), Flow: r.Flow, FlowID: r.FlowID, Method: r.Method, ActivationID: call,
		Message: r.Message, Outcomes: r.Outcomes, Default: r.Default, Output: r.Output, Metadata: r.Metadata, At: r.At,
	}}
}

// inherit makes e go on with a run that another program began and paused: the method it waits
// in has been called, and all that is known is the state and the request. From its first save
// on it is a run like any other; that save takes the request away.
func (d *Definition[S]) inherit(e *engine, r *core.ForeignRequest) (scheduler.Step, error) {
	index, ok := d.graph.Index(r.Method)
	if !ok || d.methods[index].review == nil {
		return scheduler.Step{}, fmt.Errorf(
			"another program paused it in the method %q, and the flow %q has no method of that name with a Review; nothing was changed: %w",
			r.Method, d.name, core.ErrUnsupported)
	}
	state, err := d.inheritState(r)
	if err != nil {
		return scheduler.Step{}, fmt.Errorf("the state that another program paused it with: %w", err)
	}
	e.flowID, e.revision, e.committed = r.FlowID, r.Revision, state
	e.runID, e.answering = inheritedRunID(r), r.ID
	e.keepOutputs = e.cfg.keepOutputs
	e.cfg.persist = true // a flow that outlives one program is to outlive the next
	e.sched = scheduler.NewState(d.graph, e.limits())
	e.sched.Inherit(index)
	e.pending = append(e.pending, inherited(r))
	e.noteStart(LogEntry{})
	return e.sched.Restart(), nil
}

// inheritState makes the state of what another program stored, as Kickoff does.
func (d *Definition[S]) inheritState(r *core.ForeignRequest) (json.RawMessage, error) {
	defaults, err := d.defaults()
	if err != nil {
		return nil, err
	}
	stored, err := parseObject(r.State)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrCorrupt, err)
	}
	return d.merge(r.FlowID, stored.over(defaults), nil)
}

package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weirflow/weir/core"
)

// errUnsaved is the cause of a SaveError for a method that completed after another save had
// failed.
var errUnsaved = errors.New("an earlier save of the run failed, so no later one is tried")

// persists reports whether the completion of a method is to be saved.
func (e *engine) persists(index int) bool {
	switch e.methods[index].persist {
	case persistOn:
		return true
	case persistOff:
		return false
	default:
		return e.cfg.persist
	}
}

// save stores the state and the progress if the method's completion is to be saved. What a
// reducer made of the state is taken over, unless something was committed meanwhile.
func (e *engine) save(ctx context.Context, method string, index int) error {
	if !e.persists(index) {
		return nil
	}
	return e.write(ctx, method, "")
}

// write stores the state and the progress. It names the request that it is for, unless it is
// for a completion.
func (e *engine) write(ctx context.Context, method, request string) error {
	if e.unsaved {
		return errUnsaved
	}
	e.saves++
	progress, err := e.encodeProgress()
	if err != nil {
		return err
	}
	state, version := e.snapshot()
	snap := core.Snapshot{FlowID: e.flowID, Method: method, State: state, Progress: progress, Log: e.journal.entries}
	saved, err := e.store(ctx, snap)
	if err != nil {
		e.unsaved = true
		return err
	}
	e.revision, e.answering = saved.Revision, ""
	e.journal.entries = nil
	if saved.State != nil && version == e.version {
		e.replace(saved.State)
	}
	if saved.State != nil {
		state = saved.State
	}
	e.emit(ctx, StateSaved{EventOrigin: e.origin(), Method: method, Request: request, Revision: saved.Revision, Bytes: len(state) + len(progress)})
	if len(saved.Pruned) > 0 {
		e.emit(ctx, MessagesPruned{EventOrigin: e.origin(), Method: method, Pruned: saved.Pruned})
	}
	return nil
}

// store hands a snapshot to the store, again while the store is unavailable. It is a
// compare-and-swap on the revision the run knows, so that of two runs of one flow one loses.
func (e *engine) store(ctx context.Context, snap core.Snapshot) (core.Saved, error) {
	doubt := false // whether an earlier attempt was written
	wait := e.cfg.saveRetry.Wait
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return core.Saved{}, ended(ctx)
		}
		saved, err := e.cfg.store.SaveState(ctx, snap, core.IfRevision(e.revision), core.Answering(e.answering))
		if err == nil {
			return saved, nil
		}
		if doubt = doubt || core.OutcomeUnknown(err); doubt {
			saved, written, certain := e.recognize(ctx, snap)
			if written {
				return saved, nil
			}
			if !certain && !core.OutcomeUnknown(err) {
				err = core.WithOutcomeUnknown(err) // also of a conflict: it may be one with itself
			}
		}
		again := errors.Is(err, core.ErrUnavailable) && attempt < e.cfg.saveRetry.Attempts
		e.emit(ctx, SaveFailed{EventOrigin: e.origin(), Method: snap.Method, Err: err, Attempt: attempt, Retrying: again})
		if !again || !sleep(ctx, wait) {
			return core.Saved{}, err
		}
		wait *= 2
	}
}

// recognize looks whether a save that failed in doubt was written after all. Progress names
// the process and counts its saves, so equal ones are this very save. It is certain that it was
// not if the write that followed the revision it builds on is somebody else's.
func (e *engine) recognize(ctx context.Context, snap core.Snapshot) (saved core.Saved, written, certain bool) {
	now, err := e.cfg.store.LoadState(ctx, snap.FlowID)
	if err != nil {
		return core.Saved{}, false, false
	}
	if !sameSave(now.Progress, snap.Progress) {
		return core.Saved{}, false, now.Revision.N == e.revision.N+1
	}
	saved = core.Saved{Revision: now.Revision}
	if !bytes.Equal(now.State, snap.State) {
		saved.State = now.State
	}
	return saved, true, true
}

// sameSave compares by content: a store keeps progress equal as JSON, not as bytes.
func sameSave(a, b json.RawMessage) bool {
	var x, y struct {
		Writer string `json:"writer"`
		Saves  uint64 `json:"saves"`
	}
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y && x.Writer != ""
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

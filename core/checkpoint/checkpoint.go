package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/weirflow/weir/core"
)

// Trigger is what a checkpoint is taken for.
type Trigger string

// The triggers. A checkpoint shows the run as it is when the event has happened and been
// stored, and before anything that follows from it begins.
const (
	MethodFinished  Trigger = "method_finished"  // each completion of a method
	RequestOpened   Trigger = "request_opened"   // a question to a person
	RequestAnswered Trigger = "request_answered" // the answer to a question inside a method
	FlowPaused      Trigger = "flow_paused"      // all that is left is to wait for answers
	FlowFinished    Trigger = "flow_finished"
	FlowFailed      Trigger = "flow_failed"
)

var triggers = []Trigger{MethodFinished, RequestOpened, RequestAnswered, FlowPaused, FlowFinished, FlowFailed}

// Config says which checkpoints of a run are taken and kept. The zero Config takes one after
// each completion of a method and keeps all.
type Config struct {
	// Provider keeps the checkpoints; nil is the run's store, which must be able to.
	Provider core.CheckpointProvider

	// On lists what checkpoints are taken for; none is MethodFinished.
	On []Trigger

	// Keep is how many of a branch are kept, the newest; 0 keeps all. Where another branch
	// begins is kept beyond that.
	Keep int

	// Redact, if not nil, gets the state and returns what of it the checkpoint shall hold: a
	// run that begins from it begins with that. Nothing else is written, so what Redact takes
	// out is in no checkpoint; outputs of methods and payloads under way are not state.
	Redact func(ctx context.Context, state json.RawMessage) (json.RawMessage, error)

	// Required makes a run fail when a checkpoint cannot be kept. Otherwise it goes on, and
	// observers are told.
	Required bool
}

// Validate returns an error that says what is wrong with c, or nil.
func (c Config) Validate() error {
	for _, t := range c.On {
		if !slices.Contains(triggers, t) {
			return fmt.Errorf("checkpoint: there is no trigger %q; there are %q", t, triggers)
		}
	}
	if c.Keep < 0 {
		return fmt.Errorf("checkpoint: %d checkpoints cannot be kept", c.Keep)
	}
	return nil
}

// Takes reports whether a checkpoint is to be taken for t.
func (c Config) Takes(t Trigger) bool {
	if len(c.On) == 0 {
		return t == MethodFinished
	}
	return slices.Contains(c.On, t)
}

// Ref names a checkpoint: by its id, or the newest one of the flow if that is empty.
type Ref struct {
	FlowID string
	ID     string
}

// String returns r as people read it.
func (r Ref) String() string {
	if r.ID == "" {
		return fmt.Sprintf("the newest checkpoint of flow %q", r.FlowID)
	}
	return fmt.Sprintf("checkpoint %q of flow %q", r.ID, r.FlowID)
}

// Load returns the checkpoint that r names. A flow without any has no newest one:
// core.ErrNotFound.
func (r Ref) Load(ctx context.Context, from core.CheckpointProvider) (core.Checkpoint, error) {
	if r.ID != "" {
		return from.LoadCheckpoint(ctx, r.FlowID, r.ID)
	}
	for info, err := range from.Checkpoints(ctx, r.FlowID) {
		if err != nil {
			return core.Checkpoint{}, err
		}
		return from.LoadCheckpoint(ctx, r.FlowID, info.ID)
	}
	return core.Checkpoint{}, &core.Error{Op: "load checkpoint", FlowID: r.FlowID, Err: fmt.Errorf("%w: the flow has no checkpoint", core.ErrNotFound)}
}

// Lineage yields the checkpoint that r names and those it came from, the newest first, across
// forks. It ends, without an error, where a parent was pruned or its flow deleted. An error is
// yielded once, as the last pair.
func Lineage(ctx context.Context, from core.CheckpointProvider, r Ref) iter.Seq2[core.CheckpointInfo, error] {
	return func(yield func(core.CheckpointInfo, error) bool) {
		c, err := r.Load(ctx, from)
		for err == nil {
			if !yield(c.CheckpointInfo, nil) || c.Parent == "" {
				return
			}
			c, err = from.LoadCheckpoint(ctx, c.ParentFlow, c.Parent)
			if errors.Is(err, core.ErrNotFound) {
				return
			}
		}
		yield(core.CheckpointInfo{}, err)
	}
}

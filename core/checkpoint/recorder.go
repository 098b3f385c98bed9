package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
)

// Recorder takes the checkpoints of one run, each the child of the one before. It is for the
// runtime, and for one goroutine.
type Recorder struct {
	Config Config
	Branch string // they are on

	parent     core.CheckpointInfo // ID and FlowID of the last one
	unsettled  string              // a run whose last checkpoint may not be known
	unsettling string              // the flow of it
}

// Follow makes parent, of the flow flowID, the one that the next checkpoint follows; "" is
// none.
func (r *Recorder) Follow(flowID, parent string) {
	r.parent.FlowID, r.parent.ID = flowID, parent
}

// Continue tells that the run was resumed: the process before may have taken checkpoints that
// it could not note any more, and the next one follows the last of these.
func (r *Recorder) Continue(flowID, run string) { r.unsettling, r.unsettled = flowID, run }

// Parent returns the flow and the id of the checkpoint that the next one follows.
func (r *Recorder) Parent() (flowID, id string) { return r.parent.FlowID, r.parent.ID }

// Take keeps c, without what is to be redacted, as the next checkpoint of the run. An error
// that comes with an id is one of pruning: the checkpoint was taken.
func (r *Recorder) Take(ctx context.Context, c core.Checkpoint) (info core.CheckpointInfo, pruned int, err error) {
	if c.State, err = r.redacted(ctx, c.State); err != nil {
		return info, 0, err
	}
	if err := r.settle(ctx); err != nil {
		return info, 0, err
	}
	c.Branch, c.Parent, c.ParentFlow = r.Branch, r.parent.ID, r.parent.FlowID
	if info, err = r.Config.Provider.SaveCheckpoint(ctx, c); err != nil {
		return info, 0, err
	}
	r.Follow(info.FlowID, info.ID)
	if r.Config.Keep > 0 {
		pruned, err = r.Config.Provider.PruneCheckpoints(ctx, c.FlowID, r.Branch, r.Config.Keep)
	}
	return info, pruned, err
}

func (r *Recorder) redacted(ctx context.Context, state json.RawMessage) (json.RawMessage, error) {
	if r.Config.Redact == nil {
		return state, nil
	}
	state, err := r.Config.Redact(ctx, append(json.RawMessage(nil), state...))
	if err == nil {
		err = core.ValidateState(state)
	}
	if err != nil {
		return nil, fmt.Errorf("redact: %w", err)
	}
	return state, nil
}

// settle looks for the last checkpoint of a resumed run.
func (r *Recorder) settle(ctx context.Context) error {
	if r.unsettled == "" {
		return nil
	}
	for info, err := range r.Config.Provider.Checkpoints(ctx, r.unsettling) {
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if err != nil || info.ID == r.parent.ID {
			break
		}
		if info.Run == r.unsettled && info.Branch == r.Branch {
			r.Follow(info.FlowID, info.ID)
			break
		}
	}
	r.unsettled = ""
	return nil
}

package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
)

// restores reports whether a step begins from a checkpoint. Only then are any taken.
func (sc *scenario) restores() bool {
	return slices.ContainsFunc(sc.steps, func(op map[string]any) bool { return op["checkpoint_restore"] != nil })
}

// checkpoints has one taken whenever something happened, so that the newest is the instance as
// the reference would take its snapshot of it.
func (p *player) checkpoints() checkpoint.Config {
	return checkpoint.Config{Provider: p.store.FlowPersistence.(core.CheckpointProvider), On: []checkpoint.Trigger{
		checkpoint.MethodFinished, checkpoint.RequestOpened, checkpoint.RequestAnswered,
		checkpoint.FlowPaused, checkpoint.FlowFinished, checkpoint.FlowFailed,
	}}
}

// restoreCheckpoint begins the run of an instance from the newest checkpoint of another one.
func (p *player) restoreCheckpoint(in *instance, step map[string]any, out *outcome) {
	if out.err = onlyKeys(step, "from", "inputs", "fork"); out.err != nil {
		return
	}
	source := "main"
	if from, ok := step["from"].(string); ok {
		source = from
	}
	from := p.instances[source]
	if from == nil {
		out.err = fmt.Errorf("there is no instance %q to restore", source)
		return
	}
	inputs := flow.Inputs{}
	if given, ok := step["inputs"].(map[string]any); ok {
		maps.Copy(inputs, given)
	}
	opts := append(p.options(out), flow.FromCheckpoint(checkpoint.Ref{FlowID: from.id}))
	fork, _ := step["fork"].(bool)
	if fork {
		opts = append(opts, flow.Fork(""))
	}
	if out.res, out.err = p.def.Kickoff(context.Background(), inputs, opts...); out.res == nil {
		return
	}
	if fork == (out.res.FlowID == from.id) {
		out.err = errors.Join(out.err, fmt.Errorf("from flow %q came flow %q (fork: %v)", from.id, out.res.FlowID, fork))
	}
	in.state, in.id, in.outputs = out.res.State, out.res.FlowID, len(out.res.Outputs)
	maps.Copy(in.completed, out.res.Completed)
}

package faulty

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// checkpointMutants lose checkpoints, mix them up, or keep what should go.
func checkpointMutants() []Mutant {
	const kept = "store/checkpoints_are_kept"
	return []Mutant{
		{Name: "prune_takes_all_branches", Bug: "pruning prunes each branch of the flow", Law: kept, store: answering(allBranchesPruned)},
		{Name: "prune_takes_where_branches_begin", Bug: "pruning removes a checkpoint at which another branch begins", Law: kept, store: answering(branchPointsPruned)},
		{Name: "prune_takes_the_newest", Bug: "pruning keeps the oldest checkpoints", Law: kept, store: answering(newestPruned)},
		{Name: "checkpoints_oldest_first", Bug: "checkpoints are listed oldest first", Law: kept, store: answering(oldestFirst)},
		{Name: "branch_is_made_again", Bug: "a branch of a name that is taken takes the place of the first", Law: kept, store: over(branchReplaced)},
		{Name: "checkpoint_of_any_flow", Bug: "a checkpoint is found by its id, whatever flow is asked for", Law: kept, store: answering(anyFlow)},
		{Name: "missing_checkpoint_is_empty", Bug: "a checkpoint that does not exist is an empty one", Law: kept, store: answering(missingCheckpointIsEmpty)},
		{Name: "checkpoint_is_cut", Bug: "a checkpoint comes back with the first 4 KiB of its state", Law: kept, store: answering(checkpointCut)},
		{Name: "parents_are_of_the_flow", Bug: "the parent of a checkpoint is taken for one of the same flow", Law: kept, store: answering(parentFlowLost)},
		{Name: "claims_are_shown", Bug: "a checkpoint is shown before its segments are there", Law: kept, store: over(claimsShown)},
		{Name: "checkpoints_outlive_their_flow", Bug: "Delete of a flow leaves the records of its checkpoints", Law: kept, store: over(checkpointsStay)},
	}
}

func allBranchesPruned(s subject.Store, _ driver.Driver) answer {
	return answer{prune: func(ctx context.Context, flowID, branch string, keep int) (int, error) {
		removed, err := s.PruneCheckpoints(ctx, flowID, branch, keep)
		all, lerr := collect(s.Checkpoints(ctx, flowID))
		for _, c := range all {
			n, perr := s.PruneCheckpoints(ctx, flowID, c.Branch, keep)
			removed, err = removed+n, errors.Join(err, perr)
		}
		return removed, errors.Join(err, lerr)
	}}
}

func branchPointsPruned(_ subject.Store, d driver.Driver) answer {
	blind := patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return whole(d.Range(ctx, p, o), func(rs []driver.Record) []driver.Record {
			return slices.DeleteFunc(rs, func(r driver.Record) bool { return strings.HasPrefix(r.Sort, "br/") })
		})
	}}
	return answer{prune: persistence.New(blind).PruneCheckpoints}
}

func newestPruned(_ subject.Store, d driver.Driver) answer {
	forward := patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		o.Reverse = false
		return d.Range(ctx, p, o)
	}}
	return answer{prune: persistence.New(forward).PruneCheckpoints}
}

func oldestFirst(s subject.Store, _ driver.Driver) answer {
	return answer{list: func(ctx context.Context, flowID string) iter.Seq2[core.CheckpointInfo, error] {
		return whole(s.Checkpoints(ctx, flowID), reversed)
	}}
}

func reversed[T any](all []T) []T {
	slices.Reverse(all)
	return all
}

func branchReplaced(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if strings.HasPrefix(k.Sort, "br/") {
			cond = driver.Condition{}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func anyFlow(s subject.Store, _ driver.Driver) answer {
	var flows sync.Map // by the id of a checkpoint
	return answer{keep: func(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
		info, err := s.SaveCheckpoint(ctx, c)
		flows.Store(info.ID, info.FlowID)
		return info, err
	}, copyOf: func(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
		if of, ok := flows.Load(id); ok && id != "" {
			flowID = of.(string)
		}
		return s.LoadCheckpoint(ctx, flowID, id)
	}}
}

func missingCheckpointIsEmpty(s subject.Store, _ driver.Driver) answer {
	return answer{copyOf: func(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
		c, err := s.LoadCheckpoint(ctx, flowID, id)
		if errors.Is(err, core.ErrNotFound) {
			return core.Checkpoint{CheckpointInfo: core.CheckpointInfo{ID: id, FlowID: flowID}, State: []byte(`{}`)}, nil
		}
		return c, err
	}}
}

func checkpointCut(s subject.Store, _ driver.Driver) answer {
	return answer{copyOf: func(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
		c, err := s.LoadCheckpoint(ctx, flowID, id)
		c.State = c.State[:min(len(c.State), 4096)]
		return c, err
	}}
}

func parentFlowLost(s subject.Store, _ driver.Driver) answer {
	return answer{keep: func(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
		c.ParentFlow = c.FlowID
		return s.SaveCheckpoint(ctx, c)
	}}
}

func claimsShown(d driver.Driver) driver.Driver {
	return stored(func(r *driver.Record) {
		r.Data = bytes.Replace(r.Data, []byte(`,"claim":true`), nil, 1)
	})(d)
}

func checkpointsStay(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if strings.HasPrefix(k.Sort, "cp/") && cond == (driver.Condition{}) {
			return nil
		}
		return d.Delete(ctx, k, cond)
	}}
}

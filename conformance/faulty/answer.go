package faulty

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// This file, as patch.go, is what mutants are written in.

// over makes a correct Store over a driver that gives what the Store does another meaning.
func over(change func(driver.Driver) driver.Driver) subject.Maker {
	return func(d driver.Driver, opts ...persistence.Option) subject.Store {
		return persistence.New(change(d), opts...)
	}
}

// answer is a correct Store of which single methods are replaced.
type answer struct {
	subject.Store
	save    func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error)
	load    func(ctx context.Context, flowID string) (core.Snapshot, error)
	del     func(ctx context.Context, flowID string) error
	history func(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error]
	log     func(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error]

	keep   func(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error)
	copyOf func(ctx context.Context, flowID, id string) (core.Checkpoint, error)
	list   func(ctx context.Context, flowID string) iter.Seq2[core.CheckpointInfo, error]
	prune  func(ctx context.Context, flowID, branch string, keep int) (removed int, err error)
}

func (a answer) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if a.save != nil {
		return a.save(ctx, snap, opts)
	}
	return a.Store.SaveState(ctx, snap, opts...)
}

func (a answer) LoadState(ctx context.Context, flowID string) (core.Snapshot, error) {
	if a.load != nil {
		return a.load(ctx, flowID)
	}
	return a.Store.LoadState(ctx, flowID)
}

func (a answer) Delete(ctx context.Context, flowID string) error {
	if a.del != nil {
		return a.del(ctx, flowID)
	}
	return a.Store.Delete(ctx, flowID)
}

func (a answer) History(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error] {
	if a.history != nil {
		return a.history(ctx, flowID)
	}
	return a.Store.History(ctx, flowID)
}

func (a answer) Log(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
	if a.log != nil {
		return a.log(ctx, flowID)
	}
	return a.Store.Log(ctx, flowID)
}

func (a answer) SaveCheckpoint(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
	if a.keep != nil {
		return a.keep(ctx, c)
	}
	return a.Store.SaveCheckpoint(ctx, c)
}

func (a answer) LoadCheckpoint(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
	if a.copyOf != nil {
		return a.copyOf(ctx, flowID, id)
	}
	return a.Store.LoadCheckpoint(ctx, flowID, id)
}

func (a answer) Checkpoints(ctx context.Context, flowID string) iter.Seq2[core.CheckpointInfo, error] {
	if a.list != nil {
		return a.list(ctx, flowID)
	}
	return a.Store.Checkpoints(ctx, flowID)
}

func (a answer) PruneCheckpoints(ctx context.Context, flowID, branch string, keep int) (removed int, err error) {
	if a.prune != nil {
		return a.prune(ctx, flowID, branch, keep)
	}
	return a.Store.PruneCheckpoints(ctx, flowID, branch, keep)
}

// answering makes a Store from a correct one and the driver below it.
func answering(change func(s subject.Store, d driver.Driver) answer) subject.Maker {
	return func(d driver.Driver, opts ...persistence.Option) subject.Store {
		s := persistence.New(d, opts...)
		a := change(s, d)
		a.Store = s
		return a
	}
}

// wrapped gives an error the wrapper of the Store's own.
func wrapped(op, flowID string, err error) error {
	return &core.Error{Op: op, FlowID: flowID, Err: err}
}

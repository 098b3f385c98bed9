package coretest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weirflow/weir/core"
)

// shelf holds what a flow has beside its newest snapshot.
type shelf struct {
	checkpoints []core.Checkpoint // oldest first
	branches    []core.Branch
	log         []json.RawMessage
}

var errCheckpointID = errors.New("the store names a checkpoint, its ID must be empty")

// SaveCheckpoint implements core.CheckpointProvider.
func (s *Store) SaveCheckpoint(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
	if c.Branch == "" {
		c.Branch = core.MainBranch
	}
	err := check(ctx, core.Snapshot{FlowID: c.FlowID, State: c.State, Progress: c.Progress})
	if err == nil {
		err = core.ValidateBranch(c.Branch)
	}
	if err == nil && c.ID != "" {
		err = errCheckpointID
	}
	if err != nil {
		return core.CheckpointInfo{}, &core.Error{Op: "save checkpoint", FlowID: c.FlowID, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named++
	c.ID = fmt.Sprintf("%016x", s.named)
	if c.At.IsZero() {
		c.At = time.Now()
	}
	c.At = c.At.UTC().Truncate(time.Microsecond)
	if c.ParentFlow == "" && c.Parent != "" {
		c.ParentFlow = c.FlowID
	}
	c.Bytes = len(c.State) + len(c.Progress)
	c.State, c.Progress = bytes.Clone(c.State), bytes.Clone(c.Progress)
	sh := s.shelf(c.FlowID)
	sh.checkpoints = append(sh.checkpoints, c)
	return c.CheckpointInfo, nil
}

// shelf returns that of a flow, and makes it if there is none.
func (s *Store) shelf(flowID string) *shelf {
	if s.shelves[flowID] == nil {
		s.shelves[flowID] = &shelf{}
	}
	return s.shelves[flowID]
}

// LoadCheckpoint implements core.CheckpointProvider.
func (s *Store) LoadCheckpoint(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
	sh, err := s.look(ctx, flowID)
	if err == nil {
		err = core.ErrNotFound
		for _, c := range sh.checkpoints {
			if c.ID == id {
				c.State, c.Progress = bytes.Clone(c.State), bytes.Clone(c.Progress)
				return c, nil
			}
		}
	}
	return core.Checkpoint{}, &core.Error{Op: "load checkpoint", FlowID: flowID, Err: err}
}

// look returns a copy of the shelf of a flow.
func (s *Store) look(ctx context.Context, flowID string) (shelf, error) {
	if err := ctx.Err(); err != nil {
		return shelf{}, err
	}
	if err := core.ValidateID(flowID); err != nil {
		return shelf{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shelves[flowID]
	if sh == nil {
		return shelf{}, nil
	}
	return shelf{slices.Clone(sh.checkpoints), slices.Clone(sh.branches), slices.Clone(sh.log)}, nil
}

// Checkpoints implements core.CheckpointProvider.
func (s *Store) Checkpoints(ctx context.Context, flowID string) iter.Seq2[core.CheckpointInfo, error] {
	return func(yield func(core.CheckpointInfo, error) bool) {
		sh, err := s.look(ctx, flowID)
		if err != nil {
			yield(core.CheckpointInfo{}, &core.Error{Op: "list checkpoints", FlowID: flowID, Err: err})
			return
		}
		for _, c := range slices.Backward(sh.checkpoints) {
			if !yield(c.CheckpointInfo, nil) {
				return
			}
		}
	}
}

// PruneCheckpoints implements core.CheckpointProvider.
func (s *Store) PruneCheckpoints(ctx context.Context, flowID, branch string, keep int) (int, error) {
	err := ctx.Err()
	if err == nil {
		err = errors.Join(core.ValidateID(flowID), core.ValidateBranch(branch))
	}
	if err == nil && keep < 0 {
		err = fmt.Errorf("keep %d: %w", keep, errNegative)
	}
	if err != nil {
		return 0, &core.Error{Op: "prune checkpoints", FlowID: flowID, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shelf(flowID)
	if keep == 0 {
		sh.branches = slices.DeleteFunc(sh.branches, func(b core.Branch) bool { return b.Name == branch })
	}
	before, of := len(sh.checkpoints), 0
	var kept []core.Checkpoint
	for _, c := range slices.Backward(sh.checkpoints) {
		begins := slices.ContainsFunc(sh.branches, func(b core.Branch) bool { return b.Checkpoint == c.ID })
		if c.Branch == branch {
			of++
		}
		if c.Branch != branch || of <= keep || begins {
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	sh.checkpoints = kept
	return before - len(kept), nil
}

var errNegative = errors.New("a number of checkpoints cannot be negative")

// CreateBranch implements core.CheckpointProvider.
func (s *Store) CreateBranch(ctx context.Context, b core.Branch) error {
	err := errors.Join(core.ValidateBranch(b.Name), core.ValidateID(b.Into))
	if err == nil {
		var c core.Checkpoint
		if c, err = s.LoadCheckpoint(ctx, b.FlowID, b.Checkpoint); err == nil {
			err = s.branch(b, c.Branch)
		}
	}
	if err != nil {
		return &core.Error{Op: "create branch", FlowID: b.FlowID, Err: err}
	}
	return nil
}

func (s *Store) branch(b core.Branch, from string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shelf(b.FlowID)
	taken := b.Name == core.MainBranch || b.Name == from
	for _, o := range sh.branches {
		if o.Name == b.Name && o.Checkpoint == b.Checkpoint && o.Into == b.Into {
			return nil
		}
		taken = taken || o.Name == b.Name
	}
	if taken {
		return fmt.Errorf("%w: there is a branch %q already", core.ErrConflict, b.Name)
	}
	if b.At.IsZero() {
		b.At = time.Now()
	}
	b.At = b.At.UTC().Truncate(time.Microsecond)
	sh.branches = append(sh.branches, b)
	return nil
}

// Branches implements core.CheckpointProvider.
func (s *Store) Branches(ctx context.Context, flowID string) iter.Seq2[core.Branch, error] {
	return func(yield func(core.Branch, error) bool) {
		sh, err := s.look(ctx, flowID)
		if err != nil {
			yield(core.Branch{}, &core.Error{Op: "list branches", FlowID: flowID, Err: err})
			return
		}
		for _, b := range sh.branches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

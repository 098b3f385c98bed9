// Package coretest is the reference model of Weir's contracts: a map, a lock and the rules,
// in as few lines as they take. It shares no code with package persistence, so that the
// conformance suite can use it as the judge of every backend, and tests of the runtime can
// run without one.
package coretest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
)

// Store keeps the newest snapshot, the log and the checkpoints of each flow in memory. It
// implements core.FlowPersistence, core.FlowLog and core.CheckpointProvider and is safe for
// concurrent use. Use New.
type Store struct {
	mu      sync.Mutex
	flows   map[string]core.Snapshot
	saves   map[string][]string
	shelves map[string]*shelf
	named   uint64 // checkpoints
}

// New returns an empty store.
func New() *Store {
	return &Store{flows: map[string]core.Snapshot{}, saves: map[string][]string{}, shelves: map[string]*shelf{}}
}

// SaveState implements core.FlowPersistence.
func (s *Store) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	saved, err := s.save(ctx, snap, core.NewSaveSettings(opts))
	if err != nil {
		return core.Saved{}, &core.Error{Op: "save state", FlowID: snap.FlowID, Err: err}
	}
	return saved, nil
}

func (s *Store) save(ctx context.Context, snap core.Snapshot, set core.SaveSettings) (core.Saved, error) {
	if err := check(ctx, snap); err != nil {
		return core.Saved{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.flows[snap.FlowID].Revision
	if set.If != nil && *set.If != newest {
		return core.Saved{}, fmt.Errorf("%w: the newest revision is %v, not %v", core.ErrConflict, newest, *set.If)
	}
	snap.Revision = core.Revision{N: newest.N + 1, Tag: rand.Text()}
	if snap.SavedAt.IsZero() {
		snap.SavedAt = time.Now()
	}
	snap.SavedAt = snap.SavedAt.UTC().Truncate(time.Microsecond)
	for _, e := range snap.Log {
		sh := s.shelf(snap.FlowID)
		sh.log = append(sh.log, bytes.Clone(e))
	}
	snap.Log = nil
	s.flows[snap.FlowID] = clone(snap)
	s.saves[snap.FlowID] = append(s.saves[snap.FlowID], snap.Method)
	return core.Saved{Revision: snap.Revision}, nil
}

// check refuses bad input before anything changes.
func check(ctx context.Context, snap core.Snapshot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := core.ValidateID(snap.FlowID); err != nil {
		return err
	}
	if err := core.ValidateState(snap.State); err != nil {
		return err
	}
	if snap.Progress != nil && !json.Valid(snap.Progress) {
		return &core.StateError{Reason: "the progress is not JSON"}
	}
	return core.ValidateLog(snap.Log)
}

// Log implements core.FlowLog.
func (s *Store) Log(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		_, err := s.load(ctx, flowID)
		if err != nil {
			yield(nil, &core.Error{Op: "read log", FlowID: flowID, Err: err})
			return
		}
		sh, _ := s.look(ctx, flowID)
		for _, e := range sh.log {
			if !yield(bytes.Clone(e), nil) {
				return
			}
		}
	}
}

// LoadState implements core.FlowPersistence.
func (s *Store) LoadState(ctx context.Context, flowID string) (core.Snapshot, error) {
	snap, err := s.load(ctx, flowID)
	if err != nil {
		return core.Snapshot{}, &core.Error{Op: "load state", FlowID: flowID, Err: err}
	}
	return snap, nil
}

func (s *Store) load(ctx context.Context, flowID string) (core.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return core.Snapshot{}, err
	}
	if err := core.ValidateID(flowID); err != nil {
		return core.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, ok := s.flows[flowID]
	if !ok {
		return core.Snapshot{}, core.ErrNotFound
	}
	return clone(snap), nil
}

// Delete forgets a flow. Deleting one that does not exist is no error.
func (s *Store) Delete(ctx context.Context, flowID string) error {
	err := ctx.Err()
	if err == nil {
		err = core.ValidateID(flowID)
	}
	if err != nil {
		return &core.Error{Op: "delete", FlowID: flowID, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flows, flowID)
	delete(s.shelves, flowID)
	return nil
}

// Flows returns the IDs of all flows, sorted.
func (s *Store) Flows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.flows))
}

// Saves returns the methods of every accepted save of a flow, oldest first, also of earlier
// incarnations.
func (s *Store) Saves(flowID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.saves[flowID])
}

func clone(s core.Snapshot) core.Snapshot {
	s.State, s.Progress = bytes.Clone(s.State), bytes.Clone(s.Progress)
	return s
}

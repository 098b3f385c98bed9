package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Store keeps flows in any driver. It implements core.FlowPersistence. It is safe for
// concurrent use, and any number of Stores in any number of processes may share one database.
type Store struct {
	settings
	drv   driver.Driver
	known *knownHeads
}

var _ core.FlowPersistence = (*Store)(nil)

// New returns a Store over d. It makes no request.
func New(d driver.Driver, opts ...Option) *Store {
	set := newSettings(opts)
	set.limits = lower(set.limits, d.Limits())
	return &Store{settings: set, drv: d, known: newKnownHeads()}
}

// SaveState writes s as the flow's newest snapshot, state and progress in one atomic step,
// after pruning its messages if the Store has a reducer. See core.FlowPersistence for the
// conditions and errors.
//
// A blind save that meets other writers tries again, bounded; when they do not let it
// through it returns core.ErrUnavailable and nothing is written.
func (s *Store) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	saved, err := s.save(ctx, snap, core.NewSaveSettings(opts))
	if err != nil {
		return core.Saved{}, &core.Error{Op: "save state", FlowID: snap.FlowID, Err: err}
	}
	return saved, nil
}

// save validates, prunes, and hands over to the protocol.
func (s *Store) save(ctx context.Context, snap core.Snapshot, set core.SaveSettings) (core.Saved, error) {
	if err := ctx.Err(); err != nil {
		return core.Saved{}, err
	}
	if err := core.ValidateID(snap.FlowID); err != nil {
		return core.Saved{}, err
	}
	if snap.Progress != nil && !json.Valid(snap.Progress) {
		return core.Saved{}, &core.StateError{Reason: "the progress is not JSON"}
	}
	if err := core.ValidateLog(snap.Log); err != nil {
		return core.Saved{}, err
	}
	if err := s.answers(set.Answers); err != nil {
		return core.Saved{}, err
	}
	var saved core.Saved
	state, pruned, err := s.prune(ctx, snap.FlowID, snap.State)
	if err != nil {
		return core.Saved{}, err
	}
	if pruned != nil {
		snap.State, saved.State, saved.Pruned = state, state, pruned.Pruned
	}
	if size := len(snap.State) + len(snap.Progress); size > s.maxPayload {
		return core.Saved{}, &core.SizeError{Size: int64(size), Limit: int64(s.maxPayload)}
	}
	if snap.SavedAt.IsZero() {
		snap.SavedAt = s.now()
	}
	snap.SavedAt = snap.SavedAt.UTC().Truncate(time.Microsecond)
	if year := snap.SavedAt.Year(); year < 1 || year > 9999 {
		return core.Saved{}, &core.StateError{Reason: fmt.Sprintf("SavedAt is in the year %d, which stores cannot keep", year)}
	}
	saved.Revision, err = s.newWrite(snap, set).run(ctx)
	return saved, err
}

// LoadState returns the newest acknowledged snapshot. A record that is damaged, or that names
// a payload which is not there, is core.ErrCorrupt; a format newer than the program is
// core.ErrUnsupported.
func (s *Store) LoadState(ctx context.Context, flowID string) (core.Snapshot, error) {
	snap, _, err := s.load(ctx, flowID)
	if err != nil {
		return core.Snapshot{}, &core.Error{Op: "load state", FlowID: flowID, Err: err}
	}
	return snap, nil
}

// maxRereads bounds how often a reader follows a head that changes under it.
const maxRereads = 32

// load returns the newest snapshot and the header of the head it came from.
func (s *Store) load(ctx context.Context, flowID string) (core.Snapshot, header, error) {
	if err := core.ValidateID(flowID); err != nil {
		return core.Snapshot{}, header{}, err
	}
	part := driver.Partition(flowID)
	var missing driver.Tag
	for range maxRereads {
		if err := ctx.Err(); err != nil {
			return core.Snapshot{}, header{}, err
		}
		r, err := s.drv.Get(ctx, part.Head())
		if err != nil {
			s.known.forget(flowID)
			return core.Snapshot{}, header{}, err
		}
		h, inline, err := readHead(r)
		if err != nil {
			return core.Snapshot{}, header{}, err
		}
		s.known.remember(flowID, h)
		snap, err := s.open(ctx, part, r, h, inline)
		if errors.Is(err, errMissingSegment) && missing != r.Tag {
			// The head may have moved on since it was read; only if it has not is the
			// segment lost.
			missing = r.Tag
			continue
		}
		return snap, h.hdr, err
	}
	return core.Snapshot{}, header{}, fmt.Errorf("%w: the flow is written faster than it can be read", core.ErrUnavailable)
}

// open returns the snapshot that a head record holds.
func (s *Store) open(ctx context.Context, part driver.Partition, r driver.Record, h head, inline []byte) (core.Snapshot, error) {
	if h.stateless {
		return core.Snapshot{}, core.ErrNotFound
	}
	c, err := s.unpack(ctx, part, h.hdr, r.State, inline)
	if err != nil {
		return core.Snapshot{}, err
	}
	if h.foreign {
		if err := core.ValidateState(c.state); err != nil {
			return core.Snapshot{}, fmt.Errorf("%w: another program stored it: %w", core.ErrCorrupt, err)
		}
	}
	return core.Snapshot{
		FlowID: string(part), Method: r.Method, State: c.state, Progress: c.progress,
		SavedAt: r.SavedAt.UTC(), Revision: h.revision(),
	}, nil
}

// fits returns core.ErrTooLarge with both numbers if the store cannot hold r.
func (s *Store) fits(k driver.Key, r driver.Record) error {
	if size := driver.Size(s.drv, k, r); size > s.limits.Record {
		return &core.SizeError{Size: int64(size), Limit: int64(s.limits.Record)}
	}
	return nil
}

// Close closes the driver.
func (s *Store) Close() error { return s.drv.Close() }

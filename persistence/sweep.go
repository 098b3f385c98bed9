package persistence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// reservedFor is how long a head without state may stand for a first save under way.
const reservedFor = 24 * time.Hour

// Sweep removes what killed processes left behind beside one flow and returns how many
// records that was. It may run at any time, beside any writer and any other sweep, and never
// makes a save fail. Together with Flows it cleans a whole store:
//
//	for info, err := range store.Flows(ctx, driver.ListOptions{}) {
//		…
//		n, err := store.Sweep(ctx, info.FlowID)
//	}
func (s *Store) Sweep(ctx context.Context, flowID string) (removed int, err error) {
	if removed, err = s.sweep(ctx, flowID); err != nil {
		return removed, &core.Error{Op: "sweep", FlowID: flowID, Err: err}
	}
	return removed, nil
}

func (s *Store) sweep(ctx context.Context, flowID string) (int, error) {
	if err := core.ValidateID(flowID); err != nil {
		return 0, err
	}
	part := driver.Partition(flowID)
	// The order is what makes this safe: list, then read the head, then fence it, then
	// remove of what was listed all that this head does not name. A writer that had put
	// siblings before the list finds its condition broken by the fence and starts again
	// under new names; one that puts them after it is not in the list.
	listed, err := s.sorts(ctx, part, driver.RangeOptions{})
	if err != nil {
		return 0, err
	}
	r, err := s.drv.Get(ctx, part.Head())
	if errors.Is(err, core.ErrNotFound) {
		return len(listed), s.deleteSorts(ctx, part, listed)
	}
	if err != nil {
		return 0, err
	}
	h, _, err := readHead(r)
	if err != nil {
		return 0, err
	}
	if h.expiredReservation(s.now()) && r.State == nil {
		return s.sweepReserved(ctx, part, h, listed)
	}
	if len(listed) == 0 {
		return 0, nil
	}
	if h, err = s.fence(ctx, part, r, h); errors.Is(err, core.ErrConflict) {
		return 0, nil // a writer is at work; its own clean-up or the next sweep does it
	} else if err != nil {
		return 0, err
	}
	garbage, err := s.garbage(ctx, part, h.hdr, listed)
	if err != nil {
		return 0, err
	}
	return len(garbage), s.deleteSorts(ctx, part, garbage)
}

func (h head) expiredReservation(now time.Time) bool {
	return !h.foreign && h.stateless && !h.hdr.Held && now.Sub(time.UnixMilli(h.hdr.Reserved)) > reservedFor
}

// sweepReserved removes a reservation whose maker is long dead, and then its siblings.
func (s *Store) sweepReserved(ctx context.Context, part driver.Partition, h head, listed []string) (int, error) {
	err := s.drv.Delete(ctx, part.Head(), driver.IfTag(h.tag))
	if errors.Is(err, core.ErrConflict) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s.known.forget(string(part))
	return 1 + len(listed), s.deleteSorts(ctx, part, listed)
}

// fence puts the head again with nothing changed but its tag. A head of another program is
// given an epoch on the way.
func (s *Store) fence(ctx context.Context, part driver.Partition, r driver.Record, h head) (head, error) {
	if h.foreign {
		return s.adopt(ctx, part)
	}
	tag, err := s.drv.Put(ctx, part.Head(), r, driver.IfTag(h.tag))
	if err != nil {
		s.known.forget(string(part))
		return head{}, err
	}
	h.tag = tag
	s.known.remember(string(part), h)
	return h, nil
}

// adopt puts a head that another program wrote again with an epoch, its content and its
// revision unchanged.
func (s *Store) adopt(ctx context.Context, part driver.Partition) (head, error) {
	r, err := s.drv.Get(ctx, part.Head())
	if err != nil {
		return head{}, err
	}
	h, _, err := readHead(r)
	if err != nil {
		return head{}, err
	}
	if !h.foreign {
		return head{}, fmt.Errorf("%w: the head has an epoch already", core.ErrConflict)
	}
	h.hdr.V, h.hdr.Epoch = plainVersion, newName()
	if h.stateless {
		h.hdr.Reserved = s.now().UnixMilli()
	}
	r.Data = h.hdr.encode(nil)
	tag, err := s.drv.Put(ctx, part.Head(), r, driver.IfTag(r.Tag))
	if err != nil {
		return head{}, err
	}
	h.tag, h.foreign = tag, false
	s.known.remember(string(part), h)
	return h, nil
}

// garbage selects from listed what neither the head nor its history nor its log nor a
// checkpoint names. Records of a kind this version does not know are left alone.
func (s *Store) garbage(ctx context.Context, part driver.Partition, hdr header, listed []string) ([]string, error) {
	live, err := s.named(ctx, part, hdr)
	if err != nil {
		return nil, err
	}
	var garbage []string
	for _, sort := range listed {
		kind, epoch, id := place(sort)
		kept := epoch == hdr.Epoch
		switch kind {
		case "cp", "br":
		case "h", "ev":
			kept = kept && live[id]
		case "seg":
			if kept {
				if kept, err = s.owned(ctx, part, epoch, id, live); err != nil {
					return nil, err
				}
			}
		default:
			continue
		}
		if !kept {
			garbage = append(garbage, sort)
		}
	}
	return garbage, nil
}

// named returns the ids of what a head names, directly or along a chain.
func (s *Store) named(ctx context.Context, part driver.Partition, hdr header) (map[string]bool, error) {
	live := map[string]bool{}
	if hdr.Payload.ID != "" {
		live[hdr.Payload.ID] = true
	}
	for l, err := range s.chain(ctx, part, hdr) {
		if err != nil {
			return nil, err
		}
		live[l.id] = true
	}
	chunks, err := s.logChunks(ctx, part, hdr)
	for _, sort := range chunks {
		_, _, id := place(sort)
		live[id] = true
	}
	return live, err
}

// owned reports whether something live owns the segments of that id: what the head names, or a
// checkpoint, also one that is still claimed. A checkpoint was there before its segments, so
// after they were listed its absence means that it is gone. It is looked for once for each id,
// and noted in live.
func (s *Store) owned(ctx context.Context, part driver.Partition, epoch, id string, live map[string]bool) (bool, error) {
	known, looked := live[id]
	if looked {
		return known, nil
	}
	_, err := s.drv.Get(ctx, part.Sibling(checkpointSort(epoch, id)))
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return false, err
	}
	live[id] = err == nil
	return live[id], nil
}

// place returns what the sort of a sibling says: its kind, the epoch it is under, and the id
// of what it is or belongs to.
func place(sort string) (kind, epoch, id string) {
	kind, rest, _ := strings.Cut(sort, "/")
	epoch, rest, _ = strings.Cut(rest, "/")
	switch kind {
	case "seg":
		id, _, _ = strings.Cut(rest, "/")
	case "h", "ev":
		id = rest[strings.LastIndexByte(rest, '/')+1:]
	default:
		id = rest
	}
	return kind, epoch, id
}

// sorts lists the siblings of a partition by key.
func (s *Store) sorts(ctx context.Context, part driver.Partition, o driver.RangeOptions) ([]string, error) {
	o.KeysOnly = true
	var sorts []string
	for r, err := range s.drv.Range(ctx, part, o) {
		if err != nil {
			return nil, err
		}
		sorts = append(sorts, r.Sort)
	}
	return sorts, nil
}

// Delete removes a flow and everything under it, and nothing else. Deleting a flow that does
// not exist is no error, and neither is one whose record is damaged: this is how to get rid of
// it. A save that runs at the same time happens before the deletion, or
// after it and makes the flow anew.
func (s *Store) Delete(ctx context.Context, flowID string) error {
	err := core.ValidateID(flowID)
	if err == nil {
		err = s.delete(ctx, driver.Partition(flowID))
	}
	if err != nil {
		return &core.Error{Op: "delete", FlowID: flowID, Err: err}
	}
	return nil
}

func (s *Store) delete(ctx context.Context, part driver.Partition) error {
	s.known.forget(string(part))
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return err
		}
		// Only what was listed before the head was read may go with it: that belongs to
		// this head's epoch or to an earlier one. A later list is not safe even under this
		// head's epoch: a client that repeats a reservation after a lost reply can bring
		// the same epoch back once the head is deleted. A save that this deletion cuts
		// off removes its own siblings.
		listed, err := s.sorts(ctx, part, driver.RangeOptions{})
		if err != nil {
			return err
		}
		r, err := s.drv.Get(ctx, part.Head())
		if errors.Is(err, core.ErrNotFound) {
			return s.deleteSorts(ctx, part, listed)
		}
		cond := driver.IfTag(r.Tag)
		if errors.Is(err, core.ErrCorrupt) {
			cond, err = driver.Condition{}, nil // what cannot be read has no tag to compare, and must be removable
		}
		if err != nil {
			return err
		}
		err = s.drv.Delete(ctx, part.Head(), cond)
		if errors.Is(err, core.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		return s.deleteSorts(ctx, part, listed)
	}
	return fmt.Errorf("%w: other writers were first %d times in a row; try again", core.ErrUnavailable, maxAttempts)
}

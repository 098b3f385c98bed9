package persistence

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// entry is a snapshot kept under h/<epoch>/<revision>/<id>, put before the head that is equal
// to it. Entries form a chain from the head backwards; one that is not in the chain belongs
// to a save that lost, and is never shown.
type entry struct {
	id      string
	n       uint64
	payload packed
	data    []byte
}

func historyPrefix(epoch string) string { return "h/" + epoch + "/" }

func entrySort(epoch string, n uint64, id string) string {
	return fmt.Sprintf("%s%016x/%s", historyPrefix(epoch), n, id)
}

// entryID returns the id in the sort of a history entry.
func entryID(sort string) string {
	_, _, id := place(sort)
	return id
}

// planEntry lays out the history entry of a save.
func (w *write) planEntry(e *entry, hdr header, c content) error {
	e.n = hdr.N
	hdr.Tokens, hdr.History, hdr.Log = hdr.Tokens[:1], w.base.hdr.History, logState{}
	hdr.Method, hdr.Saved = w.snap.Method, w.snap.SavedAt.UnixMicro()
	key := w.part.Sibling(entrySort(hdr.Epoch, e.n, e.id))
	record := func(pk packed) driver.Record {
		hdr.Payload = pk.manifest
		if len(pk.segments) > 0 {
			hdr.Payload.ID, hdr.Payload.Segments = e.id, maxSegments
		}
		return driver.Record{Data: hdr.encode(pk.inline)}
	}
	e.payload = layout(c, false, w.s.limits, func(pk packed) int { return driver.Size(w.s.drv, key, record(pk)) })
	if err := w.s.cut(&e.payload, w.part, hdr.Epoch, e.id); err != nil {
		return err
	}
	hdr.Payload = e.payload.manifest
	e.data = hdr.encode(e.payload.inline)
	return w.s.fits(key, driver.Record{Data: e.data})
}

func (s *Store) putEntry(ctx context.Context, part driver.Partition, e *entry, epoch string, expire time.Time) error {
	if err := s.putSegments(ctx, e.payload, part, epoch, expire); err != nil {
		return err
	}
	return s.putSiblings(ctx, part, []driver.Record{{Sort: entrySort(epoch, e.n, e.id), Data: e.data, ExpireAt: expire}})
}

func (s *Store) removeEntry(ctx context.Context, part driver.Partition, epoch string, e entry) {
	s.removePayload(ctx, part, epoch, e.payload.manifest)
	s.removeSorts(ctx, part, []string{entrySort(epoch, e.n, e.id)})
}

// trimHistory removes the entries that are older than the ones to keep.
func (s *Store) trimHistory(ctx context.Context, part driver.Partition, hdr header) {
	if hdr.N <= uint64(s.history) {
		return
	}
	keepFrom := hdr.N - uint64(s.history) + 1
	old := driver.RangeOptions{
		From: historyPrefix(hdr.Epoch), To: entrySort(hdr.Epoch, keepFrom, ""), KeysOnly: true,
	}
	var sorts []string
	for r, err := range s.drv.Range(ctx, part, old) {
		if err != nil {
			s.leave(part, err)
			return
		}
		sorts = append(sorts, r.Sort)
		segments, err := s.sorts(ctx, part, driver.WithPrefix(segmentPrefix(hdr.Epoch, entryID(r.Sort))))
		if err != nil {
			s.leave(part, err)
			return
		}
		sorts = append(sorts, segments...)
	}
	s.removeSorts(ctx, part, sorts)
}

// History yields the snapshots of a flow that are kept, newest first, the current one
// included; see WithHistory. A flow that does not exist is core.ErrNotFound. An error is
// yielded once, as the last pair. Snapshots of an earlier incarnation, or from before another
// program wrote over the flow, do not belong to it.
func (s *Store) History(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error] {
	return func(yield func(core.Snapshot, error) bool) {
		for snap, err := range s.historyOf(ctx, flowID) {
			if err != nil {
				yield(core.Snapshot{}, &core.Error{Op: "history", FlowID: flowID, Err: err})
				return
			}
			if !yield(snap, nil) {
				return
			}
		}
	}
}

func (s *Store) historyOf(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error] {
	return func(yield func(core.Snapshot, error) bool) {
		current, hdr, err := s.load(ctx, flowID)
		if err != nil {
			yield(core.Snapshot{}, err)
			return
		}
		if !yield(current, nil) {
			return
		}
		for e, err := range s.chain(ctx, driver.Partition(flowID), hdr) {
			if err != nil {
				yield(core.Snapshot{}, err)
				return
			}
			if e.hdr.N >= current.Revision.N {
				continue
			}
			snap, err := s.entrySnapshot(ctx, flowID, e)
			if err != nil {
				yield(core.Snapshot{}, err)
				return
			}
			if !yield(snap, nil) {
				return
			}
		}
	}
}

// link is one entry of a chain.
type link struct {
	id     string
	hdr    header
	inline []byte
}

// chain yields the entries that hdr, a head, can vouch for, newest first.
func (s *Store) chain(ctx context.Context, part driver.Partition, hdr header) iter.Seq2[link, error] {
	return func(yield func(link, error) bool) {
		want := hdr.History
		if want == "" {
			return
		}
		all := driver.WithPrefix(historyPrefix(hdr.Epoch))
		all.Reverse = true
		for r, err := range s.drv.Range(ctx, part, all) {
			if err != nil {
				yield(link{}, err)
				return
			}
			if entryID(r.Sort) != want {
				continue
			}
			l := link{id: want}
			if l.hdr, l.inline, err = decodeHeader(r.Data); err != nil {
				yield(link{}, err)
				return
			}
			if want = l.hdr.History; !yield(l, nil) || want == "" {
				return
			}
		}
	}
}

func (s *Store) entrySnapshot(ctx context.Context, flowID string, l link) (core.Snapshot, error) {
	c, err := s.unpack(ctx, driver.Partition(flowID), l.hdr, nil, l.inline)
	if err != nil {
		return core.Snapshot{}, fmt.Errorf("revision %d: %w", l.hdr.N, err)
	}
	return core.Snapshot{
		FlowID: flowID, Method: l.hdr.Method, State: c.state, Progress: c.progress,
		SavedAt:  time.UnixMicro(l.hdr.Saved).UTC(),
		Revision: core.Revision{N: l.hdr.N, Tag: l.hdr.token()},
	}, nil
}

// removePayload removes the segments a manifest names. Failing is no error: they are garbage
// that Sweep finds.
func (s *Store) removePayload(ctx context.Context, part driver.Partition, epoch string, m manifest) {
	sorts := make([]string, 0, m.Segments)
	for i := range m.Segments {
		sorts = append(sorts, segmentSort(epoch, m.ID, i))
	}
	s.removeSorts(ctx, part, sorts)
}

// removeSorts removes garbage, best effort.
func (s *Store) removeSorts(ctx context.Context, part driver.Partition, sorts []string) {
	if err := s.deleteSorts(ctx, part, sorts); err != nil {
		s.leave(part, err)
	}
}

// deleteSorts removes siblings, in batches where the driver has them.
func (s *Store) deleteSorts(ctx context.Context, part driver.Partition, sorts []string) error {
	if len(sorts) == 0 {
		return nil
	}
	if b, ok := s.drv.(driver.BatchDeleter); ok && len(sorts) > 1 {
		return b.DeleteSiblings(ctx, part, sorts)
	}
	for _, sort := range sorts {
		if err := s.drv.Delete(ctx, part.Sibling(sort), driver.Condition{}); err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
	}
	return nil
}

// leave reports garbage that stays until the next sweep.
func (s *Store) leave(part driver.Partition, err error) {
	s.log.Warn("weir: siblings are left for Sweep", "flow", string(part), "error", err)
}

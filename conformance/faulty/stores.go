package faulty

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// Stores returns the broken Stores, over a correct driver.
func Stores() []Mutant {
	return slices.Concat(protocolMutants(), answerMutants())
}

// protocolMutants have the right answers while nothing goes wrong; what reaches the driver is
// wrong.
func protocolMutants() []Mutant {
	return []Mutant{
		{Name: "pointer_before_payload", Bug: "the head is put before the segments that it names", Law: "store/cut_anywhere", store: over(pointerFirst)},
		{Name: "old_segments_stay", Bug: "segments are never removed", Law: "store/large_states", store: over(segmentsStay)},
		{Name: "head_without_condition", Bug: "the head is put without a condition", Law: "store/revisions_are_exact", store: over(headWithoutCondition)},
		{Name: "doubt_is_denied", Bug: "a write with an open outcome counts as failed", Law: "store/failures_keep_their_meaning", store: over(doubtDenied)},
		{Name: "sweep_without_fence", Bug: "Sweep deletes without breaking the condition of a writer at work", Law: "store/sweep_takes_garbage_only", store: over(noFence)},
		{Name: "ttl_of_the_first_save", Bug: "a later save does not move the expiry", Law: "store/flows_expire", store: over(expiryKept)},
		{Name: "segments_die_first", Bug: "segments expire an hour before their head", Law: "store/flows_expire", store: over(segmentsDieFirst)},
		{Name: "clock_decides", Bug: "a save of an earlier time than the newest is dropped", Law: "store/revisions_are_exact", store: over(clockDecides)},
		{Name: "foreign_is_absent", Bug: "a head that another program wrote is no flow", Law: "store/foreign_heads", store: over(foreignAbsent)},
		{Name: "checksum_of_what_is_read", Bug: "a segment with a flipped bit passes", Law: "store/damage_is_reported", store: over(neverDamaged)},
	}
}

// over makes a correct Store over a driver that gives what the Store does another meaning.
func over(change func(driver.Driver) driver.Driver) subject.Maker {
	return func(d driver.Driver, opts ...persistence.Option) subject.Store {
		return persistence.New(change(d), opts...)
	}
}

func pointerFirst(d driver.Driver) driver.Driver {
	var mu sync.Mutex
	held := map[driver.Key]driver.Record{}
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		mu.Lock()
		defer mu.Unlock()
		if k.Sort != "" {
			held[k] = r
			return "later", nil
		}
		tag, err := d.Put(ctx, k, r, cond)
		for late, r := range held {
			if late.Partition == k.Partition && err == nil {
				_, err = d.Put(ctx, late, r, driver.IfAbsent())
				delete(held, late)
			}
		}
		return tag, err
	}}
}

func segmentsStay(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if strings.HasPrefix(k.Sort, "seg/") {
			return nil
		}
		return d.Delete(ctx, k, cond)
	}}
}

func headWithoutCondition(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if k.Sort == "" {
			cond = driver.Condition{}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func doubtDenied(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		if core.OutcomeUnknown(err) {
			err = core.ErrUnavailable
		}
		return tag, err
	}}
}

// noFence leaves out a Put of the head that would change nothing but its tag.
func noFence(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if now, err := d.Get(ctx, k); err == nil && k.Sort == "" && string(now.Data) == string(r.Data) {
			return now.Tag, nil
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func clockDecides(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if now, err := d.Get(ctx, k); err == nil && now.SavedAt.After(r.SavedAt) {
			return now.Tag, nil
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func segmentsDieFirst(d driver.Driver) driver.Driver {
	return stored(func(r *driver.Record) {
		if strings.HasPrefix(r.Sort, "seg/") && !r.ExpireAt.IsZero() {
			r.ExpireAt = r.ExpireAt.Add(-26 * time.Hour)
		}
	})(d)
}

func foreignAbsent(d driver.Driver) driver.Driver {
	return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if err == nil && len(r.Data) == 0 {
			return driver.Record{}, core.ErrNotFound
		}
		return r, err
	}}
}

// neverDamaged shows segments as they were when this program first put or read them.
func neverDamaged(d driver.Driver) driver.Driver {
	var first sync.Map
	p := seen(d, func(part driver.Partition, r *driver.Record) {
		if data, ok := first.LoadOrStore(part.Sibling(r.Sort), r.Data); ok && len(data.([]byte)) > 0 {
			r.Data = data.([]byte)
		}
	})
	p.put = func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		first.LoadOrStore(k, r.Data)
		return d.Put(ctx, k, r, cond)
	}
	return p
}

// seen passes what Range yields through change.
func seen(d driver.Driver, change func(part driver.Partition, r *driver.Record)) patch {
	return patch{Driver: d, siblings: func(ctx context.Context, part driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			for r, err := range d.Range(ctx, part, o) {
				if err == nil {
					change(part, &r)
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}}
}

// answer is a correct Store of which single methods are replaced.
type answer struct {
	subject.Store
	save    func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error)
	load    func(ctx context.Context, flowID string) (core.Snapshot, error)
	del     func(ctx context.Context, flowID string) error
	history func(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error]
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

// becomes replaces one sentinel by another.
func becomes(from, to error) subject.Maker {
	return answering(func(s subject.Store, _ driver.Driver) answer {
		return answer{load: func(ctx context.Context, flowID string) (core.Snapshot, error) {
			snap, err := s.LoadState(ctx, flowID)
			if errors.Is(err, from) {
				err = wrapped("load state", flowID, to)
			}
			return snap, err
		}}
	})
}

package faulty

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Stores returns the broken Stores, over a correct driver.
func Stores() []Mutant {
	return slices.Concat(protocolMutants(), answerMutants(), checkpointMutants(), logMutants())
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

func pointerFirst(d driver.Driver) driver.Driver {
	var late sync.Map // by key: the Put of a sibling
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if k.Sort != "" {
			late.Store(k, func(ctx context.Context) error { _, err := d.Put(ctx, k, r, cond); return err })
			return "later", nil
		}
		tag, err := d.Put(ctx, k, r, cond)
		for key, put := range late.Range {
			late.Delete(key)
			err = errors.Join(err, put.(func(context.Context) error)(ctx))
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

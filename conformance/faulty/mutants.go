package faulty

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Mutants returns all broken drivers and Stores.
func Mutants() []Mutant { return slices.Concat(Drivers(), Stores()) }

// Drivers returns all broken drivers.
func Drivers() []Mutant {
	return slices.Concat(writeMutants(), conditionMutants(), valueMutants(), readMutants(), loopMutants(), keyMutants(), batchMutants())
}

func writeMutants() []Mutant {
	return []Mutant{
		{Name: "if_tag_ignored", Bug: "a Put on a tag overwrites whatever is there", Law: "driver/law02_writes_are_atomic", Break: ifTagIgnored},
		{Name: "check_then_write", Bug: "the condition is tested in the client, before the write", Law: "driver/law02_writes_are_atomic", Break: checkThenWrite},
		{Name: "fields_are_merged", Bug: "a Put without a state leaves the old state", Law: "driver/law02_writes_are_atomic", Break: fieldsAreMerged},
		{Name: "tag_is_a_content_hash", Bug: "the same content has the same tag again", Law: "driver/law04_tags_are_never_reused", Break: retagged(contentTag)},
		{Name: "tag_is_a_time", Bug: "the tag is the time of the save", Law: "driver/law04_tags_are_never_reused", Break: retagged(timeTag)},
		{Name: "torn_overflow", Bug: "a sibling over 2000 bytes is cut without an error", Law: "driver/law06_sizes", Break: tornOverflow},
		{Name: "old_record_lost_when_too_large", Bug: "the old record is removed before the size is checked", Law: "driver/law06_sizes", Break: removedBeforeCheck},
		{Name: "float_rounding", Bug: "numbers of a state pass through float64", Law: "driver/law07_values", Break: floatRounding},
		{Name: "callers_bytes_are_kept", Bug: "the store keeps the slices it was given", Law: "driver/law07_values", Break: callersBytes},
		{Name: "prefix_delete", Bug: "Delete of a sibling takes all whose sort begins with its", Law: "driver/law09_delete_is_exact", Break: prefixDelete},
		{Name: "expiry_dropped_for_siblings", Bug: "a sibling is kept without its expiry", Law: "driver/law05_expiry", Break: siblingExpiryDropped},
		{Name: "expiry_in_whole_seconds", Bug: "the expiry is rounded up to the second", Law: "driver/law05_expiry", Break: wholeSeconds},
	}
}

func ifTagIgnored(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if _, ok := cond.Tag(); ok {
			cond = driver.Condition{}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func checkThenWrite(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		now, err := d.Get(ctx, k)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return "", err
		}
		if !cond.Holds(err == nil, now.Tag) {
			return "", core.ErrConflict
		}
		runtime.Gosched()
		return d.Put(ctx, k, r, driver.Condition{})
	}}
}

func fieldsAreMerged(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if old, err := d.Get(ctx, k); err == nil && r.State == nil {
			r.State = old.State
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func contentTag(r driver.Record) driver.Tag {
	return driver.Tag(fmt.Sprintf("%x", sha256.Sum256(slices.Concat(r.State, []byte(r.Method), r.Data))))
}

func timeTag(r driver.Record) driver.Tag { return driver.Tag("t" + r.SavedAt.Format(time.RFC3339Nano)) }

func tornOverflow(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if k.Sort != "" && len(r.Data) > 2000 && driver.CheckSize(d, k, r) == nil {
			r.Data = r.Data[:2000]
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func removedBeforeCheck(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		if errors.Is(err, core.ErrTooLarge) {
			_ = d.Delete(ctx, k, cond)
		}
		return tag, err
	}}
}

func floatRounding(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		var v any
		if json.Unmarshal(r.State, &v) == nil {
			r.State, _ = json.Marshal(v)
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func callersBytes(d driver.Driver) driver.Driver {
	var kept sync.Map // by tag: the record as it was given
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		kept.Store(tag, r)
		return tag, err
	}, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if given, ok := kept.Load(r.Tag); ok {
			r.Data = bytes.Clone(given.(driver.Record).Data)
		}
		return r, err
	}}
}

func prefixDelete(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if k.Sort == "" {
			return d.Delete(ctx, k, cond)
		}
		err := d.Delete(ctx, k, cond)
		for r, rerr := range d.Range(ctx, k.Partition, driver.WithPrefix(k.Sort)) {
			if err = errors.Join(err, rerr); err == nil {
				err = d.Delete(ctx, k.Partition.Sibling(r.Sort), driver.Condition{})
			}
		}
		return err
	}}
}

func siblingExpiryDropped(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if k.Sort != "" {
			r.ExpireAt = time.Time{}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func wholeSeconds(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if up := r.ExpireAt.Truncate(time.Second); up.Before(r.ExpireAt) {
			r.ExpireAt = up.Add(time.Second)
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func readMutants() []Mutant {
	return []Mutant{
		{Name: "stale_cache", Bug: "a handle goes on answering Get with what it read first", Law: "driver/law03_reads_see_writes", Break: staleCache},
		{Name: "numbers_in_natural_order", Bug: "Range sorts s/9 before s/10", Law: "driver/law08_iterators", Break: naturalOrder},
		{Name: "page_cap", Bug: "Range ends after a page of 1000, without an error", Law: "driver/law08_iterators", Break: pageCap},
		{Name: "headless_not_listed", Bug: "Partitions leaves out partitions without a head", Law: "driver/law08_iterators", Break: headlessNotListed},
		{Name: "cursor_of_the_next", Bug: "going on from a cursor skips one partition", Law: "driver/law08_iterators", Break: cursorSkips},
		{Name: "swallowed_outage", Bug: "an error on read becomes \"not found\"", Law: "driver/outage", Break: swallowedOutage},
		{Name: "outage_ends_listing", Bug: "an error in Range looks like its end", Law: "driver/outage", Break: outageEndsListing},
		{Name: "goroutine_left", Bug: "a loop over Range that is left early leaves its goroutine", Law: "driver/law10_context", Break: goroutineLeft},
		{Name: "context_ignored", Bug: "a write goes on after its context ended", Law: "driver/law10_context", Break: contextIgnored},
	}
}

func staleCache(d driver.Driver) driver.Driver {
	var cache sync.Map
	return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if err != nil {
			return r, err
		}
		first, _ := cache.LoadOrStore(k, r)
		return first.(driver.Record), nil
	}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		cache.Delete(k)
		return d.Put(ctx, k, r, cond)
	}}
}

func naturalOrder(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return whole(d.Range(ctx, p, o), func(rs []driver.Record) []driver.Record {
			slices.SortStableFunc(rs, func(a, b driver.Record) int {
				if o.Reverse {
					a, b = b, a
				}
				return cmp.Or(cmp.Compare(len(a.Sort), len(b.Sort)), strings.Compare(a.Sort, b.Sort))
			})
			return rs
		})
	}}
}

func pageCap(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			n := 0
			for r, err := range d.Range(ctx, p, o) {
				if n++; n > 1000 || !yield(r, err) {
					return
				}
			}
		}
	}}
}

func headlessNotListed(d driver.Driver) driver.Driver {
	return patch{Driver: d, partitions: func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return func(yield func(driver.Entry, error) bool) {
			for e, err := range d.Partitions(ctx, o) {
				if !e.Headless && !yield(e, err) {
					return
				}
			}
		}
	}}
}

func cursorSkips(d driver.Driver) driver.Driver {
	return patch{Driver: d, partitions: func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return func(yield func(driver.Entry, error) bool) {
			skip := o.Cursor != ""
			for e, err := range d.Partitions(ctx, o) {
				if skip && err == nil {
					skip = false
				} else if !yield(e, err) {
					return
				}
			}
		}
	}}
}

func swallowedOutage(d driver.Driver) driver.Driver {
	return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if errors.Is(err, core.ErrUnavailable) {
			err = core.ErrNotFound
		}
		return r, err
	}}
}

func outageEndsListing(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			for r, err := range d.Range(ctx, p, o) {
				if errors.Is(err, core.ErrUnavailable) || !yield(r, err) {
					return
				}
			}
		}
	}}
}

func goroutineLeft(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			next, _ := iter.Pull2(d.Range(ctx, p, o)) // it has a goroutine until its end, or stop
			for r, err, ok := next(); ok && yield(r, err); {
				r, err, ok = next()
			}
		}
	}}
}

func contextIgnored(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		return d.Put(context.WithoutCancel(ctx), k, r, cond)
	}}
}

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

// patch is a correct driver of which single methods are replaced; nil leaves a method as it
// is.
type patch struct {
	driver.Driver
	get        func(ctx context.Context, k driver.Key) (driver.Record, error)
	put        func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error)
	del        func(ctx context.Context, k driver.Key, cond driver.Condition) error
	siblings   func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error]
	partitions func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error]
	close      func() error
}

func (p patch) Close() error {
	if p.close != nil {
		return p.close()
	}
	return p.Driver.Close()
}

func (p patch) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	if p.get != nil {
		return p.get(ctx, k)
	}
	return p.Driver.Get(ctx, k)
}

func (p patch) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if p.put != nil {
		return p.put(ctx, k, r, cond)
	}
	return p.Driver.Put(ctx, k, r, cond)
}

func (p patch) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if p.del != nil {
		return p.del(ctx, k, cond)
	}
	return p.Driver.Delete(ctx, k, cond)
}

func (p patch) Range(ctx context.Context, part driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	if p.siblings != nil {
		return p.siblings(ctx, part, o)
	}
	return p.Driver.Range(ctx, part, o)
}

func (p patch) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if p.partitions != nil {
		return p.partitions(ctx, o)
	}
	return p.Driver.Partitions(ctx, o)
}

func writeMutants() []Mutant {
	return []Mutant{
		{Name: "if_tag_ignored", Bug: "a Put on a tag overwrites whatever is there", Law: "driver/law02_writes_are_atomic", Break: ifTagIgnored},
		{Name: "check_then_write", Bug: "the condition is tested in the client, before the write", Law: "driver/law02_writes_are_atomic", Break: checkThenWrite},
		{Name: "fields_are_merged", Bug: "a Put without a state leaves the old state", Law: "driver/law02_writes_are_atomic", Break: fieldsAreMerged},
		{Name: "tag_is_a_content_hash", Bug: "the same content has the same tag again", Law: "driver/law04_tags_are_never_reused", Break: madeUpTags(contentTag)},
		{Name: "tag_is_a_time", Bug: "the tag is the time of the save", Law: "driver/law04_tags_are_never_reused", Break: madeUpTags(timeTag)},
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

// madeUpTags returns a mutation under which the tag is computed from the record.
func madeUpTags(tagOf func(driver.Record) driver.Tag) func(driver.Driver) driver.Driver {
	return func(d driver.Driver) driver.Driver {
		p := patch{Driver: d}
		p.get = func(ctx context.Context, k driver.Key) (driver.Record, error) {
			r, err := d.Get(ctx, k)
			r.Tag = tagOf(r)
			return r, err
		}
		p.put = func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
			if t, ok := cond.Tag(); ok {
				if now, err := d.Get(ctx, k); err == nil && tagOf(now) == t {
					cond = driver.IfTag(now.Tag)
				}
			}
			_, err := d.Put(ctx, k, r, cond)
			return tagOf(r), err
		}
		return p
	}
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
	p := patch{Driver: d}
	p.put = func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		kept.Store(tag, r)
		return tag, err
	}
	p.get = func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if given, ok := kept.Load(r.Tag); ok {
			r.Data = bytes.Clone(given.(driver.Record).Data)
		}
		return r, err
	}
	return p
}

func prefixDelete(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if err := d.Delete(ctx, k, cond); err != nil || k.Sort == "" {
			return err
		}
		for r, err := range d.Range(ctx, k.Partition, driver.WithPrefix(k.Sort)) {
			if err != nil {
				return err
			}
			if err := d.Delete(ctx, k.Partition.Sibling(r.Sort), driver.Condition{}); err != nil {
				return err
			}
		}
		return nil
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
		{Name: "stale_cache", Bug: "a handle answers Get from its own cache", Law: "driver/law03_reads_see_writes", Break: staleCache},
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
		if r, ok := cache.Load(k); ok && ctx.Err() == nil {
			return r.(driver.Record), nil
		}
		r, err := d.Get(ctx, k)
		if err == nil {
			cache.Store(k, r)
		}
		return r, err
	}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		cache.Delete(k)
		return d.Put(ctx, k, r, cond)
	}}
}

// sorted yields the records of seq in another order.
func sorted(seq iter.Seq2[driver.Record, error], order func(a, b driver.Record) int) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		var rs []driver.Record
		for r, err := range seq {
			if err != nil {
				yield(r, err)
				return
			}
			rs = append(rs, r)
		}
		slices.SortStableFunc(rs, order)
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func naturalOrder(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return sorted(d.Range(ctx, p, o), func(a, b driver.Record) int {
			order := cmp.Or(cmp.Compare(len(a.Sort), len(b.Sort)), strings.Compare(a.Sort, b.Sort))
			if o.Reverse {
				order = -order
			}
			return order
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
			pairs := make(chan func() bool)
			go func() {
				defer close(pairs)
				for r, err := range d.Range(ctx, p, o) {
					pairs <- func() bool { return yield(r, err) }
				}
			}()
			for next := range pairs {
				if !next() {
					return
				}
			}
		}
	}}
}

func contextIgnored(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		return d.Put(context.WithoutCancel(ctx), k, r, cond)
	}}
}

package faulty

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func loopMutants() []Mutant {
	return []Mutant{
		{Name: "range_by_prefix", Bug: "Range of a also yields the siblings of a#b", Law: "driver/law08_iterators", Break: rangeByPrefix},
		{Name: "upper_bound_included", Bug: "Range yields the sort at which it should end", Law: "driver/law08_iterators", Break: upperBoundIncluded},
		{Name: "keys_without_tag", Bug: "Range of keys leaves the tags out", Law: "driver/law08_iterators", Break: keysWithoutTag},
		{Name: "page_of_a_megabyte", Bug: "Range ends after 1 MiB, without an error", Law: "driver/law08_iterators", Break: megabytePage},
		{Name: "locked_in_the_loop", Bug: "a write inside a loop over Range finds the database locked", Law: "driver/law08_iterators", Break: lockedInTheLoop},
		{Name: "locked_after_break", Bug: "a loop over Range that is left early keeps its lock", Law: "driver/law08_iterators", Break: lockedAfterBreak},
		{Name: "endless_listing", Bug: "Partitions runs after what is written meanwhile", Law: "driver/law08_iterators", Break: endlessListing},
		{Name: "cached_listing", Bug: "Partitions is read once for each handle", Law: "driver/law03_reads_see_writes", Break: cachedListing},
		{Name: "table_made_twice", Bug: "two first writes at once both make the table, and one fails", Law: "driver/law03_reads_see_writes", Break: tableMadeTwice},
		{Name: "outage_without_type", Bug: "an outage is an error of the client library", Law: "driver/outage", Break: outageWithoutType},
		{Name: "close_closes_all", Bug: "closing one handle closes the other", Law: "driver/law10_context", Break: closeClosesAll},
	}
}

func rangeByPrefix(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			for e, err := range d.Partitions(ctx, driver.ListOptions{}) {
				other := err == nil && !strings.HasPrefix(string(e.Partition)+"#", string(p)+"#")
				for r, err := range d.Range(ctx, e.Partition, o) {
					if !other && !yield(r, err) {
						return
					}
				}
			}
		}
	}}
}

func upperBoundIncluded(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		if o.To != "" {
			o.To += "\x00"
		}
		return d.Range(ctx, p, o)
	}}
}

func keysWithoutTag(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			for r, err := range d.Range(ctx, p, o) {
				if o.KeysOnly {
					r.Tag = ""
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}}
}

func megabytePage(d driver.Driver) driver.Driver {
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			bytes := 0
			for r, err := range d.Range(ctx, p, o) {
				if bytes += len(r.Data); bytes > 1<<20 || !yield(r, err) {
					return
				}
			}
		}
	}}
}

func lockedInTheLoop(d driver.Driver) driver.Driver {
	var loops atomic.Int32
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			loops.Add(1)
			defer loops.Add(-1)
			d.Range(ctx, p, o)(yield)
		}
	}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if loops.Load() > 0 && ctx.Err() == nil {
			return "", fmt.Errorf("%w: the database is locked", core.ErrUnavailable)
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func lockedAfterBreak(d driver.Driver) driver.Driver {
	var left atomic.Bool
	return patch{Driver: d, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			d.Range(ctx, p, o)(func(r driver.Record, err error) bool { left.Store(!yield(r, err)); return !left.Load() })
		}
	}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if left.Load() && ctx.Err() == nil {
			return "", fmt.Errorf("%w: the database is locked", core.ErrUnavailable)
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func endlessListing(d driver.Driver) driver.Driver {
	return patch{Driver: d, partitions: func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return func(yield func(driver.Entry, error) bool) {
			for more := true; more; {
				more = false
				for e, err := range d.Partitions(ctx, o) {
					if o.Cursor, more = e.Cursor, err == nil; !yield(e, err) {
						return
					}
				}
			}
		}
	}}
}

func cachedListing(d driver.Driver) driver.Driver {
	var cache sync.Map // by cursor: the entries after it
	return patch{Driver: d, partitions: func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
		return whole(d.Partitions(ctx, o), func(now []driver.Entry) []driver.Entry {
			if ctx.Err() != nil || len(now) == 0 {
				return now
			}
			first, _ := cache.LoadOrStore(o.Cursor, now)
			return first.([]driver.Entry)
		})
	}}
}

func tableMadeTwice(d driver.Driver) driver.Driver {
	making := &d.(*handle).making
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		all, _ := collect(d.Partitions(ctx, driver.ListOptions{}))
		if len(all) == 0 && !making.CompareAndSwap(false, true) {
			return "", fmt.Errorf("%w: the table exists", core.ErrUnavailable)
		} else if len(all) == 0 {
			time.Sleep(2 * time.Millisecond) // which it takes to make one
			defer making.Store(false)
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func outageWithoutType(d driver.Driver) driver.Driver {
	return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
		r, err := d.Get(ctx, k)
		if errors.Is(err, core.ErrUnavailable) {
			err = errors.New("connection refused")
		}
		return r, err
	}}
}

func closeClosesAll(d driver.Driver) driver.Driver {
	return patch{Driver: d, close: func() error {
		d.(*handle).down.Store(true)
		return d.Close()
	}}
}

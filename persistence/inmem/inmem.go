// Package inmem is the smallest driver: records in a map, gone with the process. It is for
// tests and for trying things out, and it is the example for the author of a new driver.
//
// Importing it registers the URL scheme "mem" with persistence.Open; each Open makes a new,
// empty store.
package inmem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func init() {
	persistence.Register("mem", func(_ context.Context, u *url.URL) (driver.Driver, error) {
		if u.Host != "" || u.Path != "" || u.RawQuery != "" || u.Opaque != "" {
			return nil, fmt.Errorf("%w: a mem: URL takes nothing after the colon", core.ErrUnsupported)
		}
		return New(Config{}), nil
	})
}

// Default limits: those of a store without a record limit of its own.
const (
	defaultRecord = 64 << 20
	defaultInline = 1 << 20
)

// Config changes a driver. The zero value is ready to use.
type Config struct {
	// Limits to pretend; zero fields take 64 MiB a record, of which 1 MiB inline. Small
	// limits make it easy to test what happens to large states.
	Limits driver.Limits
	// Now is the clock that judges expiry; nil is time.Now.
	Now func() time.Time
}

// Driver keeps records in memory. It implements driver.Driver.
type Driver struct {
	limits driver.Limits
	now    func() time.Time

	mu      sync.RWMutex
	lastTag uint64
	parts   map[driver.Partition]map[string]driver.Record
}

// New returns an empty driver.
func New(cfg Config) *Driver {
	d := &Driver{limits: cfg.Limits, now: cfg.Now, parts: map[driver.Partition]map[string]driver.Record{}}
	d.limits = d.limits.Or(defaultRecord, defaultInline)
	if d.now == nil {
		d.now = time.Now
	}
	return d
}

// Get returns a copy of the record.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	if err := ctx.Err(); err != nil {
		return driver.Record{}, err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	r, ok := d.live(k)
	if !ok {
		return driver.Record{}, core.ErrNotFound
	}
	return clone(r), nil
}

// Put writes a copy of the record.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := driver.CheckSize(d, k, r); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(k, cond); err != nil {
		return "", err
	}
	d.lastTag++
	r = clone(r)
	r.Sort, r.Tag = k.Sort, driver.Tag(strconv.FormatUint(d.lastTag, 10))
	r.ExpireAt, r.SavedAt = r.ExpireAt.Truncate(time.Millisecond), r.SavedAt.Truncate(time.Microsecond)
	if d.parts[k.Partition] == nil {
		d.parts[k.Partition] = map[string]driver.Record{}
	}
	d.parts[k.Partition][k.Sort] = r
	return r.Tag, nil
}

// Delete removes the record.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(k, cond); err != nil {
		return err
	}
	delete(d.parts[k.Partition], k.Sort)
	if len(d.parts[k.Partition]) == 0 {
		delete(d.parts, k.Partition)
	}
	return nil
}

// Range yields the siblings that existed when it began.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for _, sort := range d.sorts(p, o) {
			r, err := d.Get(ctx, p.Sibling(sort))
			switch {
			case err == nil:
				if !yield(r, nil) {
					return
				}
			case ctx.Err() != nil:
				yield(driver.Record{}, err)
				return
			}
		}
	}
}

// Partitions yields partitions in the order of their IDs; the cursor is the last ID.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		for _, e := range d.entries() {
			if e.Cursor <= o.Cursor {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(driver.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.limits }

// Close does nothing: the records go with the last reference.
func (d *Driver) Close() error { return nil }

// live returns the record unless it is absent or expired. The caller holds the lock.
func (d *Driver) live(k driver.Key) (driver.Record, bool) {
	r, ok := d.parts[k.Partition][k.Sort]
	if ok && !r.ExpireAt.IsZero() && !d.now().Before(r.ExpireAt) {
		return driver.Record{}, false
	}
	return r, ok
}

// check tests a condition. The caller holds the lock.
func (d *Driver) check(k driver.Key, cond driver.Condition) error {
	r, ok := d.live(k)
	if cond.Holds(ok, r.Tag) {
		return nil
	}
	conflict := &driver.ConflictError{Known: true, Sure: true}
	if ok {
		current := clone(r)
		conflict.Current = &current
	}
	return conflict
}

func (d *Driver) sorts(p driver.Partition, o driver.RangeOptions) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var sorts []string
	for sort := range d.parts[p] {
		if sort != "" && sort >= o.From && (o.To == "" || sort < o.To) {
			sorts = append(sorts, sort)
		}
	}
	slices.Sort(sorts)
	if o.Reverse {
		slices.Reverse(sorts)
	}
	return sorts
}

func (d *Driver) entries() []driver.Entry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var es []driver.Entry
	for _, p := range slices.Sorted(maps.Keys(d.parts)) {
		e := driver.Entry{Partition: p, Cursor: string(p), Headless: true}
		if head, ok := d.live(p.Head()); ok {
			e.Headless, e.Method, e.SavedAt, e.ExpireAt = false, head.Method, head.SavedAt, head.ExpireAt
		} else if !d.anyLive(p) {
			continue
		}
		es = append(es, e)
	}
	return es
}

// anyLive reports whether the partition has a record that has not expired.
func (d *Driver) anyLive(p driver.Partition) bool {
	for sort := range d.parts[p] {
		if _, ok := d.live(p.Sibling(sort)); ok {
			return true
		}
	}
	return false
}

func clone(r driver.Record) driver.Record {
	r.State, r.Data = bytes.Clone(r.State), bytes.Clone(r.Data)
	return r
}

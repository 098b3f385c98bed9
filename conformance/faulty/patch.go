package faulty

import (
	"context"
	"iter"

	"github.com/weirflow/weir/persistence/driver"
)

// This file is what mutants are written in: code that is correct as long as what it is given
// is. A test judges it so.

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

// stored returns a mutation that changes what is written.
func stored(change func(r *driver.Record)) func(driver.Driver) driver.Driver {
	return func(d driver.Driver) driver.Driver {
		return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
			change(&r)
			return d.Put(ctx, k, r, cond)
		}}
	}
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

// retagged returns the change under which tags are computed from records, whose own tag
// included.
func retagged(tagOf func(driver.Record) driver.Tag) func(driver.Driver) driver.Driver {
	return func(d driver.Driver) driver.Driver {
		return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
			r, err := d.Get(ctx, k)
			r.Tag = tagOf(r)
			return r, err
		}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
			if t, ok := cond.Tag(); ok {
				if now, err := d.Get(ctx, k); err == nil && tagOf(now) == t {
					cond = driver.IfTag(now.Tag)
				}
			}
			tag, err := d.Put(ctx, k, r, cond)
			r.Tag = tag
			return tagOf(r), err
		}}
	}
}

// renamed returns the change under which records have other keys. Records know the key they
// were last put under, so that a single flow looks right whatever name gives.
func renamed(name func(driver.Key) driver.Key) func(driver.Driver) driver.Driver {
	return func(d driver.Driver) driver.Driver {
		return patch{Driver: d, get: func(ctx context.Context, k driver.Key) (driver.Record, error) {
			r, err := d.Get(ctx, name(k))
			r.Sort = k.Sort
			return r, err
		}, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
			return d.Put(ctx, name(k), r, cond)
		}, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
			return d.Delete(ctx, name(k), cond)
		}, siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
			return d.Range(ctx, name(p.Head()).Partition, o)
		}}
	}
}

// whole yields what change makes of all that seq yields, then the error of seq.
func whole[T any](seq iter.Seq2[T, error], change func([]T) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := collect(seq)
		for _, v := range change(all) {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// collect returns what seq yields before its error, and that.
func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// batches is a driver that takes several siblings at once.
type batches struct{ driver.Driver }

func (b batches) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	for _, r := range rs {
		if _, err := b.Put(ctx, p.Sibling(r.Sort), r, driver.IfAbsent()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b batches) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	for _, s := range sorts {
		if err := b.Delete(ctx, p.Sibling(s), driver.Condition{}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

package faulty

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func conditionMutants() []Mutant {
	return []Mutant{
		{Name: "if_absent_ignored", Bug: "a Put on \"must not exist\" overwrites", Law: "driver/law02_writes_are_atomic", Break: ifAbsentIgnored},
		{Name: "delete_ignores_condition", Bug: "a Delete on a tag deletes whatever is there", Law: "driver/law02_writes_are_atomic", Break: deleteIgnoresCondition},
		{Name: "conflict_without_fields", Bug: "the record that comes with a conflict lacks its state", Law: "driver/law02_writes_are_atomic", Break: conflictWithoutFields},
		{Name: "tag_counts_from_one", Bug: "the tag is a counter of the record, which ends with it", Law: "driver/law04_tags_are_never_reused", Break: countedTags},
		{Name: "expiry_kept_on_update", Bug: "a Put over a record leaves its old expiry", Law: "driver/law05_expiry", Break: expiryKept},
		{Name: "expiry_of_zero_is_never", Bug: "an expiry at or before the epoch counts as none", Law: "driver/law05_expiry", Break: zeroIsNever},
		{Name: "limit_refused", Bug: "a record of exactly the limit is refused", Law: "driver/law06_sizes", Break: limitRefused},
		{Name: "size_error_without_numbers", Bug: "a record over the limit is refused without saying why", Law: "driver/law06_sizes", Break: sizeWithoutNumbers},
		{Name: "glob_delete", Bug: "an id with * deletes all ids that match it", Law: "driver/law09_delete_is_exact", Break: globDelete},
		{Name: "split_delete", Bug: "Delete takes an id only up to its colon", Law: "driver/law09_delete_is_exact", Break: splitDelete},
		{Name: "absent_delete_fails", Bug: "Delete of nothing is \"not found\"", Law: "driver/law09_delete_is_exact", Break: absentDeleteFails},
	}
}

func ifAbsentIgnored(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if cond.Absent() {
			cond = driver.Condition{}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func deleteIgnoresCondition(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, _ driver.Condition) error {
		return d.Delete(ctx, k, driver.Condition{})
	}}
}

func conflictWithoutFields(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		var conflict *driver.ConflictError
		if errors.As(err, &conflict) && conflict.Current != nil {
			conflict.Current.State = nil
		}
		return tag, err
	}}
}

func countedTags(d driver.Driver) driver.Driver {
	var counts sync.Map // by the true tag: the write of its record that it was
	count := func(r driver.Record) driver.Tag {
		c, _ := counts.LoadOrStore(r.Tag, "#")
		return driver.Tag(c.(string))
	}
	return retagged(count)(patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		old, _ := d.Get(ctx, k) // the zero record has no tag
		tag, err := d.Put(ctx, k, r, cond)
		counts.Store(tag, string(count(old))+"#")
		return tag, err
	}})
}

func expiryKept(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if old, err := d.Get(ctx, k); err == nil && !old.ExpireAt.IsZero() {
			r.ExpireAt = old.ExpireAt
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func zeroIsNever(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if r.ExpireAt.UnixMilli() <= 0 {
			r.ExpireAt = driver.Record{}.ExpireAt
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func limitRefused(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		if size, limit := driver.Size(d, k, r), d.Limits().Record; size >= limit && ctx.Err() == nil {
			return "", &core.SizeError{Size: int64(size), Limit: int64(limit)}
		}
		return d.Put(ctx, k, r, cond)
	}}
}

func sizeWithoutNumbers(d driver.Driver) driver.Driver {
	return patch{Driver: d, put: func(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
		tag, err := d.Put(ctx, k, r, cond)
		if errors.Is(err, core.ErrTooLarge) {
			err = core.ErrTooLarge
		}
		return tag, err
	}}
}

func globDelete(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		for e, err := range d.Partitions(ctx, driver.ListOptions{}) {
			if match, _ := path.Match(string(k.Partition), string(e.Partition)); err == nil && match {
				_ = d.Delete(ctx, driver.Key{Partition: e.Partition, Sort: k.Sort}, cond)
			}
		}
		return d.Delete(ctx, k, cond)
	}}
}

func splitDelete(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		id, _, _ := strings.Cut(string(k.Partition), ":")
		return d.Delete(ctx, driver.Key{Partition: driver.Partition(id), Sort: k.Sort}, cond)
	}}
}

func absentDeleteFails(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if _, err := d.Get(ctx, k); err != nil && cond == (driver.Condition{}) {
			return err
		}
		return d.Delete(ctx, k, cond)
	}}
}

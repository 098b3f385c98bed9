package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"iter"

	"github.com/weirflow/weir/persistence/driver"
)

// The statements about siblings. An expired row is no row to any of them.
const (
	selectSibling = `SELECT sort, tag, expire_at, data FROM weir_records
	WHERE flow_uuid = ?1 AND sort = ?2 AND (expire_at IS NULL OR expire_at > ?3)`

	upsertSibling = `INSERT INTO weir_records (flow_uuid, sort, tag, expire_at, data) VALUES (?1, ?2, ?3, ?4, ?5)
	ON CONFLICT (flow_uuid, sort) DO UPDATE SET tag = excluded.tag, expire_at = excluded.expire_at, data = excluded.data`

	insertSibling = `INSERT INTO weir_records (flow_uuid, sort, tag, expire_at, data) VALUES (?1, ?2, ?3, ?4, ?5)
	ON CONFLICT (flow_uuid, sort) DO UPDATE SET tag = excluded.tag, expire_at = excluded.expire_at, data = excluded.data
	WHERE expire_at <= ?6`

	updateSibling = `UPDATE weir_records SET tag = ?3, expire_at = ?4, data = ?5
	WHERE flow_uuid = ?1 AND sort = ?2 AND tag = ?7 AND (expire_at IS NULL OR expire_at > ?6)`

	deleteSibling = `DELETE FROM weir_records WHERE flow_uuid = ?1 AND sort = ?2`

	selectSiblings = `SELECT sort, tag, expire_at, data FROM weir_records
	WHERE flow_uuid = ?1 AND sort >= ?2 AND sort < ?3 AND (expire_at IS NULL OR expire_at > ?4) ORDER BY sort`
	selectSiblingsReverse = selectSiblings + ` DESC`

	selectSorts = `SELECT sort, tag, expire_at, NULL FROM weir_records
	WHERE flow_uuid = ?1 AND sort >= ?2 AND sort < ?3 AND (expire_at IS NULL OR expire_at > ?4) ORDER BY sort`
	selectSortsReverse = selectSorts + ` DESC`

	selectBounds = `SELECT
	(SELECT min(sort) FROM weir_records WHERE flow_uuid = ?1 AND sort >= ?2 AND sort < ?3),
	(SELECT max(sort) FROM weir_records WHERE flow_uuid = ?1 AND sort >= ?2 AND sort < ?3)`
)

// A page of Range ends with whichever comes first, so that neither the number nor the size of
// siblings decides how much memory a loop takes.
const (
	pageRecords = 256
	pageBytes   = 4 << 20
)

// afterAllSorts is greater than any Sort, which has only ASCII in it.
const afterAllSorts = "\xff"

func (d *Driver) getSibling(ctx context.Context, c *conn, l layout, k driver.Key) (driver.Record, bool, error) {
	if !l.records {
		return driver.Record{}, false, nil
	}
	v, err := c.queryRow(ctx, selectSibling, string(k.Partition), k.Sort, d.nowMillis())
	if err != nil || v == nil {
		return driver.Record{}, false, err
	}
	return sibling(v), true, nil
}

func sibling(v []sqldriver.Value) driver.Record {
	return driver.Record{Sort: text(v[0]), Tag: driver.Tag(text(v[1])), ExpireAt: expiryTime(v[2]), Data: blob(v[3])}
}

func (d *Driver) putSibling(ctx context.Context, c *conn, k driver.Key, r driver.Record, tag driver.Tag, cond driver.Condition) error {
	args := []any{string(k.Partition), k.Sort, string(tag), expiry(r.ExpireAt), r.Data}
	query := upsertSibling
	if cond.Absent() {
		query, args = insertSibling, append(args, d.nowMillis())
	} else if want, ok := cond.Tag(); ok {
		query, args = updateSibling, append(args, d.nowMillis(), string(want))
	}
	res, err := c.exec(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return d.conflict(ctx, c, k)
}

func (d *Driver) deleteSibling(ctx context.Context, c *conn, k driver.Key, cond driver.Condition) error {
	if cond != (driver.Condition{}) {
		r, found, err := d.getSibling(ctx, c, fullLayout(), k)
		if err != nil {
			return err
		}
		if !cond.Holds(found, r.Tag) {
			return d.conflict(ctx, c, k)
		}
	}
	_, err := c.exec(ctx, deleteSibling, string(k.Partition), k.Sort)
	return err
}

// PutSiblings writes all records in one transaction, each on the condition that it does not
// exist; after an error none is written.
func (d *Driver) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	for _, r := range rs {
		if err := driver.CheckSize(d, p.Sibling(r.Sort), r); err != nil {
			return err
		}
	}
	return d.write(ctx, "write records", func(free context.Context, c *conn) error {
		for _, r := range rs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := d.putSibling(free, c, p.Sibling(r.Sort), r, newTag(), driver.IfAbsent()); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteSiblings removes all records in one transaction; after an error none is removed.
func (d *Driver) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	return d.write(ctx, "delete records", func(free context.Context, c *conn) error {
		for _, sort := range sorts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := c.exec(free, deleteSibling, string(p), sort); err != nil {
				return err
			}
		}
		return nil
	})
}

// Range yields siblings page by page; no connection is held while the loop's body runs.
// Siblings that are created in the loop beyond the bounds of what was there at its beginning
// are not yielded.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		w := walk{d: d, p: p, o: o, from: o.From, to: o.To}
		if w.to == "" {
			w.to = afterAllSorts
		}
		driver.Pages(ctx, w.next)(yield)
	}
}

// walk is where a loop over Range has come to.
type walk struct {
	d        *Driver
	p        driver.Partition
	o        driver.RangeOptions
	from, to string // what is left; to is excluded
	bounded  bool   // they are those of what was there at the beginning
}

// next reads one page, and whether there may be more.
func (w *walk) next(ctx context.Context) (page []driver.Record, more bool, err error) {
	query := selectSiblings
	switch {
	case w.o.KeysOnly && w.o.Reverse:
		query = selectSortsReverse
	case w.o.KeysOnly:
		query = selectSorts
	case w.o.Reverse:
		query = selectSiblingsReverse
	}
	err = w.d.read(ctx, "list records", func(ctx context.Context, c *conn, l layout) error {
		if !l.records {
			return nil
		}
		size := 0
		err := c.query(ctx, query, []any{string(w.p), w.from, w.to, w.d.nowMillis()}, func(v []sqldriver.Value) bool {
			r := sibling(v)
			page = append(page, r)
			size += driver.RecordSize(w.p.Sibling(r.Sort), r)
			more = len(page) == pageRecords || size >= pageBytes
			return !more
		})
		if err != nil || !more || w.bounded {
			return err
		}
		return w.bound(ctx, c)
	})
	if !more || err != nil {
		return page, false, err
	}
	if last := page[len(page)-1].Sort; w.o.Reverse {
		w.to = last
	} else {
		w.from = afterSort(last)
	}
	return page, true, nil
}

// bound narrows the walk to what there is now.
func (w *walk) bound(ctx context.Context, c *conn) error {
	v, err := c.queryRow(ctx, selectBounds, string(w.p), w.from, w.to)
	if err != nil {
		return err
	}
	w.from, w.to, w.bounded = text(v[0]), afterSort(text(v[1])), true
	return nil
}

// afterSort returns the next text in byte order.
func afterSort(sort string) string { return sort + "\x00" }

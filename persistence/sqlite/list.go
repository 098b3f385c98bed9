package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"iter"

	"github.com/weirflow/weir/persistence/driver"
)

// The statements of Partitions: from one id to the next greater one in either table, which
// costs a search in an index however many rows a flow has. What is no text is never the id of
// a flow; x” (an empty BLOB) is the first value above all texts.
const (
	selectPartitions = `WITH RECURSIVE p(u, n) AS (
		SELECT (SELECT min(u) FROM (
			SELECT min(flow_uuid) AS u FROM flow_states WHERE flow_uuid > ?1 AND flow_uuid <= ?4
			UNION ALL SELECT min(flow_uuid) FROM weir_records WHERE flow_uuid > ?1 AND flow_uuid <= ?4)), 1
		UNION ALL
		SELECT (SELECT min(u) FROM (
			SELECT min(flow_uuid) AS u FROM flow_states WHERE flow_uuid > p.u AND flow_uuid <= ?4
			UNION ALL SELECT min(flow_uuid) FROM weir_records WHERE flow_uuid > p.u AND flow_uuid <= ?4)), n + 1
		FROM p WHERE u IS NOT NULL AND n < ?2)
	SELECT p.u, h.id, h.method_name, CAST(h.timestamp AS TEXT), o.weir_expire_at,
		EXISTS (SELECT 1 FROM weir_records AS r WHERE r.flow_uuid = p.u AND (r.expire_at IS NULL OR r.expire_at > ?3))
	FROM p
	LEFT JOIN flow_states AS h ON h.id = (SELECT max(id) FROM flow_states WHERE flow_uuid = p.u)
	LEFT JOIN flow_states AS o INDEXED BY weir_flow_states_own
		ON o.flow_uuid = p.u AND o.id = h.id AND o.weir_tag IS NOT NULL
	WHERE p.u IS NOT NULL`

	selectLastPartition = `SELECT max(u) FROM (
		SELECT max(flow_uuid) AS u FROM flow_states WHERE flow_uuid < x''
		UNION ALL SELECT max(flow_uuid) FROM weir_records WHERE flow_uuid < x'')`

	// For a file that only other programs have written and that can only be read.
	selectBarePartitions = `WITH RECURSIVE p(u, n) AS (
		SELECT (SELECT min(flow_uuid) FROM flow_states WHERE flow_uuid > ?1 AND flow_uuid <= ?4), 1
		UNION ALL
		SELECT (SELECT min(flow_uuid) FROM flow_states WHERE flow_uuid > p.u AND flow_uuid <= ?4), n + 1
		FROM p WHERE u IS NOT NULL AND n < ?2)
	SELECT p.u, h.id, h.method_name, CAST(h.timestamp AS TEXT), NULL, 0
	FROM p JOIN flow_states AS h ON h.id = (SELECT max(id) FROM flow_states WHERE flow_uuid = p.u)
	WHERE p.u IS NOT NULL AND ?3 IS NOT NULL`

	selectLastBarePartition = `SELECT max(flow_uuid) FROM flow_states WHERE flow_uuid < x''`
)

// The sizes of a page of Partitions.
const (
	defaultPagePartitions = 256
	maxPagePartitions     = 10_000
)

// Partitions yields flows in the byte order of their IDs; a cursor is the last ID. No
// connection is held while the loop's body runs. Flows that are created in the loop beyond
// the last ID that was there at its beginning are not yielded.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	size := o.PageSize
	if size <= 0 {
		size = defaultPagePartitions
	}
	return func(yield func(driver.Entry, error) bool) {
		l := listing{d: d, after: o.Cursor, size: min(size, maxPagePartitions)}
		driver.Pages(ctx, l.next)(yield)
	}
}

// listing is where a loop over Partitions has come to.
type listing struct {
	d     *Driver
	after string // the ID that the next page follows
	last  string // the last ID of all, as the first page found it
	size  int
}

// next reads one page, and whether there may be more.
func (l *listing) next(ctx context.Context) (page []driver.Entry, more bool, err error) {
	err = l.d.read(ctx, "list flows", func(ctx context.Context, c *conn, has layout) error {
		query, queryLast := selectPartitions, selectLastPartition
		if !has.complete() {
			query, queryLast = selectBarePartitions, selectLastBarePartition
		}
		if l.last == "" {
			v, err := c.queryRow(ctx, queryLast)
			if err != nil || v[0] == nil {
				return err
			}
			l.last = text(v[0])
		}
		now, rows := l.d.nowMillis(), 0
		err := c.query(ctx, query, []any{l.after, int64(l.size), now, l.last}, func(v []sqldriver.Value) bool {
			rows++
			l.after = text(v[0])
			if e, exists := entry(v, now); exists {
				page = append(page, e)
			}
			return true
		})
		more = rows == l.size
		return err
	})
	return page, more, err
}

// entry reads a row of selectPartitions. A flow of which everything has expired is none.
func entry(v []sqldriver.Value, now int64) (driver.Entry, bool) {
	id := text(v[0])
	e := driver.Entry{Partition: driver.Partition(id), Cursor: id}
	ms, expires := number(v[4])
	if v[1] == nil || expires && ms <= now {
		siblings, _ := number(v[5])
		e.Headless = true
		return e, siblings != 0
	}
	e.Method, e.SavedAt, e.ExpireAt = text(v[2]), parseTime(text(v[3])), expiryTime(v[4])
	return e, true
}

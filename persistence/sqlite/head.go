package sqlite

import (
	"bytes"
	"context"
	"strconv"

	"github.com/weirflow/weir/persistence/driver"
)

// stateElsewhere stands in state_json for a state that is not in the row. It is no JSON, so
// that a program that does not know Weir fails to read the flow; an empty text or an array
// would be a flow without a state to CrewAI.
const stateElsewhere = `!weir: the state of this flow is too large for this row; read it with Weir`

// The statements about heads. The head is the row with the highest id, whatever its
// timestamp says. Casts keep the values of odd columns from being read as times or numbers.
const (
	selectHead = `SELECT id, method_name, CAST(timestamp AS TEXT), CAST(state_json AS BLOB), weir_tag, weir_expire_at, weir_data
	FROM flow_states WHERE flow_uuid = ?1 ORDER BY id DESC LIMIT 1`

	selectBareHead = `SELECT id, method_name, CAST(timestamp AS TEXT), CAST(state_json AS BLOB), NULL, NULL, NULL
	FROM flow_states WHERE flow_uuid = ?1 ORDER BY id DESC LIMIT 1`

	// Answered by the two indexes alone.
	selectHeadTag = `SELECT m.id, o.weir_tag, o.weir_expire_at
	FROM (SELECT max(id) AS id FROM flow_states WHERE flow_uuid = ?1) AS m
	LEFT JOIN flow_states AS o INDEXED BY weir_flow_states_own
	ON o.flow_uuid = ?1 AND o.id = m.id AND o.weir_tag IS NOT NULL`

	insertHead = `INSERT INTO flow_states
	(flow_uuid, method_name, timestamp, state_json, weir_tag, weir_expire_at, weir_data)
	VALUES (?1, ?2, ?3, CAST(?4 AS TEXT), ?5, ?6, ?7)`

	trimHead = `DELETE FROM flow_states WHERE id IN (
	SELECT id FROM flow_states INDEXED BY weir_flow_states_own
	WHERE flow_uuid = ?1 AND weir_tag IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET ?2)`

	deleteHead = `DELETE FROM flow_states WHERE flow_uuid = ?1`
)

// getHead reads the newest row of a flow.
func (d *Driver) getHead(ctx context.Context, c *conn, l layout, k driver.Key) (driver.Record, bool, error) {
	query := selectHead
	if !l.hasColumns() {
		query = selectBareHead
	}
	v, err := c.queryRow(ctx, query, string(k.Partition))
	if err != nil || v == nil {
		return driver.Record{}, false, err
	}
	id, _ := number(v[0])
	r := driver.Record{
		Tag:      rowTag(id),
		Method:   text(v[1]),
		SavedAt:  parseTime(text(v[2])),
		State:    blob(v[3]),
		ExpireAt: expiryTime(v[5]),
	}
	if v[4] == nil {
		// Another program's row. Its columns of ours are NULL, unless somebody wrote
		// into them by hand: without a tag they are nobody's.
		r.ExpireAt = expiryTime(nil)
		if r.State == nil {
			r.State = []byte{}
		}
		return r, true, nil
	}
	if ms, expires := number(v[5]); expires && ms <= d.nowMillis() {
		return driver.Record{}, false, nil
	}
	r.Tag, r.Data = driver.Tag(text(v[4])), blob(v[6])
	if bytes.Equal(r.State, []byte(stateElsewhere)) {
		r.State = nil
	}
	return r, true, nil
}

// headTag is what a condition on a head asks about.
type headTag struct {
	exists  bool // and has not expired
	expired bool
	tag     driver.Tag
}

func (d *Driver) headTag(ctx context.Context, c *conn, k driver.Key) (headTag, error) {
	v, err := c.queryRow(ctx, selectHeadTag, string(k.Partition))
	if err != nil || v == nil || v[0] == nil {
		return headTag{}, err
	}
	id, _ := number(v[0])
	if v[1] == nil {
		return headTag{exists: true, tag: rowTag(id)}, nil
	}
	if ms, expires := number(v[2]); expires && ms <= d.nowMillis() {
		return headTag{expired: true}, nil
	}
	return headTag{exists: true, tag: driver.Tag(text(v[1]))}, nil
}

// putHead adds a row, as CrewAI does, and removes what is beyond the history.
func (d *Driver) putHead(ctx context.Context, c *conn, k driver.Key, r driver.Record, tag driver.Tag, cond driver.Condition) error {
	h, err := d.headTag(ctx, c, k)
	if err != nil {
		return err
	}
	if !cond.Holds(h.exists, h.tag) {
		return d.conflict(ctx, c, k)
	}
	state := r.State
	if len(state) == 0 {
		state = []byte(stateElsewhere)
	}
	_, err = c.exec(ctx, insertHead, string(k.Partition), r.Method, formatTime(r.SavedAt), state, string(tag), expiry(r.ExpireAt), r.Data)
	if err != nil {
		return err
	}
	keep := int64(d.cfg.History)
	if h.expired {
		keep = 1 // the history of a flow that ceased to exist is not that of the new one
	}
	_, err = c.exec(ctx, trimHead, string(k.Partition), keep)
	return err
}

// deleteHead removes a flow from both of CrewAI's tables.
func (d *Driver) deleteHead(ctx context.Context, c *conn, k driver.Key, cond driver.Condition) error {
	h, err := d.headTag(ctx, c, k)
	if err != nil {
		return err
	}
	if !cond.Holds(h.exists, h.tag) {
		return d.conflict(ctx, c, k)
	}
	if _, err := c.exec(ctx, deleteHead, string(k.Partition)); err != nil {
		return err
	}
	_, err = c.exec(ctx, deletePending, string(k.Partition))
	return err
}

// rowTag is the tag of a row that another program wrote. No tag of ours looks like it, and no
// id is ever given out twice.
func rowTag(id int64) driver.Tag { return driver.Tag("row-" + strconv.FormatInt(id, 10)) }

// blob returns a BLOB column; SQLite's empty value and NULL are both nil.
func blob(v any) []byte {
	b, _ := v.([]byte)
	return b
}

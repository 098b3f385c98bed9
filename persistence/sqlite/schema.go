package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
)

// The tables as CrewAI's flow persistence creates them (the first four statements), what Weir
// adds to them, and Weir's own table. Nothing here is ever assembled from input.
//
// Weir's index names a flow's rows of Weir with all that a condition asks about, so that
// neither a condition nor the removal of old rows reads a state or a row of another program.
// In weir_records the payload comes last, so that the small columns are read without it. It
// is no WITHOUT ROWID table: there a search loads whole payloads to compare keys, which makes
// reading a segment of 64 KiB 2.5 times and listing keys 20 times as slow.
const (
	createFlowStates = `CREATE TABLE flow_states (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	flow_uuid TEXT NOT NULL,
	method_name TEXT NOT NULL,
	timestamp DATETIME NOT NULL,
	state_json TEXT NOT NULL
)`
	createFlowStatesIndex = `CREATE INDEX IF NOT EXISTS idx_flow_states_uuid ON flow_states(flow_uuid)`
	createPending         = `CREATE TABLE pending_feedback (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	flow_uuid TEXT NOT NULL UNIQUE,
	context_json TEXT NOT NULL,
	state_json TEXT NOT NULL,
	created_at DATETIME NOT NULL
)`
	createPendingIndex = `CREATE INDEX IF NOT EXISTS idx_pending_feedback_uuid ON pending_feedback(flow_uuid)`

	addTag         = `ALTER TABLE flow_states ADD COLUMN weir_tag TEXT`
	addExpireAt    = `ALTER TABLE flow_states ADD COLUMN weir_expire_at INTEGER`
	addData        = `ALTER TABLE flow_states ADD COLUMN weir_data BLOB`
	createOwnIndex = `CREATE INDEX IF NOT EXISTS weir_flow_states_own
	ON flow_states(flow_uuid, id, weir_tag, weir_expire_at) WHERE weir_tag IS NOT NULL`
	createRecords = `CREATE TABLE weir_records (
	flow_uuid TEXT NOT NULL,
	sort TEXT NOT NULL,
	tag TEXT NOT NULL,
	expire_at INTEGER,
	data BLOB,
	PRIMARY KEY (flow_uuid, sort)
)`
)

// layout is what a file holds of the above.
type layout struct {
	states, statesIndex   bool
	pending, pendingIndex bool
	tag, expireAt, data   bool // Weir's columns of flow_states
	ownIndex, records     bool
}

// fullLayout is that of a file in which nothing is missing.
func fullLayout() layout {
	return layout{true, true, true, true, true, true, true, true, true}
}

func (l layout) complete() bool { return l == fullLayout() }

// hasColumns reports whether flow_states has Weir's columns.
func (l layout) hasColumns() bool { return l.tag && l.expireAt && l.data }

// missing returns the statements that complete the layout, in order.
func (l layout) missing() []string {
	var ddl []string
	need := func(there bool, stmt string) {
		if !there {
			ddl = append(ddl, stmt)
		}
	}
	need(l.states, createFlowStates)
	need(l.statesIndex, createFlowStatesIndex)
	need(l.pending, createPending)
	need(l.pendingIndex, createPendingIndex)
	need(l.tag, addTag)
	need(l.expireAt, addExpireAt)
	need(l.data, addData)
	need(l.ownIndex, createOwnIndex)
	need(l.records, createRecords)
	return ddl
}

// inspect reads the layout, and refuses tables of these names that are something else.
func inspect(ctx context.Context, c *conn) (layout, error) {
	var l layout
	enc, err := c.queryRow(ctx, "PRAGMA encoding")
	if err != nil {
		return l, err
	}
	if e := text(enc[0]); e != "UTF-8" {
		return l, unsupported("the database holds text as " + e + "; only UTF-8 can be used")
	}
	for name, check := range map[string]func(table, *layout) error{
		"flow_states":      checkStates,
		"pending_feedback": checkPending,
		"weir_records":     checkRecords,
	} {
		t, err := inspectTable(ctx, c, name)
		if err != nil {
			return l, err
		}
		if t.columns == nil {
			continue
		}
		if err := check(t, &l); err != nil {
			return l, err
		}
	}
	err = c.query(ctx, "SELECT name FROM sqlite_master WHERE type = 'index'", nil, func(v []sqldriver.Value) bool {
		switch text(v[0]) {
		case "idx_flow_states_uuid":
			l.statesIndex = true
		case "idx_pending_feedback_uuid":
			l.pendingIndex = true
		case "weir_flow_states_own":
			l.ownIndex = true
		}
		return true
	})
	return l, err
}

// table is what a file says about one table.
type table struct {
	name     string
	ddl      string
	columns  map[string]bool // in lower case; nil: no such table
	demanded []string        // those that an INSERT cannot leave out
}

func inspectTable(ctx context.Context, c *conn, name string) (table, error) {
	t := table{name: name}
	master, err := c.queryRow(ctx, "SELECT type, sql FROM sqlite_master WHERE name = ?1", name)
	if err != nil || master == nil {
		return t, err
	}
	if kind := text(master[0]); kind != "table" {
		return t, t.foreign("it is a " + kind)
	}
	t.ddl, t.columns = text(master[1]), map[string]bool{}
	const info = `SELECT name, "notnull" <> 0 AND dflt_value IS NULL AND pk = 0 FROM pragma_table_info(?1)`
	err = c.query(ctx, info, []any{name}, func(v []sqldriver.Value) bool {
		column := strings.ToLower(text(v[0]))
		t.columns[column] = true
		if demanded, _ := number(v[1]); demanded != 0 {
			t.demanded = append(t.demanded, column)
		}
		return true
	})
	return t, err
}

func checkStates(t table, l *layout) error {
	l.states, l.tag, l.expireAt, l.data = true, t.columns["weir_tag"], t.columns["weir_expire_at"], t.columns["weir_data"]
	if err := t.check("id", "flow_uuid", "method_name", "timestamp", "state_json"); err != nil {
		return err
	}
	// The tag of a row that another program wrote is made from its id, which only
	// AUTOINCREMENT never gives out again.
	if !strings.Contains(strings.ToUpper(t.ddl), "AUTOINCREMENT") {
		return t.foreign("its id is not AUTOINCREMENT")
	}
	for column := range t.columns {
		switch column {
		case "weir_tag", "weir_expire_at", "weir_data":
		default:
			if strings.HasPrefix(column, "weir_") {
				return unsupported("the table flow_states has the column " + column + " of a newer Weir; use that version")
			}
		}
	}
	return nil
}

func checkPending(t table, l *layout) error {
	l.pending = true
	return t.check("id", "flow_uuid", "context_json", "state_json", "created_at")
}

func checkRecords(t table, l *layout) error {
	l.records = true
	return t.check("flow_uuid", "sort", "tag", "expire_at", "data")
}

// check demands the columns we know, and that no other has to be filled in.
func (t table) check(known ...string) error {
	for _, column := range known {
		if !t.columns[column] {
			return t.foreign("it has no column " + column)
		}
	}
	for _, column := range t.demanded {
		if !slices.Contains(known, column) {
			return t.foreign("its column " + column + " is unknown here and must not be NULL")
		}
	}
	return nil
}

func (t table) foreign(why string) error {
	return fmt.Errorf("%w: sqlite: the table %s of this file belongs to something else: %s; use another file", core.ErrCorrupt, t.name, why)
}

// migrate completes the layout of a file that may be new, another program's, or complete. Any
// number of processes may do so at once.
func migrate(ctx context.Context, c *conn) error {
	// A complete file is not locked, so that opening it does not wait for a writer.
	l, err := inspect(ctx, c)
	if err != nil || l.complete() {
		return err
	}
	return addMissing(ctx, c)
}

// addMissing completes the layout in one transaction, which looks for itself what is missing:
// whoever waited for the lock finds that the work is done.
func addMissing(ctx context.Context, c *conn) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	l, err := inspect(ctx, c)
	for _, ddl := range l.missing() {
		if err == nil {
			_, err = c.exec(ctx, ddl)
		}
	}
	if err != nil {
		c.rollback(ctx)
		return err
	}
	return c.commit(ctx)
}

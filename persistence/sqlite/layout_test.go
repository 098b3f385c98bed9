package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// What CrewAI's SQLite persistence executes: tables and indexes if they do not exist, an
// INSERT per save, the newest row by id at a load, and a REPLACE for pending feedback.
var crewInit = []string{
	`PRAGMA journal_mode=WAL`,
	`CREATE TABLE IF NOT EXISTS flow_states (
		id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL, method_name TEXT NOT NULL,
		timestamp DATETIME NOT NULL, state_json TEXT NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS idx_flow_states_uuid ON flow_states(flow_uuid)`,
	`CREATE TABLE IF NOT EXISTS pending_feedback (
		id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL UNIQUE, context_json TEXT NOT NULL,
		state_json TEXT NOT NULL, created_at DATETIME NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS idx_pending_feedback_uuid ON pending_feedback(flow_uuid)`,
}

const (
	crewSave    = `INSERT INTO flow_states (flow_uuid, method_name, timestamp, state_json) VALUES (?, ?, ?, ?)`
	crewLoad    = `SELECT state_json FROM flow_states WHERE flow_uuid = ? ORDER BY id DESC LIMIT 1`
	crewPending = `INSERT OR REPLACE INTO pending_feedback (flow_uuid, context_json, state_json, created_at) VALUES (?, ?, ?, ?)`
)

const crewTime = "2026-01-02T03:04:05.000678+00:00"

// newCrewFile returns a file as CrewAI leaves it, open as CrewAI would have it.
func newCrewFile(t testing.TB) (string, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flow_states.db")
	db := openSQL(t, path)
	for _, stmt := range crewInit {
		mustExec(t, db, stmt)
	}
	return path, db
}

func crewState(t testing.TB, db *sql.DB, id string) string {
	t.Helper()
	var s string
	if err := db.QueryRowContext(context.Background(), crewLoad, id).Scan(&s); err != nil {
		t.Fatalf("CrewAI loads %q: %v", id, err)
	}
	return s
}

func TestLayoutReadsWhatPythonWrote(t *testing.T) {
	path, db := newCrewFile(t)
	mustExec(t, db, crewSave, "u1", "first", "2026-01-02T03:04:05+00:00", `{"id": "u1", "n": 1}`)
	mustExec(t, db, crewSave, "u1", "second", crewTime, `{"id": "u1", "n": 2}`)
	mustExec(t, db, crewSave, "u1", "third", "2020-01-01T00:00:00", `{"id": "u1", "n": 3}`) // older by its time
	mustExec(t, db, crewSave, "list", "m", crewTime, `[1]`)
	mustExec(t, db, crewSave, "broken", "m", "yesterday", `{oops`)
	mustExec(t, db, crewSave, "empty", "m", crewTime, ``)
	mustExec(t, db, crewPending, "u1", `{"flow_id": "u1"}`, `{"n": 3}`, crewTime)

	d := openTest(t, Config{Path: path})
	r := mustGet(t, d, driver.Partition("u1").Head())
	want := driver.Record{Tag: "row-3", Method: "third", State: []byte(`{"id": "u1", "n": 3}`), SavedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("Get = %+v\nwant %+v", r, want)
	}
	// The Store above judges what is no state.
	for id, state := range map[string]string{"list": `[1]`, "broken": `{oops`, "empty": ``} {
		if r := mustGet(t, d, driver.Partition(id).Head()); r.State == nil || string(r.State) != state || r.Data != nil {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback`); n != 1 {
		t.Errorf("%d pending rows after opening, want 1", n)
	}
	e := entries(t, d, driver.ListOptions{})["u1"]
	if e.Headless || e.Method != "third" || !e.SavedAt.Equal(want.SavedAt) {
		t.Errorf("listed as %+v", e)
	}
}

func TestLayoutPythonReadsWhatWeirWrote(t *testing.T) {
	path, db := newCrewFile(t)
	mustExec(t, db, crewSave, "u1", "old", crewTime, `{"n": 0}`)
	d := openTest(t, Config{Path: path})
	k := driver.Partition("u1").Head()
	state := `{"n": 9007199254740993, "text": "\u0000é😀", "f": 1.0}`
	tag := mustPut(t, d, k, head(state), driver.IfTag("row-1"))
	if got := crewState(t, db, "u1"); got != state {
		t.Errorf("CrewAI loads %s", got)
	}
	var kind, timestamp string
	err := db.QueryRowContext(t.Context(), `SELECT typeof(state_json), CAST(timestamp AS TEXT) FROM flow_states ORDER BY id DESC LIMIT 1`).Scan(&kind, &timestamp)
	if err != nil || kind != "text" || timestamp != crewTime {
		t.Errorf("state_json is %s, timestamp %s (%v)", kind, timestamp, err)
	}
	if n := queryInt(t, db, `SELECT count(*) FROM flow_states WHERE method_name = 'old'`); n != 1 {
		t.Error("the row of CrewAI is gone")
	}
	// A state that is not in the row must not be read as an empty one.
	for _, none := range [][]byte{{}, nil} {
		tag = mustPut(t, d, k, driver.Record{State: none, Method: "m", SavedAt: time.Now(), Data: []byte("elsewhere")}, driver.IfTag(tag))
		if s := crewState(t, db, "u1"); s == "" || json.Valid([]byte(s)) {
			t.Errorf("CrewAI can read a state that is elsewhere: %q", s)
		}
	}
	if r := mustGet(t, d, k); r.State != nil || string(r.Data) != "elsewhere" {
		t.Errorf("Get = %+v", r)
	}
	// CrewAI opens the file anew: nothing to create, nothing in the way.
	for _, stmt := range crewInit {
		mustExec(t, db, stmt)
	}
}

func TestLayoutPythonOverARowOfOurs(t *testing.T) {
	path, db := newCrewFile(t)
	d := openTest(t, Config{Path: path})
	k := driver.Partition("u1").Head()
	r := head(`{"n": 1}`)
	r.ExpireAt = time.Now().Add(time.Hour)
	tag := mustPut(t, d, k, r, driver.IfAbsent())
	mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{"n": 2}`)
	got := mustGet(t, d, k)
	if got.Data != nil || !got.ExpireAt.IsZero() || got.Method != "theirs" || string(got.State) != `{"n": 2}` || got.Tag == tag {
		t.Errorf("Get = %+v; want only what CrewAI wrote", got)
	}
	_, err := d.Put(t.Context(), k, head(`{"n": 3}`), driver.IfTag(tag))
	wantErr(t, "Put on the tag of the row written over", err, core.ErrConflict)
	wantErr(t, "Delete on the tag of the row written over", d.Delete(t.Context(), k, driver.IfTag(tag)), core.ErrConflict)
	_, err = d.Put(t.Context(), k, head(`{"n": 3}`), driver.IfAbsent())
	wantErr(t, "Put if absent", err, core.ErrConflict)
	// The next save removes the row of ours under theirs, and keeps theirs.
	mustPut(t, d, k, head(`{"n": 3}`), driver.IfTag(got.Tag))
	if n := queryInt(t, db, `SELECT count(*) FROM flow_states WHERE weir_tag IS NULL`); n != 1 {
		t.Errorf("%d rows of CrewAI, want 1", n)
	}
	if n := queryInt(t, db, `SELECT count(*) FROM flow_states`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestLayoutHistory(t *testing.T) {
	for _, history := range []int{1, 3} {
		path, db := newCrewFile(t)
		for range 5 {
			mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{}`)
		}
		mustExec(t, db, crewSave, "u2", "theirs", crewTime, `{}`)
		clk := newClock()
		d := openTest(t, Config{Path: path, History: history, Now: clk.Now})
		for i := range 10 {
			mustPut(t, d, driver.Partition("u1").Head(), head(`{}`), driver.Condition{})
			if i == 4 {
				mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{}`)
			}
		}
		if n := queryInt(t, db, `SELECT count(*) FROM flow_states WHERE weir_tag IS NOT NULL`); n != history {
			t.Errorf("history %d: %d rows of Weir", history, n)
		}
		if n := queryInt(t, db, `SELECT count(*) FROM flow_states WHERE weir_tag IS NULL`); n != 7 {
			t.Errorf("history %d: %d rows of CrewAI, want 7", history, n)
		}
		// What follows an expired head begins without a history.
		r := head(`{}`)
		r.ExpireAt = clk.In(time.Second)
		mustPut(t, d, driver.Partition("u1").Head(), r, driver.Condition{})
		clk.Advance(time.Second)
		mustPut(t, d, driver.Partition("u1").Head(), head(`{}`), driver.IfAbsent())
		if n := queryInt(t, db, `SELECT count(*) FROM flow_states WHERE weir_tag IS NOT NULL`); n != 1 {
			t.Errorf("history %d: %d rows of Weir after expiry, want 1", history, n)
		}
	}
}

func TestLayoutDeleteTakesEverythingOfTheFlow(t *testing.T) {
	path, db := newCrewFile(t)
	for _, id := range []string{"u1", "u2"} {
		mustExec(t, db, crewSave, id, "theirs", crewTime, `{}`)
		mustExec(t, db, crewPending, id, `{}`, `{}`, crewTime)
	}
	d := openTest(t, Config{Path: path})
	k := driver.Partition("u1").Head()
	tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback`); n != 2 {
		t.Errorf("%d pending rows after a save, want 2", n)
	}
	if err := d.Delete(t.Context(), k, driver.IfTag(tag)); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, d, k)
	for _, table := range []string{"flow_states", "pending_feedback"} {
		var id string
		if err := db.QueryRowContext(t.Context(), `SELECT group_concat(flow_uuid) FROM `+table).Scan(&id); err != nil || id != "u2" {
			t.Errorf("%s holds %q (%v), want u2", table, id, err)
		}
	}
	mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{}`)
	if r := mustGet(t, d, k); r.Tag == "row-1" || r.Tag == tag {
		t.Errorf("the tag %s came back", r.Tag)
	}
}

func TestLayoutOfAnOldFileReadOnly(t *testing.T) {
	path, db := newCrewFile(t)
	mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{"n": 1}`)
	ro := openTest(t, Config{Path: path, ReadOnly: true})
	k := driver.Partition("u1").Head()
	if r := mustGet(t, ro, k); string(r.State) != `{"n": 1}` || r.Tag != "row-1" {
		t.Errorf("Get = %+v", r)
	}
	wantAbsent(t, ro, driver.Partition("u1").Sibling("a"))
	if got := sorts(t, ro, "u1", driver.RangeOptions{}); got != nil {
		t.Errorf("Range = %q", got)
	}
	if es := entries(t, ro, driver.ListOptions{PageSize: 1}); len(es) != 1 || es["u1"].Method != "theirs" {
		t.Errorf("Partitions = %+v", es)
	}
	_, err := ro.Put(t.Context(), k, head(`{}`), driver.Condition{})
	wantErr(t, "Put", err, core.ErrDenied)
	if n := queryInt(t, db, `SELECT count(*) FROM pragma_table_info('flow_states')`); n != 5 {
		t.Errorf("reading has changed the table: %d columns", n)
	}
	// Another process adds our columns and saves: the reader must see it at once.
	rw := openTest(t, Config{Path: path})
	tag := mustPut(t, rw, k, driver.Record{Method: "ours", SavedAt: time.Now(), Data: []byte("x")}, driver.IfTag("row-1"))
	mustPut(t, rw, driver.Partition("u1").Sibling("a"), driver.Record{Data: []byte("y")}, driver.Condition{})
	if r := mustGet(t, ro, k); r.Tag != tag || r.State != nil || string(r.Data) != "x" {
		t.Errorf("Get after the migration = %+v", r)
	}
	if got := sorts(t, ro, "u1", driver.RangeOptions{}); len(got) != 1 {
		t.Errorf("Range after the migration = %q", got)
	}
}

// TestLayoutWithPython lets Python itself read and write, where there is one.
func TestLayoutWithPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.CommandContext(t.Context(), python, "-c", "import sqlite3").Run()
	}
	if err != nil {
		t.Skipf("no python3 with sqlite3 here: %v", err)
	}
	path := filepath.Join(t.TempDir(), "flow_states.db")
	script := `
import sys, json, sqlite3, datetime
path, job = sys.argv[1:3]
con = sqlite3.connect(path, timeout=30)
if job == "save":
    for stmt in json.loads(sys.argv[3]):
        con.execute(stmt)
    con.execute("` + crewSave + `", ("u é\x00", "first", datetime.datetime.now(datetime.timezone.utc).isoformat(), json.dumps({"n": 1})))
    con.commit()
else:
    row = con.execute("` + crewLoad + `", ("u é\x00",)).fetchone()
    when = con.execute("SELECT timestamp FROM flow_states ORDER BY id DESC LIMIT 1").fetchone()[0]
    assert datetime.datetime.fromisoformat(when).isoformat() == when, when
    try:
        print(json.dumps(json.loads(row[0])))
    except json.JSONDecodeError:
        print("unreadable")
con.close()
`
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", script, path}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("python3: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	ddl, err := json.Marshal(crewInit)
	if err != nil {
		t.Fatal(err)
	}
	run("save", string(ddl))
	d := openTest(t, Config{Path: path})
	k := driver.Partition("u é\x00").Head()
	r := mustGet(t, d, k)
	if string(r.State) != `{"n": 1}` || time.Since(r.SavedAt).Abs() > time.Hour {
		t.Errorf("Weir loads %+v", r)
	}
	tag := mustPut(t, d, k, head(`{"n": 2}`), driver.IfTag(r.Tag))
	if got := run("load"); got != `{"n": 2}` {
		t.Errorf("Python loads %s", got)
	}
	mustPut(t, d, k, driver.Record{SavedAt: time.Unix(1, 0)}, driver.IfTag(tag))
	if got := run("load"); got != "unreadable" {
		t.Errorf("Python loads %s instead of failing", got)
	}
	run("save", string(ddl))
	if got := mustGet(t, d, k); got.Data != nil || string(got.State) != `{"n": 1}` {
		t.Errorf("Weir loads %+v after Python wrote over it", got)
	}
}

package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func TestFileWithAnOddPath(t *testing.T) {
	k := driver.Partition("p").Head()
	for _, name := range []string{"a?mode=memory", "a%20b", "a#b", "a b", "ünï😀", "a'b\"c;--", "a&b=c", ":memory:", "file:x", "-", "a\nb"} {
		path := filepath.Join(t.TempDir(), "d"+name, name)
		d := openTest(t, Config{Path: path})
		mustPut(t, d, k, head(`{}`), driver.IfAbsent())
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range left {
			if !strings.HasPrefix(e.Name(), name) {
				t.Errorf("%q: the file %q appeared", name, e.Name())
			}
		}
		mustGet(t, openTest(t, Config{Path: path, ReadOnly: true}), k)
	}
	_, err := Open(t.Context(), Config{Path: "a\x00b"})
	wantErr(t, "a NUL in the path", err, core.ErrUnsupported)
}

func TestFileOfARelativePathStaysThatFile(t *testing.T) {
	t.Chdir(t.TempDir())
	d := openTest(t, Config{Path: "weir.db"})
	mustPut(t, d, driver.Partition("p").Head(), head(`{}`), driver.IfAbsent())
	if _, err := os.Stat("weir.db"); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	mustGet(t, d, driver.Partition("p").Head()) // opens a connection for reading
	if _, err := os.Stat("weir.db"); err == nil {
		t.Error("a second file in the new directory")
	}
}

func TestFileThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want error
	}{
		"text":           {Config{Path: text}, core.ErrCorrupt},
		"text read-only": {Config{Path: text, ReadOnly: true}, core.ErrCorrupt},
		"directory":      {Config{Path: dir}, core.ErrUnsupported},
		"under a file":   {Config{Path: filepath.Join(text, "x", "y.db")}, core.ErrUnavailable},
		"missing":        {Config{Path: filepath.Join(dir, "missing.db"), ReadOnly: true}, core.ErrUnavailable},
	} {
		_, err := Open(t.Context(), c.cfg)
		if !errors.Is(err, c.want) || errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if got, err := os.ReadFile(text); err != nil || !bytes.HasPrefix(got, []byte("not a database")) || len(got) != 15_000 {
		t.Errorf("the foreign file was changed (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "missing.db")); err == nil {
		t.Error("opening for reading has created a file")
	}
}

func TestFileWithForeignTables(t *testing.T) {
	const states = `CREATE TABLE flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL, method_name TEXT NOT NULL, timestamp DATETIME NOT NULL, state_json TEXT NOT NULL`
	for name, c := range map[string]struct {
		ddl  string
		want error
	}{
		"other columns":        {`CREATE TABLE flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT)`, core.ErrCorrupt},
		"no AUTOINCREMENT":     {strings.Replace(states, " AUTOINCREMENT", "", 1) + `)`, core.ErrCorrupt},
		"a column to fill in":  {states + `, tenant TEXT NOT NULL)`, core.ErrCorrupt},
		"a view":               {`CREATE VIEW flow_states AS SELECT 1 AS id`, core.ErrCorrupt},
		"other pending table":  {`CREATE TABLE pending_feedback (id INTEGER)`, core.ErrCorrupt},
		"other records table":  {`CREATE TABLE weir_records (id INTEGER)`, core.ErrCorrupt},
		"a newer Weir":         {states + `, weir_future TEXT)`, core.ErrUnsupported},
		"UTF-16":               {`PRAGMA encoding = 'UTF-16'; CREATE TABLE t (x)`, core.ErrUnsupported},
		"an index of our name": {`CREATE TABLE weir_flow_states_own (x)`, core.ErrCorrupt},
	} {
		path := filepath.Join(t.TempDir(), "foreign.db")
		db := openSQL(t, path)
		db.SetMaxOpenConns(1)
		mustExec(t, db, c.ddl)
		before := queryInt(t, db, `SELECT count(*) FROM sqlite_master`)
		_, err := Open(t.Context(), Config{Path: path})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if n := queryInt(t, db, `SELECT count(*) FROM sqlite_master`); n != before {
			t.Errorf("%s: the file was changed", name)
		}
	}
	// Tables and columns that are in nobody's way stay, and are no error.
	path := filepath.Join(t.TempDir(), "shared.db")
	db := openSQL(t, path)
	mustExec(t, db, `CREATE TABLE users (id INTEGER)`)
	mustExec(t, db, states+`, tenant TEXT NOT NULL DEFAULT 'x', note TEXT)`)
	mustPut(t, openTest(t, Config{Path: path}), driver.Partition("p").Head(), head(`{}`), driver.IfAbsent())
}

func TestFileDamagedInUse(t *testing.T) {
	d := openTest(t, Config{Readers: 1})
	path := d.cfg.Path
	k := driver.Partition("p").Head()
	mustPut(t, d, k, head(`{"t":"`+strings.Repeat("x", 1<<16)+`"}`), driver.Condition{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(damaged); i++ { // all but the page of the header and the schema
		damaged[i] = 0xa5
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, Config{Path: path})
	_, err = d.Get(t.Context(), k)
	wantErr(t, "Get", err, core.ErrCorrupt)
	_, err = d.Put(t.Context(), k, head(`{}`), driver.Condition{})
	wantErr(t, "Put", err, core.ErrCorrupt)
	for _, err := range d.Partitions(t.Context(), driver.ListOptions{}) {
		wantErr(t, "Partitions", err, core.ErrCorrupt)
	}
}

func TestFileWhoseTablesWentAway(t *testing.T) {
	d := openTest(t, Config{})
	mustPut(t, d, driver.Partition("p").Head(), head(`{}`), driver.Condition{})
	mustExec(t, openSQL(t, d.cfg.Path), `DROP TABLE flow_states`)
	_, err := d.Get(t.Context(), driver.Partition("p").Head())
	wantErr(t, "Get", err, core.ErrCorrupt)
}

func TestFullDiskKeepsTheOldState(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		k := driver.Partition("p").Head()
		tag := mustPut(t, d, k, head(`{"n":1}`), driver.Condition{})
		stag := mustPut(t, d, driver.Partition("p").Sibling("s"), driver.Record{Data: []byte("old")}, driver.Condition{})
		limitPages(t, d)
		large := driver.Record{State: []byte(`{"t":"` + strings.Repeat("x", 1<<20) + `"}`), Data: make([]byte, 1<<20)}
		for _, cond := range []driver.Condition{{}, driver.IfTag(tag)} {
			_, err := d.Put(t.Context(), k, large, cond)
			wantErr(t, "Put of a head", err, core.ErrUnavailable)
			if err != nil && !strings.Contains(err.Error(), "free space") {
				t.Errorf("the error does not tell what to do: %v", err)
			}
			if core.OutcomeUnknown(err) {
				t.Error("the outcome is known")
			}
		}
		_, err := d.Put(t.Context(), driver.Partition("p").Sibling("s"), large, driver.IfTag(stag))
		wantErr(t, "Put of a sibling", err, core.ErrUnavailable)
		err = d.PutSiblings(t.Context(), "p", []driver.Record{{Sort: "a"}, {Sort: "b", Data: large.Data}})
		wantErr(t, "PutSiblings", err, core.ErrUnavailable)
		wantAbsent(t, d, driver.Partition("p").Sibling("a"))
		if r := mustGet(t, d, k); r.Tag != tag || string(r.State) != `{"n":1}` {
			t.Errorf("the old head is %+v", r)
		}
		if r := mustGet(t, d, driver.Partition("p").Sibling("s")); r.Tag != stag || string(r.Data) != "old" {
			t.Errorf("the old sibling is %+v", r)
		}
		mustPut(t, d, k, head(`{"n":2}`), driver.IfTag(tag)) // what fits is written
	})
}

// limitPages makes the disk full, as far as SQLite is concerned, a few pages from now.
func limitPages(t *testing.T, d *Driver) {
	t.Helper()
	c, err := d.writer.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.writer.put(c, nil)
	n, err := c.queryRow(t.Context(), "PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := number(n[0])
	if _, err := c.exec(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages+8)); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyReadsAndDeniesWrites(t *testing.T) {
	d := openTest(t, Config{})
	k := driver.Partition("p").Head()
	tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
	mustPut(t, d, driver.Partition("p").Sibling("s"), driver.Record{}, driver.Condition{})
	check := func(ro *Driver) {
		t.Helper()
		if r := mustGet(t, ro, k); r.Tag != tag {
			t.Errorf("Get = %+v", r)
		}
		if got := sorts(t, ro, "p", driver.RangeOptions{}); len(got) != 1 {
			t.Errorf("Range = %q", got)
		}
		if es := entries(t, ro, driver.ListOptions{}); len(es) != 1 {
			t.Errorf("Partitions = %+v", es)
		}
		_, err := ro.Put(t.Context(), k, head(`{}`), driver.Condition{})
		wantErr(t, "Put", err, core.ErrDenied)
		wantErr(t, "Delete", ro.Delete(t.Context(), k, driver.Condition{}), core.ErrDenied)
		wantErr(t, "PutSiblings", ro.PutSiblings(t.Context(), "p", []driver.Record{{Sort: "a"}}), core.ErrDenied)
		wantErr(t, "DeleteSiblings", ro.DeleteSiblings(t.Context(), "p", []string{"s"}), core.ErrDenied)
	}
	ro := openTest(t, Config{Path: d.cfg.Path, ReadOnly: true})
	check(ro)
	tag = mustPut(t, d, k, head(`{"n":2}`), driver.Condition{})
	check(ro) // which sees what others write
	if err := errors.Join(ro.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	check(openTest(t, Config{Path: d.cfg.Path, ReadOnly: true})) // nobody else has the file open
}

// What may be over in a moment must not open a file that others write as one that nobody does.
func TestOpenThatFailsWhereWritesArePermitted(t *testing.T) {
	d := openTest(t, Config{})
	mustPut(t, d, driver.Partition("p").Head(), head(`{}`), driver.Condition{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", d.cfg.Path+"-shm"); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	for _, readOnly := range []bool{false, true} {
		other, err := Open(t.Context(), Config{Path: d.cfg.Path, ReadOnly: readOnly})
		wantErr(t, "Open", err, core.ErrUnavailable)
		if err == nil {
			_ = other.Close()
		}
	}
}

func TestReadOnlyEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{Path: path, ReadOnly: true})
	wantErr(t, "Open", err, core.ErrUnsupported)
}

func TestCloseEndsEverything(t *testing.T) {
	before := openFiles(t)
	d, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "weir.db"), Readers: 8, Synchronous: Off})
	if err != nil {
		t.Fatal(err)
	}
	k := driver.Partition("p").Head()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				if _, err := d.Put(context.Background(), k, head(`{}`), driver.Condition{}); err != nil {
					wantErr(t, "Put after Close", err, core.ErrUnavailable)
					return
				}
				if _, err := d.Get(context.Background(), k); err != nil {
					wantErr(t, "Get after Close", err, core.ErrUnavailable)
					return
				}
			}
		})
	}
	for deadline := time.Now().Add(10 * time.Second); len(entries(t, d, driver.ListOptions{})) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no write in 10 s")
		}
		runtime.Gosched()
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if _, err := os.Stat(d.cfg.Path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is left behind: %v", err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files before, %d after", before, after)
	}
}

func TestOpenThatFailsLeavesNoFileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foreign.db")
	db := openSQL(t, path)
	mustExec(t, db, `CREATE TABLE flow_states (x)`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	for range 10 {
		if _, err := Open(t.Context(), Config{Path: path}); err == nil {
			t.Fatal("opened")
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files before, %d after", before, after)
	}
}

// openFiles counts the files of this process, where the system tells; else it is 0.
func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(fds)
}

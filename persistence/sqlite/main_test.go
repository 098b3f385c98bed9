package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// childEnv makes the test binary be another process of a test: "job|path|argument".
const childEnv = "WEIR_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := runChild(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child starts the test binary as another process that runs a job of runChild.
func child(t *testing.T, job, path, argument string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+job+"|"+path+"|"+argument)
	return cmd
}

// clock is a time that tests move by hand.
type clock struct{ millis atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.millis.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) Now() time.Time               { return time.UnixMilli(c.millis.Load()) }
func (c *clock) Advance(d time.Duration)      { c.millis.Add(d.Milliseconds()) }
func (c *clock) In(d time.Duration) time.Time { return c.Now().Add(d) }

// openTest opens a driver that the end of the test closes. Durability is not what most tests
// are about, so they do not wait for the disk.
func openTest(t testing.TB, cfg Config) *Driver {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "weir.db")
	}
	if cfg.Synchronous == "" {
		cfg.Synchronous = Off
	}
	d, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatalf("Open(%+v): %v", cfg, err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// openSQL opens the file as another program would.
func openSQL(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fileURI(path)+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func queryInt(t testing.TB, db *sql.DB, query string) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func head(state string) driver.Record {
	return driver.Record{State: []byte(state), Method: "m", SavedAt: time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC), Data: []byte("data of " + state)}
}

func mustPut(t testing.TB, d *Driver, k driver.Key, r driver.Record, cond driver.Condition) driver.Tag {
	t.Helper()
	tag, err := d.Put(context.Background(), k, r, cond)
	if err != nil {
		t.Fatalf("Put(%q): %v", k, err)
	}
	return tag
}

func mustGet(t testing.TB, d *Driver, k driver.Key) driver.Record {
	t.Helper()
	r, err := d.Get(context.Background(), k)
	if err != nil {
		t.Fatalf("Get(%q): %v", k, err)
	}
	return r
}

func wantErr(t testing.TB, doing string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", doing, err, want)
	}
}

func wantAbsent(t testing.TB, d *Driver, k driver.Key) {
	t.Helper()
	r, err := d.Get(context.Background(), k)
	if !errors.Is(err, core.ErrNotFound) {
		t.Errorf("Get(%q) = %+v, %v; want ErrNotFound", k, r, err)
	}
}

// sorts collects Range; it fails the test on an error.
func sorts(t testing.TB, d *Driver, p driver.Partition, o driver.RangeOptions) []string {
	t.Helper()
	var got []string
	for r, err := range d.Range(context.Background(), p, o) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Sort)
	}
	return got
}

// entries collects Partitions by ID; it fails the test on an error.
func entries(t testing.TB, d *Driver, o driver.ListOptions) map[string]driver.Entry {
	t.Helper()
	got := map[string]driver.Entry{}
	for e, err := range d.Partitions(context.Background(), o) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Partition)] = e
	}
	return got
}

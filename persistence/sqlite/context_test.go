package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func TestLaw10AnEndedContextStartsNothing(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		k := driver.Partition("p").Head()
		tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := d.Get(ctx, k)
		wantErr(t, "Get", err, context.Canceled)
		_, err = d.Put(ctx, k, head(`{"n":2}`), driver.Condition{})
		wantErr(t, "Put", err, context.Canceled)
		wantErr(t, "Delete", d.Delete(ctx, k, driver.Condition{}), context.Canceled)
		wantErr(t, "PutSiblings", d.PutSiblings(ctx, "p", []driver.Record{{Sort: "a"}}), context.Canceled)
		wantErr(t, "DeleteSiblings", d.DeleteSiblings(ctx, "p", []string{"a"}), context.Canceled)
		for _, err := range d.Range(ctx, "p", driver.RangeOptions{}) {
			wantErr(t, "Range", err, context.Canceled)
		}
		for _, err := range d.Partitions(ctx, driver.ListOptions{}) {
			wantErr(t, "Partitions", err, context.Canceled)
		}
		if got := mustGet(t, d, k); got.Tag != tag {
			t.Error("something was written")
		}
		if _, err := Open(ctx, Config{Path: d.cfg.Path}); !errors.Is(err, context.Canceled) {
			t.Errorf("Open: %v", err)
		}
	})
}

// A context that ends at any point leaves either the old record and the context's error, or
// the new record and no error, and a connection that works.
func TestLaw10ContextEndsAtAnyPoint(t *testing.T) {
	eachKind(t, Config{Synchronous: Normal}, func(t *testing.T, d *Driver) {
		k := driver.Partition("p").Head()
		tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
		r := head(`{"t":"` + strings.Repeat("x", 1<<18) + `"}`)
		var done, ended int
		for i := 0; i < 3000 && (done < 20 || ended < 20); i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*20*time.Microsecond)
			got, err := d.Put(ctx, k, r, driver.IfTag(tag))
			cancel()
			switch {
			case err == nil:
				done, tag = done+1, got
			case errors.Is(err, context.DeadlineExceeded):
				ended++
			default:
				t.Fatal(err)
			}
			if got := mustGet(t, d, k); got.Tag != tag {
				t.Fatal("the error of the context was returned for a write that happened, or the reverse")
			}
		}
		if done == 0 || ended == 0 {
			t.Errorf("%d writes, %d ended contexts: nothing shown", done, ended)
		}
	})
}

func TestLaw10AContextThatEndsInALoop(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		for _, id := range []driver.Partition{"p", "q", "r"} {
			mustPut(t, d, id.Head(), head(`{}`), driver.Condition{})
			mustPut(t, d, driver.Partition("p").Sibling(string(id)), driver.Record{}, driver.Condition{})
		}
		var got []error
		inRange, cancelRange := context.WithCancel(t.Context())
		defer cancelRange()
		for _, err := range d.Range(inRange, "p", driver.RangeOptions{}) {
			got = append(got, err)
			cancelRange()
		}
		inList, cancelList := context.WithCancel(t.Context())
		defer cancelList()
		for _, err := range d.Partitions(inList, driver.ListOptions{}) {
			got = append(got, err)
			cancelList()
		}
		if want := []error{nil, context.Canceled, nil, context.Canceled}; !slices.Equal(got, want) {
			t.Errorf("the loops saw %v, want %v", got, want)
		}
	})
}

func TestLaw10AWaitForAConnectionEndsWithTheContext(t *testing.T) {
	d := openTest(t, Config{Path: Memory, BusyTimeout: time.Minute})
	c, err := d.writer.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = d.Get(ctx, driver.Partition("p").Head())
	wantErr(t, "Get", err, context.DeadlineExceeded)
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the wait took %v", took)
	}
	d.writer.put(c, nil)
	wantAbsent(t, d, driver.Partition("p").Head())
}

func TestLaw10AContextThatEndsDuringATransactionUndoesIt(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		ctx, cancel := context.WithCancel(t.Context())
		s := driver.Partition("p").Sibling("s")
		err := d.write(ctx, "test", func(free context.Context, c *conn) error {
			cancel()
			return d.putSibling(free, c, s, driver.Record{}, newTag(), driver.Condition{})
		})
		wantErr(t, "write", err, context.Canceled)
		wantAbsent(t, d, s)
		mustPut(t, d, s, driver.Record{}, driver.IfAbsent())
	})
}

func TestLaw10AWaitForALockEndsWithTheContext(t *testing.T) {
	d := openTest(t, Config{BusyTimeout: time.Minute})
	k := driver.Partition("p").Head()
	mustPut(t, d, k, head(`{}`), driver.Condition{})
	db := openSQL(t, d.cfg.Path)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := d.Put(ctx, k, head(`{"n":1}`), driver.Condition{})
	wantErr(t, "Put", err, context.DeadlineExceeded)
	mustGet(t, d, k) // readers do not wait for a writer
	// A second writer of this process waits for the first, and that ends as well.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			_, err := d.Put(ctx, k, head(`{"n":1}`), driver.Condition{})
			wantErr(t, "Put", err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	mustExec(t, db, "ROLLBACK")
	mustPut(t, d, k, head(`{"n":2}`), driver.Condition{})
}

func TestBusyTimeoutIsUnavailable(t *testing.T) {
	d := openTest(t, Config{BusyTimeout: 20 * time.Millisecond})
	db := openSQL(t, d.cfg.Path)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "BEGIN IMMEDIATE")
	k := driver.Partition("p").Head()
	_, err := d.Put(t.Context(), k, head(`{}`), driver.Condition{})
	wantErr(t, "Put", err, core.ErrUnavailable)
	if core.OutcomeUnknown(err) {
		t.Error("nothing was sent, and yet the outcome is unknown")
	}
	// Opening a complete file needs no lock.
	openTest(t, Config{Path: d.cfg.Path, BusyTimeout: 20 * time.Millisecond})
	mustExec(t, db, "ROLLBACK")
	mustPut(t, d, k, head(`{}`), driver.IfAbsent())
}

// A file without a log that somebody reads cannot be switched to one: Open waits for that.
func TestOpenWaitsForALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db := openSQL(t, path)
	db.SetMaxOpenConns(1)
	for _, stmt := range crewInit[1:] {
		mustExec(t, db, stmt)
	}
	mustExec(t, db, "BEGIN")
	queryInt(t, db, "SELECT count(*) FROM flow_states")
	const wait = 200 * time.Millisecond
	begin := time.Now()
	_, err := Open(t.Context(), Config{Path: path, BusyTimeout: wait})
	wantErr(t, "Open", err, core.ErrUnavailable)
	if took := time.Since(begin); took < wait {
		t.Errorf("Open gave up after %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Config{Path: path, BusyTimeout: time.Minute})
	wantErr(t, "Open", err, context.DeadlineExceeded)
	mustExec(t, db, "COMMIT")
	openTest(t, Config{Path: path})
}

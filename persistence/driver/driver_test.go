package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

func ExampleCondition() {
	for _, cond := range []driver.Condition{{}, driver.IfAbsent(), driver.IfTag("t1")} {
		fmt.Println(cond.Holds(false, ""), cond.Holds(true, "t1"), cond.Holds(true, "t2"))
	}
	// Output:
	// true true true
	// true false false
	// false true false
}

func TestTheEmptyTagIsNeverHad(t *testing.T) {
	cond := driver.IfTag("")
	if cond.Holds(true, "") || cond.Holds(false, "") || cond.Holds(true, "t1") {
		t.Error("IfTag of the empty tag must never hold: it is what a caller has who knows of no record")
	}
	if tag, ok := cond.Tag(); !ok || tag == "" {
		t.Error("a driver must see that there is a condition")
	}
}

func TestWithPrefixSelectsExactlyThePrefix(t *testing.T) {
	o := driver.WithPrefix("seg/a/")
	in := func(sort string) bool { return sort >= o.From && (o.To == "" || sort < o.To) }
	for sort, want := range map[string]bool{
		"seg/a/": true, "seg/a/000000": true, "seg/a/zz": true, "seg/a": false, "seg/a0": false, "seg/ab/0": false, "seg/b/0": false,
	} {
		if in(sort) != want {
			t.Errorf("%q selected: %v, want %v", sort, !want, want)
		}
	}
	if driver.WithPrefix("") != (driver.RangeOptions{}) {
		t.Error("the empty prefix selects all")
	}
}

// sized counts a record as a store with a compact form of its own.
type sized struct{ driver.Driver }

func (sized) Size(driver.Key, driver.Record) int { return 7 }

func TestSizeIsTheDriversOwnWhereItHasOne(t *testing.T) {
	d := inmem.New(inmem.Config{Limits: driver.Limits{Record: 200, Inline: 100}})
	key, r := driver.Partition("f").Head(), driver.Record{State: make([]byte, 100)}
	if got := driver.Size(sized{d}, key, r); got != 7 {
		t.Errorf("size %d, want the driver's 7", got)
	}
	var size *core.SizeError
	if err := driver.CheckSize(d, key, r); !errors.As(err, &size) || size.Limit != 200 || size.Size != int64(driver.RecordSize(key, r)) {
		t.Errorf("got %v", err)
	}
	if err := driver.CheckSize(sized{d}, key, r); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAConflictErrorIsAConflict(t *testing.T) {
	for _, err := range []error{&driver.ConflictError{}, &driver.ConflictError{Known: true}, fmt.Errorf("put: %w", &driver.ConflictError{Known: true, Current: &driver.Record{}})} {
		if !errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotFound) {
			t.Errorf("%v must be ErrConflict and nothing else", err)
		}
	}
}

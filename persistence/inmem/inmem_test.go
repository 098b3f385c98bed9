package inmem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// The laws of a driver are tested by the conformance suite; here is how one is used.
func Example() {
	ctx, d := context.Background(), inmem.New(inmem.Config{})
	key := driver.Partition("c-42").Head()
	tag, _ := d.Put(ctx, key, driver.Record{State: []byte(`{"n":1}`)}, driver.IfAbsent())
	_, _ = d.Put(ctx, key, driver.Record{State: []byte(`{"n":2}`)}, driver.IfTag(tag))
	_, err := d.Put(ctx, key, driver.Record{State: []byte(`{"n":3}`)}, driver.IfTag(tag))
	r, _ := d.Get(ctx, key)
	fmt.Println(errors.Is(err, core.ErrConflict), string(r.State))
	// Output: true {"n":2}
}

func TestSmallLimitsAreKept(t *testing.T) {
	d := inmem.New(inmem.Config{Limits: driver.Limits{Record: 1 << 10}})
	if got := d.Limits(); got.Record != 1<<10 || got.Inline != 1<<10 {
		t.Errorf("limits %+v: Inline must not exceed Record", got)
	}
	_, err := d.Put(t.Context(), driver.Partition("f").Head(), driver.Record{Data: make([]byte, 1<<10)}, driver.Condition{})
	if !errors.Is(err, core.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestExpiryFollowsTheClockGiven(t *testing.T) {
	now := time.UnixMilli(1_000)
	d := inmem.New(inmem.Config{Now: func() time.Time { return now }})
	key := driver.Partition("f").Head()
	if _, err := d.Put(t.Context(), key, driver.Record{ExpireAt: now.Add(time.Millisecond)}, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), key); err != nil {
		t.Errorf("before its time: %v", err)
	}
	now = now.Add(time.Millisecond)
	if _, err := d.Get(t.Context(), key); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("at its time: %v", err)
	}
}

package conformance_test

import (
	"sync"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// TestSharedServer runs all cases, several at a time, on one store that does not tell
// namespaces apart and holds flows of others: what a harness with Shared promises is enough.
func TestSharedServer(t *testing.T) {
	one := inmem.New(inmem.Config{})
	stranger := driver.Partition("somebody's")
	if _, err := one.Put(t.Context(), stranger.Head(), driver.Record{State: []byte(`{}`)}, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
	open := func(conformance.T, conformance.Options) (driver.Driver, error) { return one, nil }
	t.Run("suite", func(t *testing.T) {
		conformance.Run(t, conformance.Harness{New: open, Reopen: open, Shared: true})
	})
	if _, err := one.Get(t.Context(), stranger.Head()); err != nil {
		t.Errorf("the suite has removed a flow that is not its own: %v", err)
	}
}

// TestLarge runs what is bigger under Large.
func TestLarge(t *testing.T) {
	for _, path := range []string{"driver/law08_iterators", "store/linearizable"} {
		h := inMemory(driver.Limits{})
		h.Large, h.Only = true, path
		conformance.Run(t, h)
	}
}

// TestOutage takes the store away under the suite, and what it says of a store that stays up.
func TestOutage(t *testing.T) {
	var down sync.Map
	h := inMemory(driver.Limits{})
	h.Only = "driver/outage"
	h.Outage = func(_ conformance.T, o conformance.Options) func() {
		down.Store(o.Namespace, true)
		return func() { down.Delete(o.Namespace) }
	}
	report, err := conformance.Check(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Failed()) != 1 {
		t.Errorf("a store that answers in an outage is not accused: %+v", report.Failed())
	}
}

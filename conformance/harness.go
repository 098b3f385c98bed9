package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

// T is what a law needs of a test. A *testing.T is one; Check uses one that records. Its
// methods mean what those of testing.TB mean; Fatalf and Skipf end the case and may only be
// called from its own goroutine.
type T interface {
	Name() string
	Context() context.Context
	Cleanup(f func())
	TempDir() string
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
}

// Options says which store a case wants to have opened.
type Options struct {
	// Namespace is random, of the characters a-z 0-9 _, and at most 24 bytes. What is opened
	// under a new one must be empty, unless the harness is Shared. A driver that can keep
	// several stores apart (a file, a table, a key prefix) uses it for that.
	Namespace string

	// Now is the clock that judges expiry, or nil for the driver's own. It is only set for a
	// harness with the capability InjectedClock.
	Now func() time.Time

	// Limits are the sizes to pretend; zero fields leave the driver's own. They are only set
	// for a harness with the capability PretendedLimits.
	Limits driver.Limits
}

// Capability is something that not every driver can do, and without which some cases cannot
// run.
type Capability string

// The capabilities. The optional interfaces are checked: a driver that has one of them must
// declare it, and one that declares it must have it.
const (
	// InjectedClock: the driver judges expiry by Options.Now. Without it the suite waits for
	// short real times, and cannot look at single milliseconds.
	InjectedClock Capability = "injected clock"
	// PretendedLimits: the driver takes Options.Limits for its own.
	PretendedLimits Capability = "pretended limits"
	// BatchPut: the driver is a driver.BatchPutter.
	BatchPut Capability = "batch put"
	// BatchDelete: the driver is a driver.BatchDeleter.
	BatchDelete Capability = "batch delete"
)

// Harness tells the suite how to reach one backend. Only New is required.
type Harness struct {
	// New opens the store that o names; the suite closes the driver. What New itself started
	// it ends with t.Cleanup. It is called once a case, from several goroutines at a time.
	New func(t T, o Options) (driver.Driver, error)

	// Reopen opens one more handle on the data that New was given the same Options for, as
	// another process would. It is nil where the data lives and dies with the one handle.
	Reopen func(t T, o Options) (driver.Driver, error)

	// Capabilities are what the driver offers beyond the required.
	Capabilities []Capability

	// Outage makes the store of o unreachable for all its handles until end is called; it is
	// nil where the harness cannot.
	Outage func(t T, o Options) (end func())

	// Shared: New cannot tell namespaces apart, so there may be partitions of others. The
	// suite then looks at its own prefix only and leaves out what needs an empty store.
	Shared bool

	// OptOut maps the path of a layer, law or case that must not run to the reason, which is
	// printed.
	OptOut map[string]string

	// Only is the path of the one layer, law or case to run; "" is all.
	Only string

	// Seed repeats an earlier run's random choices; 0 takes a new one, which is printed.
	Seed uint64

	// Large adds the cases that take minutes on a slow store: ten thousand records, and the
	// record limit of a driver that cannot pretend a small one.
	Large bool

	// Skew is by how much the clock of the store may differ from this machine's, where the
	// driver has no injected clock; 0 is 250 ms.
	Skew time.Duration
}

func (h *Harness) has(c Capability) bool { return slices.Contains(h.Capabilities, c) }

// validate refuses what would make a run look better than it is.
func (h *Harness) validate() error {
	if h.New == nil {
		return errors.New("conformance: Harness.New is nil; it opens the store to judge")
	}
	for path, reason := range h.OptOut {
		if strings.TrimSpace(reason) == "" {
			return fmt.Errorf("conformance: the opt-out of %q has no reason", path)
		}
		if !knownPath(path) {
			return fmt.Errorf("conformance: the opt-out %q names no layer, law or case", path)
		}
	}
	if h.Only != "" && !knownPath(h.Only) {
		return fmt.Errorf("conformance: Only %q names no layer, law or case", h.Only)
	}
	return nil
}

// optedOut returns the reason for which the case with that path must not run.
func (h *Harness) optedOut(path string) (reason string, out bool) {
	for p, reason := range h.OptOut {
		if within(path, p) {
			return reason, true
		}
	}
	return "", false
}

// within reports whether path is p or lies below it.
func within(path, p string) bool {
	return p == "" || path == p || strings.HasPrefix(path, p+"/")
}

// knownPath reports whether p names a layer, law or case.
func knownPath(p string) bool {
	for _, l := range laws() {
		for _, c := range l.cases {
			if within(l.path()+"/"+c.name, p) {
				return true
			}
		}
	}
	return false
}

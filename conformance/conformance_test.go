package conformance_test

import (
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// inMemory is the harness of the smallest driver: what it keeps dies with the handle.
func inMemory(limits driver.Limits) conformance.Harness {
	return conformance.Harness{
		New: func(_ conformance.T, o conformance.Options) (driver.Driver, error) {
			cfg := inmem.Config{Now: o.Now, Limits: limits}
			if o.Limits != (driver.Limits{}) {
				cfg.Limits = o.Limits
			}
			return inmem.New(cfg), nil
		},
		Capabilities: []conformance.Capability{conformance.InjectedClock, conformance.PretendedLimits},
	}
}

func TestInMemory(t *testing.T) {
	conformance.Run(t, inMemory(driver.Limits{}))
}

// TestInMemoryTight puts nearly every state into segments.
func TestInMemoryTight(t *testing.T) {
	h := inMemory(driver.Limits{Record: 1024, Inline: 1024})
	h.Only = "store"
	conformance.Run(t, h)
}

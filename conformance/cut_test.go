package conformance_test

import (
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow/flowtest"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// TestCutAnywhere puts the Store under the law of resume, with segments for all but the
// smallest states. Each process has a Store of its own over what the earlier ones left. The
// race detector makes it six times slower; make explore runs all the seeds without.
func TestCutAnywhere(t *testing.T) {
	seeds := flowtest.Seeds{To: 2000}
	if raceDetector {
		seeds.To = 300
	}
	drv := inmem.New(inmem.Config{})
	flowtest.CutAnywhere(t, seeds, func() (core.FlowPersistence, error) {
		return persistence.New(drv, persistence.WithLimits(driver.Limits{Record: 1024, Inline: 512})), nil
	})
}

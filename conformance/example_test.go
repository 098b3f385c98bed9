package conformance_test

import (
	"context"
	"fmt"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// Check runs the suite outside of go test. In a test, conformance.Run(t, harness) makes a
// subtest of every case instead.
func ExampleCheck() {
	harness := conformance.Harness{
		New: func(_ conformance.T, o conformance.Options) (driver.Driver, error) {
			return inmem.New(inmem.Config{Now: o.Now, Limits: o.Limits}), nil
		},
		Capabilities: []conformance.Capability{conformance.InjectedClock, conformance.PretendedLimits},
		Only:         "driver/law05_expiry",
	}
	report, err := conformance.Check(context.Background(), harness)
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := map[conformance.Status]int{}
	for _, r := range report.Results {
		if r.Status != conformance.NotRun {
			counts[r.Status]++
		}
	}
	fmt.Println(counts)
	// Output: map[passed:9]
}

package conformance_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
)

// overheard is a driver that sums up what is put into it, as far as no random name is in it.
type overheard struct {
	driver.Driver
	mu  *sync.Mutex
	sum io.Writer
}

func (o overheard) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.sum, "%d %d %q %s %d %t\n", len(k.Partition), len(k.Sort), r.Method, r.State, len(r.Data), cond.Absent())
	return o.Driver.Put(ctx, k, r, cond)
}

// TestSeedRepeatsARun runs cases with random choices twice on one seed and once on another.
func TestSeedRepeatsARun(t *testing.T) {
	for _, path := range []string{"store/like_the_model/own_limits", "driver/law09_delete_is_exact/patterns_in_ids"} {
		heard := func(seed uint64) uint64 {
			sum := fnv.New64a()
			h := inMemory(driver.Limits{})
			open := h.New
			h.New = func(t conformance.T, o conformance.Options) (driver.Driver, error) {
				d, err := open(t, o)
				return overheard{Driver: d, mu: new(sync.Mutex), sum: sum}, err
			}
			h.Only, h.Seed = path, seed
			report, err := conformance.Check(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			if failed := report.Failed(); len(failed) > 0 || report.Seed != seed {
				t.Fatalf("seed %d: %+v", report.Seed, failed)
			}
			return sum.Sum64()
		}
		first := heard(7)
		if again := heard(7); again != first {
			t.Errorf("%s: the same seed made other choices", path)
		}
		if path == "store/like_the_model/own_limits" && heard(8) == first {
			t.Errorf("%s: another seed made the same choices", path)
		}
	}
}

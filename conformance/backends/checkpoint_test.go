package backends_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
	"github.com/weirflow/weir/persistence/sqlite"
)

// rounds is how often the method of the long run is called.
const rounds = 1000

// constant is a state that keeps its size.
type constant struct {
	ID   string `json:"id"`
	N    string `json:"n"`
	Text string `json:"text"`
}

// longRun is a flow whose one method runs 1,000 times, by a router's label.
func longRun(tb testing.TB) *flow.Definition[constant] {
	tb.Helper()
	const again flow.Label[any] = "again"
	b := flow.New[constant]("long")
	flow.Start(b, "begin", func(context.Context, *flow.Run[constant]) (string, error) { return "", nil })
	flow.Router(b, "step", func(_ context.Context, run *flow.Run[constant], _ any) (flow.Route, error) {
		n := run.Call()
		err := run.State().Update(func(c *constant) error { c.N = fmt.Sprintf("%06d", n); return nil })
		if n >= rounds {
			return flow.Route{}, err
		}
		return flow.To(again, any(fmt.Sprintf("%06d", n))), err
	}, flow.Or(flow.On[any]("begin"), again), flow.Emits(again))
	def, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// takeCheckpoints runs it with a state of 4 KiB that does not compress to much less.
func takeCheckpoints(tb testing.TB, store *persistence.Store) {
	tb.Helper()
	state := flow.Inputs{"id": "long", "n": "000000", "text": hexText(4 << 10)}
	res, err := longRun(tb).Kickoff(tb.Context(), state, flow.WithStore(store), flow.Persist(), flow.KeepLog(),
		flow.MethodBudget(-1), flow.WithCheckpoints(checkpoint.Config{}))
	if err != nil || res.Completed["step"] != rounds {
		tb.Fatalf("%+v, %v", res, err)
	}
}

// hexText is text without repetition, the same each time.
func hexText(n int) string {
	var b strings.Builder
	for i := uint64(1); b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", i*0x9e3779b97f4a7c15)
	}
	return b.String()[:n]
}

// recordSizes returns the bytes of the checkpoints' records and segments as they are stored, in
// the order in which they were taken.
func recordSizes(tb testing.TB, d driver.Driver) (sizes []int) {
	tb.Helper()
	for r, err := range d.Range(tb.Context(), "long", driver.WithPrefix("cp/")) {
		if err != nil {
			tb.Fatal(err)
		}
		sizes = append(sizes, driver.Size(d, driver.Partition("long").Sibling(r.Sort), r))
	}
	return sizes
}

func longRunStores(tb testing.TB) map[string]driver.Driver {
	tb.Helper()
	file, err := sqlite.Open(tb.Context(), sqlite.Config{Path: filepath.Join(tb.TempDir(), "flows.db")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := file.Close(); err != nil {
			tb.Error(err)
		}
	})
	return map[string]driver.Driver{"inmem": inmem.New(inmem.Config{}), "sqlite": file}
}

// TestCheckpointsDoNotGrow has one taken after each of 1,000 calls: what a checkpoint takes
// depends on the flow as it is and not on how long it has run. The log, which does grow, is in
// none of them.
func TestCheckpointsDoNotGrow(t *testing.T) {
	for name, d := range longRunStores(t) {
		t.Run(name, func(t *testing.T) {
			store := persistence.New(d)
			takeCheckpoints(t, store)
			sizes := recordSizes(t, d)
			if len(sizes) != rounds+1 {
				t.Fatalf("%d checkpoints", len(sizes))
			}
			at100, at1000 := sizes[100], sizes[1000]
			t.Logf("bytes: %d after 100 calls, %d after 1,000: %.3f ×", at100, at1000, float64(at1000)/float64(at100))
			if float64(at1000) > 1.2*float64(at100) {
				t.Errorf("a checkpoint takes %d bytes after 1,000 calls, %d after 100", at1000, at100)
			}
			listed, newest := 0, ""
			for c, err := range store.Checkpoints(t.Context(), "long") {
				if err != nil {
					t.Fatal(err)
				}
				if newest != "" && c.ID >= newest {
					t.Fatalf("%q is listed after %q", c.ID, newest)
				}
				listed, newest = listed+1, c.ID
			}
			if listed != rounds+1 {
				t.Errorf("%d are listed", listed)
			}
		})
	}
}

// TestListingCheckpointsPages prunes in the middle of a listing: what is on pages that were not
// read yet is not listed any more.
func TestListingCheckpointsPages(t *testing.T) {
	store := persistence.New(longRunStores(t)["sqlite"])
	takeCheckpoints(t, store)
	const keep = 300
	listed := 0
	for _, err := range store.Checkpoints(t.Context(), "long") {
		if err != nil {
			t.Fatal(err)
		}
		if listed++; listed == 1 {
			if n, err := store.PruneCheckpoints(t.Context(), "long", core.MainBranch, keep); n != rounds+1-keep || err != nil {
				t.Fatalf("%d are pruned, %v", n, err)
			}
		}
	}
	if listed != keep {
		t.Errorf("%d are listed, of which %d were left after the first", listed, keep)
	}
}

// BenchmarkCheckpoints takes one after each call of a long run, and reports what it takes.
func BenchmarkCheckpoints(b *testing.B) {
	for _, name := range []string{"inmem", "sqlite"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d := longRunStores(b)[name]
				takeCheckpoints(b, persistence.New(d))
				sizes := recordSizes(b, d)
				b.ReportMetric(float64(sizes[100]), "bytes/100")
				b.ReportMetric(float64(sizes[1000]), "bytes/1000")
				b.ReportMetric(float64(sizes[1000])/float64(sizes[100]), "ratio")
			}
		})
	}
}

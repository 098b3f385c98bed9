//go:build unix

package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/conformance/backends/servers"
	_ "github.com/weirflow/weir/persistence/redis"
	_ "github.com/weirflow/weir/persistence/sqlite"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(workerJob); ok {
		os.Exit(runWorker(text))
	}
	os.Exit(m.Run())
}

// killsOfFlow is how many processes of a flow are killed.
const killsOfFlow = 5

// mostProcesses is more than any flow needs: C1.
const mostProcesses = 100

func TestKilledAnywhere(t *testing.T) {
	backends(t, killSeeds, leastHits, points, (*match).killed)
}

// stops are the points at which a process may sleep while others go on: when it has read, in
// the middle of a method, and before each kind of write.
var stops = []string{
	"head read", "head put", "segment put", "log put", "history put", "checkpoint put", "delete", "method",
}

func TestWokenTooLate(t *testing.T) {
	backends(t, zombieSeeds, leastStops, stops, (*match).woken)
}

// backends plays the flows on SQLite files and on a Redis server.
func backends(t *testing.T, seeds uint64, least int64, at []string, play func(*match, context.Context) error) {
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		newTournament(t, at, func(seed uint64) string {
			return "sqlite:" + filepath.Join(dir, fmt.Sprint(seed, ".db")) + "?synchronous=normal&busy_timeout=20s"
		}).play(t, seeds, least, play)
	})
	t.Run("redis", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		server, err := servers.Redis(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		newTournament(t, at, func(uint64) string { return "redis://" + server.Addr + "/0" }).play(t, seeds, least, play)
	})
}

// tournament is many flows on one backend.
type tournament struct {
	dir    string
	points []string
	url    func(seed uint64) string

	hits                     map[string]*atomic.Int64
	random, processes, swept atomic.Int64
}

func newTournament(t *testing.T, at []string, url func(seed uint64) string) *tournament {
	t.Helper()
	n := &tournament{dir: t.TempDir(), points: at, url: url, hits: map[string]*atomic.Int64{}}
	for _, p := range at {
		n.hits[p] = &atomic.Int64{}
	}
	return n
}

// play plays the seeds, as many at a time as there are processors, and reports how often each
// point struck.
func (n *tournament) play(t *testing.T, seeds uint64, least int64, play func(*match, context.Context) error) {
	t.Helper()
	var from uint64
	given := os.Getenv("WEIR_CRASH_SEEDS")
	if given != "" {
		if _, err := fmt.Sscanf(given, "%d-%d", &from, &seeds); err != nil {
			t.Fatalf("WEIR_CRASH_SEEDS=%q: %v", given, err)
		}
	}
	var next atomic.Uint64
	next.Store(from)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for seed := next.Add(1) - 1; seed < seeds && !t.Failed(); seed = next.Add(1) - 1 {
				n.match(t, seed, play)
			}
		})
	}
	wait.Wait()
	t.Logf("%d flows, %d processes, %d killed at random, %d records left behind and swept", seeds-from, n.processes.Load(), n.random.Load(), n.swept.Load())
	for _, p := range n.points {
		hits := n.hits[p].Load()
		t.Logf("%5d times at %q", hits, p)
		if hits < least && given == "" {
			t.Errorf("the point %q was hit %d times, at least %d are needed", p, hits, least)
		}
	}
}

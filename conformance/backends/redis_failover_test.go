package backends_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
)

// load is a number of writers, each with a flow of its own that it saves again and again by
// compare-and-swap, small and large states in turn.
type load struct {
	store   *persistence.Store
	lossy   bool // a failover may take acknowledged saves with it
	writers []*writer
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// writer is one of them. Only its own goroutine touches the fields without atomic.
type writer struct {
	id       string
	saves    atomic.Int64 // acknowledged
	failures atomic.Int64
	problems []string
}

func startLoad(t *testing.T, store *persistence.Store, lossy bool, ids []string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{store: store, lossy: lossy, stop: stop}
	for _, id := range ids {
		w := &writer{id: id}
		l.writers = append(l.writers, w)
		l.wg.Go(func() { l.write(ctx, w) })
	}
	t.Cleanup(func() { l.end(t) })
	return l
}

// end stops the writers and reports what they saw that may not be.
func (l *load) end(t *testing.T) {
	l.stop()
	l.wg.Wait()
	for _, w := range l.writers {
		for _, p := range w.problems {
			t.Errorf("%s: %s", w.id, p)
		}
		w.problems = nil
	}
}

// write saves on top of what it knows. After every error it loads, and compares: what was
// acknowledged is there, unless a failover took it, and a state is never half of one.
func (l *load) write(ctx context.Context, w *writer) {
	problem := func(format string, args ...any) { w.problems = append(w.problems, fmt.Sprintf(format, args...)) }
	var held core.Revision
	newest := 0      // acknowledged
	tried := []int{} // not answered since
	for n := 1; ctx.Err() == nil && len(w.problems) < 5; n++ {
		size := []int{200, 40 << 10}[n%2]
		saved, err := l.store.SaveState(ctx, snapshot(w.id, n, size), core.IfRevision(held))
		if err == nil {
			held, newest, tried = saved.Revision, n, nil
			w.saves.Add(1)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		w.failures.Add(1)
		tried = append(tried, n)
		if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrConflict) {
			problem("a save fails with %v", err)
		}
		if errors.Is(err, core.ErrConflict) && !l.lossy && !core.OutcomeUnknown(err) && len(tried) == 1 {
			problem("nobody else writes, and a save is refused: %v", err)
		}
		got, err := l.store.LoadState(ctx, w.id)
		for errors.Is(err, core.ErrUnavailable) && ctx.Err() == nil {
			got, err = l.store.LoadState(ctx, w.id)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, core.ErrNotFound):
			if newest > 0 && !l.lossy {
				problem("save %d was acknowledged and is not found", newest)
			}
			held = core.Revision{}
		case err != nil:
			problem("a load fails with %v", err)
		default:
			if p := l.judge(got, newest, tried); p != "" {
				problem("%s", p)
			}
			held = got.Revision
		}
	}
}

// judge says what is wrong with a loaded state.
func (l *load) judge(got core.Snapshot, newest int, tried []int) string {
	var state struct {
		N    int
		Text string
	}
	if err := json.Unmarshal(got.State, &state); err != nil {
		return "a state is no JSON: " + err.Error()
	}
	if want := []int{200, 40 << 10}[state.N%2]; len(state.Text) != want {
		return fmt.Sprintf("state %d has a text of %d bytes, want %d: it is torn", state.N, len(state.Text), want)
	}
	if state.N != newest && !slices.Contains(tried, state.N) && (!l.lossy || state.N > newest) {
		return fmt.Sprintf("loaded save %d, acknowledged was %d, open are %v", state.N, newest, tried)
	}
	return ""
}

// recovers waits until every writer has saved again, at most for so long.
func (l *load) recovers(t *testing.T, most time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	before := make([]int64, len(l.writers))
	for i, w := range l.writers {
		before[i] = w.saves.Load()
	}
	waitFor(t, "every writer to save again", func() bool {
		for i, w := range l.writers {
			if w.saves.Load() < before[i]+2 {
				return false
			}
		}
		return true
	})
	took := time.Since(start)
	if took > most {
		t.Errorf("saves work again after %v, want %v at most", took, most)
	}
	return took
}

func (l *load) summary() string {
	var saves, failures int64
	for _, w := range l.writers {
		saves += w.saves.Load()
		failures += w.failures.Load()
	}
	return fmt.Sprintf("%d saves, %d failures", saves, failures)
}

func openStore(t *testing.T, url string) *persistence.Store {
	t.Helper()
	quietClient()
	store, err := persistence.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func flowIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("flow %d", i)
	}
	return ids
}

// TestRedisClusterFailover kills a primary under load.
func TestRedisClusterFailover(t *testing.T) {
	cluster := startCluster(t)
	l := startLoad(t, openStore(t, cluster.URL()), true, flowIDs(8))
	l.recovers(t, 20*time.Second)
	primary, err := cluster.PrimaryOf(t.Context(), "weir:{flow%200}:h")
	if err != nil {
		t.Fatal(err)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	took := l.recovers(t, 15*time.Second)
	restart(t, primary)
	l.recovers(t, 15*time.Second)
	l.end(t)
	t.Logf("saves work again after %v; %s", took.Round(time.Millisecond), l.summary())
}

// TestRedisSentinelFailover kills the primary that the sentinels watch, under load.
func TestRedisSentinelFailover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	group, err := servers.StartSentinel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, group) })
	l := startLoad(t, openStore(t, group.URL()), true, flowIDs(4))
	l.recovers(t, 20*time.Second)
	if err := group.Primary.Kill(); err != nil {
		t.Fatal(err)
	}
	took := l.recovers(t, 15*time.Second)
	l.end(t)
	t.Logf("saves work again after %v; %s", took.Round(time.Millisecond), l.summary())
}

// TestRedisKilledUnderLoad kills a server that writes everything to disk, and starts it again:
// nothing that was acknowledged may be missing.
func TestRedisKilledUnderLoad(t *testing.T) {
	server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	l := startLoad(t, openStore(t, "redis://"+server.Addr), false, flowIDs(4))
	for range 3 {
		l.recovers(t, 20*time.Second)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		restart(t, server)
	}
	l.recovers(t, 20*time.Second)
	l.end(t)
	t.Log(l.summary())
}

// TestRedisSlotMoves moves the slot of a flow to another primary, key by key, under load.
// Nothing is lost, and what fails meanwhile says that it can be tried again.
func TestRedisSlotMoves(t *testing.T) {
	cluster := startCluster(t)
	store := openStore(t, cluster.URL())
	ids := []string{"flow 0", "flow 1", "flow 2"}
	l := startLoad(t, store, false, ids)
	l.recovers(t, 20*time.Second)
	admin, ok := clientOf(t, cluster.URL()).(*goredis.ClusterClient)
	if !ok {
		t.Fatal("no cluster client")
	}
	defer admin.Close()
	for _, id := range ids {
		moveSlot(t, admin, "weir:{"+strings.ReplaceAll(id, " ", "%20")+"}:h")
	}
	l.recovers(t, 10*time.Second)
	l.end(t)
	for _, id := range ids {
		if _, err := store.LoadState(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	checkDump(t, admin)
	t.Log(l.summary())
}

// moveSlot moves the slot of a key to the next primary, as redis-cli does, but slowly.
func moveSlot(t *testing.T, admin *goredis.ClusterClient, key string) {
	t.Helper()
	ctx := t.Context()
	from, err := admin.MasterForKey(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	slot := admin.ClusterKeySlot(ctx, key).Val()
	var to *goredis.Client
	var mu sync.Mutex
	err = admin.ForEachMaster(ctx, func(_ context.Context, c *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Options().Addr != from.Options().Addr {
			to = c
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	must := func(c *goredis.Client, args ...any) string {
		t.Helper()
		text, err := c.Do(ctx, args...).Text()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return text
	}
	source, target := must(from, "cluster", "myid"), must(to, "cluster", "myid")
	must(to, "cluster", "setslot", slot, "importing", source)
	must(from, "cluster", "setslot", slot, "migrating", target)
	host, port, _ := strings.Cut(to.Options().Addr, ":")
	for {
		keys := from.ClusterGetKeysInSlot(ctx, int(slot), 1).Val()
		if len(keys) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond) // so that the flow is apart for a while
		// The key may have been deleted meanwhile: then the answer is NOKEY.
		must(from, "migrate", host, port, keys[0], 0, 5000)
	}
	must(to, "cluster", "setslot", slot, "node", target)
	must(from, "cluster", "setslot", slot, "node", target)
}

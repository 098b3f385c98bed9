package backends_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/redis"
)

// weather is a server, a way to it that can be disturbed, and a store at the end of each.
type weather struct {
	server *servers.Process
	proxy  *servers.Proxy
	raw    goredis.UniversalClient // straight to the server
	direct *redis.Driver
	driver *redis.Driver // through the proxy
	store  *persistence.Store
}

func newWeather(t *testing.T, args ...string) *weather {
	t.Helper()
	w := &weather{server: startRedis(t, args...)}
	var err error
	if w.proxy, err = servers.Listen(w.server.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.proxy.Close() })
	w.raw = clientOf(t, "redis://"+w.server.Addr)
	t.Cleanup(func() { _ = w.raw.Close() })
	w.direct = openRedis(t, w.raw)
	// An answer that is lost is noticed after the read timeout.
	through := clientOf(t, "redis://"+w.proxy.Addr()+"?read_timeout=150ms")
	t.Cleanup(func() { _ = through.Close() })
	w.driver = openRedis(t, through)
	w.store = persistence.New(w.driver)
	return w
}

func openRedis(t testing.TB, c goredis.UniversalClient) *redis.Driver {
	t.Helper()
	d, err := redis.Open(t.Context(), redis.Config{Client: c})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func snapshot(id string, n, size int) core.Snapshot {
	state := fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", size))
	return core.Snapshot{FlowID: id, Method: "answer", State: json.RawMessage(state), SavedAt: time.Now()}
}

func wantError(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want an error that wraps %q", what, err, target)
	}
	if errors.Is(err, core.ErrNotFound) {
		t.Errorf("%s is taken for not found: %v", what, err)
	}
}

func (w *weather) wantState(t *testing.T, id string, want core.Snapshot) core.Snapshot {
	t.Helper()
	got, err := persistence.New(w.direct).LoadState(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.State, want.State) {
		t.Errorf("the state of %q is %.40s…, want %.40s…", id, got.State, want.State)
	}
	return got
}

// sizes are of a state in the hash, of one with a payload, and of one in segments.
var weatherSizes = []int{100, 100 << 10}

// While the answers are lost the request is carried out, and after the read timeout sent
// again: the second time it must find itself and not a conflict.
func TestRedisLostAnswerOfSwap(t *testing.T) {
	w := newWeather(t)
	for _, size := range weatherSizes {
		id := fmt.Sprint("swap of ", size)
		saved, err := w.store.SaveState(t.Context(), snapshot(id, 1, size))
		if err != nil {
			t.Fatal(err)
		}
		w.proxy.Set(servers.Faults{DropAnswers: true})
		healed := time.AfterFunc(100*time.Millisecond, func() { w.proxy.Set(servers.Faults{}) })
		second := snapshot(id, 2, size)
		saved, err = w.store.SaveState(t.Context(), second, core.IfRevision(saved.Revision))
		healed.Stop()
		w.proxy.Set(servers.Faults{})
		if err != nil {
			t.Fatalf("a swap that was done before its answer got lost: %v", err)
		}
		if got := w.wantState(t, id, second); got.Revision != saved.Revision || got.Revision.N != 2 {
			t.Errorf("the revision is %v, the save returned %v", got.Revision, saved.Revision)
		}
	}
}

// A blind save whose answer was lost, while others wrote on top of it, is done and is not
// done again.
func TestRedisLostAnswerOfBlindSave(t *testing.T) {
	w := newWeather(t)
	for _, size := range weatherSizes {
		id := fmt.Sprint("blind save of ", size)
		if _, err := w.store.SaveState(t.Context(), snapshot(id, 1, size)); err != nil {
			t.Fatal(err)
		}
		w.proxy.Set(servers.Faults{DropAnswers: true})
		result := make(chan error, 1)
		go func() {
			_, err := w.store.SaveState(t.Context(), snapshot(id, 2, size))
			result <- err
		}()
		other := persistence.New(w.direct)
		waitFor(t, "the save to be done", func() bool {
			got, err := other.LoadState(t.Context(), id)
			return err == nil && got.Revision.N == 2
		})
		for n := range 6 {
			if _, err := other.SaveState(t.Context(), snapshot(id, 3+n, size)); err != nil {
				t.Fatal(err)
			}
		}
		w.proxy.Set(servers.Faults{})
		if err := <-result; err != nil {
			t.Errorf("a blind save that was done before its answer got lost: %v", err)
		}
		if got := w.wantState(t, id, snapshot(id, 8, size)); got.Revision.N != 8 {
			t.Errorf("the revision is %d, want 8: one for each save", got.Revision.N)
		}
	}
}

// Without a condition nothing tells a second attempt from a new write, so there is none.
func TestRedisLostAnswerIsUnknown(t *testing.T) {
	w := newWeather(t)
	k := driver.Partition("f").Head()
	w.proxy.Set(servers.Faults{DropAnswers: true})
	_, err := w.driver.Put(t.Context(), k, driver.Record{State: []byte(`{}`)}, driver.Condition{})
	wantError(t, "Put whose answer is lost", err, core.ErrUnavailable)
	if !core.OutcomeUnknown(err) {
		t.Errorf("Put whose answer is lost is certain: %v", err)
	}
	w.proxy.Set(servers.Faults{DropRequests: true})
	w.proxy.Cut()
	_, err = w.driver.Put(t.Context(), k, driver.Record{State: []byte(`{}`)}, driver.IfAbsent())
	wantError(t, "Put that never arrives", err, core.ErrUnavailable)
	if !core.OutcomeUnknown(err) {
		t.Errorf("Put of which nothing is known is certain: %v", err)
	}
	w.proxy.Set(servers.Faults{Refuse: true})
	w.proxy.Cut()
	_, err = w.driver.Get(t.Context(), k)
	wantError(t, "Get of a server that refuses", err, core.ErrUnavailable)
}

// The write of somebody else on top of a blind one must not be undone by a second attempt.
func TestRedisBlindPutIsSentOnce(t *testing.T) {
	w := newWeather(t)
	k := driver.Partition("f").Head()
	// The server must know the script before, or its answer that it does not is what gets lost.
	if _, err := w.driver.Put(t.Context(), driver.Partition("g").Head(), driver.Record{}, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
	w.proxy.Set(servers.Faults{DropAnswers: true})
	result := make(chan error, 1)
	go func() {
		_, err := w.driver.Put(t.Context(), k, driver.Record{State: []byte(`{"by":"blind"}`)}, driver.Condition{})
		result <- err
	}()
	waitFor(t, "the blind Put to be done", func() bool {
		_, err := w.direct.Get(t.Context(), k)
		return err == nil
	})
	tag, err := w.direct.Put(t.Context(), k, driver.Record{State: []byte(`{"by":"other"}`)}, driver.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	w.proxy.Set(servers.Faults{})
	if err := <-result; !errors.Is(err, core.ErrUnavailable) || !core.OutcomeUnknown(err) {
		t.Errorf("a blind Put whose answer is lost returns %v, want that its outcome is unknown", err)
	}
	if got, err := w.direct.Get(t.Context(), k); err != nil || got.Tag != tag {
		t.Errorf("the newer write was undone: %s (%v)", got.State, err)
	}
}

func TestRedisConflictIsSureOnce(t *testing.T) {
	w := newWeather(t)
	k := driver.Partition("f").Head()
	tag, err := w.driver.Put(t.Context(), k, driver.Record{State: []byte(`{}`)}, driver.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	var conflict *driver.ConflictError
	_, err = w.driver.Put(t.Context(), k, driver.Record{}, driver.IfAbsent())
	if !errors.As(err, &conflict) || !conflict.Sure || !conflict.Known || conflict.Current == nil || conflict.Current.Tag != tag {
		t.Errorf("a conflict at the first attempt is %+v, want sure, with the record", err)
	}
	w.proxy.Set(servers.Faults{DropAnswers: true})
	heal := time.AfterFunc(100*time.Millisecond, func() { w.proxy.Set(servers.Faults{}) })
	defer heal.Stop()
	_, err = w.driver.Put(t.Context(), k, driver.Record{}, driver.IfAbsent())
	conflict = nil
	if !errors.As(err, &conflict) || conflict.Sure {
		t.Errorf("a conflict after an attempt whose answer was lost is %+v (%v), want one that is not sure", conflict, err)
	}
}

func TestRedisWrongPassword(t *testing.T) {
	server := startRedis(t, "--requirepass", "right-password")
	for _, url := range []string{
		"redis://:wrong-password@" + server.Addr, "redis://" + server.Addr, "redis://nobody:wrong-password@" + server.Addr,
	} {
		_, err := persistence.Open(t.Context(), url)
		wantError(t, "Open with a wrong password", err, core.ErrDenied)
		if err != nil && strings.Contains(err.Error(), "password@") || strings.Contains(fmt.Sprint(err), "wrong-password") {
			t.Errorf("the error has the password in it: %v", err)
		}
	}
	store, err := persistence.Open(t.Context(), "redis://:right-password@"+server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	admin := clientOf(t, "redis://:right-password@"+server.Addr)
	defer admin.Close()
	if err := admin.Do(t.Context(), "acl", "setuser", "default", "-set", "-hset", "-eval", "-evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = store.SaveState(t.Context(), snapshot("f", 1, 10))
	wantError(t, "save without permission", err, core.ErrDenied)
}

// The documented permissions are enough for everything.
func TestRedisDocumentedPermissions(t *testing.T) {
	w := newWeather(t)
	text, err := os.ReadFile("../../persistence/redis/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, ok := strings.Cut(string(text), "ACL SETUSER ")
	rule, _, _ = strings.Cut(rule, "\n//\n")
	if !ok {
		t.Fatal("the documentation has no ACL SETUSER")
	}
	args := []any{"acl", "setuser"}
	for word := range strings.FieldsSeq(strings.ReplaceAll(rule, "//", " ")) {
		args = append(args, word)
	}
	if err := w.raw.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	store, err := persistence.Open(t.Context(), "redis://weir:password@"+w.server.Addr, persistence.WithHistory(2), persistence.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for n, size := range []int{10, 100 << 10, 10} {
		if _, err := store.SaveState(t.Context(), snapshot("f", n, size)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.LoadState(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	for _, err := range store.Flows(t.Context(), driver.ListOptions{}) {
		if err != nil {
			t.Error(err)
		}
	}
	if err := store.Delete(t.Context(), "f"); err != nil {
		t.Error(err)
	}
}

func TestRedisDown(t *testing.T) {
	w := newWeather(t, "--appendonly", "yes", "--appendfsync", "always")
	id := "f"
	first := snapshot(id, 1, 100<<10)
	if _, err := w.store.SaveState(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := persistence.Open(t.Context(), "redis://"+w.server.Addr)
	wantError(t, "Open of a server that is down", err, core.ErrUnavailable)
	_, err = w.store.LoadState(t.Context(), id)
	wantError(t, "load from a server that is down", err, core.ErrUnavailable)
	_, err = w.store.SaveState(t.Context(), snapshot(id, 2, 10))
	wantError(t, "save to a server that is down", err, core.ErrUnavailable)
	restart(t, w.server)
	w.wantState(t, id, first)
	// It has forgotten the scripts.
	second := snapshot(id, 2, 100<<10)
	if _, err := w.store.SaveState(t.Context(), second); err != nil {
		t.Errorf("save after a restart: %v", err)
	}
	w.wantState(t, id, second)
}

func restart(t *testing.T, p *servers.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestRedisForgottenScripts(t *testing.T) {
	w := newWeather(t)
	for n, size := range []int{10, 100 << 10, 10, 100 << 10} {
		if err := w.raw.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s := snapshot("f", n, size)
		if _, err := w.store.SaveState(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		w.wantState(t, "f", s)
		if err := w.raw.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := w.direct.PutSiblings(t.Context(), "f", []driver.Record{{Sort: fmt.Sprint("a", n)}, {Sort: fmt.Sprint("b", n)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedisReplica(t *testing.T) {
	w := newWeather(t)
	primary := startRedis(t)
	saved := snapshot("f", 1, 10)
	if _, err := w.store.SaveState(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(primary.Addr, ":")
	if err := w.raw.SlaveOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := w.store.SaveState(t.Context(), snapshot("f", 2, 10))
	wantError(t, "save to a primary that became a replica", err, core.ErrUnavailable)
	if core.OutcomeUnknown(err) {
		t.Errorf("a replica has not written: %v", err)
	}
	_, err = redis.Open(t.Context(), redis.Config{Client: w.raw})
	wantError(t, "Open of a replica", err, core.ErrUnsupported)
}

func TestRedisOutOfMemory(t *testing.T) {
	w := newWeather(t)
	set := func(value string) {
		if err := w.raw.ConfigSet(t.Context(), "maxmemory", value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range weatherSizes {
		id := fmt.Sprint("f", size)
		first := snapshot(id, 1, size)
		if _, err := w.store.SaveState(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		before := len(dumpRedis(t, w.raw))
		set("1mb")
		_, err := w.store.SaveState(t.Context(), snapshot(id, 2, size))
		wantError(t, "save without memory", err, core.ErrUnavailable)
		if err == nil || core.OutcomeUnknown(err) || !strings.Contains(err.Error(), "raise maxmemory") {
			t.Errorf("save without memory is certain to have written nothing, and says what to do: %v", err)
		}
		w.wantState(t, id, first)
		if n := len(dumpRedis(t, w.raw)); n != before {
			t.Errorf("a save that was refused leaves %d keys, there were %d", n, before)
		}
		// Deleting must work, or nobody gets out of it.
		if err := w.store.Delete(t.Context(), id); err != nil {
			t.Errorf("delete without memory: %v", err)
		}
		set("0")
	}
}

func TestRedisEvictedPayload(t *testing.T) {
	w := newWeather(t)
	if _, err := w.store.SaveState(t.Context(), snapshot("f", 1, 100<<10)); err != nil {
		t.Fatal(err)
	}
	for name := range dumpRedis(t, w.raw) {
		if strings.Contains(name, "}:p:") {
			w.raw.Del(t.Context(), name)
		}
	}
	_, err := w.store.LoadState(t.Context(), "f")
	wantError(t, "load of a state whose payload was evicted", err, core.ErrCorrupt)
	for e, err := range w.driver.Partitions(t.Context(), driver.ListOptions{}) {
		if err != nil || e.Partition != "f" {
			t.Errorf("Partitions does not list the damaged flow: %+v, %v", e, err)
		}
	}
	if err := w.driver.Delete(t.Context(), driver.Partition("f").Head(), driver.Condition{}); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	whole := snapshot("f", 2, 100<<10)
	if _, err := w.store.SaveState(t.Context(), whole); err != nil {
		t.Errorf("save after deleting it: %v", err)
	}
	w.wantState(t, "f", whole)
}

func TestRedisEvictionWarning(t *testing.T) {
	server := startRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	var log bytes.Buffer
	c := clientOf(t, "redis://"+server.Addr)
	defer c.Close()
	open := func() string {
		log.Reset()
		_, err := redis.Open(t.Context(), redis.Config{Client: c, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if got := open(); strings.Count(got, "noeviction") != 1 || !strings.Contains(got, "allkeys-lru") {
		t.Errorf("Open logs %q, want one warning that names the policy", got)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if got := open(); got != "" {
		t.Errorf("Open of a server that evicts nothing logs %q", got)
	}
}

func TestRedisFrozenServer(t *testing.T) {
	w := newWeather(t)
	first := snapshot("f", 1, 10)
	if _, err := w.store.SaveState(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := w.store.SaveState(ctx, snapshot("f", 2, 10))
	wantError(t, "save to a server that is frozen", err, context.DeadlineExceeded)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a deadline of 100 ms ended the save after %v", took)
	}
	if !core.OutcomeUnknown(err) {
		t.Errorf("the frozen server may carry out the save later, and the error is certain: %v", err)
	}
	if err := w.server.Unpause(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.SaveState(t.Context(), snapshot("f", 3, 10)); err != nil {
		t.Fatal(err)
	}
	w.wantState(t, "f", snapshot("f", 3, 10))
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

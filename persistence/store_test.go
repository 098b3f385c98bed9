package persistence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
	"github.com/weirflow/weir/reducer"
)

// What this file shows of the Store, the conformance suite shows over every driver; here are
// the rules that need a look into the records.

func Example() {
	ctx := context.Background()
	store, err := persistence.Open(ctx, "mem:") // import _ "…/persistence/inmem"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	saved, _ := store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "receive", State: json.RawMessage(`{"n":1}`)})
	_, _ = store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: json.RawMessage(`{"n":2}`)}, core.IfRevision(saved.Revision))

	// Whoever still holds the first revision is told, and nothing is lost.
	_, err = store.SaveState(ctx, core.Snapshot{FlowID: "c-42", State: json.RawMessage(`{"n":99}`)}, core.IfRevision(saved.Revision))
	fmt.Println(err)

	snap, _ := store.LoadState(ctx, "c-42")
	fmt.Println(snap.Method, snap.Revision, string(snap.State))
	// Output:
	// weir: save state of flow "c-42": conflict: another writer was first: the newest revision is 2, not 1
	// answer 2 {"n":2}
}

func ExampleWithReducer() {
	ctx := context.Background()
	r, err := reducer.New(reducer.Config{MaxMessages: 4, MinMessages: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := persistence.New(inmem.New(inmem.Config{}), persistence.WithReducer(r, persistence.MessagesKey("messages")))
	saved, _ := store.SaveState(ctx, core.Snapshot{FlowID: "c-42", State: json.RawMessage(`{"topic":"tea","messages":[
		{"role":"user","content":"one"},{"role":"assistant","content":"1"},
		{"role":"user","content":"two"},{"role":"assistant","content":"2"},
		{"role":"user","content":"three"},{"role":"assistant","content":"3"}]}`)})
	fmt.Println(len(saved.Pruned), "messages pruned")
	// Output: 4 messages pruned
}

// small are limits under which a kilobyte overflows.
var small = driver.Limits{Record: 1 << 10, Inline: 512}

func newStore(t *testing.T, cfg inmem.Config, opts ...persistence.Option) (*persistence.Store, *inmem.Driver) {
	t.Helper()
	d := inmem.New(cfg)
	return persistence.New(d, opts...), d
}

func mustSave(t *testing.T, s *persistence.Store, snap core.Snapshot, opts ...core.SaveOption) core.Saved {
	t.Helper()
	saved, err := s.SaveState(t.Context(), snap, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func mustLoad(t *testing.T, s *persistence.Store, id string) core.Snapshot {
	t.Helper()
	snap, err := s.LoadState(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// siblings counts the records of a flow besides its head.
func siblings(t *testing.T, d driver.Driver, id string) []string {
	t.Helper()
	var sorts []string
	for r, err := range d.Range(t.Context(), driver.Partition(id), driver.RangeOptions{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		sorts = append(sorts, r.Sort)
	}
	return sorts
}

func state(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"n":%d,"text":%q}`, n, noise(n)))
}

// noise is text of n bytes that zstd cannot shorten by much.
func noise(n int) string {
	return strings.Repeat(filler(), n/len(filler())+1)[:n]
}

func TestStateStaysNativeThenCompressedThenInSegments(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: driver.Limits{Record: 4 << 10, Inline: 1 << 10}})
	progress := json.RawMessage(`{"v":1}`)
	for _, c := range []struct {
		name     string
		state    json.RawMessage
		native   bool
		segments bool
	}{
		{"small", state(100), true, false},
		{"repetitive", json.RawMessage(`{"t":"` + strings.Repeat("again ", 1000) + `"}`), false, false},
		{"large", json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(20_000))), false, true},
		{"small again", state(90), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustSave(t, s, core.Snapshot{FlowID: "f", Method: c.name, State: c.state, Progress: progress})
			r, err := d.Get(t.Context(), driver.Partition("f").Head())
			if err != nil {
				t.Fatal(err)
			}
			if native := r.State != nil; native != c.native {
				t.Errorf("native %v, want %v", native, c.native)
			}
			if left := siblings(t, d, "f"); (len(left) > 0) != c.segments {
				t.Errorf("siblings %q, want some: %v", left, c.segments)
			}
			got := mustLoad(t, s, "f")
			if !bytes.Equal(got.State, c.state) || !bytes.Equal(got.Progress, progress) {
				t.Error("the state or the progress came back changed")
			}
		})
	}
}

// noiseOf is text of n bytes without repetition.
func noiseOf(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", (uint64(i)+12345)*0x9E3779B97F4A7C15)
	}
	return b.String()[:n]
}

func TestProgressLeavesTheHeadBeforeTheState(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: driver.Limits{Record: 2 << 10, Inline: 2 << 10}})
	progress := json.RawMessage(fmt.Sprintf(`{"log":%q}`, noiseOf(8_000)))
	mustSave(t, s, core.Snapshot{FlowID: "f", State: state(300), Progress: progress})
	r, err := d.Get(t.Context(), driver.Partition("f").Head())
	if err != nil {
		t.Fatal(err)
	}
	if r.Data == nil || len(siblings(t, d, "f")) == 0 {
		t.Error("the progress should be in segments")
	}
	if got := mustLoad(t, s, "f"); !bytes.Equal(got.Progress, progress) {
		t.Error("the progress came back changed")
	}
}

func TestA64MiBStateRoundTrips(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("needs no race detector to be right, and takes a while with it")
	}
	s, d := newStore(t, inmem.Config{Limits: driver.Limits{Record: 400 << 10, Inline: 100 << 10}})
	big := json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(64<<20)))
	mustSave(t, s, core.Snapshot{FlowID: "f", State: big})
	if got := mustLoad(t, s, "f"); !bytes.Equal(got.State, big) {
		t.Error("the state came back changed")
	}
	mustSave(t, s, core.Snapshot{FlowID: "f", State: state(1)})
	if left := siblings(t, d, "f"); len(left) != 0 {
		t.Errorf("%d segments left after shrinking", len(left))
	}
}

func TestTooLargeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small}, persistence.WithMaxState(5_000))
	mustSave(t, s, core.Snapshot{FlowID: "f", State: state(10)})
	_, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(6_000)))})
	var size *core.SizeError
	if !errors.Is(err, core.ErrTooLarge) || !errors.As(err, &size) || size.Limit != 5_000 || size.Size < 6_000 {
		t.Fatalf("got %v", err)
	}
	if got := mustLoad(t, s, "f"); string(got.State) != string(state(10)) || len(siblings(t, d, "f")) != 0 {
		t.Error("the old state is not as it was")
	}
}

func TestADecompressionBombIsRefused(t *testing.T) {
	writer, d := newStore(t, inmem.Config{Limits: driver.Limits{Record: 64 << 10, Inline: 1 << 10}})
	mustSave(t, writer, core.Snapshot{FlowID: "f", State: json.RawMessage(`{"t":"` + strings.Repeat("0", 4<<20) + `"}`)})
	reader := persistence.New(d, persistence.WithMaxState(1<<20))
	if _, err := reader.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func put(t *testing.T, d driver.Driver, k driver.Key, r driver.Record) {
	t.Helper()
	if _, err := d.Put(t.Context(), k, r, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryFollowsTheChain(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small}, persistence.WithHistory(3))
	for n := 1; n <= 6; n++ {
		mustSave(t, s, core.Snapshot{FlowID: "f", Method: fmt.Sprint("m", n), State: json.RawMessage(fmt.Sprintf(`{"n":%d,"t":%q}`, n, noiseOf(300*n)))})
	}
	// What a save that lost its race leaves behind is not shown.
	loser := siblings(t, d, "f")[0]
	put(t, d, driver.Partition("f").Sibling(loser[:len(loser)-3]+"zzz"), driver.Record{Data: []byte("not ours")})
	var seen []string
	for snap, err := range s.History(t.Context(), "f") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprint(snap.Revision, snap.Method))
	}
	if want := "[6m6 5m5 4m4]"; fmt.Sprint(seen) != want {
		t.Errorf("got %v, want %v", seen, want)
	}
	if _, err := s.Sweep(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	for _, sort := range siblings(t, d, "f") {
		if strings.HasSuffix(sort, "zzz") {
			t.Error("the loser's entry survived the sweep")
		}
	}
	if err := s.Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if left := siblings(t, d, "f"); len(left) != 0 {
		t.Errorf("left after Delete: %q", left)
	}
}

func TestBadInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	r, err := reducer.New(reducer.Config{MaxMessages: 4, MinMessages: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, d := newStore(t, inmem.Config{}, persistence.WithReducer(r))
	for name, c := range map[string]struct {
		snap core.Snapshot
		want error
	}{
		"empty id":         {core.Snapshot{State: state(1)}, core.ErrInvalidID},
		"id not UTF-8":     {core.Snapshot{FlowID: "\xff", State: state(1)}, core.ErrInvalidID},
		"no state":         {core.Snapshot{FlowID: "f"}, core.ErrInvalidState},
		"array":            {core.Snapshot{FlowID: "f", State: json.RawMessage(`[]`)}, core.ErrInvalidState},
		"progress":         {core.Snapshot{FlowID: "f", State: state(1), Progress: json.RawMessage(`{`)}, core.ErrInvalidState},
		"messages no list": {core.Snapshot{FlowID: "f", State: json.RawMessage(`{"messages":{}}`)}, core.ErrInvalidState},
		"year":             {core.Snapshot{FlowID: "f", State: state(1), SavedAt: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}, core.ErrInvalidState},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.SaveState(t.Context(), c.snap); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			for e := range d.Partitions(t.Context(), driver.ListOptions{}) {
				t.Errorf("written: %+v", e)
			}
		})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.SaveState(canceled, core.Snapshot{FlowID: "f", State: state(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPruningTouchesOnlyTheMessages(t *testing.T) {
	r, err := reducer.New(reducer.Config{MaxMessages: 4, MinMessages: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newStore(t, inmem.Config{}, persistence.WithReducer(r, persistence.MessagesKey("chat")))
	messages := `{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}`
	short := json.RawMessage(`{"x": 1.0 ,"chat":[` + messages + `],"messages":[1,2,3,4,5,6,7]}`)
	if saved := mustSave(t, s, core.Snapshot{FlowID: "f", State: short}); saved.State != nil || saved.Pruned != nil {
		t.Errorf("pruned a history within its limit: %+v", saved)
	}
	long := json.RawMessage(`{"x": 1.0 ,"chat":[` + messages + `,` + messages + `],"messages":[1,2,3,4,5,6,7]}`)
	saved := mustSave(t, s, core.Snapshot{FlowID: "f", State: long})
	if saved.State == nil || len(saved.Pruned) == 0 {
		t.Fatal("pruned nothing")
	}
	if got := mustLoad(t, s, "f"); !bytes.Equal(got.State, saved.State) {
		t.Error("Saved.State is not what was stored")
	}
	if !bytes.HasPrefix(saved.State, []byte(`{"x": 1.0 ,"chat":[`)) || !bytes.HasSuffix(saved.State, []byte(`],"messages":[1,2,3,4,5,6,7]}`)) {
		t.Errorf("something else was touched: %s", saved.State)
	}
}

func TestLimitsCanBeLowered(t *testing.T) {
	s, d := newStore(t, inmem.Config{}, persistence.WithLimits(small))
	big := json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(3_000)))
	mustSave(t, s, core.Snapshot{FlowID: "f", State: big})
	if left := siblings(t, d, "f"); len(left) < 2 {
		t.Errorf("segments %q, want several", left)
	}
	if got := mustLoad(t, s, "f"); !bytes.Equal(got.State, big) {
		t.Error("the state came back changed")
	}
}

// The decompressor trusts no frame that does not say what it holds; short ones do not.
func TestPartsOfEverySizeRoundTrip(t *testing.T) {
	s, _ := newStore(t, inmem.Config{}, persistence.WithLimits(driver.Limits{Record: 4 << 10, Inline: 1}))
	for n := range 600 {
		progress := json.RawMessage(`"` + strings.Repeat("a", n) + `"`)
		mustSave(t, s, core.Snapshot{FlowID: "f", State: json.RawMessage(`{"t":` + string(progress) + `}`), Progress: progress})
		if got := mustLoad(t, s, "f"); !bytes.Equal(got.Progress, progress) {
			t.Fatalf("%d bytes came back changed", n)
		}
	}
}

func TestPruneHooksSeeTheFlow(t *testing.T) {
	var log bytes.Buffer
	seen, fail := map[string]int{}, errors.New("memory is full")
	r, err := reducer.New(reducer.Config{MaxMessages: 4, MinMessages: 2, Hooks: []reducer.Hook{
		func(_ context.Context, d *reducer.Delivery) error {
			seen[d.Namespace] += len(d.Messages)
			return fail
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newStore(t, inmem.Config{}, persistence.WithReducer(r), persistence.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	pair := `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
	long := json.RawMessage(`{"messages":[` + strings.Repeat(pair+",", 3) + pair + `]}`)
	for _, id := range []string{"alice", "bob"} {
		if saved := mustSave(t, s, core.Snapshot{FlowID: id, State: long}); len(saved.Pruned) != 0 {
			t.Errorf("%s: %d messages were pruned although no hook took them", id, len(saved.Pruned))
		}
	}
	if !strings.Contains(log.String(), "memory is full") || !strings.Contains(log.String(), "alice") {
		t.Errorf("the failure was not logged: %s", log.String())
	}
	fail = nil
	mustSave(t, s, core.Snapshot{FlowID: "bob", State: long})
	if seen["alice"] != 6 || seen["bob"] != 12 {
		t.Errorf("delivered %v, want alice 6 and, once again, bob 12", seen)
	}
}

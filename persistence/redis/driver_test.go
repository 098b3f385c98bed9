package redis

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// TestPlaces goes in steps of one byte over the border between hash and payload, for State,
// Data and both, up and down again.
func TestPlaces(t *testing.T) {
	c := startServer(t)
	const inHash = 64
	d := openTest(t, Config{Client: c, InHash: inHash})
	k := driver.Partition("f").Head()
	sizes := []int{0, 1, inHash - 1, inHash, inHash + 1, inHash + 2, 2 * inHash, 2*inHash + 1, 5000}
	down := slices.Clone(sizes)
	slices.Reverse(down)
	var cond driver.Condition
	for _, state := range append(sizes, down...) {
		for _, data := range sizes {
			r := driver.Record{State: bytes.Repeat([]byte("s"), state), Data: bytes.Repeat([]byte("d"), data)}
			tag, err := d.Put(t.Context(), k, r, cond)
			if err != nil {
				t.Fatal(err)
			}
			cond = driver.IfTag(tag)
			got, err := d.Get(t.Context(), k)
			if err != nil || !bytes.Equal(got.State, r.State) || !bytes.Equal(got.Data, r.Data) || got.Tag != tag {
				t.Fatalf("%d and %d bytes come back as %d and %d (%v)", state, data, len(got.State), len(got.Data), err)
			}
			want := int64(1)
			if state+data > inHash {
				want = 2
			}
			if n := c.DBSize(t.Context()).Val(); n != want {
				t.Fatalf("%d and %d bytes take %d keys, want %d", state, data, n, want)
			}
			for _, size := range []int{len(c.HGet(t.Context(), "weir:{f}:h", "state").Val()), len(c.HGet(t.Context(), "weir:{f}:h", "data").Val())} {
				if size > inHash {
					t.Fatalf("of %d and %d bytes %d are in a field of the hash", state, data, size)
				}
			}
		}
	}
	if err := d.Delete(t.Context(), k, cond); err != nil {
		t.Fatal(err)
	}
	if n := c.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("after the delete there are %d keys", n)
	}
}

// TestRoundTrips counts what a small and a large record cost.
func TestRoundTrips(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	count := &trips{}
	c.AddHook(count)
	k := driver.Partition("f").Head()
	// The first teaches the script and opens the client's connection for pipelines.
	tag, err := d.Put(t.Context(), k, driver.Record{State: make([]byte, 1<<20)}, driver.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, want int64, do func() error) {
		t.Helper()
		count.reset()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if n := count.n.Load(); n != want {
			t.Errorf("%s takes %d round trips, want %d", what, n, want)
		}
	}
	put := func(size int) func() error {
		return func() (err error) {
			tag, err = d.Put(t.Context(), k, driver.Record{State: make([]byte, size)}, driver.IfTag(tag))
			return err
		}
	}
	get := func() error {
		_, err := d.Get(t.Context(), k)
		return err
	}
	step("a Put of 8 KiB", 1, put(8<<10))
	step("a Get of 8 KiB", 1, get)
	step("a Put of 1 MiB", 1, put(1<<20))
	step("a Get of 1 MiB", 2, get)
	var rs []driver.Record
	var sorts []string
	for i := range 100 {
		sorts = append(sorts, fmt.Sprintf("s/%03d", i))
		rs = append(rs, driver.Record{Sort: sorts[i], Data: make([]byte, 10<<10)})
	}
	step("100 siblings", 1, func() error { return d.PutSiblings(t.Context(), "f", rs) })
	step("a Range of 100 siblings", 3, func() error {
		for _, err := range d.Range(t.Context(), "f", driver.RangeOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	// The script that deletes is new to the server at the first.
	step("a delete of 100 siblings", 101+1, func() error { return d.DeleteSiblings(t.Context(), "f", sorts) })
}

func TestIndexLivesAsLongAsSiblings(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	put := func(sort string, at time.Time) {
		t.Helper()
		if _, err := d.Put(t.Context(), driver.Partition("f").Sibling(sort), driver.Record{ExpireAt: at}, driver.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(at time.Time) {
		t.Helper()
		ttl := c.PTTL(t.Context(), "weir:{f}:i").Val()
		if at.IsZero() && ttl != -1 || !at.IsZero() && (time.Until(at)-ttl).Abs() > time.Second {
			t.Errorf("the index lives for %v, want until %v", ttl, at)
		}
	}
	put("a", soon)
	want(soon)
	put("b", later)
	want(later)
	put("c", soon)
	want(later)
	put("d", time.Time{})
	want(time.Time{})
	put("e", soon)
	want(time.Time{})
	for _, sort := range []string{"a", "b", "c", "e"} {
		put(sort, time.Unix(1, 0)) // expired: gone at once
	}
	if got := c.ZRange(t.Context(), "weir:{f}:i", 0, -1).Val(); !slices.Equal(got, []string{"d"}) {
		t.Errorf("the index has %q", got)
	}
	put("d", soon)
	want(soon)
}

// TestExpiredSiblingsLeaveTheIndex: reading a partition tidies up what the server let expire.
func TestExpiredSiblingsLeaveTheIndex(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	for _, p := range []driver.Partition{"ranged", "listed"} {
		for _, sort := range []string{"a", "b"} {
			if _, err := d.Put(t.Context(), p.Sibling(sort), driver.Record{}, driver.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		// As if they had expired while a third one kept the index alive.
		c.Del(t.Context(), fmt.Sprintf("weir:{%s}:s:a", p), fmt.Sprintf("weir:{%s}:s:b", p))
	}
	for r, err := range d.Range(t.Context(), "ranged", driver.RangeOptions{}) {
		t.Errorf("Range yields %+v, %v", r, err)
	}
	for e, err := range d.Partitions(t.Context(), driver.ListOptions{}) {
		t.Errorf("Partitions yields %+v, %v", e, err)
	}
	if keys := c.DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys are left: %q", keys, c.Keys(t.Context(), "*").Val())
	}
}

func TestDamageIsCorrupt(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	ctx, k := t.Context(), driver.Partition("f").Head()
	large := driver.Record{State: make([]byte, 10<<10)}
	for name, damage := range map[string]func(tag string){
		"no tag":          func(string) { c.HDel(ctx, "weir:{f}:h", "tag") },
		"payload gone":    func(tag string) { c.Del(ctx, "weir:{f}:p:"+tag) },
		"payload short":   func(tag string) { c.Set(ctx, "weir:{f}:p:"+tag, "short", 0) },
		"payload unnamed": func(string) { c.HDel(ctx, "weir:{f}:h", "payload") },
		"bad payload":     func(string) { c.HSet(ctx, "weir:{f}:h", "payload", "sx") },
		"bad time":        func(string) { c.HSet(ctx, "weir:{f}:h", "saved_at", "noon") },
		"bad expiry":      func(string) { c.HSet(ctx, "weir:{f}:h", "expire_at", "noon") },
		"another type":    func(string) { c.Del(ctx, "weir:{f}:h"); c.LPush(ctx, "weir:{f}:h", "x") },
	} {
		tag, err := d.Put(ctx, k, large, driver.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		damage(string(tag))
		if r, err := d.Get(ctx, k); !errors.Is(err, core.ErrCorrupt) {
			t.Errorf("%s: Get returns %d bytes and %v, want ErrCorrupt", name, len(r.State), err)
		}
		c.FlushDB(ctx)
	}
}

// TestURLOwnsItsClient: the driver closes what it made, and nothing else.
func TestURLOwnsItsClient(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Close closed the caller's client: %v", err)
	}
	store, err := persistence.Open(t.Context(), "redis://"+c.Options().Addr+"/3?prefix=shop:")
	if err != nil {
		t.Fatal(err)
	}
	s := core.Snapshot{FlowID: "f", Method: "m", State: []byte(`{"a":1}`), SavedAt: time.Now()}
	if _, err := store.SaveState(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("load after Close: %v, want ErrUnavailable", err)
	}
	if keys := c.Info(t.Context(), "keyspace").Val(); !strings.Contains(keys, "db3:keys=1") {
		t.Errorf("the save is not in database 3: %s", keys)
	}
}

// TestRefusedPayloadIsRemoved: a large record that loses against a condition leaves nothing.
func TestRefusedPayloadIsRemoved(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	k, large := driver.Partition("f").Head(), driver.Record{State: make([]byte, 10<<10)}
	if _, err := d.Put(t.Context(), k, large, driver.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	before := c.Keys(t.Context(), "*").Val()
	for _, cond := range []driver.Condition{driver.IfAbsent(), driver.IfTag("i1"), driver.IfTag("p1")} {
		if _, err := d.Put(t.Context(), k, large, cond); !errors.Is(err, core.ErrConflict) {
			t.Errorf("%+v: %v, want a conflict", cond, err)
		}
	}
	after := c.Keys(t.Context(), "*").Val()
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Errorf("refused writes leave %q, there were %q", after, before)
	}
}

// TestFlipWithoutPayload sends only the script, as if the SET before it had been refused or
// the slot had moved between the two.
func TestFlipWithoutPayload(t *testing.T) {
	c := startServer(t)
	d := openTest(t, Config{Client: c})
	k, old := driver.Partition("f").Head(), driver.Record{State: []byte(`{}`)}
	tag, err := d.Put(t.Context(), k, old, driver.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	q, _ := d.put(k, driver.Record{State: make([]byte, 10<<10)}, driver.IfTag(tag))
	reply, err := d.run(t.Context(), q, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readReply(reply); !errors.Is(err, errPayloadMissing) || !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a flip to a payload that is not there is answered with %v", reply)
	}
	if got, err := d.Get(t.Context(), k); err != nil || got.Tag != tag || !bytes.Equal(got.State, old.State) {
		t.Errorf("after it the record is %+v (%v)", got, err)
	}
}

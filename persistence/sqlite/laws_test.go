package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// The tests here state the laws of package driver for what is particular to SQLite; the
// conformance suite states them for every driver.

// eachKind runs a test on a file and on a database in memory.
func eachKind(t *testing.T, cfg Config, test func(*testing.T, *Driver)) {
	t.Helper()
	for name, path := range map[string]string{"file": "", "memory": Memory} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.Path = path
			test(t, openTest(t, cfg))
		})
	}
}

func TestLaw1PartitionsAreData(t *testing.T) {
	ids := []string{
		"a", "A", "a ", " a", "a\x00", "a\x00b", "\x00", "a\nb", "é", "e\u0301", "😀", "1", "1.0", "01", "null", "NULL",
		"'", `"`, "';--", "a%", "a_", "*", "?", "[a]", "..", "../a", "/", `\`, "a:b#c|d{e}", "x'41'", strings.Repeat("k", core.MaxIDBytes),
	}
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		for i, id := range ids {
			mustPut(t, d, driver.Partition(id).Head(), head(strconv.Itoa(i)), driver.IfAbsent())
			mustPut(t, d, driver.Partition(id).Sibling("s"), driver.Record{Data: []byte(id)}, driver.IfAbsent())
		}
		for i, id := range ids {
			if got := mustGet(t, d, driver.Partition(id).Head()); string(got.State) != strconv.Itoa(i) {
				t.Errorf("head of %q is that of %s", id, got.State)
			}
			if got := mustGet(t, d, driver.Partition(id).Sibling("s")); string(got.Data) != id {
				t.Errorf("sibling of %q is that of %q", id, got.Data)
			}
		}
		es := entries(t, d, driver.ListOptions{PageSize: 3})
		for _, id := range ids {
			if e, ok := es[id]; !ok || e.Headless {
				t.Errorf("%q is listed as %+v", id, e)
			}
		}
		for _, id := range ids {
			if err := d.Delete(t.Context(), driver.Partition(id).Head(), driver.Condition{}); err != nil {
				t.Fatal(err)
			}
			wantAbsent(t, d, driver.Partition(id).Head())
		}
	})
}

func TestLaw2OneOfManyWritersWins(t *testing.T) {
	for _, sort := range []string{"", "sibling"} {
		eachKind(t, Config{}, func(t *testing.T, d *Driver) {
			k := driver.Key{Partition: "p", Sort: sort}
			var tag driver.Tag
			for round := range 20 {
				cond := driver.IfTag(tag)
				if round == 0 {
					cond = driver.IfAbsent()
				}
				var won atomic.Int32
				var winner atomic.Value
				var wg sync.WaitGroup
				for range 16 {
					wg.Go(func() {
						tag, err := d.Put(t.Context(), k, head(`{}`), cond)
						switch {
						case err == nil:
							won.Add(1)
							winner.Store(tag)
						case !errors.Is(err, core.ErrConflict):
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if won.Load() != 1 {
					t.Fatalf("round %d: %d writers won", round, won.Load())
				}
				tag = winner.Load().(driver.Tag)
				if got := mustGet(t, d, k); got.Tag != tag {
					t.Fatalf("round %d: the tag is %s, the winner's is %s", round, got.Tag, tag)
				}
			}
		})
	}
}

func TestLaw2ConflictCarriesTheCurrentRecord(t *testing.T) {
	for _, sort := range []string{"", "sibling"} {
		eachKind(t, Config{}, func(t *testing.T, d *Driver) {
			k := driver.Key{Partition: "p", Sort: sort}
			_, err := d.Put(t.Context(), k, head(`{}`), driver.IfTag("none"))
			var ce *driver.ConflictError
			if !errors.As(err, &ce) || !ce.Known || !ce.Sure || ce.Current != nil {
				t.Errorf("Put over nothing: %v", err)
			}
			wantErr(t, "Delete of nothing by tag", d.Delete(t.Context(), k, driver.IfTag("none")), core.ErrConflict)
			if err := d.Delete(t.Context(), k, driver.Condition{}); err != nil {
				t.Errorf("Delete of nothing: %v", err)
			}
			tag := mustPut(t, d, k, head(`{"n":1}`), driver.IfAbsent())
			for _, cond := range []driver.Condition{driver.IfAbsent(), driver.IfTag("none"), driver.IfTag("")} {
				_, err := d.Put(t.Context(), k, head(`{"n":2}`), cond)
				if !errors.As(err, &ce) || !ce.Known || !ce.Sure || ce.Current == nil || ce.Current.Tag != tag || string(ce.Current.Data) != `data of {"n":1}` {
					t.Errorf("Put: %v", err)
				}
				wantErr(t, "Delete", d.Delete(t.Context(), k, cond), core.ErrConflict)
			}
			if got := mustGet(t, d, k); got.Tag != tag {
				t.Error("a failed condition has changed the record")
			}
		})
	}
}

func TestLaw3ReadsSeeEveryAcknowledgedWrite(t *testing.T) {
	d := openTest(t, Config{})
	other := openTest(t, Config{Path: d.cfg.Path})
	k := driver.Partition("p").Head()
	for range 500 {
		tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
		for _, r := range []*Driver{d, other} {
			if got := mustGet(t, r, k); got.Tag != tag {
				t.Fatal("an older record was read")
			}
		}
	}
}

func TestLaw4TagsAreNeverReused(t *testing.T) {
	for _, sort := range []string{"", "sibling"} {
		eachKind(t, Config{}, func(t *testing.T, d *Driver) {
			k := driver.Key{Partition: "p", Sort: sort}
			seen := map[driver.Tag]bool{}
			for range 100 {
				tag := mustPut(t, d, k, head(`{}`), driver.IfAbsent())
				if tag == "" || seen[tag] {
					t.Fatalf("tag %q again", tag)
				}
				seen[tag] = true
				if err := d.Delete(t.Context(), k, driver.IfTag(tag)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestLaw5ExpiredIsAbsentOnEveryPath(t *testing.T) {
	clk := newClock()
	eachKind(t, Config{Now: clk.Now}, func(t *testing.T, d *Driver) {
		h, s := driver.Partition("p").Head(), driver.Partition("p").Sibling("s")
		r := head(`{}`)
		r.ExpireAt = clk.In(time.Second).Add(999 * time.Microsecond)
		tag, stag := mustPut(t, d, h, r, driver.IfAbsent()), mustPut(t, d, s, r, driver.IfAbsent())
		clk.Advance(999 * time.Millisecond)
		for _, k := range []driver.Key{h, s} {
			if got := mustGet(t, d, k); !got.ExpireAt.Equal(r.ExpireAt.Truncate(time.Millisecond)) {
				t.Errorf("ExpireAt = %v", got.ExpireAt)
			}
		}
		if e := entries(t, d, driver.ListOptions{})["p"]; e.Headless || e.ExpireAt.IsZero() {
			t.Errorf("listed as %+v", e)
		}
		clk.Advance(time.Millisecond)
		for k, tag := range map[driver.Key]driver.Tag{h: tag, s: stag} {
			wantAbsent(t, d, k)
			_, err := d.Put(t.Context(), k, r, driver.IfTag(tag))
			wantErr(t, "Put by tag", err, core.ErrConflict)
			wantErr(t, "Delete by tag", d.Delete(t.Context(), k, driver.IfTag(tag)), core.ErrConflict)
		}
		if got := sorts(t, d, "p", driver.RangeOptions{}); got != nil {
			t.Errorf("Range = %q", got)
		}
		if es := entries(t, d, driver.ListOptions{}); len(es) != 0 {
			t.Errorf("Partitions = %+v", es)
		}
		mustPut(t, d, s, driver.Record{Data: []byte("new")}, driver.IfAbsent())
		if e := entries(t, d, driver.ListOptions{})["p"]; !e.Headless {
			t.Errorf("a flow with an expired head is listed as %+v", e)
		}
		mustPut(t, d, h, head(`{}`), driver.IfAbsent())
		if got := mustGet(t, d, h); !got.ExpireAt.IsZero() {
			t.Errorf("the new head expires at %v", got.ExpireAt)
		}
	})
}

func TestLaw6TooLargeBeforeAnythingIsWritten(t *testing.T) {
	d := openTest(t, Config{Limits: driver.Limits{Record: 1000, Inline: 500}})
	for _, k := range []driver.Key{driver.Partition("p").Head(), driver.Partition("p").Sibling("s")} {
		tag := mustPut(t, d, k, driver.Record{Data: []byte("old")}, driver.IfAbsent())
		fits := 1000 - driver.RecordSize(k, driver.Record{})
		_, err := d.Put(t.Context(), k, driver.Record{Data: make([]byte, fits+1)}, driver.Condition{})
		var se *core.SizeError
		if !errors.As(err, &se) || se.Size != 1001 || se.Limit != 1000 {
			t.Errorf("Put of one byte too many: %v", err)
		}
		if got := mustGet(t, d, k); got.Tag != tag {
			t.Error("the old record is gone")
		}
		mustPut(t, d, k, driver.Record{Data: make([]byte, fits)}, driver.IfTag(tag))
	}
	err := d.PutSiblings(t.Context(), "p", []driver.Record{{Sort: "a"}, {Sort: "b", Data: make([]byte, 1000)}})
	wantErr(t, "PutSiblings", err, core.ErrTooLarge)
	wantAbsent(t, d, driver.Partition("p").Sibling("a"))
}

func TestLaw7BytesComeBackEqual(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		for i, size := range []int{0, 1, 1000, 4096, 70_000, 3 << 20} {
			data := bytes.Repeat(all, size/256+1)[:size]
			state := []byte(`{"t":"` + strings.Repeat("é\u0000😀", size/8) + `"}`)
			r := driver.Record{State: state, Method: "m\x00é", Data: data, SavedAt: time.Unix(int64(i), 1000).UTC()}
			for _, k := range []driver.Key{driver.Partition("p").Head(), driver.Partition("p").Sibling("s")} {
				mustPut(t, d, k, r, driver.Condition{})
				got := mustGet(t, d, k)
				if !bytes.Equal(got.Data, data) || k.Sort == "" && (!bytes.Equal(got.State, state) || got.Method != r.Method || !got.SavedAt.Equal(r.SavedAt)) {
					t.Errorf("%d bytes in %q came back changed", size, k.Sort)
				}
				// What was given or returned does not share memory with what is stored.
				for i := range got.Data {
					got.Data[i] = 'x'
				}
				if again := mustGet(t, d, k); !bytes.Equal(again.Data, data) {
					t.Error("the stored bytes are aliased")
				}
			}
		}
		_, err := d.Put(t.Context(), driver.Partition("p").Head(), driver.Record{SavedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, driver.Condition{})
		wantErr(t, "a year that Python has not", err, core.ErrUnsupported)
	})
}

func TestLaw9DeleteRemovesOneRecord(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		for _, p := range []driver.Partition{"p", "p%", "pq"} {
			mustPut(t, d, p.Head(), head(`{}`), driver.Condition{})
			for _, s := range []string{"a", "ab", "b"} {
				mustPut(t, d, p.Sibling(s), driver.Record{}, driver.Condition{})
			}
		}
		for _, k := range []driver.Key{driver.Partition("p%").Head(), driver.Partition("p").Sibling("a")} {
			if err := d.Delete(t.Context(), k, driver.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.DeleteSiblings(t.Context(), "pq", []string{"a", "none", "b"}); err != nil {
			t.Fatal(err)
		}
		for p, want := range map[driver.Partition][]string{"p": {"ab", "b"}, "p%": {"a", "ab", "b"}, "pq": {"ab"}} {
			if got := sorts(t, d, p, driver.RangeOptions{}); !slices.Equal(got, want) {
				t.Errorf("siblings of %s: %q, want %q", p, got, want)
			}
		}
		mustGet(t, d, driver.Partition("p").Head())
		mustGet(t, d, driver.Partition("pq").Head())
		wantAbsent(t, d, driver.Partition("p%").Head())
	})
}

func TestBatchPutsAllOrNothing(t *testing.T) {
	d := openTest(t, Config{})
	mustPut(t, d, driver.Partition("p").Sibling("b"), driver.Record{}, driver.Condition{})
	err := d.PutSiblings(t.Context(), "p", []driver.Record{{Sort: "a"}, {Sort: "b"}})
	wantErr(t, "PutSiblings", err, core.ErrConflict)
	wantAbsent(t, d, driver.Partition("p").Sibling("a"))
}

func TestMemoryIsSharedByAllGoroutinesAndByNoOtherDriver(t *testing.T) {
	d, other := openTest(t, Config{Path: Memory}), openTest(t, Config{Path: Memory})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				k := driver.Partition(fmt.Sprintf("%d/%d", g, i)).Head()
				mustPut(t, d, k, head(`{}`), driver.IfAbsent())
				mustGet(t, d, k)
			}
		})
	}
	wg.Wait()
	if n := len(entries(t, d, driver.ListOptions{})); n != 800 {
		t.Errorf("%d flows, want 800", n)
	}
	if n := len(entries(t, other, driver.ListOptions{})); n != 0 {
		t.Errorf("%d flows in another database", n)
	}
}

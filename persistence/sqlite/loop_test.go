package sqlite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

func TestLaw8RangeFollowsEveryPage(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		const n = 2*pageRecords + 1
		rs, want := make([]driver.Record, n), make([]string, n)
		for i := range n {
			want[i] = fmt.Sprintf("seg/%04d", i)
			if i == pageRecords { // what follows the end of a page may begin with it
				want[i] = want[i-1] + "-"
			}
			rs[i] = driver.Record{Sort: want[i], Data: []byte("x")}
		}
		if err := d.PutSiblings(t.Context(), "p", rs); err != nil {
			t.Fatal(err)
		}
		mustPut(t, d, driver.Partition("p").Head(), head(`{}`), driver.Condition{})
		mustPut(t, d, driver.Partition("q").Sibling("seg/0000"), driver.Record{}, driver.Condition{})
		for i := range 3 { // larger than a page together
			mustPut(t, d, driver.Partition("p").Sibling("z"+strconv.Itoa(i)), driver.Record{Data: make([]byte, pageBytes/2+1)}, driver.Condition{})
		}
		if got := sorts(t, d, "p", driver.WithPrefix("seg/")); !slices.Equal(got, want) {
			t.Errorf("Range: %d siblings", len(got))
		}
		if got := sorts(t, d, "p", driver.RangeOptions{From: "z"}); len(got) != 3 {
			t.Errorf("Range of large ones: %q", got)
		}
		w := walk{d: d, p: "p", from: "z", to: afterAllSorts}
		if page, more, err := w.next(t.Context()); len(page) != 2 || !more || err != nil {
			t.Errorf("a page of large siblings has %d, %v, %v", len(page), more, err)
		}
		if got := sorts(t, d, "p", driver.RangeOptions{KeysOnly: true}); len(got) != n+3 {
			t.Errorf("Range of keys: %d siblings", len(got))
		}
		slices.Reverse(want)
		if got := sorts(t, d, "p", driver.RangeOptions{To: "z", Reverse: true}); !slices.Equal(got, want) {
			t.Errorf("Range backwards: %d siblings", len(got))
		}
		if got := sorts(t, d, "p", driver.RangeOptions{From: "seg/0002", To: "seg/0004", Reverse: true, KeysOnly: true}); !slices.Equal(got, []string{"seg/0003", "seg/0002"}) {
			t.Errorf("Range between bounds: %q", got)
		}
	})
}

func TestLaw8TheLoopMayReadAndWrite(t *testing.T) {
	eachKind(t, Config{Readers: 1, BusyTimeout: 5 * time.Second}, func(t *testing.T, d *Driver) {
		for i := range 30 {
			mustPut(t, d, driver.Partition("p"+strconv.Itoa(i)).Head(), head(`{}`), driver.Condition{})
			mustPut(t, d, driver.Partition("p").Sibling(strconv.Itoa(100+i)), driver.Record{}, driver.Condition{})
		}
		n := 0
		for r, err := range d.Range(t.Context(), "p", driver.RangeOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			mustGet(t, d, driver.Partition("p").Sibling(r.Sort))
			mustPut(t, d, driver.Partition("new"+r.Sort).Head(), head(`{}`), driver.IfAbsent())
			if err := d.Delete(t.Context(), driver.Partition("p").Sibling(r.Sort), driver.IfTag(r.Tag)); err != nil {
				t.Fatal(err)
			}
			for _, err := range d.Range(t.Context(), "p", driver.RangeOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if n != 30 || len(sorts(t, d, "p", driver.RangeOptions{})) != 0 {
			t.Errorf("the loop saw %d siblings", n)
		}
		n = 0
		for e, err := range d.Partitions(t.Context(), driver.ListOptions{PageSize: 4}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 1000 {
				t.Fatal("writes in the loop make it endless")
			}
			if strings.HasPrefix(string(e.Partition), "p") {
				mustPut(t, d, e.Partition.Head(), head(`{"seen":1}`), driver.Condition{})
			}
		}
		if n < 60 {
			t.Errorf("the loop saw %d flows", n)
		}
	})
}

func TestLaw8WritesAheadOfALoopDoNotMakeItEndless(t *testing.T) {
	eachKind(t, Config{}, func(t *testing.T, d *Driver) {
		const n = pageRecords + 10
		rs := make([]driver.Record, n)
		for i := range rs {
			rs[i] = driver.Record{Sort: fmt.Sprintf("m/%06d", i)}
		}
		if err := d.PutSiblings(t.Context(), "p", rs); err != nil {
			t.Fatal(err)
		}
		for _, reverse := range []bool{false, true} {
			turns := 0
			for _, err := range d.Range(t.Context(), "p", driver.RangeOptions{Reverse: reverse}) {
				if err != nil {
					t.Fatal(err)
				}
				if turns++; turns > 3*n {
					t.Fatal("Range does not end")
				}
				sort := fmt.Sprintf("z/%06d", turns)
				if reverse {
					sort = fmt.Sprintf("a/%06d", 999_999-turns)
				}
				mustPut(t, d, driver.Partition("p").Sibling(sort), driver.Record{}, driver.IfAbsent())
			}
		}
		turns := 0
		for _, err := range d.Partitions(t.Context(), driver.ListOptions{PageSize: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			if turns++; turns > 100 {
				t.Fatal("Partitions does not end")
			}
			mustPut(t, d, driver.Partition(fmt.Sprintf("q%06d", turns)).Head(), head(`{}`), driver.Condition{})
		}
	})
}

func TestLaw8PartitionsGoOnFromACursor(t *testing.T) {
	clk := newClock()
	d := openTest(t, Config{Now: clk.Now})
	want := map[string]bool{} // headless or not
	for i := range 40 {
		p := driver.Partition(fmt.Sprintf("flow-%02d", i))
		r := head(`{}`)
		if i%5 == 1 {
			r.ExpireAt = clk.In(time.Second)
		}
		if i%5 != 2 {
			mustPut(t, d, p.Head(), r, driver.Condition{})
			mustPut(t, d, p.Head(), r, driver.Condition{})
		}
		if i%5 == 2 || i%5 == 3 {
			mustPut(t, d, p.Sibling("a"), driver.Record{}, driver.Condition{})
			mustPut(t, d, p.Sibling("b"), driver.Record{}, driver.Condition{})
		}
		if i%5 != 1 {
			want[string(p)] = i%5 == 2
		}
	}
	clk.Advance(time.Hour)
	for _, size := range []int{0, 1, 3, 40, 1 << 30} {
		got, cursor := map[string]bool{}, ""
		for more := true; more; {
			more = false
			n := 0
			for e, err := range d.Partitions(t.Context(), driver.ListOptions{Cursor: cursor, PageSize: size}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, dup := got[string(e.Partition)]; dup {
					t.Errorf("%q again", e.Partition)
				}
				got[string(e.Partition)], cursor = e.Headless, e.Cursor
				if n++; n == 7 {
					more = true
					break
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("page size %d: %d flows, want %d", size, len(got), len(want))
		}
		for p, headless := range want {
			if g, ok := got[p]; !ok || g != headless {
				t.Errorf("page size %d: %s: headless %v, listed %v", size, p, g, ok)
			}
		}
	}
}

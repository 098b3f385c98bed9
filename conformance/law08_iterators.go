package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func iterators() law {
	return law{
		layer: driverLayer, name: "law08_iterators",
		text: "Iterators follow every page in order, may be left early, and allow reads and writes inside the loop.",
		cases: []testCase{
			{"byte_order", byteOrder},
			{"order_beyond_ten", orderBeyondTen},
			{"every_page_of_siblings", everyPageOfSiblings},
			{"pages_by_bytes", pagesByBytes},
			{"bounds_and_direction", boundsAndDirection},
			{"keys_only", keysOnly},
			{"partitions_do_not_mix", partitionsDoNotMix},
			{"nothing_is_no_error", nothingIsNoError},
			{"left_early", leftEarly},
			{"used_again", usedAgain},
			{"reads_and_writes_inside_range", insideRange},
			{"range_always_ends", rangeEnds},
			{"every_page_of_partitions", everyPageOfPartitions},
			{"partitions_by_cursor", partitionsByCursor},
			{"entries_describe_the_head", entriesDescribeHead},
			{"reads_and_writes_inside_partitions", insidePartitions},
			{"partitions_always_end", partitionsEnd},
		},
	}
}

// fill writes siblings, by the batch where the driver can. data may be nil.
func (c *caseRun) fill(d driver.Driver, p driver.Partition, sorts []string, data func(i int) []byte) {
	c.Helper()
	batch, canBatch := d.(driver.BatchPutter)
	var rs []driver.Record
	for i, s := range sorts {
		r := driver.Record{Sort: s, Data: []byte(s)}
		if data != nil {
			r.Data = data(i)
		}
		if !canBatch {
			c.put(d, p.Sibling(s), r, driver.IfAbsent())
			continue
		}
		rs = append(rs, r)
		if len(rs) == 100 || i == len(sorts)-1 {
			if err := batch.PutSiblings(c.ctx, p, rs); err != nil {
				c.Fatalf("PutSiblings of %d records failed: %v", len(rs), err)
			}
			rs = nil
		}
	}
}

// inRange returns which of the ascending sorts o selects, in its order.
func inRange(sorts []string, o driver.RangeOptions) []string {
	var out []string
	for _, s := range sorts {
		if s >= o.From && (o.To == "" || s < o.To) {
			out = append(out, s)
		}
	}
	if o.Reverse {
		slices.Reverse(out)
	}
	return out
}

// wantSorts demands exactly these siblings, in this order.
func (c *caseRun) wantSorts(d driver.Driver, p driver.Partition, o driver.RangeOptions, want []string) {
	c.Helper()
	var got []string
	for _, r := range c.siblings(d, p, o) {
		got = append(got, r.Sort)
	}
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	c.Errorf("Range of %q (%+v) yields %d siblings, want %d; they differ from place %d: %q, want %q",
		p, o, len(got), len(want), i, got[i:min(i+5, len(got))], want[i:min(i+5, len(want))])
}

// shuffled returns a copy in random order, so that order of arrival is not order of Sort.
func (c *caseRun) shuffled(sorts []string) []string {
	out := slices.Clone(sorts)
	c.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// byteOrder has what a locale, a number or a path would order in another way.
func byteOrder(c *caseRun) {
	d := c.open()
	p := c.id("f")
	sorts := []string{"a", "a-b", "a.b", "a/b", "a0", "a_b", "aa", "ab", "b", "-", ".", "/", "0", "_", "z", "1", "10", "2", "20", "3", "01", "001", "seg/1", "seg/10", "seg/2", "seg-1", "seg_1", "seg.1", "seg", "h/1", "h/01"}
	slices.Sort(sorts)
	c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, c.shuffled(sorts), nil)
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
	c.wantSorts(d, p, driver.RangeOptions{Reverse: true}, inRange(sorts, driver.RangeOptions{Reverse: true}))
	for _, r := range c.siblings(d, p, driver.RangeOptions{}) {
		if err := sameRecord(r.Sort, r, driver.Record{Data: []byte(r.Sort)}); err != nil {
			c.Errorf("Range: sibling %q: %v", r.Sort, err)
		}
		if got := c.get(d, p.Sibling(r.Sort)).Tag; got != r.Tag {
			c.Errorf("Range has the tag %q for %q, Get has %q", r.Tag, r.Sort, got)
		}
	}
}

func orderBeyondTen(c *caseRun) {
	for _, n := range []int{12, 101} {
		for _, format := range []string{"w/%d", "w/%06d"} {
			d := c.open()
			p := c.id(fmt.Sprint("f", n, format))
			var sorts []string
			for i := range n {
				sorts = append(sorts, fmt.Sprintf(format, i))
			}
			c.fill(d, p, sorts, nil)
			slices.Sort(sorts)
			c.wantSorts(d, p, driver.RangeOptions{}, sorts)
			o := driver.WithPrefix("w/")
			c.wantSorts(d, p, o, sorts)
			o.Reverse = true
			c.wantSorts(d, p, o, inRange(sorts, o))
		}
	}
}

// many is more than the usual page of a store; with Harness.Large more than any.
func (c *caseRun) many() int {
	if c.h.Large {
		return 10_050
	}
	return 1050
}

func everyPageOfSiblings(c *caseRun) {
	d := c.open()
	p := c.id("f")
	var sorts []string
	for i := range c.many() {
		sorts = append(sorts, fmt.Sprintf("ev/%08d", i*7))
	}
	c.fill(d, p, c.shuffled(sorts), nil)
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
	c.wantSorts(d, p, driver.RangeOptions{KeysOnly: true}, sorts)
	for _, o := range []driver.RangeOptions{{Reverse: true}, {From: sorts[3], To: sorts[len(sorts)-3], Reverse: true, KeysOnly: true}} {
		c.wantSorts(d, p, o, inRange(sorts, o))
	}
}

// pagesByBytes has more bytes than one answer of most servers may hold.
func pagesByBytes(c *caseRun) {
	d := c.open()
	p := c.id("f")
	size := min(60<<10, d.Limits().Record/2)
	var sorts []string
	for i := range 40 {
		sorts = append(sorts, fmt.Sprintf("seg/%03d", i))
	}
	data := func(i int) []byte {
		return []byte(strings.Repeat(string(rune('a'+i%26)), size-i))
	}
	c.fill(d, p, sorts, data)
	for i, r := range c.siblings(d, p, driver.RangeOptions{}) {
		if err := sameRecord(sorts[i], r, driver.Record{Data: data(i)}); err != nil {
			c.Errorf("Range: sibling %d: %v", i, err)
		}
	}
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
}

func boundsAndDirection(c *caseRun) {
	d := c.open()
	p := c.id("f")
	sorts := []string{"a", "ab", "b", "b/", "b/1", "b/2", "b0", "bb", "c", "d"}
	c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, c.shuffled(sorts), nil)
	bounds := append([]string{"", "0", "aa", "b/0", "b/11", "c.", "z"}, sorts...)
	for _, from := range bounds {
		for _, to := range bounds {
			for _, reverse := range []bool{false, true} {
				o := driver.RangeOptions{From: from, To: to, Reverse: reverse}
				c.wantSorts(d, p, o, inRange(sorts, o))
			}
		}
	}
	for prefix, want := range map[string][]string{"b/": {"b/", "b/1", "b/2"}, "b": {"b", "b/", "b/1", "b/2", "b0", "bb"}, "x": nil, "a": {"a", "ab"}} {
		c.wantSorts(d, p, driver.WithPrefix(prefix), want)
	}
}

func keysOnly(c *caseRun) {
	d := c.open()
	p := c.id("f")
	at := c.soon().Add(time.Hour)
	tags := map[string]driver.Tag{}
	for i := range 20 {
		r := aSibling(i)
		r.ExpireAt = at
		sort := fmt.Sprintf("s/%02d", i)
		tags[sort] = c.put(d, p.Sibling(sort), r, driver.Condition{})
	}
	for _, reverse := range []bool{false, true} {
		rs := c.siblings(d, p, driver.RangeOptions{KeysOnly: true, Reverse: reverse})
		if len(rs) != len(tags) {
			c.Errorf("Range of keys yields %d, want %d", len(rs), len(tags))
		}
		for _, r := range rs {
			if r.Tag != tags[r.Sort] || !r.ExpireAt.Equal(at) {
				c.Errorf("Range of keys has %q with tag %q and expiry %v, want %q and %v", r.Sort, r.Tag, r.ExpireAt, tags[r.Sort], at)
			}
		}
	}
}

func partitionsDoNotMix(c *caseRun) {
	d := c.open()
	family := []string{"a", "ab", "a/b", "a#b", "a:b", "a.b", "A", "a ", "a\x00", "a%", "a*", "b"}
	for i, id := range family {
		c.fill(d, c.id(id), []string{fmt.Sprintf("s/%d", i), "t"}, nil)
	}
	for i, id := range family {
		want := []string{fmt.Sprintf("s/%d", i), "t"}
		c.wantSorts(d, c.id(id), driver.RangeOptions{}, want)
		c.wantSorts(d, c.id(id), driver.RangeOptions{From: "s", To: "u"}, want)
	}
}

func nothingIsNoError(c *caseRun) {
	d := c.open()
	c.wantSorts(d, c.id("none"), driver.RangeOptions{}, nil)
	c.put(d, c.id("f").Head(), aHead(1), driver.Condition{})
	c.wantSorts(d, c.id("f"), driver.RangeOptions{}, nil)
	c.wantSorts(d, c.id("f"), driver.RangeOptions{Reverse: true, KeysOnly: true, From: "a", To: "b"}, nil)
	c.remove(d, c.id("f").Head())
	if n := len(c.list(d)); n != 0 {
		c.Errorf("Partitions lists %d partitions of an empty store", n)
	}
}

// leftEarly leaves many loops at once: a lock, cursor or connection kept would stop the
// writes that follow.
func leftEarly(c *caseRun) {
	d := c.open()
	p := c.id("f")
	var sorts []string
	for i := range 120 {
		sorts = append(sorts, fmt.Sprintf("s/%03d", i))
	}
	c.put(d, p.Head(), aHead(0), driver.Condition{})
	c.fill(d, p, sorts, nil)
	c.within("writes after loops that were left early", func() {
		for n := range 40 {
			seen := 0
			for _, err := range d.Range(c.ctx, p, driver.RangeOptions{Reverse: n%2 == 1}) {
				if seen++; err != nil || seen > n%3 {
					break
				}
			}
			for _, err := range d.Partitions(c.ctx, driver.ListOptions{PageSize: 1}) {
				if err != nil {
					c.Errorf("Partitions failed: %v", err)
				}
				break
			}
			if _, err := d.Put(c.ctx, p.Head(), aHead(n), driver.Condition{}); err != nil {
				c.Errorf("Put after a loop that was left early failed: %v", err)
				return
			}
		}
	})
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
}

func usedAgain(c *caseRun) {
	d := c.open()
	p := c.id("f")
	c.fill(d, p, []string{"a", "b"}, nil)
	siblings, partitions := d.Range(c.ctx, p, driver.RangeOptions{}), d.Partitions(c.ctx, driver.ListOptions{})
	for round := range 3 {
		n := 0
		for _, err := range siblings {
			if n++; err != nil {
				c.Fatalf("Range, looped over again: %v", err)
			}
		}
		found := false
		for e, err := range partitions {
			if err != nil {
				c.Fatalf("Partitions, looped over again: %v", err)
			}
			found = found || e.Partition == p
		}
		if n != 2 || !found {
			c.Errorf("round %d over the same iterators: %d siblings, want 2; partition found: %t", round, n, found)
		}
	}
}

// insideRange does to the record at hand, and to others, all that a driver can do.
func insideRange(c *caseRun) {
	d := c.open()
	p, q := c.id("f"), c.id("g")
	var sorts []string
	for i := range 60 {
		sorts = append(sorts, fmt.Sprintf("s/%03d", i))
	}
	c.fill(d, p, sorts, nil)
	var seen []string
	var failure error
	c.within("a loop over Range with reads and writes inside", func() {
		for r, err := range d.Range(c.ctx, p, driver.RangeOptions{}) {
			if err == nil {
				err = c.meddle(d, p, q, r)
			}
			if err != nil {
				failure = err
				return
			}
			seen = append(seen, r.Sort)
		}
	})
	if failure != nil {
		c.Fatalf("inside the loop: %v", failure)
	}
	if !slices.Equal(seen, sorts) {
		c.Errorf("with reads and writes inside, Range yields %d siblings, want the %d that were there: %q", len(seen), len(sorts), seen)
	}
	c.wantSorts(d, p, driver.RangeOptions{}, nil)
	c.wantSorts(d, q, driver.RangeOptions{}, sorts)
}

// meddle moves r from p to q, and reads all around it.
func (c *caseRun) meddle(d driver.Driver, p, q driver.Partition, r driver.Record) error {
	got, err := d.Get(c.ctx, p.Sibling(r.Sort))
	if err != nil {
		return fmt.Errorf("Get of the record at hand: %w", err)
	}
	if _, err := d.Put(c.ctx, q.Sibling(r.Sort), got, driver.IfAbsent()); err != nil {
		return fmt.Errorf("Put to another partition: %w", err)
	}
	if _, err := d.Put(c.ctx, p.Head(), aHead(1), driver.Condition{}); err != nil {
		return fmt.Errorf("Put of the head: %w", err)
	}
	if err := d.Delete(c.ctx, p.Sibling(r.Sort), driver.IfTag(r.Tag)); err != nil {
		return fmt.Errorf("Delete of the record at hand, on its tag: %w", err)
	}
	for _, err := range d.Range(c.ctx, p, driver.RangeOptions{From: r.Sort}) {
		if err != nil {
			return fmt.Errorf("Range inside Range: %w", err)
		}
	}
	for _, err := range d.Partitions(c.ctx, driver.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("Partitions inside Range: %w", err)
		}
		break
	}
	return nil
}

// rangeEnds adds a record ahead of the loop at each turn, in either direction.
func rangeEnds(c *caseRun) {
	const begin, most = 120, 800
	for _, reverse := range []bool{false, true} {
		d := c.open()
		p := c.id(fmt.Sprint("f", reverse))
		var sorts []string
		for i := range begin {
			sorts = append(sorts, fmt.Sprintf("m/%04d", i))
		}
		c.fill(d, p, sorts, nil)
		name := "n/%04d"
		if reverse {
			name = "a/%04d"
		}
		turns := 0
		var seen []string
		for r, err := range d.Range(c.ctx, p, driver.RangeOptions{Reverse: reverse}) {
			if turns++; err != nil || turns > most {
				c.Fatalf("Range over %d records, of which each turn adds one, came to turn %d (error %v)", begin, turns, err)
			}
			if strings.HasPrefix(r.Sort, "m/") {
				seen = append(seen, r.Sort)
			}
			sort := fmt.Sprintf(name, turns)
			if reverse {
				sort = fmt.Sprintf(name, 9999-turns)
			}
			if _, err := d.Put(c.ctx, p.Sibling(sort), aSibling(turns), driver.Condition{}); err != nil && !errors.Is(err, core.ErrConflict) {
				c.Fatalf("Put inside the loop: %v", err)
			}
		}
		if want := inRange(sorts, driver.RangeOptions{Reverse: reverse}); !slices.Equal(seen, want) {
			c.Errorf("Range (reverse: %t) with writes inside yields %d of the %d old records", reverse, len(seen), len(want))
		}
	}
}

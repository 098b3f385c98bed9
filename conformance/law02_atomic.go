package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func writesAreAtomic() law {
	return law{
		layer: driverLayer, name: "law02_writes_are_atomic",
		text: "Put and Delete are atomic and linearizable per record; a failed condition is ErrConflict and changes nothing.",
		cases: []testCase{
			{"if_absent_creates_once", ifAbsentCreatesOnce},
			{"if_tag_replaces_only_that_write", ifTagReplaces},
			{"if_tag_on_nothing_creates_nothing", ifTagOnNothing},
			{"tags_of_other_records_do_not_fit", foreignTags},
			{"put_replaces_the_whole_record", putReplacesAll},
			{"delete_on_condition", deleteOnCondition},
			{"conditions_hold_for_siblings", conditionsOnSiblings},
			{"one_creator_of_32", oneCreator},
			{"one_replacer_of_32", oneReplacer},
			{"one_deleter_of_32", oneDeleter},
			{"no_update_is_lost", noLostUpdate},
			{"writers_of_different_records_all_win", differentRecords},
			{"readers_see_whole_records", wholeRecords},
			{"batch_put_never_replaces", batchPutNeverReplaces},
		},
	}
}

// aHead returns a head with every field in use; n tells one from another.
func aHead(n int) driver.Record {
	return driver.Record{
		State:   fmt.Appendf(nil, `{"id":"c-%d","n":%d}`, n, n),
		Method:  fmt.Sprintf("method %d", n),
		SavedAt: time.Date(2026, 3, 4, 5, 6, 7, n%1000*1000, time.UTC),
		Data:    fmt.Appendf(nil, "data %d", n),
	}
}

func aSibling(n int) driver.Record { return driver.Record{Data: fmt.Appendf(nil, "data %d", n)} }

// aRecord returns what may be kept under k: a sibling carries only Data.
func aRecord(k driver.Key, n int) driver.Record {
	if k.Sort != "" {
		return aSibling(n)
	}
	return aHead(n)
}

// wantConflict demands ErrConflict and, where the driver passes the current record on, that
// it is the right one.
func (c *caseRun) wantConflict(err error, what string, k driver.Key, current *driver.Record) {
	c.Helper()
	c.wantErr(err, core.ErrConflict, what)
	var conflict *driver.ConflictError
	if !errors.As(err, &conflict) {
		return
	}
	switch {
	case !conflict.Known && conflict.Current != nil:
		c.Errorf("%s: the ConflictError carries a record and says that it is not known", what)
	case !conflict.Known:
	case (conflict.Current == nil) != (current == nil):
		c.Errorf("%s: the ConflictError knows of a record: %t, there is one: %t", what, conflict.Current != nil, current != nil)
	case current != nil:
		if err := sameRecord(k.Sort, *conflict.Current, *current); err != nil {
			c.Errorf("%s: the ConflictError carries another record than the current one: %v", what, err)
		}
	}
}

func ifAbsentCreatesOnce(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	first := aHead(1)
	tag := c.put(d, k, first, driver.IfAbsent())
	c.want(d, k, tag, first)
	_, err := d.Put(c.ctx, k, aHead(2), driver.IfAbsent())
	c.wantConflict(err, "Put on \"must not exist\" over a record", k, &first)
	c.want(d, k, tag, first)
	_, err = d.Put(c.ctx, k, first, driver.IfAbsent())
	c.wantConflict(err, "Put of the same content on \"must not exist\"", k, &first)
	c.want(d, k, tag, first)
	c.remove(d, k)
	c.want(d, k, c.put(d, k, aHead(3), driver.IfAbsent()), aHead(3))
}

func ifTagReplaces(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	t1 := c.put(d, k, aHead(1), driver.Condition{})
	t2 := c.put(d, k, aHead(2), driver.IfTag(t1))
	second := aHead(2)
	c.want(d, k, t2, second)
	_, err := d.Put(c.ctx, k, aHead(3), driver.IfTag(t1))
	c.wantConflict(err, "Put on a stale tag", k, &second)
	c.want(d, k, t2, second)
	t3 := c.put(d, k, aHead(3), driver.Condition{})
	_, err = d.Put(c.ctx, k, aHead(4), driver.IfTag(t2))
	third := aHead(3)
	c.wantConflict(err, "Put on the tag from before an unconditional Put", k, &third)
	c.want(d, k, t3, third)
	// The tag that Get reports is as good as the one that Put returned.
	c.want(d, k, c.put(d, k, aHead(5), driver.IfTag(c.get(d, k).Tag)), aHead(5))
}

func ifTagOnNothing(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	for _, tag := range []driver.Tag{"", "x", "0", "1", "*"} {
		_, err := d.Put(c.ctx, k, aHead(1), driver.IfTag(tag))
		c.wantConflict(err, fmt.Sprintf("Put on tag %q of no record", tag), k, nil)
		c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(tag)), fmt.Sprintf("Delete on tag %q of no record", tag), k, nil)
	}
	c.wantAbsent(d, k, "after refused writes")
	if n := len(c.list(d)); n != 0 {
		c.Errorf("after refused writes Partitions lists %d partitions, want none", n)
	}
	first := aHead(1)
	tag := c.put(d, k, first, driver.Condition{})
	for _, wrong := range []driver.Tag{"", "x", tag + "x", tag[:len(tag)-1], "*", "%"} {
		_, err := d.Put(c.ctx, k, aHead(2), driver.IfTag(wrong))
		c.wantConflict(err, fmt.Sprintf("Put on the tag %q, it is %q", wrong, tag), k, &first)
		c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(wrong)), fmt.Sprintf("Delete on the tag %q, it is %q", wrong, tag), k, &first)
	}
	c.want(d, k, tag, first)
}

// foreignTags uses tags where they were not given. Each record is written a different number
// of times, so that per-record counters would meet.
func foreignTags(c *caseRun) {
	d := c.open()
	mine, others := c.id("f").Head(), []driver.Key{c.id("f").Sibling("s"), c.id("g").Head(), c.id("F").Head()}
	first := aHead(1)
	tag := c.put(d, mine, first, driver.Condition{})
	for i, k := range others {
		for n := range 3 {
			other := c.put(d, k, aSibling(10*i+n), driver.Condition{})
			if other == tag {
				continue // tags need only be unique within a record
			}
			_, err := d.Put(c.ctx, mine, aHead(2), driver.IfTag(other))
			c.wantConflict(err, "Put on the tag of another record", mine, &first)
			c.wantConflict(d.Delete(c.ctx, mine, driver.IfTag(other)), "Delete on the tag of another record", mine, &first)
		}
	}
	c.want(d, mine, tag, first)
}

func putReplacesAll(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	full := aHead(1)
	full.ExpireAt = c.soon().Add(time.Hour)
	full.State = []byte(`{"id":"f","gone":{"deep":[1,2]},"stays":1}`)
	small := driver.Record{State: []byte(`{"stays":2}`)}
	for _, step := range []struct {
		name string
		r    driver.Record
	}{
		{"a full record", full},
		{"a record with less", small},
		{"a full record again", full},
		{"a record without state", driver.Record{Data: []byte("only data")}},
		{"a state after none", small},
	} {
		tag := c.put(d, k, step.r, driver.Condition{})
		got := c.get(d, k)
		if err := sameRecord("", got, step.r); err != nil {
			c.Errorf("after Put of %s: %v", step.name, err)
		}
		if got.Tag != tag {
			c.Errorf("after Put of %s the tag is %q, Put had returned %q", step.name, got.Tag, tag)
		}
	}
}

func deleteOnCondition(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	stale := c.put(d, k, aHead(1), driver.Condition{})
	tag := c.put(d, k, aHead(2), driver.Condition{})
	second := aHead(2)
	c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(stale)), "Delete on a stale tag", k, &second)
	c.want(d, k, tag, second)
	if err := d.Delete(c.ctx, k, driver.IfTag(tag)); err != nil {
		c.Fatalf("Delete on the current tag failed: %v", err)
	}
	c.wantAbsent(d, k, "after Delete on the current tag")
	c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(tag)), "Delete on the tag of a deleted record", k, nil)
	c.remove(d, k) // absent, and no condition: no error
}

func conditionsOnSiblings(c *caseRun) {
	d := c.open()
	p := c.id("f")
	k, other := p.Sibling("seg/1"), p.Sibling("seg/2")
	head := c.put(d, p.Head(), aHead(1), driver.IfAbsent())
	t1 := c.put(d, k, aSibling(1), driver.IfAbsent())
	c.put(d, other, aSibling(2), driver.IfAbsent())
	first := aSibling(1)
	_, err := d.Put(c.ctx, k, aSibling(3), driver.IfAbsent())
	c.wantConflict(err, "Put of a sibling on \"must not exist\"", k, &first)
	t2 := c.put(d, k, aSibling(4), driver.IfTag(t1))
	fourth := aSibling(4)
	_, err = d.Put(c.ctx, k, aSibling(5), driver.IfTag(t1))
	c.wantConflict(err, "Put of a sibling on a stale tag", k, &fourth)
	c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(t1)), "Delete of a sibling on a stale tag", k, &fourth)
	c.want(d, k, t2, fourth)
	c.want(d, other, "", aSibling(2))
	c.want(d, p.Head(), head, aHead(1))
	if err := d.Delete(c.ctx, k, driver.IfTag(t2)); err != nil {
		c.Errorf("Delete of a sibling on its tag failed: %v", err)
	}
	c.wantAbsent(d, k, "after Delete on its tag")
}

const crowd = 32

// race lets a crowd do f on one record and returns who won. Errors other than ErrConflict
// fail the case.
func (c *caseRun) race(f func(i int) error) (winners []int) {
	c.Helper()
	won := make([]bool, crowd)
	c.parallel(crowd, func(i int) error {
		err := f(i)
		won[i] = err == nil
		if err != nil && !errors.Is(err, core.ErrConflict) {
			return fmt.Errorf("of a crowd's writes one returned %w, want nil or ErrConflict", err)
		}
		return nil
	})
	for i, w := range won {
		if w {
			winners = append(winners, i)
		}
	}
	return winners
}

// rounds is how often a race is run: a lost race shows in a few of them.
const rounds = 8

func oneCreator(c *caseRun) {
	d := c.open()
	for round := range rounds {
		k := c.id(fmt.Sprint("f", round)).Head()
		winners := c.race(func(i int) error {
			_, err := d.Put(c.ctx, k, aHead(i), driver.IfAbsent())
			return err
		})
		if len(winners) != 1 {
			c.Fatalf("round %d: %d of %d created the record, want exactly one", round, len(winners), crowd)
		}
		c.want(d, k, "", aHead(winners[0]))
	}
}

func oneReplacer(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	tag := c.put(d, k, aHead(1000), driver.IfAbsent())
	for round := range rounds {
		winners := c.race(func(i int) error {
			_, err := d.Put(c.ctx, k, aHead(i), driver.IfTag(tag))
			return err
		})
		if len(winners) != 1 {
			c.Fatalf("round %d: %d of %d replaced one write, want exactly one", round, len(winners), crowd)
		}
		c.want(d, k, "", aHead(winners[0]))
		tag = c.get(d, k).Tag
	}
}

func oneDeleter(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	for round := range rounds {
		tag := c.put(d, k, aHead(round), driver.IfAbsent())
		winners := c.race(func(int) error { return d.Delete(c.ctx, k, driver.IfTag(tag)) })
		if len(winners) != 1 {
			c.Fatalf("round %d: %d of %d deleted one write, want exactly one", round, len(winners), crowd)
		}
		c.wantAbsent(d, k, "after the deletes")
	}
}

// noLostUpdate counts up in one record by compare-and-swap, from all sides.
func noLostUpdate(c *caseRun) {
	const each = 4
	d := c.open()
	k := c.id("f").Sibling("counter")
	c.put(d, k, driver.Record{Data: []byte("0")}, driver.IfAbsent())
	increment := func() error {
		for {
			r, err := d.Get(c.ctx, k)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(r.Data))
			if err != nil {
				return fmt.Errorf("the counter is %s: %w", clip(r.Data), err)
			}
			_, err = d.Put(c.ctx, k, driver.Record{Data: []byte(strconv.Itoa(n + 1))}, driver.IfTag(r.Tag))
			if !errors.Is(err, core.ErrConflict) {
				return err
			}
		}
	}
	c.parallel(crowd, func(int) error {
		for range each {
			if err := increment(); err != nil {
				return err
			}
		}
		return nil
	})
	c.want(d, k, "", driver.Record{Data: []byte(strconv.Itoa(crowd * each))})
}

func differentRecords(c *caseRun) {
	d := c.open()
	shared, own := c.id("shared"), func(i int) driver.Partition { return c.id(fmt.Sprint("own", i)) }
	c.parallel(crowd, func(i int) error {
		for n := range 3 {
			if _, err := d.Put(c.ctx, shared.Sibling(fmt.Sprintf("s/%d/%d", i, n)), aSibling(n), driver.IfAbsent()); err != nil {
				return err
			}
		}
		_, err := d.Put(c.ctx, own(i).Head(), aHead(i), driver.IfAbsent())
		return err
	})
	for i := range crowd {
		for n := range 3 {
			c.want(d, shared.Sibling(fmt.Sprintf("s/%d/%d", i, n)), "", aSibling(n))
		}
		c.want(d, own(i).Head(), "", aHead(i))
	}
	if n := len(c.siblings(d, shared, driver.RangeOptions{})); n != 3*crowd {
		c.Errorf("Range yields %d siblings, %d were written", n, 3*crowd)
	}
}

// wholeRecords writes records whose fields agree, and reads them at the same time.
func wholeRecords(c *caseRun) {
	const writes, readers = 40, 4
	d := c.open()
	p := c.id("f")
	record := func(n int) driver.Record {
		r := aHead(n)
		r.State = fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, bytes.Repeat([]byte{'x'}, n%7*300))
		r.Data = bytes.Repeat([]byte{byte('a' + n%26)}, n%5*500+1)
		return r
	}
	first := record(0)
	c.put(d, p.Head(), first, driver.Condition{})
	var written atomic.Int64
	var done atomic.Bool
	c.parallel(1+readers, func(i int) error {
		if i == 0 {
			defer done.Store(true)
			for n := 1; n <= writes; n++ {
				if _, err := d.Put(c.ctx, p.Head(), record(n), driver.Condition{}); err != nil {
					return err
				}
				written.Store(int64(n))
			}
			return nil
		}
		for !done.Load() {
			atLeast := int(written.Load())
			r, err := d.Get(c.ctx, p.Head())
			if err != nil {
				return err
			}
			var n int
			if _, err := fmt.Sscanf(r.Method, "method %d", &n); err != nil {
				return fmt.Errorf("the method is %q: %w", r.Method, err)
			}
			if n < atLeast {
				return fmt.Errorf("read write %d after write %d had been acknowledged", n, atLeast)
			}
			if err := sameRecord("", r, record(n)); err != nil {
				return fmt.Errorf("a record of two writes, %q: %w", r.Method, err)
			}
		}
		return nil
	})
}

func batchPutNeverReplaces(c *caseRun) {
	d := c.open()
	batch, ok := d.(driver.BatchPutter)
	if !ok {
		c.unsupported(BatchPut)
	}
	p := c.id("f")
	if err := batch.PutSiblings(c.ctx, p, nil); err != nil {
		c.Errorf("PutSiblings of nothing failed: %v", err)
	}
	var rs []driver.Record
	for n := range 120 {
		r := aSibling(n)
		r.Sort = fmt.Sprintf("s/%d", n)
		rs = append(rs, r)
	}
	c.put(d, p.Head(), aHead(1), driver.Condition{})
	if err := batch.PutSiblings(c.ctx, p, rs); err != nil {
		c.Fatalf("PutSiblings of %d records failed: %v", len(rs), err)
	}
	for n, r := range rs {
		c.want(d, p.Sibling(r.Sort), "", aSibling(n))
	}
	taken := rs[60]
	taken.Data = []byte("another")
	c.wantErr(batch.PutSiblings(c.ctx, p, []driver.Record{taken}), core.ErrConflict, "PutSiblings over a record")
	c.want(d, p.Sibling(taken.Sort), "", aSibling(60))
	c.want(d, p.Head(), "", aHead(1))
}

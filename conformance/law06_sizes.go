package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func sizes() law {
	return law{
		layer: driverLayer, name: "law06_sizes",
		text: "A record over the limit is ErrTooLarge before anything is written, with both numbers, and the old record stays.",
		cases: []testCase{
			{"limits_are_sane_and_constant", limitsAreSane},
			{"head_at_the_limit", func(c *caseRun) { atTheLimit(c, c.limited(), c.id("f").Head(), growData(aHead(1))) }},
			{"sibling_at_the_limit", func(c *caseRun) {
				atTheLimit(c, c.limited(), c.id("f").Sibling("seg/1"), growData(driver.Record{}))
			}},
			{"state_at_the_limit", func(c *caseRun) { atTheLimit(c, c.limited(), c.id("f").Head(), growState(aHead(1))) }},
			{"method_and_id_count", func(c *caseRun) {
				long := c.id(string(bytes.Repeat([]byte("i"), 700)))
				r := aHead(1)
				r.Method = string(bytes.Repeat([]byte("m"), 500))
				atTheLimit(c, c.limited(), long.Head(), growData(r))
			}},
			{"far_over_the_limit", farOver},
			{"batch_over_the_limit", batchOver},
		},
	}
}

// mostMemory is the largest record limit that is tried without Harness.Large.
const mostMemory = 2 << 20

// limited returns a store whose limit can be reached.
func (c *caseRun) limited() driver.Driver {
	c.Helper()
	if c.h.has(PretendedLimits) {
		return c.openSmall(driver.Limits{Record: 4096, Inline: 1024})
	}
	d := c.open()
	if limit := d.Limits().Record; limit > mostMemory && !c.h.Large {
		c.Skipf("%s%s, and a record of %d bytes is only tried with Harness.Large", unsupportedPrefix, PretendedLimits, limit)
	}
	return d
}

func limitsAreSane(c *caseRun) {
	d := c.open()
	before := d.Limits()
	if before.Record < 1024 || before.Inline <= 0 || before.Inline > before.Record {
		c.Errorf("the limits are %+v: want Record of at least 1024, and Inline above 0 and at most Record", before)
	}
	for n := range 5 {
		c.put(d, c.id("f").Head(), aHead(n), driver.Condition{})
		if now := d.Limits(); now != before {
			c.Errorf("the limits were %+v and are %+v: they never change", before, now)
		}
	}
	if c.h.has(PretendedLimits) {
		c.openSmall(driver.Limits{Record: 2048, Inline: 512})
	}
}

// grower returns a record whose size grows with n.
type grower func(n int) driver.Record

func growData(r driver.Record) grower {
	return func(n int) driver.Record {
		r.Data = bytes.Repeat([]byte{0xfe}, n)
		return r
	}
}

func growState(r driver.Record) grower {
	return func(n int) driver.Record {
		r.State = fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte("s"), n))
		return r
	}
}

// largest returns the largest n for which grow(n) fits.
func largest(d driver.Driver, k driver.Key, grow grower) int {
	low, high := 0, d.Limits().Record+1
	for low+1 < high {
		if mid := (low + high) / 2; driver.CheckSize(d, k, grow(mid)) == nil {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// atTheLimit writes one byte below, at and above the limit, on every condition.
func atTheLimit(c *caseRun, d driver.Driver, k driver.Key, grow grower) {
	c.Helper()
	most := largest(d, k, grow)
	if size := driver.Size(d, k, grow(most+1)); size <= d.Limits().Record {
		c.Fatalf("Size says that %d bytes fit into %d, whatever is added", size, d.Limits().Record)
	}
	c.refused(d, k, grow(most+1), driver.Condition{}, nil)
	c.refused(d, k, grow(most+1), driver.IfAbsent(), nil)
	var tag driver.Tag
	for _, n := range []int{most - 1, most} {
		r := grow(n)
		tag = c.put(d, k, r, driver.Condition{})
		c.want(d, k, tag, r)
	}
	kept := grow(most)
	for _, over := range []int{1, 2, 100, d.Limits().Record} {
		c.refused(d, k, grow(most+over), driver.Condition{}, &kept)
		c.refused(d, k, grow(most+over), driver.IfTag(tag), &kept)
	}
	c.want(d, k, tag, kept)
	small := grow(1)
	c.want(d, k, c.put(d, k, small, driver.IfTag(tag)), small)
}

// refused demands ErrTooLarge with both numbers, and the store as it was: current, or nothing.
func (c *caseRun) refused(d driver.Driver, k driver.Key, r driver.Record, cond driver.Condition, current *driver.Record) {
	c.Helper()
	_, err := d.Put(c.ctx, k, r, cond)
	size, limit := driver.Size(d, k, r), d.Limits().Record
	what := fmt.Sprintf("Put of %d bytes, the limit is %d,", size, limit)
	c.wantErr(err, core.ErrTooLarge, what)
	var se *core.SizeError
	switch {
	case err == nil:
	case !errors.As(err, &se):
		c.Errorf("%s returned %q, want a *core.SizeError", what, err)
	case se.Size != int64(size) || se.Limit != int64(limit):
		c.Errorf("%s says that %d bytes are over the limit of %d", what, se.Size, se.Limit)
	}
	if core.OutcomeUnknown(err) {
		c.Errorf("%s leaves the outcome open, but nothing may have been sent", what)
	}
	if current != nil {
		c.want(d, k, "", *current)
		return
	}
	c.wantAbsent(d, k, "after a refused Put")
	if n := len(c.list(d)); n != 0 {
		c.Errorf("after a refused Put Partitions lists %d partitions", n)
	}
}

func farOver(c *caseRun) {
	d := c.limited()
	k := c.id("f").Head()
	grow := growData(aHead(1))
	old := aHead(2)
	tag := c.put(d, k, old, driver.Condition{})
	limit := d.Limits().Record
	for _, n := range []int{limit, 2 * limit, 10 * limit} {
		c.refused(d, k, grow(n), driver.IfTag(tag), &old)
		// Where the condition fails as well, either refusal is true.
		if _, err := d.Put(c.ctx, k, grow(n), driver.IfAbsent()); !errors.Is(err, core.ErrTooLarge) && !errors.Is(err, core.ErrConflict) {
			c.Errorf("Put of %d bytes on \"must not exist\" over a record returned %v", n, err)
		}
	}
	c.want(d, k, tag, old)
}

func batchOver(c *caseRun) {
	d := c.limited()
	batch, ok := d.(driver.BatchPutter)
	if !ok {
		c.unsupported(BatchPut)
	}
	p := c.id("f")
	over := growData(driver.Record{Sort: "s/2"})(d.Limits().Record + 1)
	rs := []driver.Record{{Sort: "s/1", Data: []byte("small")}, over, {Sort: "s/3", Data: []byte("small")}}
	c.wantErr(batch.PutSiblings(c.ctx, p, rs), core.ErrTooLarge, "PutSiblings with one record over the limit")
	c.wantAbsent(d, p.Sibling("s/2"), "after a refused PutSiblings")
	rs[1] = growData(driver.Record{Sort: "s/2"})(largest(d, p.Sibling("s/2"), growData(driver.Record{})))
	for _, s := range []string{"s/1", "s/3"} {
		c.remove(d, p.Sibling(s)) // any subset may have been written
	}
	if err := batch.PutSiblings(c.ctx, p, rs); err != nil {
		c.Fatalf("PutSiblings with one record at the limit failed: %v", err)
	}
	for _, r := range rs {
		c.want(d, p.Sibling(r.Sort), "", driver.Record{Data: r.Data})
	}
}

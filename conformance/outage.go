package conformance

import (
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func outages() law {
	return law{
		layer: driverLayer, name: "outage",
		text: "A store that cannot be reached is ErrUnavailable: never an absent record, never an empty listing.",
		cases: []testCase{
			{"unreachable_is_not_absent", unreachableIsNotAbsent},
		},
	}
}

func unreachableIsNotAbsent(c *caseRun) {
	if c.h.Outage == nil {
		c.Skipf("%san outage (Harness.Outage is nil)", unsupportedPrefix)
	}
	d := c.open()
	p := c.id("f")
	tag := c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, []string{"a", "b"}, nil)
	for range 2 {
		end := c.h.Outage(c, c.opts)
		start := time.Now()
		c.wantUnavailable(d, p, tag)
		end()
		if c.Failed() {
			return // perhaps there was no outage, and a wait would be for nothing
		}
		if took := time.Since(start); took > caseTimeout/2 {
			c.Errorf("the calls took %v to fail: retries are bounded", took)
		}
		c.eventually("the same handle works again after the outage", func() bool {
			_, err := d.Get(c.ctx, p.Head())
			return err == nil
		})
		// A write whose outcome was left open may have been made after all.
		c.put(d, p.Head(), aHead(1), driver.Condition{})
		c.wantSorts(d, p, driver.RangeOptions{}, []string{"a", "b"})
	}
}

func (c *caseRun) wantUnavailable(d driver.Driver, p driver.Partition, tag driver.Tag) {
	c.Helper()
	_, err := d.Get(c.ctx, p.Head())
	c.wantErr(err, core.ErrUnavailable, "Get in an outage")
	_, err = d.Get(c.ctx, c.id("absent").Head())
	c.wantErr(err, core.ErrUnavailable, "Get of nothing in an outage")
	for _, cond := range []driver.Condition{{}, driver.IfTag(tag), driver.IfAbsent()} {
		_, err = d.Put(c.ctx, p.Head(), aHead(2), cond)
		c.wantErr(err, core.ErrUnavailable, "Put in an outage")
	}
	c.wantErr(d.Delete(c.ctx, c.id("absent").Head(), driver.Condition{}), core.ErrUnavailable, "Delete in an outage")
	var last error
	for _, err := range d.Range(c.ctx, p, driver.RangeOptions{}) {
		last = err
	}
	c.wantErr(last, core.ErrUnavailable, "Range in an outage")
	last = nil
	for _, err := range d.Partitions(c.ctx, driver.ListOptions{}) {
		last = err
	}
	c.wantErr(last, core.ErrUnavailable, "Partitions in an outage")
}

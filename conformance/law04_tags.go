package conformance

import (
	"fmt"

	"github.com/weirflow/weir/persistence/driver"
)

func tagsAreNeverReused() law {
	return law{
		layer: driverLayer, name: "law04_tags_are_never_reused",
		text: "A record that was deleted and made again, or written over, never satisfies an old tag.",
		cases: []testCase{
			{"every_write_has_its_own_tag", everyWriteItsTag},
			{"after_delete_and_create", func(c *caseRun) {
				recreate(c, func(d driver.Driver, k driver.Key, _ driver.Tag) { c.remove(d, k) })
			}},
			{"after_delete_on_condition", func(c *caseRun) {
				recreate(c, func(d driver.Driver, k driver.Key, tag driver.Tag) {
					if err := d.Delete(c.ctx, k, driver.IfTag(tag)); err != nil {
						c.Fatalf("Delete on the current tag failed: %v", err)
					}
				})
			}},
			{"after_expiry", tagsAfterExpiry},
			{"after_reopening", tagsAfterReopening},
		},
	}
}

// everyWriteItsTag writes the same content again and again: a tag that is a hash, a clock or
// a counter of the record would repeat.
func everyWriteItsTag(c *caseRun) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		seen := map[driver.Tag]int{}
		note := func(n int, tag driver.Tag) {
			if before, dup := seen[tag]; dup {
				c.Fatalf("write %d of %s returned the tag %q of write %d", n, show(k), tag, before)
			}
			seen[tag] = n
		}
		for n := range 60 {
			cond := driver.Condition{}
			switch n % 3 {
			case 1:
				c.remove(d, k)
				cond = driver.IfAbsent()
			case 2:
				cond = driver.IfTag(c.get(d, k).Tag)
			}
			tag := c.put(d, k, aRecord(k, 7), cond)
			note(n, tag)
		}
	}
}

// recreate removes a record in the given way and makes it again with the same content; all
// tags of the first life must be worthless.
func recreate(c *caseRun, removeIt func(driver.Driver, driver.Key, driver.Tag)) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		var old []driver.Tag
		for range 3 {
			old = append(old, c.put(d, k, aRecord(k, 1), driver.Condition{}))
		}
		removeIt(d, k, old[2])
		c.worthless(d, k, old, nil)
		for n := range 3 {
			// As many writes as before: a counter from 1 would meet the old tags.
			current := aRecord(k, 1)
			c.want(d, k, c.put(d, k, current, driver.Condition{}), current)
			c.worthless(d, k, old, &current)
			if n == 1 {
				c.remove(d, k)
			}
		}
	}
}

// worthless demands that no old tag allows a write, and that nothing has changed.
func (c *caseRun) worthless(d driver.Driver, k driver.Key, old []driver.Tag, current *driver.Record) {
	c.Helper()
	for i, tag := range old {
		_, err := d.Put(c.ctx, k, aRecord(k, 2), driver.IfTag(tag))
		c.wantConflict(err, fmt.Sprintf("Put on tag %d of an earlier life", i), k, current)
		c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(tag)), fmt.Sprintf("Delete on tag %d of an earlier life", i), k, current)
	}
	if current == nil {
		c.wantAbsent(d, k, "after refused writes")
		return
	}
	c.want(d, k, "", *current)
}

func tagsAfterExpiry(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	r := aHead(1)
	r.ExpireAt = c.soon()
	old := []driver.Tag{c.put(d, k, r, driver.IfAbsent()), c.put(d, k, r, driver.Condition{})}
	c.expire(r.ExpireAt)
	c.worthless(d, k, old, nil)
	for range 2 {
		current := aHead(1)
		c.put(d, k, current, driver.Condition{})
		c.worthless(d, k, old, &current)
	}
}

// tagsAfterReopening catches counters that live in the process.
func tagsAfterReopening(c *caseRun) {
	if c.h.Reopen == nil {
		c.reopen() // ends the case
	}
	k := c.id("f").Head()
	d := c.open()
	var old []driver.Tag
	for range 3 {
		old = append(old, c.put(d, k, aHead(1), driver.Condition{}))
	}
	c.remove(d, k)
	if err := d.Close(); err != nil {
		c.Fatalf("Close failed: %v", err)
	}
	d = c.reopen()
	for range 3 {
		current := aHead(1)
		c.put(d, k, current, driver.Condition{})
		c.worthless(d, k, old, &current)
	}
}

package conformance

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/persistence/driver"
)

func readsSeeWrites() law {
	return law{
		layer: driverLayer, name: "law03_reads_see_writes",
		text: "Reads see every acknowledged write, on every read path and through every handle.",
		cases: []testCase{
			{"own_writes", func(c *caseRun) {
				d := c.open()
				readYourWrites(c, d, d)
			}},
			{"writes_of_another_handle", func(c *caseRun) {
				d := c.open()
				readYourWrites(c, d, c.reopen())
			}},
			{"handles_take_turns", handlesTakeTurns},
			{"data_outlives_the_handle", dataOutlivesHandle},
			{"opened_by_many_at_once", openedAtOnce},
		},
	}
}

// readYourWrites writes through one handle and looks through another after each write.
func readYourWrites(c *caseRun, w, r driver.Driver) {
	p := c.id("f")
	c.wantAbsent(r, p.Head(), "before the first write")
	for n := range 10 {
		tag := c.put(w, p.Head(), aHead(n), driver.Condition{})
		c.want(r, p.Head(), tag, aHead(n))
		e, ok := c.list(r)[p]
		if !ok {
			c.Fatalf("after write %d Partitions does not list the partition", n)
		}
		if err := sameMeta(driver.Record{Method: e.Method, SavedAt: e.SavedAt, ExpireAt: e.ExpireAt}, aHead(n)); err != nil || e.Headless {
			c.Errorf("after write %d Partitions describes an older head (headless: %t): %v", n, e.Headless, err)
		}
		k := p.Sibling(fmt.Sprintf("s/%d", n))
		c.wantAbsent(r, k, "before its first write")
		c.want(r, k, c.put(w, k, aSibling(n), driver.IfAbsent()), aSibling(n))
		rs := c.siblings(r, p, driver.RangeOptions{})
		if len(rs) != n+1 || string(rs[n].Data) != string(aSibling(n).Data) {
			c.Fatalf("after writing sibling %d, Range yields %d records", n, len(rs))
		}
	}
	c.remove(w, p.Sibling("s/3"))
	c.wantAbsent(r, p.Sibling("s/3"), "after Delete")
	if n := len(c.siblings(r, p, driver.RangeOptions{})); n != 9 {
		c.Errorf("after Delete of one of ten siblings Range yields %d", n)
	}
	c.remove(w, p.Head())
	c.wantAbsent(r, p.Head(), "after Delete")
	if e, ok := c.list(r)[p]; !ok || !e.Headless {
		c.Errorf("after Delete of the head Partitions lists it: %t, headless: %t; want both", ok, e.Headless)
	}
}

// handlesTakeTurns passes one record to and fro by compare-and-swap.
func handlesTakeTurns(c *caseRun) {
	d := [2]driver.Driver{c.open(), c.reopen()}
	k := c.id("f").Head()
	tag := c.put(d[1], k, aHead(0), driver.IfAbsent())
	for n := 1; n <= 20; n++ {
		stale := tag
		tag = c.put(d[n%2], k, aHead(n), driver.IfTag(tag))
		current := aHead(n)
		_, err := d[(n+1)%2].Put(c.ctx, k, aHead(-1), driver.IfTag(stale))
		c.wantConflict(err, "Put on a tag that the other handle has replaced", k, &current)
		c.want(d[(n+1)%2], k, tag, current)
	}
	winners := c.race(func(i int) error {
		_, err := d[i%2].Put(c.ctx, k, aHead(100+i), driver.IfTag(tag))
		return err
	})
	if len(winners) != 1 {
		c.Fatalf("%d of %d replaced one write through two handles, want exactly one", len(winners), crowd)
	}
	c.want(d[0], k, "", aHead(100+winners[0]))
	c.want(d[1], k, "", aHead(100+winners[0]))
}

func dataOutlivesHandle(c *caseRun) {
	if c.h.Reopen == nil {
		c.reopen() // ends the case
	}
	p := c.id("f")
	d := c.open()
	tag := c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.put(d, p.Sibling("s/1"), aSibling(1), driver.Condition{})
	c.put(d, p.Sibling("s/2"), aSibling(2), driver.Condition{})
	c.remove(d, p.Sibling("s/2"))
	if err := d.Close(); err != nil {
		c.Fatalf("Close failed: %v", err)
	}
	d = c.reopen()
	c.want(d, p.Head(), tag, aHead(1))
	c.want(d, p.Sibling("s/1"), "", aSibling(1))
	c.wantAbsent(d, p.Sibling("s/2"), "deleted before Close")
	c.put(d, p.Head(), aHead(2), driver.IfTag(tag))
}

// openedAtOnce has many open a store that nothing was written to yet, and write at once: what
// the first write makes, a table or a file, is made by one of them.
func openedAtOnce(c *caseRun) {
	if c.h.Reopen == nil {
		c.reopen() // ends the case
	}
	const openers = 8
	first, err := c.h.New(c, c.opts)
	if err != nil {
		c.Fatalf("opening the store failed: %v", err)
	}
	p := c.id("f")
	keys := make([]driver.Key, openers)
	for i := range keys {
		keys[i] = p.Sibling(fmt.Sprintf("s/%d", i))
	}
	keys[0] = p.Head()
	c.parallel(openers, func(i int) error {
		d, err := c.h.Reopen(c, c.opts)
		if err != nil {
			return fmt.Errorf("opener %d: %w", i, err)
		}
		_, err = d.Put(c.ctx, keys[i], aRecord(keys[i], i), driver.IfAbsent())
		if err != nil {
			err = fmt.Errorf("the first write of opener %d: %w", i, err)
		}
		return errors.Join(err, d.Close())
	})
	for i, k := range keys {
		c.want(first, k, "", aRecord(k, i))
	}
	if err := first.Close(); err != nil {
		c.Errorf("Close failed: %v", err)
	}
}

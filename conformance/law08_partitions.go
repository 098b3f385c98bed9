package conformance

import (
	"fmt"

	"github.com/weirflow/weir/persistence/driver"
)

// population writes n partitions of three kinds: with a head, with both, and headless.
func (c *caseRun) population(d driver.Driver, n int) map[driver.Partition]bool {
	c.Helper()
	headless := map[driver.Partition]bool{}
	for i := range n {
		p := c.id(fmt.Sprintf("p/%04d %%", i))
		headless[p] = i%3 == 2
		if i%3 != 2 {
			c.put(d, p.Head(), aHead(i), driver.Condition{})
		}
		if i%3 != 0 {
			c.fill(d, p, []string{"s/1", "s/2"}, nil)
		}
	}
	return headless
}

// wantEntries demands that all partitions were seen, and marked rightly.
func (c *caseRun) wantEntries(what string, seen map[driver.Partition]driver.Entry, headless map[driver.Partition]bool) {
	c.Helper()
	for p, want := range headless {
		e, ok := seen[p]
		if !ok {
			c.Errorf("%s: the partition %q is missing", what, p)
		} else if e.Headless != want {
			c.Errorf("%s: the partition %q is marked headless %t, want %t", what, p, e.Headless, want)
		}
	}
	for p := range seen {
		if _, ok := headless[p]; !ok && c.mine(p) {
			c.Errorf("%s: the partition %q was never written", what, p)
		}
	}
}

func everyPageOfPartitions(c *caseRun) {
	d := c.open()
	headless := c.population(d, 130)
	for _, size := range []int{0, 1, 7, 25, 130, 1000} {
		seen := map[driver.Partition]driver.Entry{}
		for e, err := range d.Partitions(c.ctx, driver.ListOptions{PageSize: size}) {
			if err != nil {
				c.Fatalf("Partitions, page size %d: %v", size, err)
			}
			seen[e.Partition] = e
		}
		c.wantEntries(fmt.Sprintf("page size %d", size), seen, headless)
	}
}

// partitionsByCursor leaves the loop again and again and goes on from the last entry.
func partitionsByCursor(c *caseRun) {
	d := c.open()
	headless := c.population(d, 60)
	for _, step := range []int{1, 7, 59, 60, 61} {
		seen := map[driver.Partition]driver.Entry{}
		cursor := ""
		for pages := 0; ; pages++ {
			if pages > 10_000 {
				c.Fatalf("listing by %d does not end", step)
			}
			n := 0
			for e, err := range d.Partitions(c.ctx, driver.ListOptions{Cursor: cursor, PageSize: 5}) {
				if err != nil {
					c.Fatalf("Partitions from cursor %q: %v", cursor, err)
				}
				if e.Cursor == "" {
					c.Fatalf("the entry of %q has no cursor: going on from there would begin anew", e.Partition)
				}
				seen[e.Partition], cursor = e, e.Cursor
				if n++; n == step {
					break
				}
			}
			if n < step {
				break
			}
		}
		c.wantEntries(fmt.Sprintf("listing by %d", step), seen, headless)
	}
}

func entriesDescribeHead(c *caseRun) {
	d := c.open()
	p, siblings := c.id("f"), c.id("siblings only")
	r := aHead(1)
	r.ExpireAt = c.soon().Add(1000 * 3600e9)
	c.put(d, p.Head(), r, driver.Condition{})
	c.fill(d, p, []string{"s/1"}, nil)
	c.fill(d, siblings, []string{"s/1"}, nil)
	listed := c.list(d)
	e := listed[p]
	if err := sameMeta(driver.Record{Method: e.Method, SavedAt: e.SavedAt, ExpireAt: e.ExpireAt}, r); err != nil || e.Headless {
		c.Errorf("Partitions describes the head wrongly (headless: %t): %v", e.Headless, err)
	}
	if e := listed[siblings]; !e.Headless || e.Method != "" || !e.SavedAt.IsZero() || !e.ExpireAt.IsZero() {
		c.Errorf("Partitions describes a head that is not there: %+v", e)
	}
	c.remove(d, p.Head())
	if e := c.list(d)[p]; !e.Headless || e.Method != "" {
		c.Errorf("after Delete of the head Partitions still describes it: %+v", e)
	}
	c.remove(d, p.Sibling("s/1"))
	if _, ok := c.list(d)[p]; ok {
		c.Errorf("Partitions lists a partition whose records were all deleted")
	}
}

func insidePartitions(c *caseRun) {
	d := c.open()
	headless := c.population(d, 40)
	seen := map[driver.Partition]driver.Entry{}
	var failure error
	c.within("a loop over Partitions with reads and writes inside", func() {
		for e, err := range d.Partitions(c.ctx, driver.ListOptions{PageSize: 3}) {
			if _, again := seen[e.Partition]; err == nil && c.mine(e.Partition) && !again {
				seen[e.Partition] = e
				err = c.emptyPartition(d, e)
			}
			if err != nil {
				failure = err
				return
			}
		}
	})
	if failure != nil {
		c.Fatalf("inside the loop: %v", failure)
	}
	c.wantEntries("with deletes inside", seen, headless)
	for p := range c.list(d) {
		if c.mine(p) {
			c.Errorf("Partitions still lists %q, of which everything was deleted", p)
		}
	}
}

// emptyPartition reads and deletes all records of a listed partition.
func (c *caseRun) emptyPartition(d driver.Driver, e driver.Entry) error {
	if _, err := d.Get(c.ctx, e.Partition.Head()); (err != nil) != e.Headless {
		return fmt.Errorf("Get of the head of an entry with headless %t: %w", e.Headless, err)
	}
	for r, err := range d.Range(c.ctx, e.Partition, driver.RangeOptions{KeysOnly: true}) {
		if err != nil {
			return fmt.Errorf("Range: %w", err)
		}
		if err := d.Delete(c.ctx, e.Partition.Sibling(r.Sort), driver.IfTag(r.Tag)); err != nil {
			return fmt.Errorf("Delete of a sibling on its tag: %w", err)
		}
	}
	return d.Delete(c.ctx, e.Partition.Head(), driver.Condition{})
}

// partitionsEnd adds a partition ahead of the loop at each turn.
func partitionsEnd(c *caseRun) {
	const begin, most = 30, 400
	d := c.open()
	headless := c.population(d, begin)
	seen := map[driver.Partition]driver.Entry{}
	turns := 0
	for e, err := range d.Partitions(c.ctx, driver.ListOptions{PageSize: 4}) {
		if err != nil {
			c.Fatalf("Partitions failed: %v", err)
		}
		if !c.mine(e.Partition) {
			continue
		}
		if turns++; turns > most {
			c.Fatalf("Partitions over %d partitions, of which each turn adds one, came to turn %d", begin, turns)
		}
		if _, old := headless[e.Partition]; old {
			seen[e.Partition] = e
		}
		// Beyond the last in the order of ids, and of writing.
		c.put(d, c.id(fmt.Sprintf("q/%04d", turns)).Head(), aHead(turns), driver.Condition{})
	}
	c.wantEntries("with writes inside", seen, headless)
}

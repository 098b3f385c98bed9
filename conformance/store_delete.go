package conformance

import (
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// deleteThousands deletes a flow of more records than a store takes at once. The first try is
// cut off in the middle; trying again converges.
func deleteThousands(c *caseRun) {
	d := c.openSmall(driver.Limits{Record: 1024, Inline: 1024})
	s := c.store(d)
	other := c.snapshot("g", 1, 1500)
	c.save(s, other)
	c.save(s, c.snapshot("f", 1, c.many()*400)) // twice that, in chunks of less than 900 bytes
	p := driver.Partition(c.flow("f"))
	n := len(c.siblings(d, p, driver.RangeOptions{KeysOnly: true}))
	if n < c.many()*8/10 {
		c.Fatalf("the flow has %d siblings, the case needs about %d", n, c.many())
	}
	f := newFaultDriver(d)
	f.cut = n / 2
	err := c.store(batchFaultDriver{f}).Delete(c.ctx, c.flow("f"))
	c.wantErr(err, core.ErrUnavailable, fmt.Sprintf("Delete that was cut off after %d of %d records", f.cut, n))
	c.wantNoFlow(s, c.flow("f"), "after a Delete that was cut off")
	if err := s.Delete(c.ctx, c.flow("f")); err != nil {
		c.Fatalf("Delete again failed: %v", err)
	}
	if rs := c.siblings(d, p, driver.RangeOptions{KeysOnly: true}); len(rs) > 0 {
		c.Errorf("after Delete again %d of %d siblings are left", len(rs), n)
	}
	c.wantSnapshot(s, other)
}

// deleteBesideListing deletes flows, each twice at the same time, while others list: every
// listed flow is one that was there.
func deleteBesideListing(c *caseRun) {
	const flows = 24
	d := c.openTight()
	s := c.store(d)
	known := map[string]bool{}
	for n := range flows {
		snap := c.snapshot(fmt.Sprint("f", n), n, n%2*1500)
		c.save(s, snap)
		known[snap.FlowID] = true
	}
	c.parallel(4, func(i int) error {
		s := c.store(d)
		if i < 2 {
			for n := range flows {
				if err := s.Delete(c.ctx, c.flow(fmt.Sprint("f", n))); err != nil {
					return fmt.Errorf("deleting beside a listing: %w", err)
				}
			}
			return nil
		}
		for range 5 {
			for info, err := range s.Flows(c.ctx, driver.ListOptions{}) {
				if err != nil {
					return fmt.Errorf("listing beside deletes: %w", err)
				}
				if c.mine(driver.Partition(info.FlowID)) && !known[info.FlowID] {
					return fmt.Errorf("a listing has the flow %q, which never was", info.FlowID)
				}
			}
		}
		return nil
	})
	if left := c.dump(d); len(left) > 0 {
		c.Errorf("after all deletes there are %d records: %q", len(left), left.keys())
	}
}

package faulty

import (
	"context"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
)

func batchMutants() []Mutant {
	offers := []conformance.Capability{conformance.BatchPut, conformance.BatchDelete}
	return []Mutant{
		{Name: "batch_replaces", Bug: "a batch writes over what is there", Law: "driver/law02_writes_are_atomic", offers: offers, Break: func(d driver.Driver) driver.Driver {
			return batches{Driver: d}
		}},
		{Name: "batch_of_25", Bug: "only the first 25 of a batch of deletes are sent", Law: "driver/law09_delete_is_exact", offers: offers, Break: func(d driver.Driver) driver.Driver {
			return batches{Driver: d, put: driver.IfAbsent(), most: 25}
		}},
		{Name: "batch_promised", Bug: "the author says that there are batches, and there are none", Law: "driver/capabilities", offers: offers},
	}
}

// batches is a correct driver with batches that may have a bug.
type batches struct {
	driver.Driver
	put  driver.Condition
	most int // of a batch; 0: all
}

func (b batches) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	for _, r := range rs {
		if _, err := b.Put(ctx, p.Sibling(r.Sort), r, b.put); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b batches) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	if b.most > 0 {
		sorts = sorts[:min(b.most, len(sorts))]
	}
	for _, s := range sorts {
		if err := b.Delete(ctx, p.Sibling(s), driver.Condition{}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

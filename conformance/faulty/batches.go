package faulty

import (
	"context"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
)

func batchMutants() []Mutant {
	offers := []conformance.Capability{conformance.BatchPut, conformance.BatchDelete}
	return []Mutant{
		{Name: "batch_replaces", Bug: "a batch writes over what is there", Law: "driver/law02_writes_are_atomic", offers: offers, Break: batchReplaces},
		{Name: "batch_of_25", Bug: "only the first 25 of a batch of deletes are sent", Law: "driver/law09_delete_is_exact", offers: offers, Break: batchOf25},
		{Name: "batch_promised", Bug: "the author says that there are batches, and there are none", Law: "driver/capabilities", offers: offers},
	}
}

type replacing struct{ batches }

func batchReplaces(d driver.Driver) driver.Driver { return replacing{batches{d}} }

func (b replacing) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	blind := patch{Driver: b.Driver, put: func(ctx context.Context, k driver.Key, r driver.Record, _ driver.Condition) (driver.Tag, error) {
		return b.Put(ctx, k, r, driver.Condition{})
	}}
	return batches{blind}.PutSiblings(ctx, p, rs)
}

type shortBatches struct{ batches }

func batchOf25(d driver.Driver) driver.Driver { return shortBatches{batches{d}} }

func (b shortBatches) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	return b.batches.DeleteSiblings(ctx, p, sorts[:min(25, len(sorts))])
}

package dynamodb

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of batches.
const (
	putsAtOnce     = 16
	deletesAtOnce  = 25 // DynamoDB's limit
	maxUnprocessed = 10 // rounds in which nothing of a batch is done
)

// PutSiblings writes each record on the condition that it does not exist, several at once.
// These are PutItems: BatchWriteItem takes no conditions, and costs as many units. After an
// error any subset may be written.
func (d *Driver) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range rs {
		if err := check(d, p.Sibling(r.Sort), r); err != nil {
			return err
		}
	}
	if len(rs) == 0 {
		return nil
	}
	// The first goes alone: if the table is missing, one request finds out, not all.
	if err := d.putNew(ctx, p, rs[0]); err != nil {
		return err
	}
	rest, stop := context.WithCancel(ctx)
	defer stop()
	jobs, failures := make(chan driver.Record), make(chan error, putsAtOnce)
	var workers sync.WaitGroup
	for range min(putsAtOnce, len(rs)-1) {
		workers.Go(func() {
			for r := range jobs {
				if err := d.putNew(rest, p, r); err != nil {
					failures <- err
					stop()
					return
				}
			}
		})
	}
	hand(rest, jobs, rs[1:])
	workers.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return err // the first; the others were stopped by it, or by ctx as well
	}
	return ctx.Err()
}

// hand gives out rs until ctx ends.
func hand(ctx context.Context, jobs chan<- driver.Record, rs []driver.Record) {
	defer close(jobs)
	for _, r := range rs {
		select {
		case jobs <- r:
		case <-ctx.Done():
			return
		}
	}
}

func (d *Driver) putNew(ctx context.Context, p driver.Partition, r driver.Record) error {
	_, err := d.Put(ctx, p.Sibling(r.Sort), r, driver.IfAbsent())
	return err
}

// DeleteSiblings removes records by BatchWriteItem, 25 at a time. After an error any subset
// may be deleted.
func (d *Driver) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sorts = slices.Compact(slices.Sorted(slices.Values(sorts))) // a batch with one key twice is refused
	for some := range slices.Chunk(sorts, deletesAtOnce) {
		writes := make([]types.WriteRequest, len(some))
		for i, sort := range some {
			writes[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: siblingLayout.key(p.Sibling(sort))}}
		}
		if err := d.writeBatch(ctx, d.siblings, writes); err != nil {
			return err
		}
	}
	return nil
}

// writeBatch sends what is unprocessed again, until nothing is or no round does anything.
func (d *Driver) writeBatch(ctx context.Context, t *table, writes []types.WriteRequest) error {
	q := &request{action: "BatchWriteItem", table: t.name, write: true}
	for idle := 0; len(writes) > 0; {
		in := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{t.name: writes}}
		var left []types.WriteRequest
		err := d.send(ctx, q, func(ctx context.Context, watch func(*dynamodb.Options)) error {
			out, err := d.client.BatchWriteItem(ctx, in, watch)
			if err == nil {
				left = out.UnprocessedItems[t.name]
			}
			return err
		})
		if isMissing(err) {
			return nil // what is to be deleted is not there
		}
		if err != nil {
			return err
		}
		if len(left) == len(writes) {
			idle++
		} else {
			idle = 0
		}
		if idle == maxUnprocessed {
			return unprocessed(q, len(left))
		}
		if writes = left; len(left) > 0 {
			if err := pause(ctx, idle); err != nil {
				return err
			}
		}
	}
	return nil
}

func unprocessed(q *request, n int) error {
	return fmt.Errorf("%w: dynamodb:%s on table %s: %d keys were left unprocessed %d times; the table is throttled, raise its throughput",
		core.ErrUnavailable, q.action, q.table, n, maxUnprocessed)
}

package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of one commit. Firestore takes 10 MiB; its emulator, and whatever else speaks
// gRPC with its defaults, 4 MiB.
const (
	commitWrites = 500
	commitBytes  = 4<<20 - 256<<10
)

// PutSiblings writes each record on the condition that it does not exist, many in one commit.
// After an error any subset may be written.
func (d *Driver) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var batch []*write
	size := 0
	for _, r := range rs {
		w, err := d.newWrite(p.Sibling(r.Sort), r)
		if err != nil {
			return err
		}
		// The name is in the request as text, and longer than it counts.
		n := d.Size(w.key, r) + len(w.doc.Path)
		if len(batch) == commitWrites || len(batch) > 0 && size+n > commitBytes {
			if err := d.createAll(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, w), size+n
	}
	return d.createAll(ctx, batch)
}

// createAll creates documents in one commit; if that is refused, one by one, which finds out
// whether an earlier try has made them: the SDK repeats a commit whose answer was lost, and then
// the documents exist, or the transaction is no longer valid.
func (d *Driver) createAll(ctx context.Context, batch []*write) error {
	if len(batch) > 1 {
		err := d.commit(ctx, doingWrite, func(tx *gcp.Transaction) error {
			for _, w := range batch {
				if err := tx.Create(w.doc, w.fields); err != nil {
					return err
				}
			}
			return nil
		})
		if !mayBeRefusal(code(err)) {
			return unknown(err)
		}
	}
	for _, w := range batch {
		if _, err := d.create(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSiblings removes records without condition, many in one commit. After an error any
// subset may be deleted.
func (d *Driver) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(sorts) > 0 {
		n := min(len(sorts), commitWrites)
		err := d.commit(ctx, doingDelete, func(tx *gcp.Transaction) error {
			for _, sort := range sorts[:n] {
				doc, _ := d.ref(p.Sibling(sort))
				if err := tx.Delete(doc); err != nil {
					return err
				}
			}
			return nil
		})
		if mayBeRefusal(code(err)) {
			err = d.deleteEach(ctx, p, sorts[:n])
		}
		if err != nil {
			return unknown(err)
		}
		sorts = sorts[n:]
	}
	return nil
}

// deleteEach deletes one by one, after a commit was refused as in createAll.
func (d *Driver) deleteEach(ctx context.Context, p driver.Partition, sorts []string) error {
	for _, sort := range sorts {
		if err := d.Delete(ctx, p.Sibling(sort), driver.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// commit writes several documents at once. A transaction that reads nothing locks nothing: it
// is the SDK's way to send more than one write.
func (d *Driver) commit(ctx context.Context, doing string, fn func(*gcp.Transaction) error) error {
	return d.do(ctx, doing, func(ctx context.Context) error {
		return d.cfg.Client.RunTransaction(ctx, func(_ context.Context, tx *gcp.Transaction) error {
			return fn(tx)
		}, gcp.MaxAttempts(1))
	})
}

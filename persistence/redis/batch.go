package redis

import (
	"context"

	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of one round trip of a batch.
const (
	batchRequests = 128
	batchBytes    = 4 << 20
)

// PutSiblings writes each record on the condition that it does not exist, many in one round
// trip. After an error any subset may be written.
func (d *Driver) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range rs {
		if err := driver.CheckSize(d, p.Sibling(r.Sort), r); err != nil {
			return err
		}
	}
	for len(rs) > 0 {
		var qs []*request
		var sorts []string
		for size := 0; len(qs) < len(rs) && len(qs) < batchRequests && size < batchBytes; {
			r := rs[len(qs)]
			q, _ := d.put(p.Sibling(r.Sort), r, driver.IfAbsent())
			qs, sorts = append(qs, q), append(sorts, r.Sort)
			size += driver.RecordSize(p.Sibling(r.Sort), r)
		}
		if err := d.doAll(ctx, "write records", qs, sorts); err != nil {
			return err
		}
		rs = rs[len(qs):]
	}
	return nil
}

// DeleteSiblings removes records without condition, many in one round trip. After an error
// any subset may be deleted.
func (d *Driver) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(sorts) > 0 {
		n := min(len(sorts), batchRequests)
		qs := make([]*request, n)
		for i, sort := range sorts[:n] {
			qs[i] = d.delete(p.Sibling(sort), driver.Condition{})
		}
		if err := d.doAll(ctx, "delete records", qs, sorts[:n]); err != nil {
			return err
		}
		sorts = sorts[n:]
	}
	return nil
}

// doAll carries out requests on one partition in one round trip, if all goes well. Those that
// failed follow one by one, which also teaches a new server the script.
func (d *Driver) doAll(ctx context.Context, doing string, qs []*request, sorts []string) error {
	if len(qs) == 1 {
		return d.doOne(ctx, doing, qs[0], sorts[0], false)
	}
	pipe := d.client.Pipeline()
	cmds := make([]once, len(qs))
	for i, q := range qs {
		if q.payload != nil {
			_ = pipe.Process(ctx, q.set(ctx))
		}
		cmds[i] = q.command(ctx, false)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, execErr := pipe.Exec(ctx)
	for i, q := range qs {
		err := cmds[i].Err()
		if err == nil && cmds[i].Val() == nil {
			err = execErr
		}
		if err == nil {
			var a answer
			if a.status, a.values, err = readReply(cmds[i].Val()); a.status == replyConflict && err == nil {
				return conflict(sorts[i], a)
			}
		}
		if err == nil {
			continue
		}
		lost := !isTyped(err) && judge(err).lost
		if lost && !q.repeatable {
			return unknown(true, failure(ctx, doing, err))
		}
		if err := d.doOne(ctx, doing, q, sorts[i], lost); err != nil {
			return err
		}
	}
	return nil
}

// doOne carries out one request; lost says that it may have been carried out already.
func (d *Driver) doOne(ctx context.Context, doing string, q *request, sort string, lost bool) error {
	a, err := d.do(ctx, doing, q)
	if err != nil {
		return unknown(lost, err)
	}
	if a.status == replyConflict {
		a.lost = a.lost || lost
		return conflict(sort, a)
	}
	return nil
}

package redis

import (
	"context"
	"errors"
	"iter"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of a page of Range: of the hashes, which are small, and of their payloads.
const (
	pageRecords  = 128
	pagePayloads = 4 << 20
)

// Range yields siblings page by page: the index says which there are, and the hashes and
// payloads are read as the loop comes to them. Siblings that are created in the loop beyond
// the last one that was there at its beginning are not yielded.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		w := walk{d: d, p: p, keys: d.keys(p), o: o, low: "-", high: "+"}
		if o.From != "" {
			w.low = "[" + o.From
		}
		if o.To != "" {
			w.high = "(" + o.To
		}
		for more := true; more; {
			var page []*stored
			var err error
			if page, more, err = w.next(ctx); err == nil {
				var left bool
				if left, err = w.yieldPage(ctx, page, yield); left {
					return
				}
			}
			if err != nil {
				yield(driver.Record{}, err)
				return
			}
		}
	}
}

// walk is where a loop over Range has come to.
type walk struct {
	d         *Driver
	p         driver.Partition
	keys      flowKeys
	o         driver.RangeOptions
	low, high string // what is left, as ZRANGE BYLEX has it
	bounded   bool   // to what was there at the beginning
}

const doingRange = "list records"

// next reads the hashes of one page, and whether there may be more.
func (w *walk) next(ctx context.Context) (page []*stored, more bool, err error) {
	sorts, err := w.sorts(ctx)
	if err != nil || len(sorts) == 0 {
		return nil, false, err
	}
	names := fields
	if w.o.KeysOnly {
		names = fields[:smallFields]
	}
	var gone []string
	err = w.d.read(ctx, doingRange, func() error {
		page, gone = nil, nil
		pipe := w.d.client.Pipeline()
		cmds := make([]*goredis.SliceCmd, len(sorts))
		for i, sort := range sorts {
			cmds[i] = pipe.HMGet(ctx, w.keys.record(sort), names...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, sort := range sorts {
			s, found, err := decode(sort, cmds[i].Val())
			if err != nil {
				return err
			}
			if !found {
				gone = append(gone, sort)
				continue
			}
			page = append(page, &s)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	w.d.prune(ctx, w.keys, gone)
	return page, len(sorts) == pageRecords, nil
}

// sorts reads one page of the index. The first time it also notes where the walk will end.
func (w *walk) sorts(ctx context.Context) ([]string, error) {
	page := w.zrange(ctx, w.o.Reverse, pageRecords)
	last := w.zrange(ctx, !w.o.Reverse, 1)
	err := w.d.read(ctx, doingRange, func() error {
		pipe := w.d.client.Pipeline()
		_ = pipe.Process(ctx, page)
		if !w.bounded {
			_ = pipe.Process(ctx, last)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil || len(page.Val()) == 0 {
		return nil, err
	}
	if !w.bounded {
		w.bounded = true
		if ends := last.Val(); len(ends) == 1 && w.o.Reverse {
			w.low = "[" + ends[0]
		} else if len(ends) == 1 {
			w.high = "[" + ends[0]
		}
	}
	if after := "(" + page.Val()[len(page.Val())-1]; w.o.Reverse {
		w.high = after
	} else {
		w.low = after
	}
	return page.Val(), nil
}

// zrange asks for some of what is left of the index, from one end or the other.
func (w *walk) zrange(ctx context.Context, reverse bool, count int) *goredis.StringSliceCmd {
	if reverse {
		return goredis.NewStringSliceCmd(ctx, "zrange", w.keys.index(), w.high, w.low, "bylex", "rev", "limit", 0, count)
	}
	return goredis.NewStringSliceCmd(ctx, "zrange", w.keys.index(), w.low, w.high, "bylex", "limit", 0, count)
}

// yieldPage yields the records of a page, with their payloads. It reports whether the loop
// was left.
func (w *walk) yieldPage(ctx context.Context, page []*stored, yield func(driver.Record, error) bool) (left bool, err error) {
	loaded := 0
	for i, s := range page {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if i == loaded && !w.o.KeysOnly {
			n, err := w.loadPayloads(ctx, page[i:])
			if err != nil {
				return false, err
			}
			loaded += n
		}
		if s.Tag == "" {
			continue // gone meanwhile
		}
		if !yield(s.Record, nil) {
			return true, nil
		}
	}
	return false, nil
}

// loadPayloads reads the payloads of the first records, as many as make a page of them, and
// returns how many of the records are complete. One that is gone loses its tag.
func (w *walk) loadPayloads(ctx context.Context, page []*stored) (n int, err error) {
	var wanted []*stored
	for size := 0; n < len(page) && size < pagePayloads; n++ {
		more, err := page[n].payloadSize()
		if err != nil {
			return 0, err
		}
		if page[n].where != "" {
			wanted = append(wanted, page[n])
		}
		size += more
	}
	if len(wanted) == 0 {
		return n, nil
	}
	return n, w.d.read(ctx, doingRange, func() error {
		pipe := w.d.client.Pipeline()
		cmds := make([]*goredis.StringCmd, len(wanted))
		for i, s := range wanted {
			cmds[i] = pipe.Get(ctx, w.keys.payload(s.Tag))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
			return err
		}
		for i, s := range wanted {
			payload, err := cmds[i].Bytes()
			switch {
			case errors.Is(err, goredis.Nil):
				err = w.reread(ctx, s)
			case err == nil:
				err = s.take(payload)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// reread gets a record anew whose payload was not there, since another write, or its expiry,
// came in between.
func (w *walk) reread(ctx context.Context, s *stored) error {
	r, err := w.d.Get(ctx, w.p.Sibling(s.Sort))
	if errors.Is(err, core.ErrNotFound) {
		s.Record = driver.Record{}
		return nil
	}
	if err == nil {
		s.Record = r
	}
	return err
}

// prune takes expired siblings out of the index. It only tidies up: where it may not, or
// cannot, nothing is lost.
func (d *Driver) prune(ctx context.Context, keys flowKeys, gone []string) {
	if len(gone) == 0 {
		return
	}
	q := &request{script: pruneScript, keys: []string{keys.index()}}
	for _, sort := range gone {
		q.keys = append(q.keys, keys.record(sort))
		q.args = append(q.args, sort)
	}
	_, _ = d.run(ctx, q, false)
}

package firestore

import (
	"context"
	"iter"
	"slices"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of a page of Range. One with data begins small and grows while it stays light,
// since a sibling has up to 1 MiB.
const (
	keysPage  = 300
	firstPage = 8
	mostPage  = 256
	lightPage = 2 << 20 // bytes
)

const doingRange = "read siblings"

// Range yields the siblings of a partition. No request is open while the loop's body runs.
//
// Firestore serves a descending order of IDs only with an index that somebody must create, so
// a reverse Range first reads all IDs between its bounds, without data, and then goes back.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		w := walk{d: d, o: o, size: firstPage}
		w.coll = d.headRef(p).Collection(siblingCollection)
		next := w.forward
		if o.Reverse {
			next = w.backward
		}
		for s, err := range driver.Pages(ctx, next) {
			if err == nil && s.expired(d.now()) {
				continue
			}
			if !yield(s.Record, err) {
				return
			}
		}
	}
}

func (d *Driver) headRef(p driver.Partition) *gcp.DocumentRef {
	doc, _ := d.ref(p.Head())
	return doc
}

// walk is where a loop over siblings has come to.
type walk struct {
	d    *Driver
	o    driver.RangeOptions
	coll *gcp.CollectionRef
	size int    // of the next page with data
	last string // the ID that the next page follows; "" before the first

	listed bool
	keys   []stored // of a reverse walk: what is left to yield, without data
}

// forward reads the next page, and whether there may be more.
func (w *walk) forward(ctx context.Context) (page []stored, more bool, err error) {
	return w.page(ctx, w.o.KeysOnly)
}

func (w *walk) page(ctx context.Context, keysOnly bool) (page []stored, more bool, err error) {
	limit := w.size
	q := w.coll.OrderBy(gcp.DocumentID, gcp.Asc)
	if keysOnly {
		limit = keysPage
		q = q.Select(siblingExpireAt, siblingFlow)
	}
	if w.last != "" {
		q = q.StartAfter(w.last)
	} else if w.o.From != "" {
		q = q.StartAt(siblingID(w.o.From))
	}
	if w.o.To != "" {
		q = q.EndBefore(siblingID(w.o.To))
	}
	var snaps []*gcp.DocumentSnapshot
	err = w.d.do(ctx, doingRange, func(ctx context.Context) (err error) {
		snaps, err = q.Limit(limit).Documents(ctx).GetAll()
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if len(snaps) > 0 {
		w.last = snaps[len(snaps)-1].Ref.ID
	}
	page, err = w.decode(snaps)
	return page, len(snaps) == limit, err
}

// decode reads documents that exist and are siblings, and learns how large they are.
func (w *walk) decode(snaps []*gcp.DocumentSnapshot) ([]stored, error) {
	page := make([]stored, 0, len(snaps))
	bytes := 0
	for _, snap := range snaps {
		sort, ours := siblingSort(snap.Ref.ID)
		if !ours || !snap.Exists() {
			continue
		}
		s, err := decode(snap, sort)
		if err != nil {
			return nil, err
		}
		bytes += len(s.Data)
		page = append(page, s)
	}
	switch {
	case bytes > lightPage:
		w.size = max(firstPage, w.size/2)
	case bytes < lightPage/2:
		w.size = min(mostPage, w.size*2)
	}
	return page, nil
}

// backward reads the next page of a reverse walk.
func (w *walk) backward(ctx context.Context) (page []stored, more bool, err error) {
	if !w.listed {
		if err := w.list(ctx); err != nil {
			return nil, false, err
		}
	}
	if w.o.KeysOnly {
		return w.keys, false, nil
	}
	n := min(w.size, len(w.keys))
	refs := make([]*gcp.DocumentRef, n)
	for i, key := range w.keys[:n] {
		refs[i] = w.coll.Doc(siblingID(key.Sort))
	}
	w.keys = w.keys[n:]
	if n == 0 {
		return nil, false, nil
	}
	var snaps []*gcp.DocumentSnapshot
	err = w.d.do(ctx, doingRange, func(ctx context.Context) (err error) {
		snaps, err = w.d.cfg.Client.GetAll(ctx, refs)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	page, err = w.decode(snaps)
	return page, len(w.keys) > 0, err
}

// list reads all keys, the last one first.
func (w *walk) list(ctx context.Context) error {
	w.listed = true
	for more := true; more; {
		var page []stored
		var err error
		if page, more, err = w.page(ctx, true); err != nil {
			return err
		}
		for _, s := range page {
			if !s.expired(w.d.now()) {
				w.keys = append(w.keys, s)
			}
		}
	}
	slices.Reverse(w.keys)
	w.size = firstPage
	return nil
}

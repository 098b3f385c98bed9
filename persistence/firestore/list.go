package firestore

import (
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"

	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of a page of Partitions; Firestore returns at most 300.
const (
	defaultPage = 100
	longestPage = 300
)

const doingList = "list flows"

// Partitions yields flows page by page, in the order of document IDs. It lists all documents
// of the collection, those of other tenants and missing ones that have siblings included, and
// reads the metadata of each of its own: one or two reads a document.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		l := listing{d: d, size: defaultPage}
		if o.PageSize > 0 {
			l.size = min(o.PageSize, longestPage)
		}
		if err := l.begin(ctx, o.Cursor); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		driver.Pages(ctx, l.next)(yield)
	}
}

// position is a place in a listing, behind one document.
type position struct {
	token string // of the page that the document is on
	id    string // of the document
}

func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.token)) + "." + base64.RawURLEncoding.EncodeToString([]byte(p.id))
}

func parsePosition(cursor string) (position, error) {
	before, after, _ := strings.Cut(cursor, ".")
	token, err := base64.RawURLEncoding.DecodeString(before)
	id, idErr := base64.RawURLEncoding.DecodeString(after)
	if err != nil || idErr != nil || len(id) == 0 {
		return position{}, unsupported("the cursor is not one of this store")
	}
	return position{token: string(token), id: string(id)}, nil
}

// listing is where a loop over partitions has come to.
type listing struct {
	d     *Driver
	size  int
	token string    // of the next page
	after string    // the document on it that was the last one
	start time.Time // of the loop, by the server's clock
}

// begin goes to where a cursor points.
func (l *listing) begin(ctx context.Context, cursor string) error {
	if err := ctx.Err(); err != nil || cursor == "" {
		return err
	}
	p, err := parsePosition(cursor)
	l.token, l.after = p.token, p.id
	return err
}

// next reads one page, and whether there are more.
func (l *listing) next(ctx context.Context) (page []driver.Entry, more bool, err error) {
	var refs []*gcp.DocumentRef
	var token string
	err = l.d.do(ctx, doingList, func(ctx context.Context) (err error) {
		refs = nil
		token, err = iterator.NewPager(l.d.heads.DocumentRefs(ctx), l.size, l.token).NextPage(&refs)
		if errors.Is(err, iterator.Done) {
			return nil // there is no document at all
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	at := position{token: l.token}
	if l.after != "" {
		// If the document is gone, the whole page comes again.
		i := slices.IndexFunc(refs, func(r *gcp.DocumentRef) bool { return r.ID == l.after })
		refs, l.after = refs[i+1:], ""
	}
	refs = slices.DeleteFunc(refs, func(r *gcp.DocumentRef) bool { return !l.d.isOwn(r.ID) })
	page, err = l.describe(ctx, refs, at)
	l.token = token
	return page, token != "", err
}

// isOwn reports whether a document can be one of this driver's.
func (d *Driver) isOwn(id string) bool {
	return strings.HasPrefix(id, d.cfg.TenantPrefix)
}

// describe returns an entry for each document that is the head of a flow, or has siblings.
func (l *listing) describe(ctx context.Context, refs []*gcp.DocumentRef, at position) ([]driver.Entry, error) {
	heads, err := l.d.metadata(ctx, refs)
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		l.starts(head)
	}
	entries := make([]driver.Entry, 0, len(refs))
	for _, ref := range refs {
		head, exists := heads[ref.ID]
		exists = exists && !head.expired(l.d.now())
		id, found := head.id, exists && !l.isNew(head)
		if !found {
			if id, found, err = l.anySibling(ctx, ref); err != nil {
				return nil, err
			}
		}
		p, ours := l.d.partition(ref.ID, id)
		if !found || !ours {
			continue
		}
		at.id = ref.ID
		e := driver.Entry{Partition: p, Headless: !exists, Cursor: at.String()}
		if exists {
			e.Method, e.SavedAt, e.ExpireAt = head.Method, head.SavedAt, head.ExpireAt
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// starts takes the time of the first read for the beginning of the loop.
func (l *listing) starts(s stored) {
	if l.start.IsZero() {
		l.start = s.readAt
	}
}

// isNew reports whether a document was created after the loop began. Such ones are left out,
// or a loop that creates flows would go on forever.
func (l *listing) isNew(s stored) bool { return s.created.After(l.start) }

// metadata reads what a listing shows of the documents that exist, by ID. The SDK's listing
// tells neither that nor which ones are missing, so they are asked for by their range of IDs.
func (d *Driver) metadata(ctx context.Context, refs []*gcp.DocumentRef) (map[string]stored, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	first, last := refs[0].ID, refs[0].ID
	for _, ref := range refs {
		first, last = min(first, ref.ID), max(last, ref.ID)
	}
	q := d.heads.SelectPaths(
		gcp.FieldPath{metaField, metaMethod}, gcp.FieldPath{metaField, metaSavedAt}, gcp.FieldPath{metaField, metaExpireAt},
		gcp.FieldPath{metaField, metaWrite}, gcp.FieldPath{metaField, metaID},
		gcp.FieldPath{oldMethod}, gcp.FieldPath{oldSavedAt},
	).OrderBy(gcp.DocumentID, gcp.Asc).StartAt(first).EndAt(last)
	heads := map[string]stored{}
	err := d.do(ctx, doingList, func(ctx context.Context) error {
		it := q.Documents(ctx)
		defer it.Stop()
		for {
			snap, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return nil
			}
			if err != nil {
				return err
			}
			s := stored{created: snap.CreateTime, readAt: snap.ReadTime}
			fields := map[string]any{}
			if err := snap.DataTo(&fields); err != nil {
				return err
			}
			s.decodeMeta(fields)
			heads[snap.Ref.ID] = s
		}
	})
	return heads, err
}

// anySibling looks for a sibling of a document, and returns the flow ID that it holds.
func (l *listing) anySibling(ctx context.Context, ref *gcp.DocumentRef) (id string, found bool, err error) {
	w := walk{d: l.d, coll: ref.Collection(siblingCollection)}
	for more := true; more; {
		var page []stored
		if page, more, err = w.page(ctx, true); err != nil {
			return "", false, err
		}
		for _, s := range page {
			if l.starts(s); !s.expired(l.d.now()) && !l.isNew(s) {
				return s.id, true, nil
			}
		}
	}
	return "", false, nil
}

package firestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Driver keeps records in documents of Firestore. It implements driver.Driver, driver.Sizer,
// driver.BatchPutter and driver.BatchDeleter, and is safe for concurrent use; any number of
// Drivers, in any number of processes, may share a collection.
type Driver struct {
	cfg       Config
	heads     *gcp.CollectionRef
	elsewhere string // the path of elsewhereDocument
	known     *names

	close func() error // of a client that the URL made
	once  sync.Once
}

// Open returns a Driver. It sends nothing: a wrong project or a missing permission shows at
// the first request.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	heads := cfg.Client.Collection(cfg.Collection)
	if heads == nil {
		return nil, unsupported(fmt.Sprintf("collection %q", cfg.Collection))
	}
	// heads.Path is projects/P/databases/D/documents/…
	project, _, _ := strings.Cut(heads.Path, "/databases/")
	return &Driver{
		cfg: cfg, heads: heads, known: newNames(),
		elsewhere: project + elsewhereDocument,
	}, nil
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.cfg.Limits }

// Close closes the client if it was made from a URL.
func (d *Driver) Close() (err error) {
	d.once.Do(func() {
		if d.close != nil {
			err = d.close()
		}
	})
	return err
}

// Get returns the record, or core.ErrNotFound.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	doc, _ := d.ref(k)
	s, found, err := d.read(ctx, doc, k.Sort)
	switch {
	case err != nil:
		return driver.Record{}, err
	case !found || s.expired(d.cfg.Now()):
		return driver.Record{}, core.ErrNotFound
	}
	return s.Record, nil
}

// read gets a document, expired or not.
func (d *Driver) read(ctx context.Context, doc *gcp.DocumentRef, sort string) (s stored, found bool, err error) {
	var snap *gcp.DocumentSnapshot
	err = d.do(ctx, "read a record", func(ctx context.Context) (err error) {
		snap, err = doc.Get(ctx)
		if snap != nil && code(err) == codes.NotFound {
			return nil // only the document: a missing database comes without a snapshot
		}
		return err
	})
	if err != nil || !snap.Exists() {
		return stored{}, false, err
	}
	if s, err = decode(snap, sort); err != nil {
		return stored{}, false, err
	}
	if sort == "" {
		d.known.remember(doc.ID, s.Tag, s.fields)
	}
	return s, true, nil
}

const doingWrite = "write a record"

// Put writes the record if cond holds.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	w, err := d.newWrite(k, r)
	if err != nil {
		return "", err
	}
	tag, err := d.put(ctx, w, cond)
	if w.native && code(err) == codes.InvalidArgument {
		// Fields are refused for more reasons than can be known here, composite indexes
		// for one; bytes are not.
		if err := d.inBytes(w); err != nil {
			return "", err
		}
		tag, err = d.put(ctx, w, cond)
	}
	return tag, err
}

func (d *Driver) put(ctx context.Context, w *write, cond driver.Condition) (driver.Tag, error) {
	if cond.Absent() {
		return d.create(ctx, w)
	}
	if tag, ok := cond.Tag(); ok {
		return d.replace(ctx, w, tag)
	}
	return d.send(ctx, w, func(ctx context.Context) (*gcp.WriteResult, error) {
		return w.doc.Set(ctx, w.fields)
	})
}

// send makes the request and returns the tag of the document.
func (d *Driver) send(ctx context.Context, w *write, fn func(context.Context) (*gcp.WriteResult, error)) (driver.Tag, error) {
	var res *gcp.WriteResult
	err := d.do(ctx, doingWrite, func(ctx context.Context) (err error) {
		res, err = fn(ctx)
		return err
	})
	if err != nil {
		return "", unknown(err)
	}
	tag := makeTag(res.UpdateTime, w.expire)
	if w.key.Sort == "" {
		d.known.remember(w.doc.ID, tag, topNames(w.fields))
	}
	return tag, nil
}

// maxRounds bounds how often a create meets a document that is gone, or new, at the next look.
const maxRounds = 20

// create writes where no record is. An expired one is replaced on condition that it is still
// the one that was seen.
func (d *Driver) create(ctx context.Context, w *write) (driver.Tag, error) {
	for round := range maxRounds {
		if round > 2 && !pause(ctx, round) {
			return "", core.WithOutcomeUnknown(ctx.Err())
		}
		tag, err := d.send(ctx, w, func(ctx context.Context) (*gcp.WriteResult, error) {
			return w.doc.Create(ctx, w.fields)
		})
		if !isRefusal(code(err)) {
			return tag, err
		}
		s, found, err := d.refused(ctx, w, err)
		switch {
		case err != nil:
			return "", err
		case !found:
			continue
		case s.token == w.token:
			return s.Tag, nil
		case !s.expired(d.cfg.Now()):
			return "", conflict(&s)
		}
		tag, err = d.update(ctx, w, s.Tag, s.fields)
		if !isRefusal(code(err)) {
			return tag, err // the document's own tag is no invalid argument
		}
	}
	return "", core.WithOutcomeUnknown(fmt.Errorf("%w: firestore: %s: the document came and went %d times; try again", core.ErrUnavailable, doingWrite, maxRounds))
}

// replace writes over the record that has the tag.
func (d *Driver) replace(ctx context.Context, w *write, tag driver.Tag) (driver.Tag, error) {
	_, expire, ok := parseTag(tag)
	old, known := siblingFields(), true
	if w.key.Sort == "" {
		old, known = d.known.get(w.doc.ID, tag)
	}
	if !ok || !known || isExpired(expire, d.cfg.Now()) {
		s, found, err := d.read(ctx, w.doc, w.key.Sort)
		switch {
		case err != nil:
			return "", err
		case !found || s.expired(d.cfg.Now()):
			return "", conflict(nil)
		case s.Tag != tag:
			return "", conflict(&s)
		}
		old = s.fields
	}
	newTag, refusal := d.update(ctx, w, tag, old)
	if !mayBeRefusal(code(refusal)) {
		return newTag, refusal
	}
	s, found, err := d.refused(ctx, w, refusal)
	switch {
	case err != nil:
		return "", err
	case found && s.Tag == tag:
		return "", refusal // for another reason
	case !found || s.expired(d.cfg.Now()) && s.token != w.token:
		return "", conflict(nil)
	case s.token == w.token:
		return s.Tag, nil
	}
	return "", conflict(&s)
}

// update writes over the document that has the tag and these fields.
func (d *Driver) update(ctx context.Context, w *write, tag driver.Tag, old []string) (driver.Tag, error) {
	updated, _, _ := parseTag(tag)
	updates := w.updates(old)
	return d.send(ctx, w, func(ctx context.Context) (*gcp.WriteResult, error) {
		return w.doc.Update(ctx, updates, gcp.LastUpdateTime(updated))
	})
}

// refused reads the document that stood in the way of a write. It may be the write's own: the
// SDK repeats a request whose answer was lost.
func (d *Driver) refused(ctx context.Context, w *write, refusal error) (stored, bool, error) {
	s, found, err := d.read(ctx, w.doc, w.key.Sort)
	switch {
	case isRefusal(code(err)):
		return stored{}, false, refusal // of the database, not of the document
	case err != nil:
		return stored{}, false, core.WithOutcomeUnknown(err)
	}
	return s, found, nil
}

// conflict is core.ErrConflict with what is there, nil for nothing. It is never sure: the SDK
// does not say whether it has repeated a request.
func conflict(s *stored) error {
	c := &driver.ConflictError{Known: true}
	if s != nil {
		c.Current = &s.Record
	}
	return c
}

// Delete removes the record if cond holds. The siblings of a head stay.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	doc, _ := d.ref(k)
	if tag, ok := cond.Tag(); ok {
		return d.deleteIf(ctx, doc, k, tag)
	}
	if cond.Absent() {
		s, found, err := d.read(ctx, doc, k.Sort)
		if err == nil && found && !s.expired(d.cfg.Now()) {
			return conflict(&s)
		}
		return err
	}
	return unknown(d.do(ctx, doingDelete, func(ctx context.Context) error {
		_, err := doc.Delete(ctx)
		return err
	}))
}

const doingDelete = "delete a record"

func (d *Driver) deleteIf(ctx context.Context, doc *gcp.DocumentRef, k driver.Key, tag driver.Tag) error {
	updated, expire, ok := parseTag(tag)
	var refusal error
	if ok && !isExpired(expire, d.cfg.Now()) {
		refusal = d.do(ctx, doingDelete, func(ctx context.Context) error {
			_, err := doc.Delete(ctx, gcp.LastUpdateTime(updated))
			return err
		})
		if !mayBeRefusal(code(refusal)) {
			return unknown(refusal)
		}
	}
	s, found, err := d.read(ctx, doc, k.Sort)
	switch {
	case refusal != nil && found && s.Tag == tag:
		return refusal // for another reason
	case isRefusal(code(err)):
		return errors.Join(refusal, err)
	case err != nil && refusal != nil:
		return core.WithOutcomeUnknown(err)
	case err != nil:
		return err
	case !found || s.expired(d.cfg.Now()):
		return conflict(nil)
	}
	return conflict(&s)
}

var _ interface {
	driver.Driver
	driver.Sizer
	driver.BatchPutter
	driver.BatchDeleter
} = (*Driver)(nil)

// now is the time that expiry is judged by.
func (d *Driver) now() time.Time { return d.cfg.Now() }

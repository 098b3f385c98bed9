package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Driver keeps records in one SQLite file. It implements driver.Driver, driver.BatchPutter,
// driver.BatchDeleter and driver.ForeignRequests, and is safe for concurrent use; any number
// of Drivers, in any number of processes of one machine, may have the same file open.
type Driver struct {
	cfg      Config
	readOnly bool        // by Config, or because the file cannot be written
	complete atomic.Bool // the file has every table and column of ours

	writer  *pool // of one connection
	readers *pool // the same pool for a database in memory
}

// Get returns the record, or core.ErrNotFound.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	var r driver.Record
	var found bool
	err := d.read(ctx, "read a record", func(ctx context.Context, c *conn, l layout) (err error) {
		r, found, err = d.get(ctx, c, l, k)
		return err
	})
	switch {
	case err != nil:
		return driver.Record{}, err
	case !found:
		return driver.Record{}, core.ErrNotFound
	}
	return r, nil
}

// Put writes the record in one transaction if cond holds.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	return d.put(ctx, k, r, func(ctx context.Context, c *conn, tag driver.Tag) error {
		if k.Sort == "" {
			return d.putHead(ctx, c, k, r, tag, cond)
		}
		return d.putSibling(ctx, c, k, r, tag, cond)
	})
}

// put has fn write the record under a new tag, in one transaction.
func (d *Driver) put(ctx context.Context, k driver.Key, r driver.Record, fn func(context.Context, *conn, driver.Tag) error) (driver.Tag, error) {
	if err := driver.CheckSize(d, k, r); err != nil {
		return "", err
	}
	if err := checkTimes(r); err != nil {
		return "", err
	}
	tag := newTag()
	err := d.write(ctx, "write a record", func(ctx context.Context, c *conn) error { return fn(ctx, c, tag) })
	if err != nil {
		return "", err
	}
	return tag, nil
}

// Delete removes the record in one transaction if cond holds. For a head these are all of
// the flow's rows in flow_states, of whichever program, and its row in pending_feedback.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	return d.write(ctx, "delete a record", func(ctx context.Context, c *conn) error {
		if k.Sort == "" {
			return d.deleteHead(ctx, c, k, cond)
		}
		return d.deleteSibling(ctx, c, k, cond)
	})
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.cfg.Limits }

// Close waits for operations under way and closes the file. The last of all connections to a
// file moves the write-ahead log into it.
func (d *Driver) Close() error {
	// The writer goes last: its settings are the ones for moving the log.
	err := d.readers.close()
	return failure("close the database", errors.Join(err, d.writer.close()))
}

// get reads one record over any connection, also within a transaction.
func (d *Driver) get(ctx context.Context, c *conn, l layout, k driver.Key) (driver.Record, bool, error) {
	if k.Sort == "" {
		return d.getHead(ctx, c, l, k)
	}
	return d.getSibling(ctx, c, l, k)
}

// read lends a connection to fn. In a file that lacks what only a writer could add, fn runs
// in a transaction in which the layout cannot change: another process may be adding it.
func (d *Driver) read(ctx context.Context, doing string, fn func(context.Context, *conn, layout) error) error {
	c, err := d.readers.get(ctx)
	if err != nil {
		return failure(doing, err)
	}
	if d.complete.Load() {
		err = fn(ctx, c, fullLayout())
	} else {
		err = d.readIncomplete(ctx, c, fn)
	}
	d.readers.put(c, err)
	return failure(doing, err)
}

func (d *Driver) readIncomplete(ctx context.Context, c *conn, fn func(context.Context, *conn, layout) error) error {
	defer c.rollback(ctx)
	if _, err := c.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	l, err := inspect(ctx, c)
	if err != nil {
		return err
	}
	d.complete.Store(l.complete())
	return fn(ctx, c, l)
}

// write runs fn in a write transaction. The context ends the waits for the connection and for
// the lock; after that nothing waits, and it is asked once more before the commit.
func (d *Driver) write(ctx context.Context, doing string, fn func(context.Context, *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.readOnly {
		return denied(doing)
	}
	c, err := d.writer.get(ctx)
	if err != nil {
		return failure(doing, err)
	}
	err = d.transact(ctx, c, fn)
	d.writer.put(c, err)
	if isOutcomeUnknown(err) {
		return core.WithOutcomeUnknown(failure(doing, err))
	}
	return failure(doing, err)
}

func (d *Driver) transact(ctx context.Context, c *conn, fn func(context.Context, *conn) error) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	err := fn(context.WithoutCancel(ctx), c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.rollback(ctx)
		return err
	}
	return c.commit(ctx)
}

// conflict reports what is there instead, read within the transaction that refused. It is sure:
// a transaction whose end was not seen is never run again here.
func (d *Driver) conflict(ctx context.Context, c *conn, k driver.Key) error {
	r, found, err := d.get(ctx, c, fullLayout(), k)
	switch {
	case err != nil:
		return err
	case !found:
		return &driver.ConflictError{Known: true, Sure: true}
	}
	return &driver.ConflictError{Known: true, Current: &r, Sure: true}
}

// nowMillis is the time that expiry is judged by: what expires at this millisecond is gone.
func (d *Driver) nowMillis() int64 { return d.cfg.Now().UnixMilli() }

// newTag returns a tag that no write had or will have, in any process: 128 random bits. A
// counter would come back when a file is restored from a backup.
func newTag() driver.Tag { return driver.Tag(rand.Text()) }

// checkTimes refuses what another program could not read as a date.
func checkTimes(r driver.Record) error {
	if y := r.SavedAt.UTC().Year(); y < 1 || y > 9999 {
		return unsupported("the save time " + r.SavedAt.String() + " is outside of the years 1 to 9999")
	}
	return nil
}

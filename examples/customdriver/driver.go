//go:build unix

package customdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Config says where the records are. Only Dir is needed.
type Config struct {
	// Dir is made if it is missing. Any number of processes may use it at the same time.
	Dir string
	// NoSync leaves out the wait for the disk: what a crash of the machine would lose does
	// not matter in a test.
	NoSync bool
	// Limits are the sizes the Store plans with; zero fields take 16 MiB a record, which it
	// compresses over 1 MiB.
	Limits driver.Limits
	// Now is the clock that judges expiry; nil is time.Now.
	Now func() time.Time
}

// Driver keeps records in files. It implements driver.Driver and is safe for concurrent use.
type Driver struct {
	cfg   Config
	root  *os.Root
	close func() error
}

// The folders of a directory.
const (
	recordsDir = "records" // a folder for each partition, a file for each record
	newDir     = "new"     // files on their way into records
	locksDir   = "locks"   // empty, and never removed
)

// Open returns a driver on a directory.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cfg.Limits.Record == 0 {
		cfg.Limits.Record = 16 << 20
	}
	if cfg.Limits.Inline == 0 {
		cfg.Limits.Inline = min(1<<20, cfg.Limits.Record)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, errorOf(err)
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, errorOf(err)
	}
	for _, dir := range []string{recordsDir, newDir, locksDir} {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Join(errorOf(err), root.Close())
		}
	}
	return &Driver{cfg: cfg, root: root, close: sync.OnceValue(root.Close)}, nil
}

// Get returns the record unless it is absent or expired.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	if err := ctx.Err(); err != nil {
		return driver.Record{}, err
	}
	f, err := d.read(folder(k.Partition), fileName(k.Sort))
	return f.record(), err
}

// Put writes the record beside its place and renames it, while nobody else writes to the
// partition.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := driver.CheckSize(d, k, r); err != nil {
		return "", err
	}
	unlock, err := d.lock(ctx, k.Partition)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := d.check(k, cond); err != nil {
		return "", err
	}
	tag := rand.Text()
	temp := path.Join(newDir, tag)
	if err := d.write(temp, fileOf(k, r, driver.Tag(tag))); err != nil {
		_ = d.root.Remove(temp)
		return "", errorOf(err)
	}
	dir := path.Join(recordsDir, folder(k.Partition))
	err = d.root.MkdirAll(dir, 0o700)
	if err == nil {
		err = d.root.Rename(temp, path.Join(dir, fileName(k.Sort)))
	}
	if err != nil {
		_ = d.root.Remove(temp)
		return "", errorOf(err)
	}
	if err := d.sync(dir); err != nil {
		return "", core.WithOutcomeUnknown(errorOf(err)) // it is there, but for how long?
	}
	return driver.Tag(tag), nil
}

// Delete removes the file, and the folder with the last one.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	unlock, err := d.lock(ctx, k.Partition)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.check(k, cond); err != nil {
		return err
	}
	dir := path.Join(recordsDir, folder(k.Partition))
	if err := d.root.Remove(path.Join(dir, fileName(k.Sort))); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return errorOf(err)
	}
	if d.root.Remove(dir) == nil { // which fails while there are others
		dir = recordsDir
	}
	if err := d.sync(dir); err != nil {
		return core.WithOutcomeUnknown(errorOf(err))
	}
	return nil
}

// Range yields the siblings that existed when it began.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		sorts, err := d.sorts(ctx, p, o)
		if err != nil {
			yield(driver.Record{}, err)
			return
		}
		for _, sort := range sorts {
			r, err := d.Get(ctx, p.Sibling(sort))
			if errors.Is(err, core.ErrNotFound) {
				continue // deleted meanwhile, or expired
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// sorts returns which siblings o selects, in its order.
func (d *Driver) sorts(ctx context.Context, p driver.Partition, o driver.RangeOptions) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := d.names(path.Join(recordsDir, folder(p)))
	var sorts []string
	for _, name := range names {
		if s := sortOf(name); s != "" && s >= o.From && (o.To == "" || s < o.To) {
			sorts = append(sorts, s)
		}
	}
	slices.Sort(sorts)
	if o.Reverse {
		slices.Reverse(sorts)
	}
	return sorts, err
}

// Partitions yields the partitions that existed when it began; the cursor is the folder.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		folders, err := d.names(recordsDir)
		if err == nil {
			err = ctx.Err()
		}
		for _, name := range folders {
			if err != nil {
				break
			}
			if name <= o.Cursor {
				continue
			}
			var e driver.Entry
			e, err = d.entry(name)
			switch {
			case errors.Is(err, core.ErrNotFound):
				err = ctx.Err()
				continue
			case err == nil && !yield(e, nil):
				return
			case err == nil:
				err = ctx.Err()
			}
		}
		if err != nil {
			yield(driver.Entry{}, err)
		}
	}
}

// entry describes a partition by its head, or else by any sibling that is not expired.
func (d *Driver) entry(folder string) (driver.Entry, error) {
	head, err := d.read(folder, fileName(""))
	if err == nil {
		return driver.Entry{
			Partition: driver.Partition(head.ID), Method: string(head.Method),
			SavedAt: head.SavedAt, ExpireAt: head.ExpireAt, Cursor: folder,
		}, nil
	}
	if !errors.Is(err, core.ErrNotFound) {
		return driver.Entry{}, err
	}
	names, err := d.names(path.Join(recordsDir, folder))
	for _, name := range names {
		if sibling, serr := d.read(folder, name); serr == nil {
			return driver.Entry{Partition: driver.Partition(sibling.ID), Headless: true, Cursor: folder}, nil
		} else if !errors.Is(serr, core.ErrNotFound) {
			return driver.Entry{}, serr
		}
	}
	return driver.Entry{}, errors.Join(core.ErrNotFound, err)
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.cfg.Limits }

// Close closes the directory.
func (d *Driver) Close() error { return d.close() }

// check tests a condition. The caller holds the lock.
func (d *Driver) check(k driver.Key, cond driver.Condition) error {
	if cond == (driver.Condition{}) {
		return nil
	}
	f, err := d.read(folder(k.Partition), fileName(k.Sort))
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	if cond.Holds(err == nil, f.Tag) {
		return nil
	}
	conflict := &driver.ConflictError{Known: true, Sure: true}
	if err == nil {
		current := f.record()
		conflict.Current = &current
	}
	return conflict
}

// errorOf gives an error of the file system its meaning for the Store. What is not there is
// decided where it is known what was looked for.
func errorOf(err error) error {
	switch {
	case err == nil || errors.Is(err, core.ErrNotFound):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", core.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// fileName is the name of a record: sorts have only characters that a name may have, but for
// the slash. The letter before it makes names of "." and "..", and tells the head apart.
func fileName(sort string) string {
	if sort == "" {
		return "head"
	}
	return "s" + strings.ReplaceAll(sort, "/", "+")
}

// sortOf is the sort in a name, "" for the head.
func sortOf(name string) string {
	sort, ok := strings.CutPrefix(name, "s")
	if !ok {
		return ""
	}
	return strings.ReplaceAll(sort, "+", "/")
}

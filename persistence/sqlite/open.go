package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/weirflow/weir/core"
)

// How a file is opened, in SQLite's terms (https://www.sqlite.org/uri.html).
const (
	modeWrite = "mode=rwc"
	modeRead  = "mode=ro"
	// modeImmutable takes no locks and reads no log: for a file on a medium that nobody
	// writes to, where the files that a log needs cannot be made.
	modeImmutable = "mode=ro&immutable=1"
)

// Open opens the database, and creates or completes its tables where needed. The context
// bounds only Open itself. Close the Driver when it is no longer used.
//
// Errors: core.ErrUnsupported for a Config that cannot be used; core.ErrCorrupt for a file
// that is no SQLite database or whose tables belong to something else; core.ErrDenied where a
// permission is missing; core.ErrUnavailable for a file that is missing (ReadOnly), locked for
// longer than the busy timeout, or on a disk that fails or is full.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Path == Memory {
		return open(ctx, cfg, "")
	}
	if cfg.Path, err = filepath.Abs(cfg.Path); err != nil {
		return nil, failure("find the working directory", err)
	}
	if cfg.ReadOnly {
		return openRead(ctx, cfg)
	}
	if err := makeParents(cfg.Path); err != nil {
		return nil, err
	}
	d, err := open(ctx, cfg, modeWrite)
	if err != nil && isWriteFailure(err) && (refuses(openForWriting(cfg.Path)) || refuses(createBeside(cfg.Path))) {
		return openRead(ctx, cfg)
	}
	return d, err
}

// openRead opens an existing file for reading.
func openRead(ctx context.Context, cfg Config) (*Driver, error) {
	if _, err := os.Stat(cfg.Path); err != nil {
		return nil, fileFailure("open the database for reading", err)
	}
	d, err := open(ctx, cfg, modeRead)
	if err == nil || !isWriteFailure(err) || !refuses(createBeside(cfg.Path)) {
		return d, err
	}
	if hasLog(cfg.Path) {
		// The newest saves are in the log: a state without them is worse than an error.
		return nil, fmt.Errorf("%w: sqlite: the log %s-wal cannot be read in a directory that cannot be written; copy both files to another directory: %w", core.ErrDenied, cfg.Path, err)
	}
	return open(ctx, cfg, modeImmutable)
}

// open makes a Driver whose connections have one mode; "" is a database in memory.
func open(ctx context.Context, cfg Config, mode string) (*Driver, error) {
	name := Memory
	if mode != "" {
		name = fileURI(cfg.Path) + "?_dqs=0&" + mode
	}
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, failure("open the database", err)
	}
	d := &Driver{cfg: cfg, readOnly: mode == modeRead || mode == modeImmutable}
	d.writer = newPool(1, cfg.BusyTimeout, func(ctx context.Context) (*conn, error) {
		return d.connect(ctx, connector, mode == modeWrite)
	})
	d.readers = d.writer
	if mode == "" {
		d.writer.keep = true
	} else {
		d.readers = newPool(cfg.Readers, cfg.BusyTimeout, func(ctx context.Context) (*conn, error) {
			return d.connect(ctx, connector, false)
		})
	}
	if err := d.setUp(ctx); err != nil {
		return nil, errors.Join(openFailure(cfg.Path, err), d.Close())
	}
	return d, nil
}

// setUp completes the tables, or looks at them when the file can only be read.
func (d *Driver) setUp(ctx context.Context) error {
	use := migrate
	if d.readOnly {
		use = d.look
	}
	err := d.retryBusy(ctx, func() error {
		c, err := d.writer.get(ctx)
		if err != nil {
			return err
		}
		err = use(ctx, c)
		d.writer.put(c, err)
		return err
	})
	if err == nil && !d.readOnly {
		d.complete.Store(true)
	}
	return err
}

func (d *Driver) look(ctx context.Context, c *conn) error {
	l, err := inspect(ctx, c)
	if err != nil {
		return err
	}
	if !l.states {
		return unsupported("the file has no table flow_states yet; open it once for writing")
	}
	d.complete.Store(l.complete())
	return nil
}

// connect opens a connection and sets what a connection has to be told.
func (d *Driver) connect(ctx context.Context, connector sqldriver.Connector, writes bool) (*conn, error) {
	c, err := dial(ctx, connector)
	if err != nil {
		return nil, err
	}
	// The values are numbers and constants of this package; a pragma takes no parameters.
	pragmas := []string{
		"busy_timeout = " + strconv.FormatInt(d.cfg.BusyTimeout.Milliseconds(), 10),
		"trusted_schema = OFF", // a file is data: its views and triggers call no functions
	}
	if writes {
		pragmas = append(pragmas, "synchronous = "+string(d.cfg.Synchronous))
		if d.cfg.Synchronous == Full || d.cfg.Synchronous == Extra {
			// Without these macOS leaves a synced write in the cache of the disk.
			pragmas = append(pragmas, "fullfsync = ON", "checkpoint_fullfsync = ON")
		}
	}
	for _, p := range pragmas {
		if _, err := c.exec(ctx, "PRAGMA "+p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if writes {
		if err := useLog(ctx, c); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// useLog switches a file to a write-ahead log unless it has one: switching takes a lock that
// nobody else may have.
func useLog(ctx context.Context, c *conn) error {
	mode, err := c.queryRow(ctx, "PRAGMA journal_mode")
	if err != nil || strings.EqualFold(text(mode[0]), "wal") {
		return err
	}
	// A file system without shared memory answers with the old mode, which works as well.
	_, err = c.queryRow(ctx, "PRAGMA journal_mode = WAL")
	return err
}

// retryBusy repeats fn while it fails for a lock, up to the busy timeout: of two connections
// that switch one file to a log SQLite fails one at once, without waiting.
func (d *Driver) retryBusy(ctx context.Context, fn func() error) error {
	deadline := time.Now().Add(d.cfg.BusyTimeout)
	const longest = 50 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		err := fn()
		if primary, _, _ := code(err); err == nil || !isBusy(primary) || time.Now().After(deadline) {
			return err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// fileURI names a file to SQLite, with every byte that could mean something escaped.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	var b strings.Builder
	b.WriteString("file://")
	if !strings.HasPrefix(path, "/") {
		b.WriteByte('/') // C:/…
	}
	for i := range len(path) {
		switch ch := path[i]; {
		case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9', strings.IndexByte("/-._~:", ch) >= 0:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}

func makeParents(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fileFailure("create the directory of the database", err)
	}
	return nil
}

// openForWriting returns why an existing file cannot be written.
func openForWriting(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// createBeside returns why no file can be made in the directory of path.
func createBeside(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".weir-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// refuses reports whether the system will refuse the same again, unlike for a full disk or
// too many open files.
func refuses(err error) bool { return errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err) }

// hasLog reports whether a write-ahead log may hold what the file does not.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// isWriteFailure reports whether err may come of a file or a directory that cannot be written.
func isWriteFailure(err error) bool {
	c, _, _ := code(err)
	return c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_PERM
}

// openFailure explains SQLITE_CANTOPEN, which says nothing, by asking the system.
func openFailure(path string, err error) error {
	doing := "open the database " + strconv.Quote(path)
	if c, _, _ := code(err); c != sqlite3.SQLITE_CANTOPEN || path == Memory {
		return failure(doing, err)
	}
	if info, serr := os.Stat(path); serr == nil && info.IsDir() {
		return unsupported(doing + ": it is a directory; name a file in it")
	}
	if ferr := openForWriting(path); ferr != nil {
		return fileFailure(doing, errors.Join(ferr, err))
	}
	return failure(doing, err)
}

// fileFailure is failure for errors of the operating system.
func fileFailure(doing string, err error) error {
	switch {
	case refuses(err):
		return fmt.Errorf("%w: sqlite: %s: %w", core.ErrDenied, doing, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: sqlite: %s: %w; create it by opening it for writing", core.ErrUnavailable, doing, err)
	}
	return fmt.Errorf("%w: sqlite: %s: %w", core.ErrUnavailable, doing, err)
}

package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Memory is the Path of a database that lives in the process and ends with Close.
const Memory = ":memory:"

// What the zero Config stands for.
const (
	defaultBusyTimeout = 10 * time.Second
	defaultHistory     = 1
	defaultReaders     = 4
	defaultInline      = 8 << 20
	defaultRecord      = 64 << 20
	maxRecord          = 1_000_000_000 // SQLite's own, as it is compiled by default
)

// maxReaders keeps a typing error from opening thousands of files.
const maxReaders = 256

// Config says which file to open and how. Only Path is needed.
type Config struct {
	// Path of the database file, or Memory. It is taken literally: '?', '%', '#' and spaces
	// are parts of the name. The file, and directories that are missing above it, are
	// created (the directories for the owner only).
	Path string

	// ReadOnly opens an existing file for reading; every write is core.ErrDenied. A file
	// that cannot be written (permission, read-only mount) behaves the same without it.
	ReadOnly bool

	// Synchronous is what a save survives; "" is Full. See the package documentation.
	Synchronous Synchronous

	// BusyTimeout bounds the wait for another writer, of this or another process, before
	// core.ErrUnavailable; 0 is 10 s. A context that ends sooner ends the wait sooner.
	BusyTimeout time.Duration

	// History is how many rows of Weir's own are kept in flow_states for each flow, the
	// head included; 0 is 1. Rows of other programs do not count and are never removed by
	// a save.
	History int

	// Readers is the number of connections for reading, opened as they are needed; 0 is 4,
	// at most 256. A database in memory has one connection for all.
	Readers int

	// Limits are the sizes the Store plans with; zero fields take 64 MiB a record, of
	// which up to 8 MiB are kept as they are, so that other programs can read them. SQLite has
	// a bound of its own of 1,000,000,000 bytes a record.
	Limits driver.Limits

	// Now is the clock that judges expiry; nil is time.Now.
	Now func() time.Time
}

// Synchronous is the value of SQLite's pragma of that name: when a save waits for the disk.
type Synchronous string

// The values of Synchronous, safest first. All of them survive the death of the process, at
// any instant; they differ in what a power failure or a crash of the system can take.
const (
	// Extra is Full plus a sync of the directory; with a write-ahead log it adds nothing.
	Extra Synchronous = "EXTRA"
	// Full, the default: a save that returned survives a power failure.
	Full Synchronous = "FULL"
	// Normal does not wait for the disk at each save: a power failure can take the newest
	// saves, and leaves a consistent database.
	Normal Synchronous = "NORMAL"
	// Off never waits: a power failure can destroy the whole database.
	Off Synchronous = "OFF"
)

// withDefaults returns the config with its zero values filled in, or why it cannot be used.
func (c Config) withDefaults() (Config, error) {
	if c.Synchronous == "" {
		c.Synchronous = Full
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = defaultBusyTimeout
	}
	if c.History == 0 {
		c.History = defaultHistory
	}
	if c.Readers == 0 {
		c.Readers = defaultReaders
	}
	c.Limits = c.Limits.Or(defaultRecord, defaultInline)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.Path == "":
		return unsupported("the path is empty; name a file, or " + Memory)
	case strings.ContainsRune(c.Path, 0):
		return unsupported("the path holds a NUL byte")
	case c.Path == Memory && c.ReadOnly:
		return unsupported("a database in memory cannot be opened read-only: it would be empty forever")
	case c.BusyTimeout < 0 || c.BusyTimeout > 24*time.Hour:
		return unsupported(fmt.Sprintf("busy timeout %v; use up to 24h", c.BusyTimeout))
	case c.History < 0:
		return unsupported(fmt.Sprintf("history %d; keep 1 row or more", c.History))
	case c.Readers < 0 || c.Readers > maxReaders:
		return unsupported(fmt.Sprintf("%d readers; use 1 to %d", c.Readers, maxReaders))
	}
	switch c.Synchronous {
	case Extra, Full, Normal, Off:
		return c.Limits.Check(maxRecord, unsupported)
	}
	return unsupported(fmt.Sprintf("synchronous %q; use EXTRA, FULL, NORMAL or OFF", c.Synchronous))
}

func unsupported(what string) error { return fmt.Errorf("%w: sqlite: %s", core.ErrUnsupported, what) }

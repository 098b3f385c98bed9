package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/weirflow/weir/core"
)

// code returns SQLite's primary and extended result code, or false if err is none of its.
func code(err error) (primary, extended int, ok bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0, false
	}
	return e.Code() & 0xff, e.Code(), true
}

func isBusy(primary int) bool {
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}

// failure turns an error of SQLite into one that wraps a sentinel of package core and says
// what was being done and what to do about it. A context's error stays what it is, and an
// error that wraps a sentinel already too.
func failure(doing string, err error) error {
	if err == nil || isTyped(err) {
		return err
	}
	primary, extended, ok := code(err)
	if !ok {
		return fmt.Errorf("%w: sqlite: %s: %w", core.ErrUnavailable, doing, err)
	}
	advice, sentinel := classify(primary, extended)
	if advice != "" {
		advice = "; " + advice
	}
	return fmt.Errorf("%w: sqlite: %s: %w%s", sentinel, doing, err, advice)
}

func isTyped(err error) bool {
	for _, typed := range [...]error{
		context.Canceled, context.DeadlineExceeded, core.ErrConflict, core.ErrUnsupported,
		core.ErrCorrupt, core.ErrDenied, core.ErrUnavailable, core.ErrTooLarge,
	} {
		if errors.Is(err, typed) {
			return true
		}
	}
	return false
}

// classify maps result codes (https://www.sqlite.org/rescode.html) to sentinels.
func classify(primary, extended int) (advice string, sentinel error) {
	switch primary {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another connection holds the lock; try again, or raise the busy timeout", core.ErrUnavailable
	case sqlite3.SQLITE_FULL:
		return "nothing was written; free space on the disk", core.ErrUnavailable
	case sqlite3.SQLITE_READONLY:
		return "the database can only be read", core.ErrDenied
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return "", core.ErrDenied
	case sqlite3.SQLITE_CORRUPT:
		return "restore a backup, or see .recover of the sqlite3 program", core.ErrCorrupt
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return "the file is not an SQLite database", core.ErrCorrupt
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		// The statements are fixed, so only the tables can have changed under them.
		return "another program changed the tables; open the store anew", core.ErrCorrupt
	case sqlite3.SQLITE_TOOBIG:
		return "", core.ErrTooLarge
	}
	if extended == sqlite3.SQLITE_IOERR_CORRUPTFS {
		return "", core.ErrCorrupt
	}
	return "", core.ErrUnavailable
}

// isOutcomeUnknown reports whether a failed commit can still come true: the log may hold it
// when only the sync failed, and then the next recovery replays it.
func isOutcomeUnknown(err error) bool {
	c, _, _ := code(err)
	return c == sqlite3.SQLITE_IOERR
}

// ruinsConnection reports whether a connection is better closed than used again after err.
func ruinsConnection(err error) bool {
	switch c, _, _ := code(err); c {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
		return true
	}
	return false
}

// denied is the error of a write to a store that is open for reading.
func denied(doing string) error {
	return fmt.Errorf("%w: sqlite: %s: the database is open for reading only; open it without mode=ro, and check the permissions of the file, its directory and the mount", core.ErrDenied, doing)
}

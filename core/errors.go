package core

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// The failures that a caller can act on. Test for them with errors.Is.
var (
	// ErrNotFound is returned when the store answered and has no such flow: it was never
	// saved, was deleted, or has expired.
	ErrNotFound = errors.New("not found")

	// ErrConflict is returned when a condition no longer held: another writer was first.
	// Nothing of the failed write is stored. Load the flow again before deciding anew.
	ErrConflict = errors.New("conflict: another writer was first")

	// ErrInvalidID is returned for a flow ID that is empty, not UTF-8 or too long.
	ErrInvalidID = errors.New("invalid flow id")

	// ErrInvalidState is returned for a state that cannot be kept exactly; see StateError
	// for the place. Nothing was written.
	ErrInvalidState = errors.New("invalid state")

	// ErrTooLarge is returned when the store cannot hold the record; see SizeError for the
	// two numbers. Nothing was written.
	ErrTooLarge = errors.New("too large")

	// ErrCorrupt is returned when a stored record is damaged or incomplete. A part of it is
	// never returned in place of the whole.
	ErrCorrupt = errors.New("stored record is corrupt")

	// ErrUnavailable is returned when the store could not be reached, was overloaded or
	// timed out, after bounded retries. Trying again later can help.
	ErrUnavailable = errors.New("store is unavailable")

	// ErrDenied is returned when the store refused the credentials or the permission.
	// Trying again cannot help.
	ErrDenied = errors.New("access denied")

	// ErrUnsupported is returned for something this store, this record or this version
	// does not offer, such as a record in a newer format than the program knows.
	ErrUnsupported = errors.New("unsupported")
)

// Error is the one wrapper around a failure: what was being done, to which flow.
type Error struct {
	Op     string // the operation, for example "save state"
	FlowID string // the flow, as given; empty when the operation concerns none
	Err    error  // why it failed; wraps one of the sentinels or a context's error
}

// Error returns a one-line message. The flow ID is quoted, and cut when it is long, since it
// is text from a stranger.
func (e *Error) Error() string {
	if e.FlowID == "" {
		return fmt.Sprintf("weir: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("weir: %s of flow %s: %v", e.Op, quoteID(e.FlowID), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// quoteID keeps a log line readable whatever the ID holds.
func quoteID(id string) string {
	const longest = 80
	if len(id) <= longest {
		return fmt.Sprintf("%q", id)
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(id[cut]) {
		cut--
	}
	return fmt.Sprintf("%q… (%d bytes)", id[:cut], len(id))
}

// StateError says where a state or progress cannot be accepted. It is ErrInvalidState.
type StateError struct {
	Path   string // JSON Pointer (RFC 6901) to the value; "" is the whole document
	Reason string
}

// Error returns the reason and the path.
func (e *StateError) Error() string {
	return fmt.Sprintf("%v: at %q: %s", ErrInvalidState, e.Path, e.Reason)
}

// Is reports that a StateError is ErrInvalidState.
func (e *StateError) Is(target error) bool { return target == ErrInvalidState }

// SizeError carries both sides of a refused size. It is ErrTooLarge.
type SizeError struct {
	Size  int64 // bytes that the record would have taken
	Limit int64 // bytes that the store allows
}

// Error returns both numbers.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, the limit is %d", ErrTooLarge, e.Size, e.Limit)
}

// Is reports that a SizeError is ErrTooLarge.
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }

// OutcomeUnknown reports whether the write that failed with err may have happened all the
// same, for example because the connection broke after the request was sent. Loading the
// flow tells.
func OutcomeUnknown(err error) bool {
	var u interface{ OutcomeUnknown() bool }
	return errors.As(err, &u) && u.OutcomeUnknown()
}

// WithOutcomeUnknown returns err marked so that OutcomeUnknown reports true for it; nil
// stays nil. Drivers use it when a write was sent and no answer came back.
func WithOutcomeUnknown(err error) error {
	if err == nil {
		return nil
	}
	return &unknownError{err}
}

type unknownError struct{ err error }

func (e *unknownError) Error() string        { return e.err.Error() + " (the write may have happened)" }
func (e *unknownError) Unwrap() error        { return e.err }
func (e *unknownError) OutcomeUnknown() bool { return true }

package core

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxIDBytes is the longest flow ID, in bytes of UTF-8.
const MaxIDBytes = 1024

// MaxLogEntry is the longest entry of a flow's log, in bytes.
const MaxLogEntry = 16 << 10

// Snapshot is one flow at one moment: what SaveState writes and LoadState returns.
//
// Whoever receives a Snapshot owns its bytes; whoever hands one over may reuse them as soon
// as the call returns.
type Snapshot struct {
	// FlowID names the flow: any non-empty UTF-8 of at most MaxIDBytes. It is data, never
	// interpreted as a path, a pattern or a part of a key.
	FlowID string

	// Method is the name of the method whose completion this snapshot records. It may be
	// any UTF-8 text, also empty.
	Method string

	// State is the application's state: a JSON object as ValidateState accepts it. It comes
	// back equal as JSON, with every number exact.
	State json.RawMessage

	// Progress is the runtime's own bookkeeping: valid JSON, or nil for none. A store keeps
	// it in the same write as State and never reads it.
	Progress json.RawMessage

	// Log holds entries for the flow's log, which this save appends: JSON values, each of at
	// most MaxLogEntry bytes, that a store keeps and never reads. LoadState returns none; see
	// FlowLog.
	Log []json.RawMessage

	// SavedAt is when the snapshot was written, in UTC with a resolution of one
	// microsecond. A zero SavedAt is filled in at the save. It informs people; it is never
	// a version and never an order.
	SavedAt time.Time

	// Revision identifies the write this snapshot came from. SaveState ignores it: the
	// condition of a save is given by IfRevision.
	Revision Revision
}

// Revision identifies one write of one incarnation of a flow. Two revisions may be compared
// with ==; the zero Revision stands for "no such flow yet".
type Revision struct {
	// N counts the writes of this incarnation: 1, 2, 3… A flow that is deleted and made
	// again starts at 1. N is for people and logs.
	N uint64

	// Tag is the random token of the write. Compare-and-swap compares the tag and never N,
	// so that no later incarnation can satisfy an older revision.
	Tag string
}

// IsZero reports whether r stands for a flow that does not exist.
func (r Revision) IsZero() bool { return r == Revision{} }

// String returns the revision as people read it, for example "7".
func (r Revision) String() string {
	if r.IsZero() {
		return "none"
	}
	return strconv.FormatUint(r.N, 10)
}

// Saved is the result of a successful SaveState.
type Saved struct {
	// Revision identifies the write just made.
	Revision Revision

	// State is the state as it was stored when a reducer rewrote it; nil when it was
	// stored as given.
	State json.RawMessage

	// Pruned holds the messages that the reducer removed, oldest first.
	Pruned []json.RawMessage
}

// ValidateLog returns nil if every entry can be kept, else an error that wraps ErrTooLarge or
// ErrInvalidState.
func ValidateLog(entries []json.RawMessage) error {
	for i, e := range entries {
		if len(e) > MaxLogEntry {
			return fmt.Errorf("log entry %d: %w", i, &SizeError{Size: int64(len(e)), Limit: MaxLogEntry})
		}
		if !json.Valid(e) {
			return &StateError{Reason: fmt.Sprintf("log entry %d is not JSON", i)}
		}
	}
	return nil
}

// ValidateID returns nil for a usable flow ID, else an error that wraps ErrInvalidID and
// says what is wrong: an ID is refused when it is empty, not valid UTF-8, or longer than
// MaxIDBytes. Every other text is a legal ID.
func ValidateID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidID)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrInvalidID, len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrInvalidID)
	}
	return nil
}

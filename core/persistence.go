package core

import (
	"context"
	"encoding/json"
	"iter"
)

// FlowPersistence keeps the newest snapshot of each flow.
//
// Implementations are safe for concurrent use by many goroutines and, over one store, by
// many processes. Every method honors its context: once the context has ended no further
// request is started, and the error wraps the context's own.
type FlowPersistence interface {
	// SaveState writes s as the flow's newest snapshot, state and progress in one atomic
	// step, and returns its revision.
	//
	// Without an option the last writer wins. With IfRevision the save succeeds only while
	// that revision is the newest. Invalid input is refused before anything is written
	// (ErrInvalidID, ErrInvalidState, ErrTooLarge). On any error the previous snapshot
	// stays as it was, unless OutcomeUnknown says that the write may have happened.
	SaveState(ctx context.Context, s Snapshot, opts ...SaveOption) (Saved, error)

	// LoadState returns the newest acknowledged snapshot. A flow that was never saved, was
	// deleted, or has expired is ErrNotFound; a store that cannot answer never is.
	LoadState(ctx context.Context, flowID string) (Snapshot, error)
}

// FlowLog reads what saves appended to the logs of flows, see Snapshot.Log.
type FlowLog interface {
	// Log yields the entries of a flow's log, the oldest first, equal as JSON to what was
	// saved. They are those of this incarnation: the log goes with its flow. A flow that is
	// not there is ErrNotFound; an error is yielded once, as the last pair. Entries that are
	// appended in the meantime may or may not be seen.
	Log(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error]
}

// SaveOption changes one SaveState call.
type SaveOption func(*SaveSettings)

// SaveSettings is what a list of SaveOptions amounts to. Only implementations of
// FlowPersistence need it.
type SaveSettings struct {
	// If is the revision that must still be the newest one, or nil for a blind save. The
	// zero Revision demands that the flow does not exist.
	If *Revision

	// Answers is the ID of the ForeignRequest that the save takes away, or "".
	Answers string
}

// NewSaveSettings applies opts in order; a later option of the same kind wins.
func NewSaveSettings(opts []SaveOption) SaveSettings {
	var s SaveSettings
	for _, o := range opts {
		o(&s)
	}
	return s
}

// IfRevision makes a save a compare-and-swap: it succeeds only if r is the flow's newest
// revision, else it changes nothing and returns ErrConflict. IfRevision(Revision{}) demands
// that the flow does not exist yet.
func IfRevision(r Revision) SaveOption {
	return func(s *SaveSettings) { s.If = &r }
}

package core

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"
)

// MainBranch is the branch of a flow that was not forked.
const MainBranch = "main"

// MaxBranchBytes is the longest name of a branch, in bytes of UTF-8.
const MaxBranchBytes = 256

// CheckpointInfo tells of a checkpoint all but its content.
type CheckpointInfo struct {
	// ID names the checkpoint within its flow. Ids order by time as text, and a checkpoint's
	// is always greater than its parent's, whatever the clocks say.
	ID     string
	FlowID string // whose checkpoint it is

	// Parent is the checkpoint that this one follows, "" for the first. It belongs to the
	// flow ParentFlow, which is FlowID unless this is the first checkpoint of a fork.
	Parent     string
	ParentFlow string

	Branch      string // MainBranch, or the name that was given to a fork
	Trigger     string // what it was taken for
	Method      string // the method that completed last
	Flow        string // name of the flow's definition
	Fingerprint string // of the definition's graph
	Run         string // the run it was taken of; its activation ids begin with it

	At    time.Time // when it was taken, UTC, with a resolution of one microsecond
	Bytes int       // size of state and progress
}

// Checkpoint is one flow at one moment, kept until it is pruned. It is never changed.
type Checkpoint struct {
	CheckpointInfo

	State    json.RawMessage // as Snapshot.State
	Progress json.RawMessage // as Snapshot.Progress
}

// Branch is a fork as it is recorded with the flow it was made from.
type Branch struct {
	FlowID     string    // the flow that was forked
	Name       string    // unique among the branches of that flow
	Checkpoint string    // where it begins: an id of FlowID's
	Into       string    // the flow that goes on from there
	At         time.Time // when it was made, UTC
}

// CheckpointProvider keeps any number of checkpoints of each flow, on branches.
//
// Implementations are safe for concurrent use by many goroutines and processes. Deleting a
// flow deletes its checkpoints. Every method honors its context.
type CheckpointProvider interface {
	// SaveCheckpoint keeps c and returns what it is now called: c without ID, FlowID and
	// State are demanded, an empty Branch is MainBranch, a zero At is filled in. The flow
	// need not have been saved. Invalid input is refused before anything is written
	// (ErrInvalidID, ErrInvalidState, ErrTooLarge).
	SaveCheckpoint(ctx context.Context, c Checkpoint) (CheckpointInfo, error)

	// LoadCheckpoint returns a checkpoint whole. One that is not there, was pruned, or went
	// with its flow is ErrNotFound.
	LoadCheckpoint(ctx context.Context, flowID, id string) (Checkpoint, error)

	// Checkpoints yields the checkpoints of a flow, newest first, on all branches, page by
	// page. A flow without any yields none. An error is yielded once, as the last pair.
	Checkpoints(ctx context.Context, flowID string) iter.Seq2[CheckpointInfo, error]

	// PruneCheckpoints removes the checkpoints of one branch but the newest keep, and returns
	// how many that were. Where another branch begins is never removed. Keeping none also
	// forgets the branch's own record, so that its name can be given again.
	PruneCheckpoints(ctx context.Context, flowID, branch string, keep int) (removed int, err error)

	// CreateBranch records a fork of a checkpoint that must exist. A name that is taken is
	// ErrConflict, unless by a record that says the same: then the fork was begun before.
	CreateBranch(ctx context.Context, b Branch) error

	// Branches yields the forks made from a flow, in no particular order.
	Branches(ctx context.Context, flowID string) iter.Seq2[Branch, error]
}

// ValidateBranch returns nil for a usable name of a branch: any non-empty UTF-8 of at most
// MaxBranchBytes. Another is ErrInvalidID.
func ValidateBranch(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name of the branch is empty", ErrInvalidID)
	case len(name) > MaxBranchBytes:
		return fmt.Errorf("%w: the name of the branch has %d bytes, at most %d are allowed", ErrInvalidID, len(name), MaxBranchBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the name of the branch is not valid UTF-8", ErrInvalidID)
	}
	return nil
}

package flow

import (
	"encoding/json"
	"time"

	"github.com/weirflow/weir/core"
)

// An Event is something that happened in a run: one of the types below. Observers switch on
// the type; more types may be added.
type Event interface {
	// Origin says which run the event belongs to.
	Origin() EventOrigin
	event()
}

// EventOrigin is the part that all events have in common.
type EventOrigin struct {
	Flow   string    // the definition's name
	FlowID string    // the flow's id
	Seq    uint64    // counts the events of this Kickoff or Resume from 1
	Time   time.Time // when it happened
}

// Origin returns o itself; it is how every event implements Event.
func (o EventOrigin) Origin() EventOrigin { return o }
func (EventOrigin) event()                {}

// FlowStarted is the first event of every run.
type FlowStarted struct {
	EventOrigin
	Resumed      bool            // by Resume
	RestoredFrom string          // the flow whose state was restored, if any
	Checkpoint   string          // of that flow, that the run began from, if any
	State        json.RawMessage // the state before the first method

	// RestoredRevision is the revision of RestoredFrom whose state it was; zero if it was a
	// checkpoint's.
	RestoredRevision core.Revision
}

// FlowFinished is the last event of a run that has nothing left to do.
type FlowFinished struct {
	EventOrigin
	Output json.RawMessage
	State  json.RawMessage
}

// FlowFailed is the last event of a run that ended with an error.
type FlowFailed struct {
	EventOrigin
	Err error
}

// MethodStarted tells that a method is about to be called.
type MethodStarted struct {
	EventOrigin
	Method       string
	ActivationID string
	Call         int             // how-manieth call of the method in the run
	Payload      json.RawMessage // nil for a start
}

// MethodFinished tells that a method completed, and that its completion is stored if it is
// to be.
type MethodFinished struct {
	EventOrigin
	Method       string
	ActivationID string
	Output       json.RawMessage
	Label        string // what a router chose
}

// RequestOpened tells that a request to a person is open, and stored if the run has a store,
// before the provider is told.
type RequestOpened struct {
	EventOrigin
	Request Request
}

// RequestAnswered tells that an answer was taken and, if the request was stored, that this is
// stored.
type RequestAnswered struct {
	EventOrigin
	Method   string
	Feedback Feedback
}

// MethodPaused tells that a method waits for an answer that comes later.
type MethodPaused struct {
	EventOrigin
	Request Request
}

// FlowPaused is the last event of a run that has nothing left to do but to wait.
type FlowPaused struct {
	EventOrigin
	Requests []Request
}

// MethodFailed tells that a method returned an error.
type MethodFailed struct {
	EventOrigin
	Method       string
	ActivationID string
	Err          error
	Canceled     bool // it stopped because the run was cut short or it lost a race, not by a fault of its own
}

// MethodRetrying tells that an attempt at a method failed and that another one follows.
type MethodRetrying struct {
	EventOrigin
	Method       string
	ActivationID string
	Err          error
	Attempt      int           // the one that failed, from 1
	Wait         time.Duration // until the next
}

// StateSaved tells that a completion was stored.
type StateSaved struct {
	EventOrigin
	Method   string
	Request  string // the request whose opening or answer was stored, if not the completion of Method
	Revision core.Revision
	Bytes    int // size of state and progress, after the store's reducer
}

// SaveFailed tells that a completion could not be stored. Unless Retrying, the run fails.
type SaveFailed struct {
	EventOrigin
	Method   string
	Err      error
	Attempt  int // from 1
	Retrying bool
}

// MessagesPruned tells that the store's reducer removed messages from the state.
type MessagesPruned struct {
	EventOrigin
	Method string
	Pruned []json.RawMessage // oldest first
}

// CheckpointSaved tells that a checkpoint was kept.
type CheckpointSaved struct {
	EventOrigin
	Checkpoint core.CheckpointInfo
	Pruned     int // older ones of the branch that were removed after it
}

// CheckpointFailed tells that a checkpoint could not be kept, or that old ones could not be
// removed after it.
type CheckpointFailed struct {
	EventOrigin
	Trigger string
	Err     error
	Pruning bool
}

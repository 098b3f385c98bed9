package core

import (
	"context"
	"encoding/json"
	"time"
)

// ForeignRequest is a question to a person at which another program paused a flow, in that
// program's own format: CrewAI's flow persistence keeps such rows beside the states in SQLite.
// Whoever receives one owns its bytes.
type ForeignRequest struct {
	ID       string            // names it among all requests of the store; one that is asked anew has another
	FlowID   string            // the flow that waits
	Flow     string            // what the other program calls the kind of flow
	Method   string            // the method that waits for the answer
	Message  string            // what the person is asked
	Outcomes []string          // what the answer decides between; nil if it is plain text
	Default  string            // the outcome of blank feedback, or ""
	Output   json.RawMessage   // what is to be reviewed, JSON; nil if nothing was stored
	Metadata map[string]string // values that are no text are their JSON
	At       time.Time         // when it was stored, UTC; the zero time if that cannot be read

	// State is the state the flow was paused with, a JSON object as ValidateState accepts it.
	// It, and not what LoadState returns, is what the flow goes on with, as in the program that
	// stored it: the two differ if that program saved the flow again after the pause.
	State json.RawMessage

	// Revision is the flow's newest one. A save that answers the request builds on it.
	Revision Revision
}

// ForeignRequests is an optional interface of a FlowPersistence whose store may hold requests
// of another program. It is what lets flows move to Weir that wait for a person meanwhile.
type ForeignRequests interface {
	// LoadForeignRequest returns the request that a flow waits for, or ErrNotFound: also if
	// the flow was saved by Weir since the other program wrote to it, for then that program's
	// pause is over. A request that does not read is ErrCorrupt.
	LoadForeignRequest(ctx context.Context, flowID string) (ForeignRequest, error)
}

// Answering makes a save take away the ForeignRequest of that ID in the same step. The save
// succeeds only while that request is open, else it changes nothing and returns ErrConflict:
// of several that answer one request, one goes on. Stores that are no ForeignRequests never
// hand out such an ID and do not know this option.
func Answering(requestID string) SaveOption {
	return func(s *SaveSettings) { s.Answers = requestID }
}

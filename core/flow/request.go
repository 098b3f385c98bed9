package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
)

// Request is a question to a person that a run waits for.
type Request struct {
	ID           string            `json:"id"` // the same whoever reads it and however often it is asked
	Flow         string            `json:"flow"`
	FlowID       string            `json:"flow_id"`
	Method       string            `json:"method"`
	ActivationID string            `json:"activation"`
	Message      string            `json:"message"`
	Outcomes     []string          `json:"outcomes,omitempty"` // what the answer decides between
	Default      string            `json:"default,omitempty"`
	Output       json.RawMessage   `json:"output,omitempty"` // what is to be reviewed
	Metadata     map[string]string `json:"metadata,omitempty"`
	At           time.Time         `json:"at"` // when it was opened, UTC
}

// ErrAnswered is returned by Resume for an Answer to a request that is not open any more: it
// was answered, perhaps at this moment by another process, or its method lost a race. It
// comes with core.ErrConflict.
var ErrAnswered = errors.New("the request is not open any more")

// Answer makes Resume go on with an answer to the open request of the given id (one of
// Pending or Result.Pending). Of several processes that answer one request at the same time
// exactly one goes on; the others get ErrAnswered, and nothing of them is stored or run. A
// Resume takes one answer. An
// answer that cannot be taken is an OutcomeError and leaves the request open.
func Answer(requestID string, r Reply) RunOption {
	return runOption(func(c *runConfig) { c.answers = append(c.answers, answer{requestID, r}) })
}

type answer struct {
	id    string
	reply Reply
}

// Pending lists the open requests of a flow, in the order in which they were opened. Among
// them may be one that another program stored, see core.ForeignRequests: then Outcomes and
// Default are those of that program, and those of the Definition count. The error is that of
// the store's LoadState, core.ErrUnsupported for progress in a newer format, or
// core.ErrCorrupt.
func Pending(ctx context.Context, store core.FlowPersistence, flowID string) ([]Request, error) {
	snap, foreign, err := load(ctx, store, flowID)
	switch {
	case err != nil:
		return nil, fail("list requests", flowID, err)
	case foreign != nil:
		return requests([]*pending{inherited(foreign)}), nil
	case len(snap.Progress) == 0:
		return nil, nil
	}
	p, err := decodeProgress(snap.Progress)
	if err != nil {
		return nil, fail("list requests", flowID, err)
	}
	return requests(p.Pending), nil
}

// pending is an open request as it is stored.
type pending struct {
	Request

	Seq    uint64 `json:"seq"`              // of the call that waits
	Review bool   `json:"review,omitempty"` // it follows a method; else it was asked inside one
	stored bool   // the head names it
}

func requests(list []*pending) []Request {
	out := make([]Request, len(list))
	for i, p := range list {
		out[i] = p.Request
		out[i].Outcomes, out[i].Metadata = slices.Clone(p.Outcomes), maps.Clone(p.Metadata)
	}
	return out
}

// find returns the open request of the given id.
func (e *engine) find(id string) (*pending, error) {
	for _, p := range e.pending {
		if p.ID == id {
			return p, nil
		}
	}
	// An id begins with that of the call, so one that this run has given away can be told.
	call, _, _ := strings.Cut(strings.TrimPrefix(id, e.runID+"-"), "/")
	if seq, err := strconv.ParseUint(call, 10, 64); err == nil && strings.HasPrefix(id, e.runID+"-") && e.sched.Called(seq) {
		return nil, notOpen(id)
	}
	return nil, fmt.Errorf("request %q: the flow's newest run has no such request: %w", id, core.ErrNotFound)
}

func notOpen(id string) error {
	return fmt.Errorf("request %q: %w: %w", id, ErrAnswered, core.ErrConflict)
}

// over withdraws the questions of a call that is over, and forgets their answers.
func (e *engine) over(seq uint64) {
	e.pending = slices.DeleteFunc(e.pending, func(p *pending) bool { return p.Seq == seq })
	delete(e.answers, seq)
}

func (e *engine) close(p *pending) {
	e.pending = slices.DeleteFunc(e.pending, func(o *pending) bool { return o == p })
}

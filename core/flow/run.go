package flow

import (
	"encoding/json"
	"fmt"

	"github.com/weirflow/weir/core"
)

// A Run is what a method sees of the run it belongs to: one call of that method, its view of
// the state and its identity. It is safe for use by the goroutines that the method starts,
// and of no use after the method returned.
type Run[S any] struct {
	call  *activation
	state State[S]
}

// FlowID returns the id of the flow, under which its state is stored.
func (r *Run[S]) FlowID() string { return r.call.flowID }

// Method returns the name of the running method.
func (r *Run[S]) Method() string { return r.call.method }

// Call returns the how-manieth call of this method it is in the run, counted from 1. A call
// that is made again after a crash has the number it had.
func (r *Run[S]) Call() int { return r.call.number }

// ActivationID identifies this call of the method among all calls of all runs. It is the
// same when the call is made again after a crash, so a side effect that takes it as an
// idempotency key happens once.
//
// A crash before the first save leaves nothing to resume, and the flow is kicked off again.
// With Persist that is the same run, and its calls have the same ids, if it has the same
// flow id and begins with the same state on top of the same stored revision. To the outside
// world a flow that was deleted and is kicked off with the same id and inputs is therefore
// the same run, too; give it another id if it is not.
func (r *Run[S]) ActivationID() string { return r.call.id }

// State returns the method's view of the flow's state.
func (r *Run[S]) State() *State[S] { return &r.state }

func (r *Run[S]) latest(method string) (json.RawMessage, bool) { return r.call.engine.latest(method) }

// Outputs is a source for Latest: a *Run inside a method or a *Result.
type Outputs interface {
	latest(method string) (json.RawMessage, bool)
}

// Latest returns the newest output of the method that h stands for. It reports false if the
// method has not completed in this run.
func Latest[P any](from Outputs, h Handle[P]) (output P, ok bool, err error) {
	raw, ok := from.latest(h.name)
	if !ok {
		return output, false, nil
	}
	if err := decodeJSON(raw, &output); err != nil {
		return output, true, fmt.Errorf("output of method %q: %w", h.name, err)
	}
	return output, true, nil
}

// A Result is the outcome of a run. It comes with an error too, once the run had begun, and
// then tells how far the run got.
type Result[S any] struct {
	// FlowID is the id of the flow, for Resume and for a later Kickoff.
	FlowID string

	// State is the state after the last completed method.
	State S

	// Output is the flow's output as JSON: that of the method declared with the option
	// Output, else of the method that completed last. Nil if there is none.
	Output json.RawMessage

	// Outputs holds every output, in order of completion, if KeepOutputs was given.
	Outputs []MethodOutput

	// Completed counts the completed calls of each method, resumes included.
	Completed map[string]int

	// Revision is the one the run saved last, or began with. Zero if nothing is stored.
	Revision core.Revision

	// Finished reports that nothing is left to do. It is false for a run that failed or
	// paused.
	Finished bool

	// Paused reports that all that is left is to wait for answers to the requests in Pending.
	// Resume with an Answer goes on. A pause is no error.
	Paused bool

	// Pending holds the open requests, oldest first, whether the run paused or failed.
	Pending []Request

	// Feedback is the history of the run: every answered Review, resumes included.
	Feedback []Feedback

	last map[string]json.RawMessage
}

// MethodOutput is the output of one completed call.
type MethodOutput struct {
	Method string          `json:"method"`
	Output json.RawMessage `json:"output"`
}

func (r *Result[S]) latest(method string) (json.RawMessage, bool) {
	raw, ok := r.last[method]
	return raw, ok
}

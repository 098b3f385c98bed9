package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirflow/weir/core"
)

// MethodError is the failure of one call of a method. The method's own error is what it
// wraps, so errors.Is and errors.As find it.
type MethodError struct {
	Flow         string // the definition's name
	FlowID       string
	Method       string
	ActivationID string
	Err          error
}

func (e *MethodError) Error() string {
	return fmt.Sprintf("flow %q (id %q): method %q: %v", e.Flow, e.FlowID, e.Method, e.Err)
}

// Unwrap returns the method's own error.
func (e *MethodError) Unwrap() error { return e.Err }

// PanicError is the MethodError's cause when the method panicked or ended its goroutine.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the method's goroutine; empty if it called runtime.Goexit
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// SaveError says that a method completed but its completion could not be stored. The
// method's listeners did not run; after a crash or on Resume the method runs again.
type SaveError struct {
	Flow   string
	FlowID string
	Method string // the method that had completed
	Err    error  // the store's error: core.ErrConflict if another run of the flow was first
}

func (e *SaveError) Error() string {
	return fmt.Sprintf("flow %q (id %q): method %q completed, but state persistence failed: %v", e.Flow, e.FlowID, e.Method, e.Err)
}

// Unwrap returns the store's error.
func (e *SaveError) Unwrap() error { return e.Err }

// BudgetError says that a method was about to be called more often than its budget, or the
// run's, allows. The flow can be resumed with a larger one.
type BudgetError struct {
	Flow   string
	FlowID string
	Method string // the method whose call was refused
	Limit  int    // calls that were allowed
	OfRun  bool   // the budget of the run, not that of the method
}

func (e *BudgetError) Error() string {
	if e.OfRun {
		return fmt.Sprintf("flow %q (id %q): the run has made %d calls, its budget; the next one, of method '%s', was refused; raise it with RunBudget", e.Flow, e.FlowID, e.Limit, e.Method)
	}
	return fmt.Sprintf("flow %q (id %q): method '%s' has been called %d times, its budget; raise it with Budget or MethodBudget if the loop is meant", e.Flow, e.FlowID, e.Method, e.Limit)
}

// InputError says that the state cannot be made from the inputs, a restored state and the
// defaults. Nothing has run.
type InputError struct {
	Flow   string
	FlowID string
	Err    error
}

func (e *InputError) Error() string {
	return fmt.Sprintf("flow %q (id %q): invalid inputs for structured state: %v", e.Flow, e.FlowID, e.Err)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// UndeclaredLabelError says that a router chose a label that its Emits does not name.
type UndeclaredLabelError struct {
	Label    string
	Declared []string
}

func (e *UndeclaredLabelError) Error() string {
	return fmt.Sprintf("the router chose label %q, but declares only %q; add it to Emits", e.Label, e.Declared)
}

// ChangedError says that a flow cannot be resumed as it is because its graph is not the one
// it was saved with. AcceptChanges resumes it all the same.
type ChangedError struct {
	FlowID  string
	Flow    string   // the name of the definition it is resumed with
	Was     string   // the name of the one it was saved with
	Added   []string // methods that were not there
	Removed []string // methods that are gone
	Changed []string // methods with another role, condition or set of labels
}

func (e *ChangedError) Error() string {
	var what []string
	if e.Was != e.Flow {
		what = append(what, fmt.Sprintf("it was saved by flow %q", e.Was))
	}
	for _, d := range []struct {
		verb    string
		methods []string
	}{{"added", e.Added}, {"removed", e.Removed}, {"changed", e.Changed}} {
		if len(d.methods) > 0 {
			what = append(what, fmt.Sprintf("%s %q", d.verb, d.methods))
		}
	}
	return fmt.Sprintf("flow %q (id %q): the definition changed since it was saved: %s; resume it with the old program, or with AcceptChanges", e.Flow, e.FlowID, strings.Join(what, ", "))
}

// ErrLost is the cause of the end of a method's context when another member of its FirstOf
// was first.
var ErrLost = errors.New("another method of the race was first")

// errNoStore is returned for an option that needs a store when there is none.
var errNoStore = errors.New("there is no store; give the run one with WithStore")

// fail wraps an error that concerns a flow as a whole the way package core does.
func fail(op, flowID string, err error) error {
	var have *core.Error
	if errors.As(err, &have) && have.FlowID == flowID {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &core.Error{Op: op, FlowID: flowID, Err: err}
}

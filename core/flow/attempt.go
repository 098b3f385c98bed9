package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Retry says how often a failing method is attempted in one call. A failed attempt leaves no
// updates of the state, and all attempts have the same activation id. A Retry is an option of
// a method; without it there is one attempt.
type Retry struct {
	Attempts int              // how often the method is attempted in all; below 1 means once
	Wait     time.Duration    // before the second attempt; doubled for each further one
	If       func(error) bool // whether an error may be cured by another attempt; nil: any may
}

func (r Retry) applyMethod(m *methodConfig) { m.retry = r }

// cures reports whether another attempt makes sense after err. A panic or a choice that the
// method must not make is a fault of the program, which no attempt cures.
func (r Retry) cures(err error) bool {
	if _, fault := errors.AsType[*UndeclaredLabelError](err); fault {
		return false
	}
	return r.If == nil || r.If(err)
}

// Timeout ends the context of each attempt at a method after d; zero or less is no limit.
// The attempt then fails with an error that wraps context.DeadlineExceeded, unless the method
// completes all the same: a method that does not heed its context is waited for.
func Timeout(d time.Duration) MethodOption {
	return methodOption(func(m *methodConfig) { m.timeout = d })
}

// Concurrency limits how many calls of methods of this run are in progress at a time; others
// that are due wait, first come first served. A number below 1 is no limit, as without it.
func Concurrency(calls int) RunOption {
	return runOption(func(c *runConfig) { c.concurrency = calls })
}

// Hooks see each call of a method before and after, and may change what goes in and what
// comes out. An error from one stops: the method fails with it. Hooks are an option of a run
// and hold for that Kickoff or Resume only; several are called in the order given. Calls that
// run at the same time call them at the same time. Either function may be nil.
type Hooks struct {
	// Before gets the payload that the method is to receive, nil for none, and returns the
	// one it does receive.
	Before func(ctx context.Context, call Call, payload json.RawMessage) (json.RawMessage, error)

	// After gets what the method came to, if it did not fail, and returns what counts: as its
	// output, for what waits for it, and as a router's label.
	After func(ctx context.Context, call Call, c Completion) (Completion, error)
}

func (h Hooks) applyRun(c *runConfig) { c.hooks = append(c.hooks, h) }

// Call identifies a call of a method.
type Call struct {
	Flow, FlowID, Method string
	ActivationID         string
	Number               int // how-manieth call of the method in the run, from 1
}

// Completion is what a method came to.
type Completion struct {
	Output json.RawMessage // JSON
	Label  string          // what a router chose; "" for other methods
}

// attempts calls a method until it succeeds or may not be attempted again, with the hooks
// around it. It is called on the call's own goroutine.
func (e *engine) attempts(ctx context.Context, call *activation) (res result, updates committer, err error) {
	m := &e.methods[call.index]
	if err := e.before(ctx, call); err != nil {
		return res, nil, err
	}
	wait := m.retry.Wait
	for attempt := 1; ; attempt++ {
		call.dialog.restart()
		res, updates, err = m.attempt(ctx, call)
		if call.dialog.isPaused() {
			return res, nil, ErrPaused
		}
		if err == nil {
			break
		}
		if attempt >= m.retry.Attempts || ctx.Err() != nil || !m.retry.cures(err) {
			return res, nil, err
		}
		e.tell(func(ctx context.Context) {
			e.emit(ctx, MethodRetrying{EventOrigin: e.origin(), Method: call.method, ActivationID: call.id, Err: err, Attempt: attempt, Wait: wait})
		})
		if !sleep(ctx, wait) {
			return res, nil, err
		}
		wait *= 2
	}
	res, err = e.after(ctx, call, res)
	return res, updates, err
}

// attempt calls the method once.
func (m *method) attempt(ctx context.Context, call *activation) (result, committer, error) {
	if m.timeout <= 0 {
		return m.call(ctx, call)
	}
	limited, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	res, updates, err := m.call(limited, call)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("after its timeout of %v (%w): %w", m.timeout, context.DeadlineExceeded, err)
	}
	return res, updates, err
}

func (e *engine) before(ctx context.Context, call *activation) error {
	for _, h := range e.cfg.hooks {
		if h.Before == nil {
			continue
		}
		payload, err := h.Before(ctx, e.identity(call), slices.Clone(call.payload))
		if err != nil {
			return fmt.Errorf("a hook before it: %w", err)
		}
		call.payload = payload
	}
	return nil
}

func (e *engine) after(ctx context.Context, call *activation, res result) (result, error) {
	for _, h := range e.cfg.hooks {
		if h.After == nil {
			continue
		}
		c, err := h.After(ctx, e.identity(call), Completion{Output: slices.Clone(res.output), Label: res.label})
		if err == nil && !json.Valid(c.Output) {
			err = errors.New("its output is not JSON")
		}
		if err == nil {
			err = checkLabel(c.Label, e.methods[call.index].emits)
		}
		if err != nil {
			return res, fmt.Errorf("a hook after it: %w", err)
		}
		res.output, res.label = c.Output, c.Label
	}
	return res, nil
}

func (e *engine) identity(call *activation) Call {
	return Call{Flow: e.flow, FlowID: call.flowID, Method: call.method, ActivationID: call.id, Number: call.number}
}

// note is something that a method's goroutine wants done on that of the run.
type note struct {
	do   func(ctx context.Context)
	done chan struct{}
}

// tell has do called on the run's goroutine and waits for it. It is not called if the run is
// over, which happens only if an observer panicked.
func (e *engine) tell(do func(ctx context.Context)) {
	n := &note{do: do, done: make(chan struct{})}
	e.results <- callResult{note: n}
	<-n.done
}

func (n *note) take(ctx context.Context) {
	defer close(n.done)
	n.do(ctx)
}

func (n *note) refuse() { close(n.done) }

package flow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// ErrPaused is what Ask returns when the answer comes later. The method should return at
// once; what it returns, and what it did to the state, counts for nothing, since it runs again
// from its start when the answer is there.
var ErrPaused = errors.New("the answer comes later; the method runs again when it is there")

// Ask asks a person in the middle of a method and returns the answer, which may be empty. The
// request is stored before the run's provider is told, if the run has a store.
//
// If the provider replies Later, the run pauses with ErrPaused. When the request is answered,
// the method runs again from its start, with the activation id it had, and its Asks return
// the recorded answers in the order in which they were asked; so must they be asked again.
// The same holds when a process dies after an answer was recorded.
//
// The provider's error is returned as it is; the method may ask again, which is the same
// request, or go on without an answer. Other errors: a SaveError, then the run fails, too;
// ErrOver when the method has returned. While someone is asked the method's Timeout goes on,
// and the call counts under Concurrency; one that waits for a later answer does not. Ask may be
// called by several goroutines of the method, but then the order of the questions is theirs to
// keep.
func (r *Run[S]) Ask(ctx context.Context, message string) (string, error) {
	return r.call.dialog.ask(ctx, r.call, message)
}

// dialog is what a call has asked.
type dialog struct {
	mu       sync.Mutex // held while someone is asked
	recorded []string   // answers, in order
	next     int        // the question that is asked next
	paused   bool
	over     bool
}

// restart is for another attempt at the method.
func (d *dialog) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = 0
}

// end waits for a question that is being asked and lets no other be. It reports whether the
// call waits for an answer that comes later.
func (d *dialog) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return d.paused
}

func (d *dialog) isPaused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paused
}

func (d *dialog) ask(ctx context.Context, call *activation, message string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return "", ErrOver
	case d.paused:
		return "", ErrPaused
	case d.next < len(d.recorded):
		d.next++
		return d.recorded[d.next-1], nil
	}
	e := call.engine
	q := Request{
		ID: call.id + "/ask-" + strconv.Itoa(d.next+1), Flow: e.flow, FlowID: call.flowID, Method: call.method,
		ActivationID: call.id, Message: message, At: time.Now().UTC(),
	}
	var p *pending
	err := e.during(func(run context.Context) (err error) { p, err = e.openQuestion(run, call, q); return err })
	if err != nil {
		return "", err
	}
	reply := Reply{Later: true}
	if e.cfg.provider != nil {
		if reply, err = e.cfg.provider.Request(ctx, q); err != nil {
			return "", fmt.Errorf("request %q: its provider: %w", q.ID, err)
		}
	}
	if reply.Later {
		if !p.stored {
			return "", errLater
		}
		d.paused = true
		return "", ErrPaused
	}
	if err := e.during(func(run context.Context) error { return e.answered(run, call, p, reply) }); err != nil {
		return "", err
	}
	d.recorded = append(d.recorded, reply.Text)
	d.next++
	return reply.Text, nil
}

// errRunOver is for a question that comes when the run is being torn down.
var errRunOver = fmt.Errorf("the run is over: %w", context.Canceled)

// during has do called on the run's goroutine.
func (e *engine) during(do func(ctx context.Context) error) error {
	err := errRunOver
	e.tell(func(ctx context.Context) { err = do(ctx) })
	return err
}

// openQuestion enters a question, or finds it where it was asked before without an answer.
func (e *engine) openQuestion(ctx context.Context, call *activation, q Request) (*pending, error) {
	if call.lost {
		return nil, ErrLost
	}
	if p, err := e.find(q.ID); err == nil {
		return p, nil
	}
	p := &pending{Seq: call.seq, Request: q}
	if !e.openRequest(ctx, p) {
		return nil, e.errs[len(e.errs)-1]
	}
	return p, nil
}

// answered records the answer of a question.
func (e *engine) answered(ctx context.Context, call *activation, p *pending, reply Reply) error {
	if call.lost {
		return ErrLost
	}
	err := e.recordAnswer(ctx, p, reply)
	if err != nil {
		e.fails(err)
	}
	return err
}

// recordAnswer closes a question and stores its answer, for the call to find when it runs
// again.
func (e *engine) recordAnswer(ctx context.Context, p *pending, reply Reply) error {
	e.close(p)
	e.answers[p.Seq] = append(e.answers[p.Seq], reply.Text)
	e.note(LogEntry{Kind: Answered, ID: p.ID + "/answer", Request: p.ID, Method: p.Method})
	if p.stored {
		if err := e.write(ctx, p.Method, p.ID); err != nil {
			return &SaveError{Flow: e.flow, FlowID: e.flowID, Method: p.Method, Err: err}
		}
	}
	e.emit(ctx, RequestAnswered{
		EventOrigin: e.origin(), Method: p.Method,
		Feedback: Feedback{Request: p.ID, Method: p.Method, Text: reply.Text, At: time.Now().UTC()},
	})
	e.checkpoint(ctx, checkpoint.RequestAnswered)
	return nil
}

// takeAnswer records an answer that came from outside, and has the method run again.
func (e *engine) takeAnswer(ctx context.Context, p *pending, reply Reply) (scheduler.Step, error) {
	step, err := e.sched.Wake(p.Seq)
	if err != nil {
		return step, fail("take an answer", e.flowID, err)
	}
	return step, e.recordAnswer(ctx, p, reply)
}

// suspend takes in a call that waits for the answer of its last question. Nothing of it is
// kept but the answers it had.
func (e *engine) suspend(ctx context.Context, call *activation) {
	if err := e.sched.Park(call.seq); err != nil {
		e.fails(fail("run", e.flowID, err))
		return
	}
	for _, p := range e.pending {
		if p.Seq == call.seq {
			e.emit(ctx, MethodPaused{EventOrigin: e.origin(), Request: requests([]*pending{p})[0]})
		}
	}
}

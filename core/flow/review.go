package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// errLater is the method's error when an answer comes later and the run could not be resumed
// with it.
var errLater = fmt.Errorf("the answer comes later, and the run would have to be stored until then: %w", errNoStore)

// review opens the request of a method whose function has returned: stored first, then told.
// The race that the call may be in is decided by that.
func (e *engine) review(ctx, methods context.Context, r callResult) scheduler.Step {
	step, err := e.sched.Decide(r.call.seq)
	if err == nil {
		err = e.sched.Park(r.call.seq)
	}
	if err != nil {
		e.fails(fail("run", e.flowID, err))
		return scheduler.Step{}
	}
	e.lose(step.Cancel)
	m := e.methods[r.call.index]
	p := &pending{Seq: r.call.seq, Review: true, Request: Request{
		ID: reviewID(r.call.id), Flow: e.flow, FlowID: e.flowID, Method: r.call.method, ActivationID: r.call.id,
		Message: m.review.Message, Outcomes: m.review.names(), Default: string(m.review.Default),
		Output: r.output, Metadata: m.review.Metadata, At: time.Now().UTC(),
	}}
	if e.openRequest(ctx, p) {
		e.consult(ctx, methods, p, r.call.index)
	}
	return scheduler.Step{}
}

// reviewID is the id of the request that follows a call.
func reviewID(call string) string { return call + "/review" }

// openRequest enters a request and stores it, so that it is known before anyone is told.
func (e *engine) openRequest(ctx context.Context, p *pending) bool {
	e.pending = append(e.pending, p)
	e.note(LogEntry{Kind: Asked, ID: p.ID, Request: p.ID, Method: p.Method})
	if e.cfg.store != nil {
		if err := e.write(ctx, p.Method, p.ID); err != nil {
			e.fails(&SaveError{Flow: e.flow, FlowID: e.flowID, Method: p.Method, Err: err})
			return false
		}
	}
	p.stored = e.cfg.store != nil
	e.emit(ctx, RequestOpened{EventOrigin: e.origin(), Request: requests([]*pending{p})[0]})
	e.checkpoint(ctx, checkpoint.RequestOpened)
	return true
}

// consult asks the provider, on a goroutine of its own. Nobody to ask is an answer that comes
// later.
func (e *engine) consult(ctx, methods context.Context, p *pending, index int) {
	call := &activation{engine: e, flowID: e.flowID, method: p.Method, id: p.ActivationID, seq: p.Seq, index: index, asks: p}
	if e.cfg.provider == nil {
		e.replied(ctx, callResult{call: call, reply: Reply{Later: true}})
		return
	}
	if len(e.errs) == 0 && ctx.Err() == nil {
		e.asking++
		e.begin(methods, call)
	}
}

// ask is what consult's goroutine does. The outcome is settled here, too, since a classifier
// may take its time.
func (e *engine) ask(ctx context.Context, call *activation, r *callResult) {
	q := call.asks.Request
	r.reply, r.err = e.cfg.provider.Request(ctx, requests([]*pending{call.asks})[0])
	if r.err != nil {
		r.err = fmt.Errorf("request %q: its provider: %w", q.ID, r.err)
		return
	}
	if !r.reply.Later && call.asks.Review {
		r.feedback, r.err = judge(ctx, e.methods[call.index].review, &q, r.reply)
	}
}

// replied takes in what a provider came back with.
func (e *engine) replied(ctx context.Context, r callResult) scheduler.Step {
	p := r.call.asks
	if !slices.Contains(e.pending, p) {
		return scheduler.Step{} // withdrawn meanwhile
	}
	if r.err == nil && r.reply.Later && !p.stored {
		r.err = errLater
	}
	switch {
	case r.err != nil:
		e.interrupted = true
		e.failed(ctx, r)
		return scheduler.Step{}
	case r.reply.Later:
		e.emit(ctx, MethodPaused{EventOrigin: e.origin(), Request: requests([]*pending{p})[0]})
		return scheduler.Step{}
	}
	step, err := e.answer(ctx, p, r.call.index, r.reply, r.feedback)
	if err != nil {
		e.fails(err)
		return scheduler.Step{}
	}
	return step
}

// answer takes an answer in, whatever it is an answer to.
func (e *engine) answer(ctx context.Context, p *pending, index int, reply Reply, fb Feedback) (scheduler.Step, error) {
	if !p.Review {
		return e.takeAnswer(ctx, p, reply)
	}
	return e.take(ctx, p, index, fb)
}

// take completes a reviewed method with its feedback. It is the one way, whether the answer
// came at once or to another process.
func (e *engine) take(ctx context.Context, p *pending, index int, fb Feedback) (scheduler.Step, error) {
	record, err := encodeJSON(fb)
	if err != nil {
		return scheduler.Step{}, fail("take feedback", e.flowID, err)
	}
	done := scheduler.Result{Output: record}
	if fb.Outcome != "" {
		done = scheduler.Result{Output: p.Output, Label: fb.Outcome, With: record}
	}
	e.note(LogEntry{Kind: Answered, ID: p.ID + "/answer", Request: p.ID, Method: p.Method, Label: fb.Outcome})
	e.noteCompletion(p.Seq, done.Label)
	step, err := e.sched.CompleteWith(p.Seq, done)
	if err != nil {
		return scheduler.Step{}, fail("take feedback", e.flowID, err)
	}
	e.noteEnd(&step)
	e.close(p)
	e.feedback = append(e.feedback, fb)
	e.record(callResult{call: &activation{method: p.Method}, result: result{output: done.Output}})
	switch {
	case e.persists(index):
		err = e.save(ctx, p.Method, index)
	case p.stored:
		err = e.write(ctx, p.Method, p.ID) // else it would be stored as open for ever
	}
	if err != nil {
		return scheduler.Step{}, &SaveError{Flow: e.flow, FlowID: e.flowID, Method: p.Method, Err: err}
	}
	e.emit(ctx, RequestAnswered{EventOrigin: e.origin(), Method: p.Method, Feedback: fb})
	e.checkpoint(ctx, checkpoint.MethodFinished)
	e.emit(ctx, MethodFinished{
		EventOrigin: e.origin(), Method: p.Method, ActivationID: p.ActivationID, Output: slices.Clone(done.Output), Label: done.Label,
	})
	return step, nil
}

// pauses reports whether all that is left to do is to wait for answers.
func (e *engine) pauses() bool {
	waits := func(a *scheduler.Activation) bool { return a.Waiting }
	return len(e.sched.Active()) > 0 && !slices.ContainsFunc(e.sched.Active(), func(a *scheduler.Activation) bool { return !waits(a) })
}

// claim takes the answers of a Resume in before anything runs.
func (e *engine) claim(ctx context.Context, step *scheduler.Step) error {
	for _, a := range e.cfg.answers {
		if a.reply.Later {
			return errors.New("an Answer cannot come later")
		}
		p, err := e.find(a.id)
		if err != nil {
			return err
		}
		index, _ := e.graph.Index(p.Method)
		var fb Feedback
		if p.Review {
			if fb, err = judge(ctx, e.methods[index].review, &p.Request, a.reply); err != nil {
				return err
			}
		}
		next, err := e.answer(ctx, p, index, a.reply, fb)
		if err != nil {
			return err
		}
		step.Start, step.Refused = append(step.Start, next.Start...), append(step.Refused, next.Refused...)
	}
	return nil
}

package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// engine performs one run: it executes the scheduler's commands. Everything but the methods
// happens on the goroutine that called Kickoff or Resume, one thing at a time; mu guards
// what the methods' goroutines read meanwhile.
type engine struct {
	flow        string
	methods     []method
	graph       *scheduler.Graph
	output      string
	fingerprint *fingerprint
	cfg         *runConfig

	flowID      string
	runID       string
	from        string
	writer      string
	saves       uint64
	revision    core.Revision
	sched       *scheduler.State
	lastMethod  string
	outputs     []MethodOutput
	keepOutputs bool
	eventSeq    uint64
	pending     []*pending
	answering   string // the foreign request that the next save answers, or ""
	feedback    []Feedback
	answers     map[uint64][]string // by Seq of calls that are not over, to the questions inside them
	untold      []*pending          // are to be told again
	recorder    *checkpoint.Recorder
	journal     journal
	opened      bool    // FlowStarted was emitted
	early       []Event // what happened before

	mu        sync.RWMutex
	committed json.RawMessage
	version   uint64 // counts the changes of committed in this process
	last      map[string]json.RawMessage

	results     chan callResult
	idle        chan *activation // to a goroutine that has nothing to do
	waiting     atomic.Int32     // such goroutines
	workers     sync.WaitGroup
	inFlight    int
	asking      int                     // of inFlight, questions to the provider
	due         []*scheduler.Activation // wait for others to end
	calls       map[uint64]*activation  // by Seq, those in flight
	held        map[uint64]*MethodError // by Seq, failures of members of undecided races
	cut         context.CancelCauseFunc // ends the methods' context
	errs        []error                 // why the run fails
	paused      bool                    // the run ended because all that is left is to wait
	interrupted bool                    // somebody who was asked did not answer
	unsaved     bool                    // a save failed; nothing is saved from then on
}

// activation is one call of a method, as its Run sees it.
type activation struct {
	engine  *engine
	flowID  string
	method  string
	number  int
	id      string
	seq     uint64
	index   int
	payload json.RawMessage

	racing *scheduler.Activation   // in a race, else nil
	ctx    context.Context         // of a racing call: ends when the race is lost; else nil
	stop   context.CancelCauseFunc // ends ctx
	lost   bool                    // for the run's goroutine
	dialog dialog                  // with people, inside the method
	asks   *pending                // not a call, but a question to the provider
}

// callResult is how a method's goroutine reports.
type callResult struct {
	call *activation
	result
	updates  committer
	err      error
	reply    Reply    // to a question
	feedback Feedback // what reply means
	paused   bool     // the call waits for an answer
	note     *note    // not the end of a call, but something to be done for one
}

// errCut is the cause of the end of a method's context when the run is cut short because of
// another method.
var errCut = errors.New("the run was cut short")

func (e *engine) limits() scheduler.Limits {
	l := scheduler.Limits{Run: e.cfg.runBudget, Method: make([]int, len(e.methods))}
	for i := range e.methods {
		l.Method[i] = e.methods[i].budget
		if l.Method[i] == 0 {
			l.Method[i] = e.cfg.methodBudget
		}
	}
	return l
}

// open announces the run.
func (e *engine) open(ctx context.Context, started FlowStarted) {
	e.keepOutputs = e.keepOutputs || e.cfg.keepOutputs
	e.opened = true
	e.emit(ctx, started)
	for _, ev := range e.early {
		e.emit(ctx, ev)
	}
	e.early = nil
}

// run executes step and all that follows. When it returns no goroutine of the run is left,
// also when an observer panicked.
func (e *engine) run(ctx context.Context, step scheduler.Step) error {
	methods, cut := context.WithCancelCause(ctx)
	e.cut = cut
	e.results, e.idle = make(chan callResult), make(chan *activation)
	e.calls, e.held = map[uint64]*activation{}, map[uint64]*MethodError{}
	defer func() {
		cut(errCut)
		for e.inFlight > 0 {
			if r := <-e.results; r.note != nil {
				r.note.refuse()
				continue
			}
			e.inFlight--
		}
		close(e.idle)
		e.workers.Wait()
	}()
	e.execute(ctx, methods, step)
	for _, p := range e.untold {
		index, _ := e.graph.Index(p.Method)
		e.consult(ctx, methods, p, index)
	}
	for e.inFlight > 0 {
		r := <-e.results
		if r.note != nil {
			r.note.take(ctx)
			continue
		}
		e.inFlight--
		delete(e.calls, r.call.seq)
		e.execute(ctx, methods, e.settle(ctx, methods, r))
	}
	if ctx.Err() != nil && len(e.sched.Active()) > 0 && (e.interrupted || !e.pauses()) {
		e.errs = append(e.errs, fail("run", e.flowID, ended(ctx)))
	}
	return e.finish(ctx)
}

// finish ends the run as a failure, a pause, or for good.
func (e *engine) finish(ctx context.Context) error {
	if len(e.errs) == 0 {
		e.paused = e.pauses()
		e.checkpoint(ctx, map[bool]checkpoint.Trigger{true: checkpoint.FlowPaused, false: checkpoint.FlowFinished}[e.paused])
	} else {
		e.checkpoint(ctx, checkpoint.FlowFailed)
	}
	if err := e.failure(); err != nil {
		e.paused = false
		e.emit(ctx, FlowFailed{EventOrigin: e.origin(), Err: err})
		return err
	}
	if e.paused {
		e.emit(ctx, FlowPaused{EventOrigin: e.origin(), Requests: requests(e.pending)})
		return nil
	}
	e.emit(ctx, FlowFinished{EventOrigin: e.origin(), Output: e.finalOutput(), State: slices.Clone(e.committed)})
	return nil
}

// fails notes why the run fails and cuts what is in flight.
func (e *engine) fails(err error) {
	e.errs = append(e.errs, err)
	e.cut(errCut)
}

// execute starts methods as far as the limit of concurrency allows, unless the run is
// failing: then they stay due.
func (e *engine) execute(ctx, methods context.Context, step scheduler.Step) {
	for _, r := range step.Refused {
		e.fails(&BudgetError{Flow: e.flow, FlowID: e.flowID, Method: e.methods[r.Method].name, Limit: r.Limit, OfRun: r.OfRun})
	}
	e.due = append(e.due, step.Start...)
	for len(e.due) > 0 && (e.cfg.concurrency < 1 || e.inFlight-e.asking < e.cfg.concurrency) {
		if len(e.errs) > 0 || ctx.Err() != nil {
			return
		}
		a := e.due[0]
		e.due = slices.Delete(e.due, 0, 1)
		call := e.newCall(methods, a)
		e.emit(ctx, MethodStarted{
			EventOrigin: e.origin(), Method: call.method, ActivationID: call.id, Call: call.number, Payload: slices.Clone(a.Payload),
		})
		e.begin(methods, call)
	}
}

// begin gives a call to a goroutine.
func (e *engine) begin(methods context.Context, call *activation) {
	e.inFlight++
	select {
	case e.idle <- call:
	default:
		e.workers.Go(func() { e.work(methods, call) })
	}
}

func (e *engine) newCall(methods context.Context, a *scheduler.Activation) *activation {
	call := &activation{
		engine: e, flowID: e.flowID, method: e.methods[a.Method].name, number: a.Call,
		id: e.callID(a.Seq), seq: a.Seq, index: a.Method, payload: a.Payload,
	}
	if a.Race != 0 {
		call.racing = a
		call.ctx, call.stop = context.WithCancelCause(methods)
	}
	call.dialog.recorded = slices.Clone(e.answers[a.Seq])
	e.calls[a.Seq] = call
	return call
}

// maxIdle is how many goroutines of a run wait for the next call instead of ending. Few are
// enough: a run that is not in a wide join has few calls at a time.
const maxIdle = 16

// work performs one call and then others, until the run is over or enough goroutines wait.
// Reusing them is not for speed: ended ones are what would make the heap of a long run grow.
func (e *engine) work(ctx context.Context, call *activation) {
	for ok := true; ok; {
		e.perform(ctx, call)
		if e.waiting.Add(1) > maxIdle {
			e.waiting.Add(-1)
			return
		}
		call, ok = <-e.idle
		e.waiting.Add(-1)
	}
}

// perform calls a method and always reports, even if the method panics or ends the goroutine.
func (e *engine) perform(ctx context.Context, call *activation) {
	r := callResult{call: call, err: &PanicError{Value: "the method ended its goroutine"}}
	defer func() {
		if p := recover(); p != nil {
			r.err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		r.paused = call.dialog.end()
		if call.stop != nil {
			call.stop(nil)
		}
		e.results <- r
	}()
	if call.ctx != nil {
		ctx = call.ctx
	}
	if call.asks != nil {
		r.err = nil
		e.ask(ctx, call, &r)
		return
	}
	r.result, r.updates, r.err = e.attempts(ctx, call)
}

// settle takes the end of a call in: commit, schedule, save, announce. It returns what is to
// start next.
func (e *engine) settle(ctx, methods context.Context, r callResult) scheduler.Step {
	if r.call.asks != nil {
		e.asking--
		return e.replied(ctx, r)
	}
	if r.call.lost {
		e.emit(ctx, MethodFailed{EventOrigin: e.origin(), Method: r.call.method, ActivationID: r.call.id, Err: ErrLost, Canceled: true})
		return scheduler.Step{}
	}
	if r.paused {
		e.suspend(ctx, r.call)
		return scheduler.Step{}
	}
	if r.err == nil {
		r.err = e.commit(&r)
	}
	if r.err != nil {
		e.failed(ctx, r)
		return scheduler.Step{}
	}
	e.over(r.call.seq)
	if e.methods[r.call.index].review != nil {
		return e.review(ctx, methods, r)
	}
	e.noteCompletion(r.call.seq, r.label)
	step, err := e.sched.Complete(r.call.seq, r.output, r.label)
	if err != nil {
		e.fails(fail("run", e.flowID, err))
		return scheduler.Step{}
	}
	e.noteEnd(&step)
	e.lose(step.Cancel)
	e.record(r)
	if err := e.save(ctx, r.call.method, r.call.index); err != nil {
		e.fails(&SaveError{Flow: e.flow, FlowID: e.flowID, Method: r.call.method, Err: err})
		return scheduler.Step{}
	}
	e.checkpoint(ctx, checkpoint.MethodFinished)
	e.emit(ctx, MethodFinished{
		EventOrigin: e.origin(), Method: r.call.method, ActivationID: r.call.id, Output: slices.Clone(r.output), Label: r.label,
	})
	return step
}

// failed takes a call that returned an error in. A call that only obeyed the end of its
// context, after the run was cut for another reason, adds no error of its own.
func (e *engine) failed(ctx context.Context, r callResult) {
	obeyed := errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, errCut)
	canceled := obeyed && (len(e.errs) > 0 || ctx.Err() != nil)
	err := &MethodError{Flow: e.flow, FlowID: e.flowID, Method: r.call.method, ActivationID: r.call.id, Err: r.err}
	e.emit(ctx, MethodFailed{EventOrigin: e.origin(), Method: err.Method, ActivationID: err.ActivationID, Err: r.err, Canceled: canceled})
	switch {
	case canceled:
	case r.call.racing != nil:
		e.hold(r.call, err)
	default:
		e.fails(err)
	}
}

// ended is why a context ended: its own error and, if it was given one, the cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// commit makes a completed call's updates the committed state. The flow's id may change with
// it: what is saved from then on is saved as a new flow.
func (e *engine) commit(r *callResult) error {
	next, err := r.updates.commit(e.committed, e.version)
	if err != nil || next == nil {
		return err
	}
	next, id, err := stampID(next, e.flowID)
	if err != nil {
		return err
	}
	if id != e.flowID {
		if err := core.ValidateID(id); err != nil {
			return err
		}
		e.flowID, e.revision = id, core.Revision{}
	}
	e.replace(next)
	return nil
}

func (e *engine) replace(state json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.committed = state
	e.version++
}

// record notes a completion's output.
func (e *engine) record(r callResult) {
	e.lastMethod = r.call.method
	e.mu.Lock()
	e.last[r.call.method] = r.output
	e.mu.Unlock()
	if e.keepOutputs {
		e.outputs = append(e.outputs, MethodOutput{Method: r.call.method, Output: r.output})
	}
}

func (e *engine) snapshot() (json.RawMessage, uint64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.committed, e.version
}

func (e *engine) latest(method string) (json.RawMessage, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	raw, ok := e.last[method]
	return raw, ok
}

// finalOutput is the flow's output as far as it is known.
func (e *engine) finalOutput() json.RawMessage {
	method := e.lastMethod
	if e.output != "" {
		method = e.output
	}
	return slices.Clone(e.last[method])
}

func (e *engine) origin() EventOrigin {
	e.eventSeq++
	return EventOrigin{Flow: e.flow, FlowID: e.flowID, Seq: e.eventSeq, Time: time.Now()}
}

func (e *engine) emit(ctx context.Context, ev Event) {
	if !e.opened {
		e.early = append(e.early, ev)
		return
	}
	for _, o := range e.cfg.observers {
		o(ctx, ev)
	}
}

package flow

import (
	"errors"
	"maps"
	"slices"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// lose ends the calls that lost a race. What they come back with is not looked at; the run
// waits for them before it ends.
func (e *engine) lose(losers []*scheduler.Activation) {
	for _, a := range losers {
		delete(e.held, a.Seq)
		e.over(a.Seq)
		e.due = slices.DeleteFunc(e.due, func(d *scheduler.Activation) bool { return d.Seq == a.Seq })
		if call := e.calls[a.Seq]; call != nil {
			call.lost = true
			call.stop(ErrLost)
		}
	}
}

// hold notes the failure of a member of a race, which only matters if every member fails:
// then the run fails with all of it. The scheduler is not told, so that a failed member is
// due again when the flow is resumed before the race is decided.
func (e *engine) hold(call *activation, err *MethodError) {
	e.held[call.seq] = err
	race := []error{err}
	for _, rival := range e.sched.Rivals(call.racing) {
		failed, ok := e.held[rival.Seq]
		if !ok {
			return
		}
		race = append(race, failed)
	}
	for _, rival := range e.sched.Rivals(call.racing) {
		delete(e.held, rival.Seq)
	}
	delete(e.held, call.seq)
	e.fails(errors.Join(race...))
}

// failure is why the run failed, or nil: then errors of undecided races are not lost either.
func (e *engine) failure() error {
	if len(e.errs) == 0 {
		return nil
	}
	for _, seq := range slices.Sorted(maps.Keys(e.held)) {
		e.errs = append(e.errs, e.held[seq])
	}
	return errors.Join(e.errs...)
}

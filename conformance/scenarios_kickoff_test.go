package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
)

// kickoffScenarios are what a run begins with: inputs, a stored state, another flow's state,
// or what a run before it had completed.
var kickoffScenarios = []scenario{
	{"KH-01", inputsOverStoredState},
	{"KH-02", resumedAndForked},
	{"KH-04", forkOfNothing},
	{"KH-05", checkpointOrState},
	{"KH-06", freshID},
	{"KH-07", inputsThatDoNotFit},
	{"KH-09", loopUnderAFreshID},
	{"KH-10", completedStepsAreSkipped},
	{"KH-11", completedConditionalStartIsSkipped},
	{"KH-12", methodLevelRestores},
	{"KH-13", unknownIDIsAnErrorOnRequest},
	{"KH-14", forkKnowsItsSource},
}

func TestScenariosKickoff(t *testing.T) { play(t, kickoffScenarios) }

func inputsOverStoredState(t *testing.T) {
	store := newStore(t)
	b := flow.New[ledger]("original")
	flow.Start(b, "begin", func(_ context.Context, run *ledgerRun) (any, error) {
		return nil, run.State().Update(func(s *ledger) error {
			if s.Counter == 0 {
				s.Counter, s.Message = 42, "Original message"
			}
			return nil
		})
	})
	def := build(t, b)
	first := kickoff(t, def, nil, flow.WithStore(store), flow.Persist())
	for _, c := range []struct {
		in      flow.Inputs
		counter int
		message string
	}{
		{flow.Inputs{"counter": 43}, 43, "Original message"},
		{flow.Inputs{"message": "Updated message"}, 43, "Updated message"},
	} {
		c.in["id"] = first.FlowID
		res := kickoff(t, def, c.in, flow.WithStore(store), flow.Persist())
		if s := res.State; s.ID != first.FlowID || s.Counter != c.counter || s.Message != c.message {
			t.Errorf("with %v the state is %+v", c.in, s)
		}
	}
}

func resumedAndForked(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "step")
	with := []flow.RunOption{flow.WithStore(store), flow.Persist()}
	source := kickoff(t, def, nil, with...).FlowID
	want(t, "the first run's counter", stateOf[ledger](t, store, source).Counter, 1)
	kickoff(t, def, flow.Inputs{"id": source}, with...)
	want(t, "the second run's counter", stateOf[ledger](t, store, source).Counter, 2)
	fork := kickoff(t, def, nil, append(with, flow.RestoreFrom(source))...)
	want(t, "the fork has the source's id", fork.FlowID == source, false)
	want(t, "the fork's counter", fork.State.Counter, 3)
	want(t, "the source's stored counter", stateOf[ledger](t, store, source).Counter, 2)
	want(t, "the fork's stored counter", stateOf[ledger](t, store, fork.FlowID).Counter, 3)
}

func forkOfNothing(t *testing.T) {
	store, s := newStore(t), &stage{}
	for _, opts := range [][]flow.RunOption{{flow.RestoreFrom("no-such-uuid")}, nil} {
		res := kickoff(t, s.chain(t, "step"), nil, append(opts, flow.WithStore(store), flow.Persist())...)
		if res.State.Counter != 1 || res.FlowID == "no-such-uuid" || res.FlowID == "" {
			t.Errorf("it ends as %+v", res.State)
		}
	}
	if _, err := store.LoadState(t.Context(), "no-such-uuid"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("there is such a flow now: %v", err)
	}
}

func checkpointOrState(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	_, err := s.chain(t, "step").Kickoff(t.Context(), nil, flow.WithStore(store), flow.Persist(), told.option(),
		flow.FromCheckpoint(checkpoint.Ref{}), flow.RestoreFrom("x"))
	if err == nil || !strings.Contains(err.Error(), "FromCheckpoint") || !strings.Contains(err.Error(), "RestoreFrom") {
		t.Errorf("got %v", err)
	}
	want(t, "what happened", s.takeRan()+told.String()+store.takeSaves(), "")
}

func freshID(t *testing.T) {
	store, s := newStore(t), &stage{}
	s.before = map[string]func() error{"b": func() error {
		want(t, "the counter that is stored under the given id", stateOf[ledger](t, store, "fresh-1").Counter, 1)
		return nil
	}}
	res := kickoff(t, s.chain(t, "a", "b"), flow.Inputs{"id": "fresh-1"}, flow.WithStore(store), flow.Persist())
	want(t, "the id in the state", res.State.ID, "fresh-1")
	want(t, "methods that ran", s.takeRan(), "a b")
}

func inputsThatDoNotFit(t *testing.T) {
	s := &stage{}
	_, err := s.chain(t, "step").Kickoff(t.Context(), flow.Inputs{"counter": "abc"})
	var bad *flow.InputError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "invalid inputs") {
		t.Errorf("got %v", err)
	}
	want(t, "methods that ran", s.takeRan(), "")
}

// A store and an id that it does not have must not make the run skip anything.
func loopUnderAFreshID(t *testing.T) {
	const typeA, exit = flow.Label[any]("type_a"), flow.Label[any]("exit")
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("loop")
	begin := flow.Start(b, "begin", s.start)
	flow.Router(b, "classify", s.choose(func(call int) flow.Label[any] {
		if call <= 3 {
			return typeA
		}
		return exit
	}), flow.Or(flow.Any(begin), flow.Any(flow.On[string]("capture"))), flow.Emits(typeA, exit))
	handle := flow.Listen(b, "handle", s.listen, typeA)
	send := flow.Listen(b, "send", s.listen, flow.Any(handle))
	flow.Listen(b, "capture", s.listen, flow.Any(send))
	flow.Listen(b, "finish", s.listen, exit)
	res := kickoff(t, build(t, b), flow.Inputs{"id": "unseen"}, flow.WithStore(store), flow.Persist())
	want(t, "calls", fmt.Sprint(res.Completed), "map[begin:1 capture:3 classify:4 finish:1 handle:3 send:3]")
	round := "classify handle send capture "
	want(t, "methods that ran", s.takeRan(), "begin "+strings.Repeat(round, 3)+"classify finish")
}

func completedStepsAreSkipped(t *testing.T) {
	store, s := newStore(t), &stage{before: map[string]func() error{"step_3": func() error { return errKilled }}}
	def := s.chain(t, "step_1", "step_2", "step_3")
	stops(t, def, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist())
	s.before = nil
	s.takeRan()
	res := resume(t, def, "f", flow.WithStore(store.elsewhere()))
	want(t, "methods that ran", s.takeRan(), "step_3")
	want(t, "the counter", res.State.Counter, 3)
}

// errKilled is how a method ends that stands for a killed process.
var errKilled = errors.New("killed")

func completedConditionalStartIsSkipped(t *testing.T) {
	const branchA, branchB = flow.Label[any]("branch_a"), flow.Label[any]("branch_b")
	store, s := newStore(t), &stage{before: map[string]func() error{"branch_a_process": func() error { return errKilled }}}
	b := flow.New[ledger]("branches")
	begin := flow.Start(b, "init", s.start)
	flow.Router(b, "route_to_branch", s.choose(always(branchA)), flow.Any(begin), flow.Emits(branchA, branchB))
	onA := flow.Start(b, "branch_a_start", s.start, flow.When(branchA))
	onB := flow.Start(b, "branch_b_start", s.start, flow.When(branchB))
	flow.Listen(b, "branch_a_process", s.listen, flow.Any(onA))
	flow.Listen(b, "branch_b_process", s.listen, flow.Any(onB))
	def := build(t, b)
	stops(t, def, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist())
	want(t, "methods that ran before", s.takeRan(), "init route_to_branch branch_a_start branch_a_process")
	s.before = nil
	resume(t, def, "f", flow.WithStore(store.elsewhere()))
	want(t, "methods that ran", s.takeRan(), "branch_a_process")
}

func methodLevelRestores(t *testing.T) {
	store, s := newStore(t), &stage{opts: map[string][]flow.MethodOption{"step": {flow.Persist()}}}
	def := s.chain(t, "step")
	for run := 1; run <= 2; run++ {
		res := kickoff(t, def, flow.Inputs{"id": "f"}, flow.WithStore(store))
		want(t, "the counter", res.State.Counter, run)
		want(t, "the stored counter", stateOf[ledger](t, store, "f").Counter, run)
	}
}

func unknownIDIsAnErrorOnRequest(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "step")
	for _, opts := range [][]flow.RunOption{nil, {flow.RestoreFrom("typo")}} {
		_, err := def.Kickoff(t.Context(), flow.Inputs{"id": "typo"}, append(opts, flow.WithStore(store), flow.Persist(), flow.MustExist())...)
		if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "typo") {
			t.Errorf("got %v", err)
		}
	}
	want(t, "what happened", s.takeRan()+store.takeSaves(), "")
	res := kickoff(t, def, flow.Inputs{"id": "typo"}, flow.WithStore(store))
	want(t, "the counter of a run that need not find it", res.State.Counter, 1)
}

// A fork by id tells its observers and its log from which revision of which flow it began.
func forkKnowsItsSource(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.chain(t, "a", "b")
	source := kickoff(t, def, flow.Inputs{"id": "source"}, flow.WithStore(store), flow.Persist())
	fork := kickoff(t, def, nil, flow.RestoreFrom("source"), flow.WithStore(store), flow.Persist(), flow.KeepLog(), told.option())
	begun := told.all[0].(flow.FlowStarted)
	want(t, "the flow that observers are told of", begun.RestoredFrom, "source")
	want(t, "the revision that observers are told of", begun.RestoredRevision, source.Revision)
	entry := logOf(t, store, fork.FlowID)[0]
	want(t, "the flow in the log", entry.From, "source")
	want(t, "the revision in the log", entry.FromRevision, 2)

	again := kickoff(t, def, flow.Inputs{"id": "source"}, flow.WithStore(store), flow.Persist(), flow.KeepLog())
	entry = logOf(t, store, again.FlowID)[0]
	if entry.From != "" || entry.FromRevision != 0 {
		t.Errorf("a run that is no fork begins with %+v", entry)
	}
}

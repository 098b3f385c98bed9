package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// counter is a flow that adds one to its state.
func counter(t *testing.T, opts ...flow.MethodOption) *flow.Definition[tally] {
	t.Helper()
	b := flow.New[tally]("counter")
	flow.Start(b, "step", func(_ context.Context, run *tallyRun) (string, error) {
		return "", run.State().Update(func(s *tally) error { s.N++; return nil })
	}, opts...)
	return mustBuild(t, b)
}

func TestInputsCoverTheStoredStateAndTheStoredStateTheDefaults(t *testing.T) {
	type chat struct {
		ID      string `json:"id"`
		Counter int    `json:"counter"`
		Message string `json:"message"`
		Added   string `json:"added"`
	}
	store := coretest.New()
	put(t, store, "u", `{"id":"u","counter":42,"message":"Original message"}`)
	b := flow.New[chat]("f")
	b.Initial(func() chat { return chat{Counter: 7, Added: "default"} })
	flow.Start(b, "a", func(context.Context, *flow.Run[chat]) (int, error) { return 0, nil })
	def := mustBuild(t, b)
	run := func(in flow.Inputs) chat {
		t.Helper()
		res, err := def.Kickoff(t.Context(), in, flow.WithStore(store), flow.Persist())
		if err != nil {
			t.Fatal(err)
		}
		return res.State
	}
	if got := run(flow.Inputs{"id": "u", "counter": 43}); got != (chat{"u", 43, "Original message", "default"}) {
		t.Errorf("inputs over stored over defaults: %+v", got)
	}
	if got := run(flow.Inputs{"id": "u", "message": "Updated message"}); got != (chat{"u", 43, "Updated message", "default"}) {
		t.Errorf("the next run: %+v", got)
	}
	if got := run(nil); got.Counter != 7 || len(got.ID) != 36 {
		t.Errorf("a new flow: %+v", got)
	}
}

func put(t *testing.T, store core.FlowPersistence, id, state string) {
	t.Helper()
	if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: id, State: json.RawMessage(state)}); err != nil {
		t.Fatal(err)
	}
}

func TestForkLeavesItsSourceAlone(t *testing.T) {
	store := coretest.New()
	def := counter(t, flow.Persist()) // method-level persistence alone restores too
	run := func(in flow.Inputs, opts ...flow.RunOption) *flow.Result[tally] {
		t.Helper()
		res, err := def.Kickoff(t.Context(), in, append(opts, flow.WithStore(store))...)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	source := run(nil)
	var begun flow.FlowStarted
	watch := flow.WithObserver(func(_ context.Context, e flow.Event) {
		if started, ok := e.(flow.FlowStarted); ok {
			begun = started
		}
	})
	if again := run(flow.Inputs{"id": source.FlowID}); again.State.N != 2 {
		t.Errorf("the second run counts %d", again.State.N)
	}
	fork := run(nil, flow.RestoreFrom(source.FlowID), watch, flow.KeepLog())
	if log := logOf(t, store, fork.FlowID); begun.RestoredFrom != source.FlowID || begun.RestoredRevision.N != 2 || log[0].From != source.FlowID || log[0].FromRevision != 2 {
		t.Errorf("the fork begins as %+v, its log with %+v", begun, log[0])
	}
	named := run(flow.Inputs{"id": "mine"}, flow.RestoreFrom(source.FlowID))
	if fork.State.N != 3 || fork.FlowID == source.FlowID || named.FlowID != "mine" || named.State.ID != "mine" {
		t.Errorf("fork %+v, named %+v", fork, named)
	}
	if snap, _ := store.LoadState(t.Context(), source.FlowID); !strings.Contains(string(snap.State), `"n":2`) {
		t.Errorf("the source is now %s", snap.State)
	}
	if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": "mine"}, flow.RestoreFrom(source.FlowID), flow.WithStore(store)); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a fork onto a flow that exists: %v", err)
	}
}

func TestAFlowThatDoesNotExistBeginsAfreshUnlessItMust(t *testing.T) {
	store := coretest.New()
	def := counter(t)
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "fresh-1"}, flow.WithStore(store), flow.Persist())
	if err != nil || res.FlowID != "fresh-1" || res.State.N != 1 {
		t.Errorf("by id: %+v, %v", res, err)
	}
	res, err = def.Kickoff(t.Context(), nil, flow.WithStore(store), flow.RestoreFrom("nobody"))
	if err != nil || res.FlowID == "nobody" || res.State.N != 1 {
		t.Errorf("by fork: %+v, %v", res, err)
	}
	for _, opts := range [][]flow.RunOption{{}, {flow.RestoreFrom("nobody")}} {
		res, err = def.Kickoff(t.Context(), flow.Inputs{"id": "none"}, append(opts, flow.MustExist(), flow.WithStore(store))...)
		if res != nil || !errors.Is(err, core.ErrNotFound) {
			t.Errorf("must exist: %+v, %v", res, err)
		}
	}
}

// outage is a store that cannot be reached.
type outage struct{ core.FlowPersistence }

func (outage) LoadState(context.Context, string) (core.Snapshot, error) {
	return core.Snapshot{}, &core.Error{Op: "load state", Err: core.ErrUnavailable}
}

func TestKickoffRefusesBeforeAnythingRuns(t *testing.T) {
	store := coretest.New()
	put(t, store, "no id", `{"n":1}`)
	put(t, store, "misfit", `{"id":"misfit","n":"x"}`)
	b := flow.New[tally]("f")
	b.Prepare(func(s *tally) error {
		if s.N < 0 {
			return errors.New("n is negative")
		}
		if s.N == 99 {
			s.ID = "other"
		}
		return nil
	})
	flow.Start(b, "a", func(context.Context, *tallyRun) (int, error) {
		t.Error("a method ran")
		return 0, nil
	})
	def := mustBuild(t, b)
	var input *flow.InputError
	for _, c := range []struct {
		in    flow.Inputs
		opts  []flow.RunOption
		says  string
		as    any
		class error
	}{
		{in: flow.Inputs{"n": "abc"}, says: "invalid inputs", as: &input},
		{in: flow.Inputs{"nn": 1}, says: `unknown field "nn"`, as: &input},
		{in: flow.Inputs{"id": 7}, says: "non-empty string", as: &input},
		{in: flow.Inputs{"id": nil}, says: "non-empty string", as: &input},
		{in: flow.Inputs{"n": -1}, says: "n is negative", as: &input},
		{in: flow.Inputs{"n": 99}, says: "changed the id", as: &input},
		{in: flow.Inputs{"n": func() {}}, as: &input},
		{in: flow.Inputs{"log": []string{"\xff"}}, says: "UTF-8", as: &input, class: core.ErrInvalidState},
		{in: flow.Inputs{"id": strings.Repeat("x", core.MaxIDBytes+1)}, class: core.ErrInvalidID},
		{in: flow.Inputs{"id": "\xff"}, class: core.ErrInvalidID},
		{in: flow.Inputs{"id": "no id"}, opts: []flow.RunOption{flow.WithStore(store)}, says: "must have an 'id' field", class: core.ErrInvalidState},
		{in: flow.Inputs{"id": "misfit"}, opts: []flow.RunOption{flow.WithStore(store)}, says: "does not fit"},
		{in: flow.Inputs{"id": "x"}, opts: []flow.RunOption{flow.WithStore(outage{store})}, class: core.ErrUnavailable},
		{opts: []flow.RunOption{flow.RestoreFrom("x"), flow.WithStore(outage{store})}, class: core.ErrUnavailable},
		{opts: []flow.RunOption{flow.Persist()}, says: "WithStore"},
		{opts: []flow.RunOption{flow.RestoreFrom("x")}, says: "WithStore"},
	} {
		res, err := def.Kickoff(t.Context(), c.in, c.opts...)
		if err == nil || res != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.in, err)
		}
		if c.as != nil && !errors.As(err, c.as) || c.class != nil && !errors.Is(err, c.class) {
			t.Errorf("%v: the error is a %T: %v", c.in, err, err)
		}
	}
	if _, err := counter(t, flow.Persist()).Kickoff(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `"step"`) {
		t.Errorf("a persisted method without a store: %v", err)
	}
}

// The id in the state decides where a run is saved, also when a method changes it.
func TestAMethodThatSetsTheIDMovesTheRun(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", note("a"))
	m := flow.Listen(b, "move", func(_ context.Context, run *tallyRun, _ any) (int, error) {
		return 0, run.State().Update(func(s *tally) error { s.ID = "moved"; return nil })
	}, flow.Any(a))
	flow.Listen(b, "z", func(ctx context.Context, run *tallyRun, _ any) (string, error) {
		if run.FlowID() != "moved" {
			t.Errorf("the flow is %q", run.FlowID())
		}
		return note("z")(ctx, run)
	}, flow.Any(m))
	def := mustBuild(t, b)
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "here"}, flow.WithStore(store), flow.Persist())
	if err != nil || res.FlowID != "moved" || res.State.ID != "moved" {
		t.Fatalf("%+v, %v", res, err)
	}
	if here, moved := store.Saves("here"), store.Saves("moved"); !reflect.DeepEqual(here, []string{"a"}) || !reflect.DeepEqual(moved, []string{"move", "z"}) {
		t.Errorf("saved here %v, moved %v", here, moved)
	}
	if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": "there"}, flow.WithStore(store), flow.Persist()); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a move onto a flow that exists: %v", err)
	}
}

func TestAMapStateKeepsNumbersExactly(t *testing.T) {
	const text = `{"big":123456789012345678901234567890,"one":1,"onePointNull":1.0,"minus":-0.0,"tiny":1e-400,"nested":[{"n":9007199254740993}]}`
	store := coretest.New()
	put(t, store, "x", `{"id":"x",`+text[1:])
	b := flow.New[map[string]any]("f")
	flow.Start(b, "a", func(_ context.Context, run *flow.Run[map[string]any]) (any, error) {
		return nil, run.State().Update(func(s *map[string]any) error { (*s)["added"] = true; return nil })
	})
	if _, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist()); err != nil {
		t.Fatal(err)
	}
	snap, _ := store.LoadState(t.Context(), "x")
	var got, want map[string]json.RawMessage
	_, _ = json.Unmarshal(snap.State, &got), json.Unmarshal([]byte(text), &want)
	for k := range want {
		if string(got[k]) != string(want[k]) {
			t.Errorf("%s came back as %s", want[k], got[k])
		}
	}
}

func TestAStateWithoutAnIDFieldIsStoredWithOne(t *testing.T) {
	store := coretest.New()
	b := flow.New[struct{ X int }]("f")
	flow.Start(b, "a", func(_ context.Context, run *flow.Run[struct{ X int }]) (int, error) {
		return 0, run.State().Update(func(s *struct{ X int }) error { s.X++; return nil })
	})
	def := mustBuild(t, b)
	for range 2 {
		if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": "<x>"}, flow.WithStore(store), flow.Persist()); err != nil {
			t.Fatal(err)
		}
	}
	if snap, _ := store.LoadState(t.Context(), "<x>"); string(snap.State) != `{"X":2,"id":"<x>"}` {
		t.Errorf("stored is %s", snap.State)
	}
}

func TestInitialStatesAreNotShared(t *testing.T) {
	shared := map[string]any{"list": []any{"a"}}
	b := flow.New[map[string]any]("f")
	b.Initial(func() map[string]any { return shared })
	flow.Start(b, "a", func(_ context.Context, run *flow.Run[map[string]any]) (any, error) {
		return nil, run.State().Update(func(s *map[string]any) error {
			(*s)["list"].([]any)[0] = "changed"
			(*s)["more"] = 1
			return nil
		})
	})
	if _, err := mustBuild(t, b).Kickoff(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shared, map[string]any{"list": []any{"a"}}) {
		t.Errorf("the initial state is now %v", shared)
	}
}

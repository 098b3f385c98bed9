package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// crash runs a flow whose method fails, so that the store holds what a crash in it leaves.
func crash(t *testing.T, store core.FlowPersistence, id string) {
	t.Helper()
	b := flow.New[tally]("chain")
	a := flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", func(context.Context, *tallyRun, any) (string, error) { return "", errors.New("killed") }, flow.Any(a))
	_, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": id}, flow.WithStore(store), flow.Persist())
	if err == nil {
		t.Fatal("it did not crash")
	}
}

func TestResumeGoesOnWhereTheSaveWas(t *testing.T) {
	store := coretest.New()
	crash(t, store, "x")
	var rec recorder
	res, err := chain(t, "a", "b").Resume(t.Context(), "x", flow.WithStore(store), rec.option())
	if err != nil {
		t.Fatal(err)
	}
	want := "FlowStarted MethodStarted:b StateSaved:b MethodFinished:b FlowFinished"
	if rec.names() != want || !reflect.DeepEqual(res.State.Log, []string{"a", "b"}) || !res.Finished {
		t.Errorf("events %s\nstate %+v", rec.names(), res.State)
	}
}

func TestAFinishedFlowResumesToItsRecordedResult(t *testing.T) {
	store := coretest.New()
	def := chain(t, "a", "b")
	first, err := def.Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), flow.KeepOutputs())
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	again, err := def.Resume(t.Context(), "x", flow.WithStore(store), rec.option())
	if err != nil || len(rec.events) != 0 {
		t.Fatalf("err %v, events %s", err, rec.names())
	}
	if !reflect.DeepEqual(first.State, again.State) || string(again.Output) != `"b"` || !again.Finished ||
		!reflect.DeepEqual(first.Outputs, again.Outputs) || first.Revision != again.Revision || again.Completed["a"] != 1 {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
}

func TestResumeRefuses(t *testing.T) {
	store := coretest.New()
	crash(t, store, "x")
	snap, _ := store.LoadState(t.Context(), "x")
	edit := func(id string, change func(map[string]any)) {
		var p map[string]any
		_ = json.Unmarshal(snap.Progress, &p)
		change(p)
		progress, _ := json.Marshal(p)
		if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: id, State: snap.State, Progress: progress}); err != nil {
			t.Fatal(err)
		}
	}
	edit("newer", func(p map[string]any) { p["v"] = 99 })
	edit("newer scheduler", func(p map[string]any) { p["scheduler"].(map[string]any)["v"] = 99 })
	edit("damaged", func(p map[string]any) { p["scheduler"] = []int{1} })
	edit("no version", func(p map[string]any) { delete(p, "v") })
	edit("damaged request", func(p map[string]any) { p["pending"] = []any{map[string]any{"id": "x", "seq": 77}} })
	edit("no request", func(p map[string]any) {
		p["scheduler"].(map[string]any)["active"].([]any)[0].(map[string]any)["waits"] = true
	})
	edit("damaged call", func(p map[string]any) {
		p["scheduler"].(map[string]any)["active"].([]any)[0].(map[string]any)["seq"] = 1e6
	})
	if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "python", State: json.RawMessage(`{"id":"python","n":3}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "misfit", State: json.RawMessage(`{"n":"three"}`), Progress: snap.Progress}); err != nil {
		t.Fatal(err)
	}
	def := chain(t, "a", "b")
	for _, c := range []struct {
		id, says string
		want     error
	}{
		{"nobody", "nobody", core.ErrNotFound},
		{"", "", core.ErrInvalidID},
		{"python", "no progress", core.ErrUnsupported},
		{"newer", "format 99", core.ErrUnsupported},
		{"newer scheduler", "99", core.ErrUnsupported},
		{"damaged", "", core.ErrCorrupt},
		{"no version", "", core.ErrCorrupt},
		{"damaged call", "", core.ErrCorrupt},
		{"damaged request", "request", core.ErrCorrupt},
		{"no request", "waits for no request", core.ErrCorrupt},
		{"misfit", "does not fit", nil},
	} {
		res, err := def.Resume(t.Context(), c.id, flow.WithStore(store))
		if err == nil || res != nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v", c.id, err)
		}
	}
	if _, err := def.Resume(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "WithStore") {
		t.Errorf("without a store: %v", err)
	}
	if _, err := def.Resume(t.Context(), "x", flow.WithStore(store), flow.RestoreFrom("y")); err == nil {
		t.Error("RestoreFrom was accepted by Resume")
	}
}

func TestAChangedGraphIsRefusedAndSaysWhatChanged(t *testing.T) {
	store := coretest.New()
	crash(t, store, "x")
	b := flow.New[tally]("chain")
	flow.Start(b, "a", note("a"))
	flow.Listen(b, "c", noteAny("c"), flow.On[any]("a"))
	changed := mustBuild(t, b)
	_, err := changed.Resume(t.Context(), "x", flow.WithStore(store))
	var e *flow.ChangedError
	if !errors.As(err, &e) || !reflect.DeepEqual(e.Added, []string{"c"}) || !reflect.DeepEqual(e.Removed, []string{"b"}) || e.Changed != nil {
		t.Fatalf("got %v", err)
	}
	res, err := changed.Resume(t.Context(), "x", flow.WithStore(store), flow.AcceptChanges())
	if err != nil || !reflect.DeepEqual(res.State.Log, []string{"a"}) {
		t.Errorf("accepted: %+v, %v", res, err)
	}

	b = flow.New[tally]("renamed")
	flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", noteAny("b"), flow.Or(flow.On[any]("a"), flow.Label[any]("x")))
	_, err = mustBuild(t, b).Resume(t.Context(), "x", flow.WithStore(store))
	if !errors.As(err, &e) || !reflect.DeepEqual(e.Changed, []string{"b"}) || e.Was != "chain" || !strings.Contains(err.Error(), `"chain"`) {
		t.Errorf("got %v", err)
	}
}

// A method that was in flight runs again as the same activation.
func TestACallThatRunsAgainKeepsItsIdentity(t *testing.T) {
	store := coretest.New()
	var ids []string
	var calls []int
	build := func(fail bool) *flow.Definition[tally] {
		b := flow.New[tally]("chain")
		a := flow.Start(b, "a", note("a"))
		flow.Listen(b, "b", func(_ context.Context, run *tallyRun, in string) (string, error) {
			ids, calls = append(ids, run.ActivationID()), append(calls, run.Call())
			if in != "a" || run.FlowID() != "x" || run.Method() != "b" {
				t.Errorf("payload %q, flow %q, method %q", in, run.FlowID(), run.Method())
			}
			if fail {
				return "", errors.New("killed")
			}
			return "b", nil
		}, a)
		return mustBuild(t, b)
	}
	if _, err := build(true).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist()); err == nil {
		t.Fatal("no failure")
	}
	for _, fail := range []bool{true, false} {
		if _, err := build(fail).Resume(t.Context(), "x", flow.WithStore(store)); (err != nil) != fail {
			t.Fatal(err)
		}
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || calls[2] != 1 {
		t.Errorf("ids %v, calls %v", ids, calls)
	}
}

// Also when the process died before its first save: kicking the same flow off again is the
// same run. A run on top of another state is another run.
func TestAKickoffThatIsRepeatedBeforeItsFirstSaveIsTheSameRun(t *testing.T) {
	store := coretest.New()
	var ids []string
	fail := true
	b := flow.New[tally]("f")
	flow.Start(b, "a", func(_ context.Context, run *tallyRun) (int, error) {
		ids = append(ids, run.ActivationID())
		if fail {
			return 0, errors.New("killed")
		}
		return 0, nil
	})
	def := mustBuild(t, b)
	for i := range 4 {
		fail = i == 0
		in := flow.Inputs{"id": "x"}
		if i == 3 {
			in["n"] = 4
		}
		_, _ = def.Kickoff(t.Context(), in, flow.WithStore(store), flow.Persist())
	}
	if ids[0] != ids[1] || ids[1] == ids[2] || ids[2] == ids[3] {
		t.Errorf("ids %v", ids)
	}
}

// Of two processes that run one flow, the one that saves second stops, and nothing of it is
// stored.
func TestOfTwoResumersOneWins(t *testing.T) {
	store := coretest.New()
	crash(t, store, "x")
	var both sync.WaitGroup
	both.Add(2)
	build := func(who string) *flow.Definition[tally] {
		b := flow.New[tally]("chain")
		a := flow.Start(b, "a", note("a"))
		flow.Listen(b, "b", func(ctx context.Context, run *tallyRun, in any) (string, error) {
			both.Done()
			both.Wait() // both have loaded the flow
			return noteAny(who)(ctx, run, in)
		}, flow.Any(a))
		return mustBuild(t, b)
	}
	type end struct {
		res *flow.Result[tally]
		err error
	}
	ends := make(chan end)
	for _, who := range []string{"one", "two"} {
		go func() {
			res, err := build(who).Resume(t.Context(), "x", flow.WithStore(store))
			ends <- end{res, err}
		}()
	}
	var won, lost *end
	for range 2 {
		switch e := <-ends; {
		case e.err == nil:
			won = &e
		case errors.Is(e.err, core.ErrConflict):
			lost = &e
		default:
			t.Fatal(e.err)
		}
	}
	if won == nil || lost == nil {
		t.Fatal("there was no winner, or no loser")
	}
	var save *flow.SaveError
	if !errors.As(lost.err, &save) || save.Method != "b" || lost.res.Finished {
		t.Errorf("the loser says %v", lost.err)
	}
	snap, _ := store.LoadState(t.Context(), "x")
	var state tally
	_ = json.Unmarshal(snap.State, &state)
	if !reflect.DeepEqual(state, won.res.State) || snap.Revision != won.res.Revision {
		t.Errorf("stored is %+v, the winner has %+v", state, won.res.State)
	}
}

// The loser's other methods are cut.
func TestAConflictEndsTheContextOfTheRun(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("f")
	flow.Start(b, "a", func(ctx context.Context, run *tallyRun) (string, error) {
		_, err := store.SaveState(ctx, core.Snapshot{FlowID: run.FlowID(), State: json.RawMessage(`{"id":"x","n":77}`)})
		return "", err
	})
	flow.Start(b, "b", func(ctx context.Context, _ *tallyRun) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	var rec recorder
	_, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(store), flow.Persist(), rec.option())
	if !errors.Is(err, core.ErrConflict) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if snap, _ := store.LoadState(t.Context(), "x"); string(snap.State) != `{"id":"x","n":77}` {
		t.Errorf("stored is %s", snap.State)
	}
	if want := "FlowStarted MethodStarted:a MethodStarted:b SaveFailed:a MethodFailed:b FlowFailed"; rec.names() != want {
		t.Errorf("events %s", rec.names())
	}
}

// What a program stored that knew neither races nor requests is resumed.
func TestTheFirstFormatOfProgressIsResumed(t *testing.T) {
	store := coretest.New()
	crash(t, store, "x")
	snap, _ := store.LoadState(t.Context(), "x")
	var p map[string]any
	_ = json.Unmarshal(snap.Progress, &p)
	p["v"], p["scheduler"].(map[string]any)["v"] = 1, 1
	snap.Progress, _ = json.Marshal(p)
	if _, err := store.SaveState(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if res, err := chain(t, "a", "b").Resume(t.Context(), "x", flow.WithStore(store)); err != nil || !res.Finished {
		t.Errorf("%+v, %v", res, err)
	}
}

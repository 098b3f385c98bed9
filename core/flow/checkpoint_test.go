package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

func checkpointsOf(t testing.TB, store core.CheckpointProvider, flowID string) []core.CheckpointInfo {
	t.Helper()
	var out []core.CheckpointInfo
	for info, err := range store.Checkpoints(t.Context(), flowID) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info)
	}
	return out
}

// checkpointed runs a → b → c as flow "f" with a checkpoint after each, newest first.
func checkpointed(t testing.TB, store *coretest.Store) []core.CheckpointInfo {
	t.Helper()
	_, err := chain(t, "a", "b", "c").Kickoff(t.Context(), flow.Inputs{"id": "f"},
		flow.WithStore(store), flow.Persist(), flow.WithCheckpoints(checkpoint.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return checkpointsOf(t, store, "f")
}

func at(c core.CheckpointInfo) flow.RunOption {
	return flow.FromCheckpoint(checkpoint.Ref{FlowID: c.FlowID, ID: c.ID})
}

func TestACheckpointIsTakenAfterEachCompletion(t *testing.T) {
	store, rec := coretest.New(), &recorder{}
	_, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "f"},
		flow.WithStore(store), flow.Persist(), flow.WithCheckpoints(checkpoint.Config{}), rec.option())
	if err != nil {
		t.Fatal(err)
	}
	got := checkpointsOf(t, store, "f")
	if len(got) != 2 || got[0].Method != "b" || got[1].Method != "a" || got[0].Parent != got[1].ID || got[1].Parent != "" ||
		got[0].ParentFlow != "f" || got[0].Branch != core.MainBranch || got[0].Trigger != "method_finished" || got[0].Flow != "chain" ||
		got[0].Fingerprint == "" || got[0].Run == "" || got[0].ID <= got[1].ID {
		t.Errorf("got %+v", got)
	}
	want := "FlowStarted MethodStarted:a StateSaved:a CheckpointSaved MethodFinished:a MethodStarted:b StateSaved:b CheckpointSaved MethodFinished:b FlowFinished"
	if rec.names() != want {
		t.Errorf("events:\n got %s\nwant %s", rec.names(), want)
	}
}

func TestARestoredFlowIsBackAtItsCheckpointBeforeAnythingRuns(t *testing.T) {
	store := coretest.New()
	after := checkpointed(t, store)[2]
	before, err := store.LoadState(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	res, err := chain(t, "a", "b", "c").Kickoff(t.Context(), nil, at(after),
		flow.WithStore(store), flow.WithCheckpoints(checkpoint.Config{}), rec.option(),
		flow.WithObserver(func(ctx context.Context, e flow.Event) {
			snap, err := store.LoadState(ctx, "f")
			if started, ok := e.(flow.FlowStarted); ok &&
				(err != nil || snap.Method != "a" || snap.Revision.N != before.Revision.N+1 || started.Checkpoint != after.ID) {
				t.Errorf("when it starts (%+v) the store holds %+v, %v", started, snap, err)
			}
		}))
	if err != nil || !reflect.DeepEqual(res.State.Log, []string{"a", "b", "c"}) || res.FlowID != "f" || !res.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	if names := rec.names(); strings.Contains(names, "MethodStarted:a") || !strings.Contains(names, "MethodStarted:b") {
		t.Errorf("events: %s", names)
	}
	if now := checkpointsOf(t, store, "f"); len(now) != 5 || now[1].Parent != after.ID || now[1].Run == after.Run {
		t.Errorf("the first checkpoint of the restored run is %+v", now[1])
	}
}

func TestAnActivationAfterARestoreIsAnotherOne(t *testing.T) {
	store := coretest.New()
	var ids []string
	b := flow.New[tally]("ids")
	a := flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", func(ctx context.Context, run *tallyRun, _ any) (string, error) {
		ids = append(ids, run.ActivationID())
		return note("b")(ctx, run)
	}, flow.Any(a))
	def := mustBuild(t, b)
	if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.WithCheckpoints(checkpoint.Config{})); err != nil {
		t.Fatal(err)
	}
	from := checkpointsOf(t, store, "f")[1]
	for range 2 { // nothing was stored in between, so the second is the first made again
		if _, err := def.Kickoff(t.Context(), nil, at(from), flow.WithStore(store)); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] == ids[1] || ids[1] != ids[2] {
		t.Errorf("activation ids %q", ids)
	}
}

func TestAForkIsAnotherFlow(t *testing.T) {
	store := coretest.New()
	list := checkpointed(t, store)
	def := chain(t, "a", "b", "c")
	opts := []flow.RunOption{at(list[2]), flow.Fork("cheaper"), flow.WithStore(store), flow.WithCheckpoints(checkpoint.Config{})}
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "g"}, opts...)
	if err != nil || res.FlowID != "g" || res.State.ID != "g" || !reflect.DeepEqual(res.State.Log, []string{"a", "b", "c"}) {
		t.Fatalf("%+v, %v", res, err)
	}
	if source, err := store.LoadState(t.Context(), "f"); err != nil || source.Revision.N != 3 || len(checkpointsOf(t, store, "f")) != 3 {
		t.Errorf("the flow it was made from is %+v, %v", source, err)
	}
	own := checkpointsOf(t, store, "g")
	if len(own) != 2 || own[0].Branch != "cheaper" || own[1].Parent != list[2].ID || own[1].ParentFlow != "f" {
		t.Errorf("its checkpoints are %+v", own)
	}
	var lineage []string
	for c, err := range checkpoint.Lineage(t.Context(), store, checkpoint.Ref{FlowID: "g"}) {
		if err != nil {
			t.Fatal(err)
		}
		lineage = append(lineage, c.FlowID+"/"+c.Method)
	}
	if want := []string{"g/c", "g/b", "f/a"}; !slices.Equal(lineage, want) {
		t.Errorf("lineage %q, want %q", lineage, want)
	}
	_, err = def.Kickoff(t.Context(), nil, opts...)
	if !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "cheaper") {
		t.Errorf("a second fork of that name: %v", err)
	}
	one, errOne := def.Kickoff(t.Context(), nil, at(list[2]), flow.Fork(""), flow.WithStore(store))
	two, errTwo := def.Kickoff(t.Context(), nil, at(list[2]), flow.Fork(""), flow.WithStore(store))
	if errOne != nil || errTwo != nil || one.FlowID == two.FlowID || one.FlowID == "f" {
		t.Errorf("forks without a name: %+v, %v; %+v, %v", one, errOne, two, errTwo)
	}
}

func TestAForkDoesNotTakeAnotherFlowsPlace(t *testing.T) {
	store := coretest.New()
	list := checkpointed(t, store)
	def := chain(t, "a", "b", "c")
	if _, err := def.Kickoff(t.Context(), flow.Inputs{"id": "taken"}, flow.WithStore(store), flow.Persist()); err != nil {
		t.Fatal(err)
	}
	_, err := def.Kickoff(t.Context(), flow.Inputs{"id": "taken"}, at(list[0]), flow.Fork("x"), flow.WithStore(store))
	if !errors.Is(err, core.ErrConflict) {
		t.Errorf("got %v", err)
	}
	for b, err := range store.Branches(t.Context(), "f") {
		t.Errorf("a branch was recorded: %+v, %v", b, err)
	}
}

func TestACheckpointOfAFinishedRunRunsNothing(t *testing.T) {
	store := coretest.New()
	list := checkpointed(t, store)
	var rec recorder
	res, err := chain(t, "a", "b", "c").Kickoff(t.Context(), nil, at(list[0]), flow.WithStore(store), rec.option())
	if err != nil || !res.Finished || string(res.Output) != `"c"` || strings.Contains(rec.names(), "MethodStarted") {
		t.Errorf("%+v, %v, events %s", res, err, rec.names())
	}
}

func TestOptionsOfCheckpointsThatDoNotGoTogether(t *testing.T) {
	store := coretest.New()
	list := checkpointed(t, store)
	def := chain(t, "a", "b", "c")
	kickoff := func(in flow.Inputs, opts ...flow.RunOption) error {
		_, err := def.Kickoff(t.Context(), in, opts...)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		says []string
	}{
		{"restore and checkpoint", kickoff(nil, at(list[0]), flow.RestoreFrom("f"), flow.WithStore(store)), []string{"FromCheckpoint", "RestoreFrom"}},
		{"restore and no checkpoint named", kickoff(nil, flow.FromCheckpoint(checkpoint.Ref{}), flow.RestoreFrom("f")), []string{"FromCheckpoint", "RestoreFrom"}},
		{"a checkpoint of no flow", kickoff(nil, flow.FromCheckpoint(checkpoint.Ref{ID: "x"}), flow.WithStore(store)), []string{"FromCheckpoint", "FlowID"}},
		{"fork of nothing", kickoff(nil, flow.Fork("x"), flow.WithStore(store)), []string{"FromCheckpoint"}},
		{"another id", kickoff(flow.Inputs{"id": "g"}, at(list[0]), flow.WithStore(store)), []string{`"f"`, "Fork"}},
		{"nothing keeps them", kickoff(nil, flow.WithCheckpoints(checkpoint.Config{})), []string{"Provider"}},
		{"no such trigger", kickoff(nil, flow.WithStore(store), flow.WithCheckpoints(checkpoint.Config{On: []checkpoint.Trigger{"llm_call_completed"}})), []string{"llm_call_completed", "method_finished"}},
		{"negative keep", kickoff(nil, flow.WithStore(store), flow.WithCheckpoints(checkpoint.Config{Keep: -1})), []string{"-1"}},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(c.err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.name, c.err, s)
			}
		}
	}
	if _, err := def.Resume(t.Context(), "f", at(list[0]), flow.WithStore(store)); err == nil {
		t.Error("Resume takes FromCheckpoint")
	}
	if len(store.Flows()) != 1 || len(checkpointsOf(t, store, "f")) != 3 {
		t.Error("something was written")
	}
}

func TestACheckpointOfAnotherDefinitionIsRefused(t *testing.T) {
	store := coretest.New()
	list := checkpointed(t, store)
	def := chain(t, "a", "b", "d")
	_, err := def.Kickoff(t.Context(), nil, at(list[1]), flow.WithStore(store))
	var changed *flow.ChangedError
	if !errors.As(err, &changed) || !slices.Equal(changed.Added, []string{"d"}) || !slices.Equal(changed.Removed, []string{"c"}) {
		t.Errorf("got %v", err)
	}
	if _, err := def.Kickoff(t.Context(), nil, at(list[1]), flow.WithStore(store), flow.AcceptChanges()); err != nil {
		t.Errorf("accepted: %v", err)
	}
	_, err = def.Kickoff(t.Context(), nil, flow.FromCheckpoint(checkpoint.Ref{FlowID: "f", ID: "nope"}), flow.WithStore(store))
	if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("no such checkpoint: %v", err)
	}
}

func TestTheNewestCheckpointsOfABranchAreKept(t *testing.T) {
	store := coretest.New()
	var pruned []int
	_, err := chain(t, "a", "b", "c").Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store),
		flow.WithCheckpoints(checkpoint.Config{Keep: 2}), flow.WithObserver(func(_ context.Context, e flow.Event) {
			if s, ok := e.(flow.CheckpointSaved); ok {
				pruned = append(pruned, s.Pruned)
			}
		}))
	if err != nil || !slices.Equal(pruned, []int{0, 0, 1}) || len(checkpointsOf(t, store, "f")) != 2 {
		t.Errorf("%v, pruned %v", err, pruned)
	}
}

func TestWhatIsRedactedIsInNoCheckpoint(t *testing.T) {
	store := coretest.New()
	redact := func(_ context.Context, state json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.ReplaceAll(string(state), "SECRET-KEY-123", "***")), nil
	}
	res, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "f", "log": []string{"SECRET-KEY-123"}},
		flow.WithStore(store), flow.Persist(), flow.WithCheckpoints(checkpoint.Config{Redact: redact}))
	if err != nil || res.State.Log[0] != "SECRET-KEY-123" {
		t.Fatalf("%+v, %v: the run itself keeps it", res, err)
	}
	for _, info := range checkpointsOf(t, store, "f") {
		c, err := store.LoadCheckpoint(t.Context(), "f", info.ID)
		if all, _ := json.Marshal(c); err != nil || strings.Contains(string(all), "SECRET") || !strings.Contains(string(c.State), "***") {
			t.Errorf("%s, %v", all, err)
		}
	}
}

// fullShelf keeps no checkpoint.
type fullShelf struct{ *coretest.Store }

var errFull = errors.New("the shelf is full")

func (fullShelf) SaveCheckpoint(context.Context, core.Checkpoint) (core.CheckpointInfo, error) {
	return core.CheckpointInfo{}, errFull
}

func TestACheckpointThatCannotBeKeptIsTold(t *testing.T) {
	for _, required := range []bool{false, true} {
		store, rec := fullShelf{coretest.New()}, &recorder{}
		res, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(),
			flow.WithCheckpoints(checkpoint.Config{Required: required}), rec.option())
		if !strings.Contains(rec.names(), "CheckpointFailed") {
			t.Errorf("required %v: events %s", required, rec.names())
		}
		var failed *flow.CheckpointError
		if required != errors.As(err, &failed) || required != errors.Is(err, errFull) || res.Finished == required {
			t.Errorf("required %v: %+v, %v", required, res, err)
		}
	}
}

func TestARequestThatIsOpenAtACheckpointIsOpenInItsForkByItself(t *testing.T) {
	store := coretest.New()
	def := refunds(t, nil)
	opts := []flow.RunOption{flow.WithStore(store), flow.WithProvider(later), flow.WithCheckpoints(checkpoint.Config{On: []checkpoint.Trigger{checkpoint.FlowPaused}})}
	first, err := def.Kickoff(t.Context(), flow.Inputs{"id": "f"}, opts...)
	if err != nil || !first.Paused {
		t.Fatalf("%+v, %v", first, err)
	}
	forked, err := def.Kickoff(t.Context(), flow.Inputs{"id": "g"}, append(opts, at(checkpointsOf(t, store, "f")[0]), flow.Fork("g"))...)
	if err != nil || !forked.Paused || len(forked.Pending) != 1 || forked.Pending[0].ID == first.Pending[0].ID || forked.Pending[0].FlowID != "g" {
		t.Fatalf("%+v, %v", forked, err)
	}
	if _, err := def.Resume(t.Context(), "g", flow.WithStore(store), flow.Answer(first.Pending[0].ID, flow.Reply{Outcome: "approved"})); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("the fork takes an answer to the other's request: %v", err)
	}
	res, err := def.Resume(t.Context(), "g", flow.WithStore(store), flow.Answer(forked.Pending[0].ID, flow.Reply{Outcome: "approved"}))
	if err != nil || !res.Finished || res.Completed["yes"] != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if open, err := flow.Pending(t.Context(), store, "f"); err != nil || len(open) != 1 {
		t.Errorf("in the flow it was made from are open: %+v, %v", open, err)
	}
}

func TestTheCheckpointsOfAResumedRunFollowThoseBeforeTheCrash(t *testing.T) {
	store := coretest.New()
	b := flow.New[tally]("chain")
	a := flow.Start(b, "a", note("a"))
	flow.Listen(b, "b", func(context.Context, *tallyRun, any) (string, error) { return "", errors.New("killed") }, flow.Any(a))
	with := []flow.RunOption{flow.WithStore(store), flow.Persist(), flow.WithCheckpoints(checkpoint.Config{})}
	if _, err := mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "f"}, with...); err == nil {
		t.Fatal("it did not crash")
	}
	if _, err := chain(t, "a", "b").Resume(t.Context(), "f", with...); err != nil {
		t.Fatal(err)
	}
	if list := checkpointsOf(t, store, "f"); len(list) != 2 || list[0].Parent != list[1].ID {
		t.Errorf("got %+v", list)
	}
}

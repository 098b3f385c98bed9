package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/coretest"
)

func take(t testing.TB, r *checkpoint.Recorder, flowID, method string) core.CheckpointInfo {
	t.Helper()
	info, _, err := r.Take(t.Context(), core.Checkpoint{
		CheckpointInfo: core.CheckpointInfo{FlowID: flowID, Method: method, Run: "run"}, State: []byte(`{"key":"SECRET"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func ExampleLineage() {
	ctx, store := context.Background(), coretest.New()
	main := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{Provider: store}}
	state := json.RawMessage(`{}`)
	first, _, _ := main.Take(ctx, core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "c-1", Method: "receive"}, State: state})
	second, _, _ := main.Take(ctx, core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "c-1", Method: "answer"}, State: state})

	fork := &checkpoint.Recorder{Branch: "cheaper", Config: checkpoint.Config{Provider: store}}
	fork.Follow("c-1", first.ID)
	third, _, _ := fork.Take(ctx, core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "c-2", Method: "answer"}, State: state})

	fmt.Println("both follow the first:", second.Parent == first.ID, third.Parent == first.ID)
	for c, err := range checkpoint.Lineage(ctx, store, checkpoint.Ref{FlowID: "c-2"}) {
		fmt.Println(c.FlowID, c.Branch, c.Method, err)
	}
	// Output:
	// both follow the first: true true
	// c-2 cheaper answer <nil>
	// c-1 main receive <nil>
}

func TestEachCheckpointFollowsTheOneBefore(t *testing.T) {
	store := coretest.New()
	r := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{Provider: store, Keep: 2}}
	a := take(t, r, "f", "a")
	b := take(t, r, "f", "b")
	if a.Parent != "" || b.Parent != a.ID || b.ParentFlow != "f" || b.Branch != core.MainBranch {
		t.Errorf("%+v after %+v", b, a)
	}
	_, pruned, err := r.Take(t.Context(), core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "f"}, State: []byte(`{}`)})
	if pruned != 1 || err != nil {
		t.Errorf("the third of two to keep: %d pruned, %v", pruned, err)
	}
}

func TestAResumedRunFollowsItsOwnLastCheckpoint(t *testing.T) {
	store := coretest.New()
	before := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{Provider: store}}
	a := take(t, before, "f", "a")
	b := take(t, before, "f", "b") // which the process could not note any more
	other := &checkpoint.Recorder{Branch: "x", Config: checkpoint.Config{Provider: store}}
	take(t, other, "f", "of another branch")
	after := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{Provider: store}}
	after.Follow("f", a.ID)
	after.Continue("f", "run")
	if c := take(t, after, "f", "c"); c.Parent != b.ID {
		t.Errorf("it follows %q, not %q", c.Parent, b.ID)
	}
}

func TestRedactDecidesWhatIsKept(t *testing.T) {
	store := coretest.New()
	r := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{
		Provider: store,
		Redact: func(_ context.Context, s json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.ReplaceAll(string(s), "SECRET", "")), nil
		},
	}}
	info := take(t, r, "f", "a")
	if c, err := store.LoadCheckpoint(t.Context(), "f", info.ID); err != nil || string(c.State) != `{"key":""}` {
		t.Errorf("%s, %v", c.State, err)
	}
	broken := errors.New("no key")
	for _, redact := range []func(context.Context, json.RawMessage) (json.RawMessage, error){
		func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, broken },
		func(context.Context, json.RawMessage) (json.RawMessage, error) { return []byte("no JSON"), nil },
	} {
		r.Config.Redact = redact
		_, _, err := r.Take(t.Context(), core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "f"}, State: []byte(`{}`)})
		if !errors.Is(err, broken) && !errors.Is(err, core.ErrInvalidState) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTriggers(t *testing.T) {
	if c := (checkpoint.Config{}); !c.Takes(checkpoint.MethodFinished) || c.Takes(checkpoint.FlowFinished) || c.Validate() != nil {
		t.Error("the zero Config takes one after each completion of a method")
	}
	c := checkpoint.Config{On: []checkpoint.Trigger{checkpoint.FlowPaused}}
	if !c.Takes(checkpoint.FlowPaused) || c.Takes(checkpoint.MethodFinished) || c.Validate() != nil {
		t.Error("a list is what it says")
	}
	for _, bad := range []checkpoint.Config{{On: []checkpoint.Trigger{"sometimes"}}, {Keep: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestLineageEndsWhereAParentIsGone(t *testing.T) {
	store := coretest.New()
	r := &checkpoint.Recorder{Branch: core.MainBranch, Config: checkpoint.Config{Provider: store, Keep: 2}}
	for _, m := range []string{"a", "b", "c"} {
		take(t, r, "f", m)
	}
	var got []string
	for c, err := range checkpoint.Lineage(t.Context(), store, checkpoint.Ref{FlowID: "f"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Method)
	}
	if !slices.Equal(got, []string{"c", "b"}) {
		t.Errorf("got %q", got)
	}
	for _, err := range checkpoint.Lineage(t.Context(), store, checkpoint.Ref{FlowID: "unknown"}) {
		if !errors.Is(err, core.ErrNotFound) {
			t.Errorf("of no flow: %v", err)
		}
	}
}

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
)

// restoreScenarios are runs that begin from a checkpoint.
var restoreScenarios = []scenario{
	{"CR-02", inputsOverACheckpoint},
	{"CR-03", finishedCheckpointRunsNothing},
	{"CR-04", checkpointOfAnotherFlow},
	{"CR-05", onlyWhatIsLeftRuns},
	{"CR-06", forkHasAnIDOfItsOwn},
	{"CR-08", statesOfEveryKindComeBack},
	{"CR-09", secondKickoffRunsAgain},
	{"CR-12", secondGeneration},
	{"CR-13", skippedStaysSkipped},
	{"CR-14", restoredRunStaysInItsStore},
}

func TestScenariosRestore(t *testing.T) { play(t, restoreScenarios) }

// checkpointed runs the methods as flow "f" with a checkpoint after each, and returns these,
// the newest first.
func checkpointed(t *testing.T, store *recorded, def *flow.Definition[ledger], s *stage, opts ...flow.RunOption) []core.CheckpointInfo {
	t.Helper()
	kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{}, opts...)...)
	s.takeRan()
	store.takeSaves()
	return checkpointsOf(t, store, "f")
}

// A checkpoint to begin from is of one Kickoff, and so is a Config, which restores nothing.
func inputsOverACheckpoint(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "a", "b")
	afterA := checkpointed(t, store, def, s)[1]
	res := kickoff(t, def, flow.Inputs{"message": "hello", "counter": 10}, flow.WithStore(store), at(afterA))
	if res.State.Message != "hello" || res.State.Counter != 11 || res.FlowID != "f" {
		t.Errorf("restored with an input it ends as %+v", res.State)
	}
	want(t, "methods of the restored run", s.takeRan(), "b")
	kickoff(t, def, nil, keeping(store, checkpoint.Config{})...)
	want(t, "methods of the next run", s.takeRan(), "a b")
}

func finishedCheckpointRunsNothing(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "a", "b")
	newest := checkpointed(t, store, def, s, flow.KeepOutputs())[0]
	res := kickoff(t, def, nil, flow.WithStore(store), at(newest))
	if !res.Finished || string(res.Output) != `"b"` || len(res.Outputs) != 2 || string(res.Outputs[0].Output) != `"a"` {
		t.Errorf("it ends as %+v", res)
	}
	want(t, "methods that ran", s.takeRan(), "")
}

func checkpointOfAnotherFlow(t *testing.T) {
	store, s := newStore(t), &stage{}
	list := checkpointed(t, store, s.chain(t, "a", "b"), s)
	_, err := s.interview(t).Kickoff(t.Context(), nil, flow.WithStore(store), at(list[0]))
	var changed *flow.ChangedError
	if !errors.As(err, &changed) || changed.Was != "chain" || changed.Flow != "interview" || !strings.Contains(err.Error(), list[0].ID) {
		t.Errorf("a checkpoint of another definition: %v", err)
	}
	kickoff(t, s.chain(t, "a"), flow.Inputs{"id": "keeps none"}, flow.WithStore(store), flow.Persist())
	s.takeRan()
	_, err = s.chain(t, "a").Kickoff(t.Context(), nil, flow.WithStore(store), flow.FromCheckpoint(checkpoint.Ref{FlowID: "keeps none"}))
	if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "keeps none") {
		t.Errorf("a flow without checkpoints: %v", err)
	}
	want(t, "methods that ran", s.takeRan(), "")
}

// What was completed is not told to observers again: it is in the log, as it was.
func onlyWhatIsLeftRuns(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.chain(t, "a", "b", "c")
	list := checkpointed(t, store, def, s, flow.KeepLog())
	before := logOf(t, store, "f")
	kickoff(t, def, nil, flow.WithStore(store), at(list[1]), told.option())
	want(t, "methods that ran", s.takeRan(), "c")
	want(t, "events", told.String(), "FlowStarted MethodStarted:c MethodFinished:c FlowFinished")

	after := logOf(t, store, "f")
	if len(after) <= len(before) {
		t.Fatalf("the log does not go on: %+v", after)
	}
	wantList(t, "the log until then", after[:len(before)], before...)
	var methods []string
	for _, e := range after[len(before):] {
		methods = append(methods, string(e.Kind)+" "+e.Method)
	}
	wantList(t, "the log since", methods, "run_started ", "method_completed c", "run_finished ")
	want(t, "what came before the restored run", after[len(before)].Previous, before[2].ID)
	want(t, "that is the completion of", before[2].Method, "b")
}

func forkHasAnIDOfItsOwn(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "a", "b")
	afterA := checkpointed(t, store, def, s)[1]
	plain := kickoff(t, def, nil, flow.WithStore(store), at(afterA))
	want(t, "the id after a plain restore", plain.FlowID+" "+plain.State.ID, "f f")
	fork := kickoff(t, def, nil, flow.WithStore(store), at(afterA), flow.Fork("new"))
	if fork.FlowID == "f" || fork.FlowID == "" || fork.State.ID != fork.FlowID {
		t.Errorf("the fork is %q, its state %+v", fork.FlowID, fork.State)
	}
	want(t, "the id that is stored", stateOf[ledger](t, store, fork.FlowID).ID, fork.FlowID)
}

// visit has what encodings lose most easily.
type visit struct {
	ID    string         `json:"id"`
	At    time.Time      `json:"at"`
	Big   uint64         `json:"big"`
	Notes map[string]any `json:"notes"`
}

func statesOfEveryKindComeBack(t *testing.T) {
	given := visit{
		ID: "f", At: time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC), Big: 1<<63 + 1,
		Notes: map[string]any{"a": []any{"b", nil}},
	}
	comesBack(t, "a struct", func() visit { return given })
	comesBack(t, "a pointer", func() *visit { return &given })
	comesBack(t, "a map", func() map[string]any {
		return map[string]any{"id": "f", "big": json.Number("9007199254740993"), "list": []any{true, map[string]any{}}, "null": nil}
	})
}

// comesBack runs a flow whose state begins as initial says, and restores its checkpoint.
func comesBack[S any](t *testing.T, what string, initial func() S) {
	t.Helper()
	store := newStore(t)
	b := flow.New[S]("kind")
	b.Initial(initial)
	flow.Start(b, "a", func(context.Context, *flow.Run[S]) (any, error) { return nil, nil })
	def := build(t, b)
	first := kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	again := kickoff(t, def, nil, flow.WithStore(store), at(checkpointsOf(t, store, "f")[0]))
	want(t, what+" of the run", encoded(t, first.State), encoded(t, initial()))
	want(t, what+" restored", encoded(t, again.State), encoded(t, initial()))
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func secondKickoffRunsAgain(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "a", "b")
	for _, topic := range []string{"cats", "dogs"} {
		res := kickoff(t, def, flow.Inputs{"message": topic}, keeping(store, checkpoint.Config{})...)
		want(t, "methods that ran for "+topic, s.takeRan(), "a b")
		want(t, "the message", res.State.Message, topic)
		want(t, "the counter", res.State.Counter, 2)
	}
}

func secondGeneration(t *testing.T) {
	store, s := newStore(t), &stage{before: map[string]func() error{"b": func() error { return errKilled }}}
	def := s.chain(t, "a", "b", "c")
	stops(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	for _, gen := range []struct{ ran, kept, stop string }{
		{"a b", "a", "c"}, {"b c", "b a", ""}, {"c", "c b a", ""},
	} {
		want(t, "methods that ran", s.takeRan(), gen.ran)
		want(t, "checkpoints", methodsOf(t, store, "f", core.MainBranch), gen.kept)
		s.before = map[string]func() error{gen.stop: func() error { return errKilled }}
		_, err := def.Kickoff(t.Context(), nil, keeping(store, checkpoint.Config{}, at(checkpointsOf(t, store, "f")[0]))...)
		want(t, "it was killed", err != nil, gen.stop != "")
	}
	want(t, "methods that ran after the last", s.takeRan(), "")
}

func skippedStaysSkipped(t *testing.T) {
	const needed, skip = flow.Label[any]("needed"), flow.Label[any]("skip")
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("conditional")
	one := flow.Start(b, "one", s.start)
	flow.Router(b, "decide", s.choose(always(skip)), flow.Any(one), flow.Emits(needed, skip))
	two := flow.Listen(b, "two", s.listen, needed)
	three := flow.Listen(b, "three", s.listen, flow.Or(flow.Any(skip), flow.Any(two)))
	flow.Listen(b, "four", s.listen, flow.Any(three))
	def := build(t, b)
	afterThree := checkpointed(t, store, def, s)[1]
	want(t, "the checkpoint is of", afterThree.Method, "three")
	res := kickoff(t, def, nil, flow.WithStore(store), at(afterThree))
	want(t, "methods that ran", s.takeRan(), "four")
	want(t, "calls", fmt.Sprint(res.Completed), "map[decide:1 four:1 one:1 three:1]")
}

// There is no place by default that a restored run could turn to: it saves where it came
// from, and keeps checkpoints with the provider it is given.
func restoredRunStaysInItsStore(t *testing.T) {
	store, shelf, s := newStore(t), newStore(t), &stage{}
	def := s.chain(t, "a", "b")
	onShelf := flow.WithCheckpoints(checkpoint.Config{Provider: shelf})
	kickoff(t, def, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(), onShelf)
	afterA := checkpointsOf(t, shelf, "f")[1]
	store.takeSaves()

	kickoff(t, def, nil, flow.WithStore(store), onShelf, at(afterA)) // with no word of Persist
	want(t, "saves of the restored run", store.takeSaves(), "a b")
	want(t, "checkpoints on the shelf", methodsOf(t, shelf, "f", core.MainBranch), "b b a")
	want(t, "checkpoints in the store", len(checkpointsOf(t, store, "f")), 0)
	want(t, "saves on the shelf", shelf.takeSaves(), "")
}

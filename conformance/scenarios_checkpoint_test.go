package conformance_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// checkpointScenarios are how checkpoints are taken, kept, linked and pruned.
var checkpointScenarios = []scenario{
	{"CP-01", checkpointDefaults},
	{"CP-02", unknownTriggerIsRefused},
	{"CP-06", pruneByBranch},
	{"CP-08", checkpointsAreAChain},
	{"CP-09", lineageAfterARestore},
	{"CP-10", forksMakeBranches},
	{"CP-12", checkpointThatIsNotThere},
	{"CP-15", newestOfABranchAreKept},
	{"CP-16", restoreTakesNoCheckpoints},
	{"CP-17", logIsAGraph},
	{"CP-20", secretsStayOut},
	{"CP-21", killedWhileOneIsWritten},
}

func TestScenariosCheckpoint(t *testing.T) { play(t, checkpointScenarios) }

// at begins from a checkpoint.
func at(c core.CheckpointInfo) flow.RunOption {
	return flow.FromCheckpoint(checkpoint.Ref{FlowID: c.FlowID, ID: c.ID})
}

// keeping has a run save and take checkpoints as c says, in one store.
func keeping(store *recorded, c checkpoint.Config, more ...flow.RunOption) []flow.RunOption {
	return append([]flow.RunOption{flow.WithStore(store), flow.Persist(), flow.WithCheckpoints(c)}, more...)
}

// keep saves a checkpoint of flow "f" by hand.
func keep(t *testing.T, store core.CheckpointProvider, branch, parent string, n int) core.CheckpointInfo {
	t.Helper()
	info, err := store.SaveCheckpoint(t.Context(), core.Checkpoint{
		CheckpointInfo: core.CheckpointInfo{FlowID: "f", Branch: branch, Parent: parent, Method: fmt.Sprint("cp_", n)},
		State:          json.RawMessage(`{"id":"f"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// methodsOf names the checkpoints of a branch by their methods, the newest first.
func methodsOf(t *testing.T, store core.CheckpointProvider, flowID, branch string) string {
	t.Helper()
	var methods []string
	for _, c := range checkpointsOf(t, store, flowID) {
		if c.Branch == branch {
			methods = append(methods, c.Method)
		}
	}
	return strings.Join(methods, " ")
}

func checkpointDefaults(t *testing.T) {
	var c checkpoint.Config
	if err := c.Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	for _, trigger := range []checkpoint.Trigger{
		checkpoint.RequestOpened, checkpoint.RequestAnswered, checkpoint.FlowPaused, checkpoint.FlowFinished, checkpoint.FlowFailed,
	} {
		want(t, "it takes one for "+string(trigger), c.Takes(trigger), false)
	}
	want(t, "it takes one for a completion", c.Takes(checkpoint.MethodFinished), true)
	store, s := newStore(t), &stage{}
	kickoff(t, s.chain(t, "a", "b", "c"), flow.Inputs{"id": "f"}, keeping(store, c)...)
	want(t, "kept in the run's store", methodsOf(t, store, "f", core.MainBranch), "c b a")
}

func unknownTriggerIsRefused(t *testing.T) {
	store, s := newStore(t), &stage{}
	for _, unknown := range []checkpoint.Trigger{"task_completed", "llm_call_completed", "*"} {
		c := checkpoint.Config{On: []checkpoint.Trigger{checkpoint.MethodFinished, unknown}}
		_, err := s.chain(t, "a").Kickoff(t.Context(), nil, keeping(store, c)...)
		if err == nil || !strings.Contains(err.Error(), string(unknown)) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
	want(t, "what happened", s.takeRan()+store.takeSaves(), "")
}

func pruneByBranch(t *testing.T) {
	prune := func(store *recorded, keep, removed int) {
		t.Helper()
		n, err := store.PruneCheckpoints(t.Context(), "f", core.MainBranch, keep)
		if n != removed || err != nil {
			t.Errorf("keep %d: removed %d, want %d (%v)", keep, n, removed, err)
		}
	}
	store := newStore(t)
	for n := range 5 {
		keep(t, store, core.MainBranch, "", n)
	}
	prune(store, 2, 3)
	want(t, "kept are", methodsOf(t, store, "f", core.MainBranch), "cp_4 cp_3")
	prune(store, 10, 0)
	prune(store, 0, 2)
	want(t, "kept are", methodsOf(t, store, "f", core.MainBranch), "")

	for n := range 3 {
		keep(t, store, core.MainBranch, "", n)
	}
	keep(t, store, "fork/a", "", 3)
	keep(t, store, "fork/a", "", 4)
	prune(store, 1, 2)
	want(t, "kept are", methodsOf(t, store, "f", core.MainBranch), "cp_2")
	want(t, "kept on the other branch are", methodsOf(t, store, "f", "fork/a"), "cp_4 cp_3")
}

func checkpointsAreAChain(t *testing.T) {
	store, s := newStore(t), &stage{}
	kickoff(t, s.chain(t, "a", "b", "c"), flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	list := checkpointsOf(t, store, "f")
	slices.Reverse(list)
	parent := ""
	for _, info := range list {
		c, err := store.LoadCheckpoint(t.Context(), "f", info.ID)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "the parent of "+info.Method, c.Parent, parent)
		if bytes.Contains(c.State, []byte(c.ID)) || bytes.Contains(c.Progress, []byte(c.ID)) {
			t.Errorf("%s holds its own id: %s", info.Method, c.Progress)
		}
		parent = c.ID
	}
	want(t, "checkpoints", len(list), 3)
}

// What follows a restored checkpoint is its child and on its branch.
func lineageAfterARestore(t *testing.T) {
	store, s := newStore(t), &stage{}
	def := s.chain(t, "a", "b", "c")
	kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	afterA := checkpointsOf(t, store, "f")[2]
	kickoff(t, def, flow.Inputs{"id": "g"}, keeping(store, checkpoint.Config{}, at(afterA), flow.Fork("cheaper"))...)
	afterB := checkpointsOf(t, store, "g")[1]
	want(t, "the parent of the first on the branch", afterB.ParentFlow+"/"+afterB.Parent, "f/"+afterA.ID)

	kickoff(t, def, nil, keeping(store, checkpoint.Config{}, at(afterB))...)
	newest := checkpointsOf(t, store, "g")[0]
	want(t, "checkpoints of the fork", methodsOf(t, store, "g", "cheaper"), "c c b")
	want(t, "the parent of the first after the restore", newest.ParentFlow+"/"+newest.Parent, "g/"+afterB.ID)

	plain := keep(t, newStore(t), "", "", 0)
	want(t, "a checkpoint that is kept without lineage", plain.Branch+"/"+plain.Parent, core.MainBranch+"/")
}

func forksMakeBranches(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.chain(t, "a", "b")
	kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	point := checkpointsOf(t, store, "f")[1]
	fork := func(name string) *flow.Result[ledger] {
		return kickoff(t, def, nil, keeping(store, checkpoint.Config{}, at(point), flow.Fork(name), told.option())...)
	}
	made := []string{fork("my-experiment").FlowID, fork("").FlowID, fork("").FlowID}
	want(t, "the checkpoint that observers are told of", told.all[0].(flow.FlowStarted).Checkpoint, point.ID)
	into := map[string]core.Branch{}
	for _, b := range collect(t, store.Branches(t.Context(), "f")) {
		into[b.Into] = b
	}
	names := map[string]bool{}
	for i, id := range made {
		name, own := into[id].Name, checkpointsOf(t, store, id)
		names[name] = true
		if i > 0 && (!strings.HasPrefix(name, "fork/"+point.ID+"_") || len(name) != len("fork/"+point.ID+"_")+6) {
			t.Errorf("a fork without a name is on the branch %q", name)
		}
		if into[id].Checkpoint != point.ID || len(own) != 1 || own[0].Branch != name || own[0].Parent != point.ID {
			t.Errorf("of %+v are kept %+v", into[id], own)
		}
	}
	if len(names) != 3 || !names["my-experiment"] {
		t.Errorf("the branches are %v", names)
	}
	_, err := def.Kickoff(t.Context(), nil, keeping(store, checkpoint.Config{}, at(point), flow.Fork("my-experiment"))...)
	if !errors.Is(err, core.ErrConflict) {
		t.Errorf("a second fork of one name: %v", err)
	}
}

func checkpointThatIsNotThere(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.chain(t, "a")
	kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	s.takeRan()
	store.takeSaves()
	for _, c := range []struct {
		ref  checkpoint.Ref
		is   error
		says string
	}{
		{checkpoint.Ref{}, core.ErrInvalidID, "FromCheckpoint"},
		{checkpoint.Ref{FlowID: "f", ID: "zzz"}, core.ErrNotFound, "zzz"},
		{checkpoint.Ref{FlowID: "nobody", ID: "zzz"}, core.ErrNotFound, "nobody"},
	} {
		_, err := def.Kickoff(t.Context(), nil, keeping(store, checkpoint.Config{}, flow.FromCheckpoint(c.ref), told.option())...)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("from %v: %v", c.ref, err)
		}
	}
	want(t, "what happened", s.takeRan()+told.String()+store.takeSaves(), "")
}

func newestOfABranchAreKept(t *testing.T) {
	store, s := newStore(t), &stage{}
	var pruned []int
	kickoff(t, s.chain(t, "a", "b", "c"), flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{Keep: 2},
		flow.WithObserver(func(_ context.Context, e flow.Event) {
			if c, ok := e.(flow.CheckpointSaved); ok {
				pruned = append(pruned, c.Pruned)
			}
		}))...)
	want(t, "kept are", methodsOf(t, store, "f", core.MainBranch), "c b")
	wantList(t, "removed each time", pruned, 0, 0, 1)
}

func restoreTakesNoCheckpoints(t *testing.T) {
	store, s, told := newStore(t), &stage{}, &events{}
	def := s.chain(t, "a", "b", "c")
	kickoff(t, def, flow.Inputs{"id": "f"}, keeping(store, checkpoint.Config{})...)
	kickoff(t, def, nil, keeping(store, checkpoint.Config{}, at(checkpointsOf(t, store, "f")[1]), told.option())...)
	want(t, "kept are", methodsOf(t, store, "f", core.MainBranch), "c c b a")
	want(t, "checkpoints that observers are told of", strings.Count(told.String(), "CheckpointSaved"), 1)
}

// The original's record of events is a graph in each checkpoint; here it is the flow's log,
// whose entries lead to what they are part of, what came before and what made them due.
func logIsAGraph(t *testing.T) {
	store, s := newStore(t), &stage{}
	b := flow.New[ledger]("graph")
	begin := flow.Start(b, "begin", s.start)
	left := flow.Listen(b, "left", s.listen, flow.Any(begin))
	right := flow.Listen(b, "right", s.listen, flow.Any(begin))
	flow.Listen(b, "join", s.listen, flow.Any(flow.And(left, right)))
	kickoff(t, build(t, b), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(), flow.KeepLog(), flow.Concurrency(1))

	entries := logOf(t, store, "f")
	name := map[string]string{"": "-"}
	var links, roots []string
	for _, e := range entries {
		name[e.ID] = strings.TrimPrefix(string(e.Kind)+" "+e.Method, "method_completed ")
		if e.Parent == "" {
			roots = append(roots, string(e.Kind))
		}
		links = append(links, name[e.ID]+" < "+name[e.Trigger]+" < "+name[e.Previous])
	}
	wantList(t, "roots", roots, "run_started")
	wantList(t, "what made each due, and what came before", links,
		"run_started  < - < -", "begin < - < run_started ", "left < begin < begin", "right < begin < left",
		"join < right < right", "run_finished  < - < join")
	for _, e := range entries[1:] {
		want(t, "what "+name[e.ID]+" is a part of", e.Parent, entries[0].ID)
	}
	// A kind of a later version is an entry all the same.
	snap := core.Snapshot{FlowID: "f", State: json.RawMessage(`{"id":"f"}`), Log: []json.RawMessage{json.RawMessage(`{"kind":"dreamed","id":"x","of":"sheep"}`)}}
	if _, err := store.SaveState(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	newest := logOf(t, store, "f")
	want(t, "entries", len(newest), len(entries)+1)
	want(t, "an unknown kind", newest[len(newest)-1], flow.LogEntry{Kind: "dreamed", ID: "x"})
}

func secretsStayOut(t *testing.T) {
	const secret = "SECRET-KEY-123"
	redact := func(_ context.Context, state json.RawMessage) (json.RawMessage, error) {
		return bytes.ReplaceAll(state, []byte(secret), []byte("***")), nil
	}
	store, s := newStore(t), &stage{}
	res := kickoff(t, s.chain(t, "a", "b"), flow.Inputs{"id": "f", "message": secret}, keeping(store, checkpoint.Config{Redact: redact})...)
	want(t, "the message of the run", res.State.Message, secret)
	redacted := 0
	for _, r := range collect(t, store.drv.Range(t.Context(), driver.Partition("f"), driver.RangeOptions{})) {
		if bytes.Contains(r.Data, []byte(secret)) || strings.Contains(r.Sort, secret) {
			t.Errorf("the record %s holds the secret: %s", r.Sort, r.Data)
		}
		if bytes.Contains(r.Data, []byte("***")) {
			redacted++
		}
	}
	want(t, "records with what is left of it", redacted, 2)
}

// killed is a driver whose process dies after some writes: nothing is cleaned up, either.
type killed struct {
	driver.Driver

	left int
}

var errKilledWriter = fmt.Errorf("%w: killed", core.ErrUnavailable)

func (k *killed) Put(ctx context.Context, key driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if k.left == 0 {
		return "", errKilledWriter
	}
	k.left--
	return k.Driver.Put(ctx, key, r, cond)
}

func (k *killed) Delete(ctx context.Context, key driver.Key, cond driver.Condition) error {
	if k.left == 0 {
		return errKilledWriter
	}
	return k.Driver.Delete(ctx, key, cond)
}

// A checkpoint in several records is there when the last of them is, and not before.
func killedWhileOneIsWritten(t *testing.T) {
	large := core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "f", Method: "large"}, State: noise(t)}
	for cut := 0; ; cut++ {
		drv := inmem.New(inmem.Config{Limits: driver.Limits{Record: 1024, Inline: 512}})
		records := func() int {
			return len(collect(t, drv.Range(t.Context(), driver.Partition("f"), driver.RangeOptions{})))
		}
		whole := keep(t, persistence.New(drv), "", "", 1)
		before := records()
		_, err := persistence.New(&killed{Driver: drv, left: cut}).SaveCheckpoint(t.Context(), large)
		after := persistence.New(drv)
		if err == nil {
			want(t, "kept when it was not killed", methodsOf(t, after, "f", core.MainBranch), "large cp_1")
			want(t, "it is written in several steps", cut > 3, true)
			return
		}
		what := fmt.Sprintf(" when killed after %d writes", cut)
		want(t, "records left over"+what, records()-before, cut)
		want(t, "kept"+what, methodsOf(t, after, "f", core.MainBranch), "cp_1")
		newest, err := checkpoint.Ref{FlowID: "f"}.Load(t.Context(), after)
		if err != nil || newest.ID != whole.ID || string(newest.State) != `{"id":"f"}` {
			t.Errorf("the newest%s is %+v, %v", what, newest, err)
		}
	}
}

// noise is a state that does not compress to one record.
func noise(t *testing.T) json.RawMessage {
	t.Helper()
	var pad strings.Builder
	for range 150 {
		pad.WriteString(rand.Text())
	}
	state, err := json.Marshal(ledger{ID: "f", Message: pad.String()})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

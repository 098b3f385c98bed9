package conformance

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/core"
)

// taken is a checkpoint that both worlds were given.
type taken struct{ model, mine core.Checkpoint }

// branchNames are what the random checkpoints are on.
var branchNames = []string{core.MainBranch, "b/c %"}

// maxTaken bounds the checkpoints of a round, which are all compared.
const maxTaken = 20

// firstTaken is when the first checkpoint of a round was taken; each further one is a second
// younger, so that both worlds have one order.
var firstTaken = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func drawEntries(t *rapid.T) []json.RawMessage {
	var entries []json.RawMessage
	for n := range rapid.IntRange(0, 3).Draw(t, "entries") {
		size := rapid.SampledFrom([]int{0, 60, 600}).Draw(t, "entry size")
		entries = append(entries, fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", size)))
	}
	return entries
}

// drain returns what seq yields, up to its error.
func drain[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// log compares the logs of a flow.
func (w *worlds) log(t *rapid.T, s flowStore, id string) {
	got, err := drain(s.Log(w.c.ctx, id))
	want, werr := drain(w.model.Log(w.c.ctx, id))
	same(t, "Log", err, werr)
	if len(got) != len(want) {
		t.Fatalf("Log yields %d entries, want %d", len(got), len(want))
	}
	for i := range want {
		if err := sameJSON(got[i], want[i]); err != nil {
			t.Fatalf("entry %d of the log: %v", i, err)
		}
	}
}

// drawTaken returns a checkpoint that was given before, of whichever flow.
func (w *worlds) drawTaken(t *rapid.T) (taken, bool) {
	if len(w.taken) == 0 {
		return taken{}, false
	}
	return w.taken[rapid.IntRange(0, len(w.taken)-1).Draw(t, "checkpoint")], true
}

// drawShelf draws one of two flows, so that each has several checkpoints.
func (w *worlds) drawShelf(t *rapid.T) string {
	return w.ids[rapid.IntRange(0, 1).Draw(t, "flow")]
}

func (w *worlds) saveCheckpoint(t *rapid.T) {
	if len(w.taken) == maxTaken {
		return
	}
	c := core.Checkpoint{
		CheckpointInfo: core.CheckpointInfo{
			FlowID: w.drawShelf(t), Branch: rapid.SampledFrom(branchNames).Draw(t, "branch"), Trigger: "method_finished",
			At: firstTaken.Add(time.Duration(len(w.taken)) * time.Second),
		},
		State: drawState(t),
	}
	mine := c
	if parent, ok := w.drawTaken(t); ok && rapid.Bool().Draw(t, "has a parent") {
		c.Parent, c.ParentFlow, mine.Parent, mine.ParentFlow = parent.model.ID, parent.model.FlowID, parent.mine.ID, parent.mine.FlowID
	}
	var err, werr error
	if mine.CheckpointInfo, err = w.drawStore(t).SaveCheckpoint(w.c.ctx, mine); err == nil {
		c.CheckpointInfo, werr = w.model.SaveCheckpoint(w.c.ctx, c)
	}
	same(t, "SaveCheckpoint", err, werr)
	w.taken, w.held[c.FlowID] = append(w.taken, taken{c, mine}), true
	w.checkpoints(t, w.stores[1], c.FlowID)
}

// loadCheckpoint asks for one of any flow under the name of any flow.
func (w *worlds) loadCheckpoint(t *rapid.T) {
	c, ok := w.drawTaken(t)
	if !ok {
		return
	}
	id := w.drawShelf(t)
	got, err := w.drawStore(t).LoadCheckpoint(w.c.ctx, id, c.mine.ID)
	want, werr := w.model.LoadCheckpoint(w.c.ctx, id, c.model.ID)
	same(t, "LoadCheckpoint", err, werr)
	if err == nil {
		w.compare(t, got, want)
	}
}

// compare demands that two checkpoints are one and the same.
func (w *worlds) compare(t *rapid.T, got, want core.Checkpoint) {
	i := slices.IndexFunc(w.taken, func(c taken) bool { return c.model.ID == want.ID })
	if err := sameJSON(got.State, want.State); err != nil || got.CheckpointInfo != w.taken[i].mine.CheckpointInfo {
		t.Fatalf("a checkpoint came back as %+v, not %+v (%v)", got.CheckpointInfo, w.taken[i].mine.CheckpointInfo, err)
	}
}

// checkpoints compares those of a flow, and its branches.
func (w *worlds) checkpoints(t *rapid.T, s flowStore, id string) {
	got, err := drain(s.Checkpoints(w.c.ctx, id))
	want, werr := drain(w.model.Checkpoints(w.c.ctx, id))
	same(t, "Checkpoints", err, werr)
	var have, wanted []string
	for _, info := range got {
		have = append(have, info.ID)
	}
	for _, info := range want {
		i := slices.IndexFunc(w.taken, func(c taken) bool { return c.model.ID == info.ID })
		wanted = append(wanted, w.taken[i].mine.ID)
	}
	if !slices.Equal(have, wanted) {
		t.Fatalf("Checkpoints yields %q, want %q", have, wanted)
	}
	gotNames, err := w.branchesOf(s, id)
	wantNames, werr := w.branchesOf(w.model, id)
	if same(t, "Branches", err, werr); !slices.Equal(gotNames, wantNames) {
		t.Fatalf("Branches yields %q, want %q", gotNames, wantNames)
	}
}

func (w *worlds) branchesOf(s core.CheckpointProvider, id string) ([]string, error) {
	bs, err := drain(s.Branches(w.c.ctx, id))
	var names []string
	for _, b := range bs {
		names = append(names, b.Name+" into "+b.Into)
	}
	slices.Sort(names)
	return names, err
}

func (w *worlds) prune(t *rapid.T) {
	id, branch, keep := w.drawShelf(t), rapid.SampledFrom(branchNames).Draw(t, "branch"), rapid.IntRange(0, 2).Draw(t, "keep")
	got, err := w.drawStore(t).PruneCheckpoints(w.c.ctx, id, branch, keep)
	want, werr := w.model.PruneCheckpoints(w.c.ctx, id, branch, keep)
	if same(t, "PruneCheckpoints", err, werr); got != want {
		t.Fatalf("PruneCheckpoints of %q but %d removed %d, want %d", branch, keep, got, want)
	}
	w.checkpoints(t, w.stores[1], id)
}

func (w *worlds) createBranch(t *rapid.T) {
	c, ok := w.drawTaken(t)
	if !ok {
		return
	}
	b := core.Branch{FlowID: w.drawShelf(t), Name: rapid.SampledFrom(branchNames).Draw(t, "branch"), Into: w.drawShelf(t)}
	mine := b
	b.Checkpoint, mine.Checkpoint = c.model.ID, c.mine.ID
	same(t, "CreateBranch", w.drawStore(t).CreateBranch(w.c.ctx, mine), w.model.CreateBranch(w.c.ctx, b))
	w.checkpoints(t, w.stores[1], b.FlowID)
}

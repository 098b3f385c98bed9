package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/persistence/driver"
)

func likeTheModel() law {
	return law{
		layer: storeLayer, name: "like_the_model",
		text: "Random operations have the same results on the Store as on the reference model, and leave nothing behind.",
		cases: []testCase{
			{"tight_limits", func(c *caseRun) { differential(c, c.openTight()) }},
			{"own_limits", func(c *caseRun) { differential(c, c.open()) }},
		},
	}
}

// modelTime bounds a differential run on a slow store.
const modelTime = 8 * time.Second

// differential compares the Store with the model after each operation. A failure is shrunk
// to the fewest operations that show it. The seed of the run, or -rapid.seed, repeats it.
func differential(c *caseRun, d driver.Driver) {
	end := time.Now().Add(modelTime)
	if c.h.Large {
		end = end.Add(10 * modelTime)
	}
	round, found := 0, false
	seeded := seedRapid(c.rng.Uint64() | 1)
	defer seeded()
	rapid.Check(rapidTB{c.T}, func(t *rapid.T) {
		seeded()
		if time.Now().After(end) && !found {
			return
		}
		defer func() { found = found || t.Failed() }() // and then take the time to shrink it
		round++
		w := newWorlds(c, d)
		w.clear(t)
		t.Repeat(map[string]func(*rapid.T){
			"save":             func(t *rapid.T) { w.save(t, false) },
			"save on revision": func(t *rapid.T) { w.save(t, true) },
			"load":             func(t *rapid.T) { w.load(t, w.drawStore(t), w.drawFlow(t)) },
			"delete":           w.delete,
			"list":             func(t *rapid.T) { w.list(t, w.drawStore(t)) },
			"sweep":            w.sweep,
			"save a bad state": w.saveBad,
			"read the log":     func(t *rapid.T) { w.log(t, w.drawStore(t), w.drawFlow(t)) },
			"save checkpoint":  w.saveCheckpoint,
			"load checkpoint":  w.loadCheckpoint,
			"prune":            w.prune,
			"create branch":    w.createBranch,
		})
		w.end(t)
	})
	c.Logf("%d sequences of operations compared", round)
}

// worlds are the Store under test and the model, with the revisions that each has given.
type worlds struct {
	c      *caseRun
	d      driver.Driver
	stores []flowStore
	model  *coretest.Store
	ids    []string
	given  [][2]core.Revision // of the model, of the Store
	taken  []taken
	held   map[string]bool // flows that have had a checkpoint, and so may be listed without a state
}

func newWorlds(c *caseRun, d driver.Driver) *worlds {
	w := &worlds{c: c, d: d, model: coretest.New(), stores: []flowStore{c.store(d), c.store(d)}, given: [][2]core.Revision{{}}, held: map[string]bool{}}
	for _, id := range []string{"a", "a/b", "*", "A "} {
		// The same in every round: rapid takes a failure for the same one by its text.
		w.ids = append(w.ids, c.flow(id))
	}
	return w
}

// clear removes what a failed round left, without the Store.
func (w *worlds) clear(t *rapid.T) {
	for _, id := range w.ids {
		p := driver.Partition(id)
		err := w.d.Delete(w.c.ctx, p.Head(), driver.Condition{})
		for r, rerr := range w.d.Range(w.c.ctx, p, driver.RangeOptions{KeysOnly: true}) {
			if err = errors.Join(err, rerr); err == nil {
				err = w.d.Delete(w.c.ctx, p.Sibling(r.Sort), driver.Condition{})
			}
		}
		if err != nil {
			t.Fatalf("clearing the flows of an earlier round: %v", err)
		}
	}
}

func (w *worlds) drawFlow(t *rapid.T) string {
	return w.ids[rapid.IntRange(0, len(w.ids)-1).Draw(t, "flow")]
}

func (w *worlds) drawStore(t *rapid.T) flowStore {
	return w.stores[rapid.IntRange(0, len(w.stores)-1).Draw(t, "store")]
}

func (w *worlds) delete(t *rapid.T) {
	id := w.drawFlow(t)
	same(t, "Delete", w.drawStore(t).Delete(w.c.ctx, id), w.model.Delete(w.c.ctx, id))
	delete(w.held, id)
	w.load(t, w.stores[0], id)
	w.checkpoints(t, w.stores[0], id)
}

func (w *worlds) sweep(t *rapid.T) {
	id := w.drawFlow(t)
	if _, err := w.drawStore(t).Sweep(w.c.ctx, id); err != nil {
		t.Fatalf("Sweep failed: %v", err)
	}
	w.load(t, w.stores[0], id)
	w.log(t, w.stores[0], id)
}

func (w *worlds) saveBad(t *rapid.T) {
	bad := statesToRefuse()
	snap := core.Snapshot{FlowID: w.drawFlow(t), State: []byte(bad[rapid.IntRange(0, len(bad)-1).Draw(t, "bad state")].state)}
	_, err := w.drawStore(t).SaveState(w.c.ctx, snap)
	_, want := w.model.SaveState(w.c.ctx, snap)
	same(t, "SaveState of a bad state", err, want)
	w.load(t, w.stores[0], snap.FlowID)
}

func (w *worlds) save(t *rapid.T, onRevision bool) {
	snap := core.Snapshot{
		FlowID: w.drawFlow(t), Method: rapid.SampledFrom([]string{"", "answer", "é"}).Draw(t, "method"),
		State: drawState(t), Log: drawEntries(t),
	}
	if rapid.Bool().Draw(t, "progress") {
		snap.Progress = drawState(t)
	}
	var mine, models []core.SaveOption
	if onRevision {
		i := len(w.given) - 1 // the newest is what lets a save through
		if rapid.Bool().Draw(t, "any revision") {
			i = rapid.IntRange(0, i).Draw(t, "revision")
		}
		models, mine = append(models, core.IfRevision(w.given[i][0])), append(mine, core.IfRevision(w.given[i][1]))
	}
	got, err := w.drawStore(t).SaveState(w.c.ctx, snap, mine...)
	want, werr := w.model.SaveState(w.c.ctx, snap, models...)
	same(t, "SaveState", err, werr)
	w.load(t, w.stores[1], snap.FlowID)
	if werr != nil {
		return
	}
	if got.Revision.N != want.Revision.N {
		t.Fatalf("SaveState returned the revision %d, want %d", got.Revision.N, want.Revision.N)
	}
	w.given = append(w.given, [2]core.Revision{want.Revision, got.Revision})
}

// drawState draws a state of any layout: inline, compressed, in segments.
func drawState(t *rapid.T) []byte {
	value := rapid.SampledFrom([]string{"1", "1.0", "-0.0", "9007199254740993", `"é\u0000"`, "[[],{}]", "null"}).Draw(t, "value")
	size := rapid.SampledFrom([]int{0, 100, 400, 900, 2500}).Draw(t, "size")
	pad := bytes.Repeat([]byte("x"), size)
	if rapid.Bool().Draw(t, "noise") {
		x := rapid.Uint32().Draw(t, "seed")
		for i := range pad {
			x = x*1664525 + 1013904223
			pad[i] = 'a' + byte(x>>24)%26
		}
	}
	return fmt.Appendf(nil, `{"v":%s,"pad":"%s"}`, value, pad)
}

func (w *worlds) load(t *rapid.T, s flowStore, id string) {
	got, err := s.LoadState(w.c.ctx, id)
	want, werr := w.model.LoadState(w.c.ctx, id)
	same(t, "LoadState", err, werr)
	if werr != nil {
		return
	}
	if got.Revision.N != want.Revision.N {
		t.Fatalf("LoadState returned the revision %d, want %d", got.Revision.N, want.Revision.N)
	}
	want.Revision, want.SavedAt = core.Revision{}, time.Time{}
	if err := sameSnapshot(got, want); err != nil {
		t.Fatalf("LoadState: %v", err)
	}
}

func (w *worlds) list(t *rapid.T, s flowStore) {
	var got []string
	for info, err := range s.Flows(w.c.ctx, driver.ListOptions{}) {
		if err != nil {
			t.Fatalf("Flows failed: %v", err)
		}
		if slices.Contains(w.ids, info.FlowID) && !info.Headless && !slices.Contains(got, info.FlowID) {
			got = append(got, info.FlowID)
		}
	}
	want := w.model.Flows()
	got = slices.DeleteFunc(got, func(id string) bool { return w.held[id] && !slices.Contains(want, id) })
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Fatalf("Flows lists %q, want %q", got, want)
	}
}

// end compares everything once more, deletes it, and looks for leftovers.
func (w *worlds) end(t *rapid.T) {
	w.list(t, w.stores[0])
	for _, id := range w.ids {
		w.load(t, w.stores[1], id)
		if _, err := w.stores[0].Sweep(w.c.ctx, id); err != nil {
			t.Fatalf("Sweep failed: %v", err)
		}
		w.load(t, w.stores[1], id)
		w.log(t, w.stores[1], id)
		w.checkpoints(t, w.stores[1], id)
		if err := w.stores[1].Delete(w.c.ctx, id); err != nil {
			t.Fatalf("Delete failed: %v", err)
		}
		p := driver.Partition(id)
		if _, err := w.d.Get(w.c.ctx, p.Head()); !isNotFound(err) {
			t.Fatalf("after Delete Get of the head of %q returned %v", id, err)
		}
		left := 0
		for _, err := range w.d.Range(w.c.ctx, p, driver.RangeOptions{KeysOnly: true}) {
			if left++; err != nil {
				t.Fatalf("Range failed: %v", err)
			}
		}
		if left > 0 {
			t.Fatalf("after Delete of %q %d siblings are left", id, left)
		}
	}
}

// same demands that two errors mean the same.
func same(t *rapid.T, what string, got, want error) {
	for _, sentinel := range []error{core.ErrNotFound, core.ErrConflict, core.ErrInvalidID, core.ErrInvalidState, core.ErrTooLarge, core.ErrCorrupt, core.ErrUnavailable, core.ErrUnsupported, core.ErrDenied} {
		if errors.Is(got, sentinel) != errors.Is(want, sentinel) {
			t.Fatalf("%s returned the error %v, the model %v", what, got, want)
		}
	}
	if (got == nil) != (want == nil) {
		t.Fatalf("%s returned the error %v, the model %v", what, got, want)
	}
}

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func checkpointsAreKept() law {
	return law{
		layer: storeLayer, name: "checkpoints_are_kept",
		text: "A checkpoint comes back whole, newest first, until its branch is pruned or its flow deleted; pruning takes the oldest of one branch and no place where another begins.",
		cases: []testCase{
			{"come_back", checkpointsComeBack},
			{"untouched_by_saves", checkpointsBesideSaves},
			{"of_a_flow_without_state", checkpointsWithoutState},
			{"pruned_by_branch", checkpointsPruned},
			{"where_branches_begin", branchPointsStay},
			{"branches_are_unique", branchesAreUnique},
			{"go_with_the_flow", checkpointsGoWithTheFlow},
			{"bad_input", checkpointsRefused},
			{"cut_anywhere", checkpointsCut},
			{"missing_segment", checkpointDamaged},
		},
	}
}

// checkpoint returns one whose state and progress tell the same n.
func (c *caseRun) checkpoint(flow, branch string, n, size int) core.Checkpoint {
	snap := c.snapshot(flow, n, size)
	return core.Checkpoint{
		CheckpointInfo: core.CheckpointInfo{
			FlowID: snap.FlowID, Branch: branch, Trigger: "method_finished", Method: snap.Method, Flow: "a flow", Fingerprint: "f00",
			Run: "a run", At: snap.SavedAt.Add(time.Duration(n) * time.Second),
		},
		State: snap.State, Progress: snap.Progress,
	}
}

// keep saves a checkpoint that must be accepted, and returns it as it must come back.
func (c *caseRun) keep(s flowStore, cp core.Checkpoint) core.Checkpoint {
	c.Helper()
	info, err := s.SaveCheckpoint(c.ctx, cp)
	if err != nil {
		c.Fatalf("SaveCheckpoint of flow %s failed: %v", clip([]byte(cp.FlowID)), err)
	}
	if info.ID == "" {
		c.Fatalf("SaveCheckpoint returned no ID")
	}
	cp.ID, cp.Bytes = info.ID, len(cp.State)+len(cp.Progress)
	if cp.Parent != "" && cp.ParentFlow == "" {
		cp.ParentFlow = cp.FlowID
	}
	if info != cp.CheckpointInfo {
		c.Errorf("SaveCheckpoint returned %+v, want %+v", info, cp.CheckpointInfo)
	}
	return cp
}

// wantCheckpoint demands that a checkpoint comes back whole.
func (c *caseRun) wantCheckpoint(s flowStore, want core.Checkpoint, when string) {
	c.Helper()
	got, err := s.LoadCheckpoint(c.ctx, want.FlowID, want.ID)
	if err != nil {
		c.Errorf("%s: LoadCheckpoint failed: %v", when, err)
		return
	}
	if got.CheckpointInfo != want.CheckpointInfo {
		c.Errorf("%s: LoadCheckpoint returned %+v, want %+v", when, got.CheckpointInfo, want.CheckpointInfo)
	}
	if err := errors.Join(sameJSON(got.State, want.State), sameJSON(got.Progress, want.Progress)); err != nil {
		c.Errorf("%s: the content of a checkpoint: %v", when, err)
	}
}

// wantListed demands the checkpoints of a flow, newest first.
func (c *caseRun) wantListed(s flowStore, flow, when string, want ...core.Checkpoint) {
	c.Helper()
	var got, ids []string
	for info, err := range s.Checkpoints(c.ctx, c.flow(flow)) {
		if err != nil {
			c.Errorf("%s: Checkpoints failed: %v", when, err)
			return
		}
		got = append(got, info.ID)
	}
	for _, cp := range want {
		ids = append(ids, cp.ID)
	}
	if !slices.Equal(got, ids) {
		c.Errorf("%s: Checkpoints lists %q, want %q", when, got, ids)
	}
}

func checkpointsComeBack(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	var all []core.Checkpoint
	parent := ""
	for n, size := range []int{0, 100, 400, 900, 1500, 9000, 40_000} {
		cp := c.checkpoint("f", core.MainBranch, n, size)
		cp.Parent = parent
		cp = c.keep(s, cp)
		if cp.ID <= parent {
			c.Errorf("the ID %q does not order after that of its parent, %q", cp.ID, parent)
		}
		parent = cp.ID
		all = append(all, cp)
	}
	fork := c.checkpoint("f", "é/*%", 9, 0)
	fork.Parent, fork.ParentFlow, fork.At = "0-x", c.flow("elsewhere"), time.Date(2029, 1, 1, 0, 0, 0, 1000, time.UTC)
	all = append(all, c.keep(s, fork))
	slices.Reverse(all)
	for _, reader := range []flowStore{s, c.store(d)} {
		c.wantListed(reader, "f", "a list", all...)
		for _, cp := range all {
			c.wantCheckpoint(reader, cp, "at once")
		}
	}
	c.wantListed(s, "none", "of a flow that is not there")
}

func checkpointsBesideSaves(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	c.save(s, c.snapshot("f", 1, 1500))
	small, large := c.keep(s, c.checkpoint("f", core.MainBranch, 2, 0)), c.keep(s, c.checkpoint("f", core.MainBranch, 3, 20_000))
	for n := range 3 {
		last := c.snapshot("f", 4+n, n*1000)
		c.save(c.store(d), last)
		if _, err := c.store(d).Sweep(c.ctx, c.flow("f")); err != nil {
			c.Fatalf("Sweep failed: %v", err)
		}
		c.wantSnapshot(s, last)
		c.wantListed(s, "f", "after saves and sweeps", large, small)
		c.wantCheckpoint(c.store(d), small, "after saves and sweeps")
		c.wantCheckpoint(c.store(d), large, "after saves and sweeps")
	}
}

func checkpointsWithoutState(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	cp := c.keep(s, c.checkpoint("f", core.MainBranch, 1, 1500))
	c.wantNoFlow(s, cp.FlowID, "with a checkpoint and no save")
	if c.h.has(InjectedClock) {
		c.clock.set(c.clock.Now().Add(72 * time.Hour)) // longer than any reservation stands
	}
	if _, err := c.store(d).Sweep(c.ctx, cp.FlowID); err != nil {
		c.Fatalf("Sweep failed: %v", err)
	}
	c.wantCheckpoint(c.store(d), cp, "after a sweep")
	first := c.snapshot("f", 2, 0)
	first.Revision = c.save(c.store(d), first, core.IfRevision(core.Revision{})).Revision
	if first.Revision.N != 1 {
		c.Errorf("the first save is revision %v", first.Revision)
	}
	c.wantSnapshot(s, first)
	c.wantCheckpoint(s, cp, "after the first save")
}

func checkpointsPruned(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	c.save(s, c.snapshot("f", 0, 0))
	var main, other []core.Checkpoint
	for n := range 3 {
		main = append(main, c.keep(s, c.checkpoint("f", core.MainBranch, n, n*1500)))
		if n < 2 {
			other = append(other, c.keep(s, c.checkpoint("f", "fork/a", n, 0)))
		}
	}
	prune := func(branch string, keep, want int) {
		c.Helper()
		if n, err := c.store(d).PruneCheckpoints(c.ctx, c.flow("f"), branch, keep); n != want || err != nil {
			c.Errorf("pruning %q to %d removed %d, %v; want %d", branch, keep, n, err, want)
		}
	}
	prune(core.MainBranch, 10, 0)
	prune("fork", 0, 0)
	prune(core.MainBranch, 1, 2)
	c.wantListed(s, "f", "after pruning main to 1", main[2], other[1], other[0])
	prune(core.MainBranch, 0, 1)
	c.wantListed(s, "f", "after pruning main to 0", other[1], other[0])
	c.wantCheckpoint(s, other[0], "of a branch that was not pruned")
	if _, err := s.LoadCheckpoint(c.ctx, c.flow("f"), main[2].ID); !isNotFound(err) {
		c.Errorf("LoadCheckpoint of a pruned one returned %v", err)
	}
	prune("fork/a", 0, 2)
	c.wantNothingOf(d, s, c.flow("f"), "after pruning all")
	if _, err := s.PruneCheckpoints(c.ctx, c.flow("f"), core.MainBranch, -1); err == nil {
		c.Errorf("a negative number to keep is accepted")
	}
}

func branchPointsStay(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	var all []core.Checkpoint
	for n := range 4 {
		all = append(all, c.keep(s, c.checkpoint("f", core.MainBranch, n, 0)))
	}
	b := core.Branch{FlowID: c.flow("f"), Name: "b", Checkpoint: all[1].ID, Into: c.flow("g")}
	if err := s.CreateBranch(c.ctx, b); err != nil {
		c.Fatalf("CreateBranch failed: %v", err)
	}
	if n, err := s.PruneCheckpoints(c.ctx, c.flow("f"), core.MainBranch, 1); n != 2 || err != nil {
		c.Errorf("pruning removed %d, %v; want 2", n, err)
	}
	c.wantListed(c.store(d), "f", "after pruning to 1 where a branch begins at another", all[3], all[1])
	if _, err := s.PruneCheckpoints(c.ctx, c.flow("f"), "b", 0); err != nil {
		c.Errorf("pruning the branch failed: %v", err)
	}
	if n, err := s.PruneCheckpoints(c.ctx, c.flow("f"), core.MainBranch, 1); n != 1 || err != nil {
		c.Errorf("when the branch is gone pruning removed %d, %v; want 1", n, err)
	}
}

func branchesAreUnique(c *caseRun) {
	d := c.openTight()
	from := c.keep(c.store(d), c.checkpoint("f", core.MainBranch, 1, 0))
	won := make([]bool, 8)
	c.parallel(len(won), func(i int) error {
		err := c.store(d).CreateBranch(c.ctx, core.Branch{FlowID: from.FlowID, Name: "one", Checkpoint: from.ID, Into: c.flow(strconv.Itoa(i))})
		if won[i] = err == nil; err != nil && !errors.Is(err, core.ErrConflict) {
			return fmt.Errorf("CreateBranch beside others: %w", err)
		}
		return nil
	})
	winner := slices.Index(won, true)
	if winner < 0 || slices.Contains(won[winner+1:], true) {
		c.Fatalf("of 8 that made one branch succeeded %v, want exactly one", won)
	}
	s := c.store(d)
	again := core.Branch{FlowID: from.FlowID, Name: "one", Checkpoint: from.ID, Into: c.flow(strconv.Itoa(winner))}
	if err := s.CreateBranch(c.ctx, again); err != nil {
		c.Errorf("the same branch again is refused: %v", err)
	}
	again.Name = core.MainBranch
	c.wantErr(s.CreateBranch(c.ctx, again), core.ErrConflict, "a branch of the name of the one it is made from")
	again.Name, again.Checkpoint = "two", "0-none"
	c.wantErr(s.CreateBranch(c.ctx, again), core.ErrNotFound, "a branch from no checkpoint")
	names := 0
	for b, err := range c.store(d).Branches(c.ctx, from.FlowID) {
		if names++; err != nil || b.Name != "one" || b.Checkpoint != from.ID || b.Into != c.flow(strconv.Itoa(winner)) || b.FlowID != from.FlowID {
			c.Errorf("Branches yields %+v, %v", b, err)
		}
	}
	if names != 1 {
		c.Errorf("Branches yields %d", names)
	}
}

func checkpointsGoWithTheFlow(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	c.save(s, c.snapshot("f", 1, 0))
	cp := c.keep(s, c.checkpoint("f", core.MainBranch, 1, 9000))
	if err := s.CreateBranch(c.ctx, core.Branch{FlowID: cp.FlowID, Name: "b", Checkpoint: cp.ID, Into: c.flow("g")}); err != nil {
		c.Fatalf("CreateBranch failed: %v", err)
	}
	other := c.keep(s, c.checkpoint("f2", core.MainBranch, 1, 0))
	if err := s.Delete(c.ctx, cp.FlowID); err != nil {
		c.Fatalf("Delete failed: %v", err)
	}
	if rs := c.siblings(d, driver.Partition(cp.FlowID), driver.RangeOptions{}); len(rs) > 0 {
		c.Errorf("after Delete %d siblings are left, the first is %q", len(rs), rs[0].Sort)
	}
	c.save(c.store(d), c.snapshot("f", 2, 0))
	c.wantListed(s, "f", "of a flow that was made anew")
	if _, err := s.LoadCheckpoint(c.ctx, cp.FlowID, cp.ID); !isNotFound(err) {
		c.Errorf("LoadCheckpoint of one of an earlier incarnation returned %v", err)
	}
	for b, err := range s.Branches(c.ctx, cp.FlowID) {
		c.Errorf("a flow that was made anew has the branch %+v, %v", b, err)
	}
	c.wantCheckpoint(s, other, "of another flow")
}

func checkpointsRefused(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	good := c.keep(s, c.checkpoint("f", core.MainBranch, 1, 0))
	before := c.dump(d)
	bad := func(target error, what string, change func(cp *core.Checkpoint)) {
		cp := c.checkpoint("f", core.MainBranch, 2, 0)
		change(&cp)
		_, err := s.SaveCheckpoint(c.ctx, cp)
		if err == nil || target != nil && !errors.Is(err, target) {
			c.Errorf("SaveCheckpoint with %s returned %v, want %v", what, err, target)
		}
	}
	bad(core.ErrInvalidID, "no flow", func(cp *core.Checkpoint) { cp.FlowID = "" })
	bad(core.ErrInvalidID, "a long branch", func(cp *core.Checkpoint) { cp.Branch = strings.Repeat("b", core.MaxBranchBytes+1) })
	bad(core.ErrInvalidID, "a branch of broken UTF-8", func(cp *core.Checkpoint) { cp.Branch = "\xff" })
	bad(nil, "an ID", func(cp *core.Checkpoint) { cp.ID = good.ID })
	bad(core.ErrInvalidState, "no state", func(cp *core.Checkpoint) { cp.State = nil })
	bad(core.ErrInvalidState, "a state that is no object", func(cp *core.Checkpoint) { cp.State = []byte(`[1]`) })
	bad(core.ErrInvalidState, "progress that is no JSON", func(cp *core.Checkpoint) { cp.Progress = []byte(`{`) })
	for _, id := range []string{"", "..", "../f", "*", "%", good.ID + "/", good.ID[:len(good.ID)-1], strings.ToUpper(good.ID), "\x00", strings.Repeat("a", 1<<20)} {
		if _, err := s.LoadCheckpoint(c.ctx, good.FlowID, id); !isNotFound(err) {
			c.Errorf("LoadCheckpoint of the id %s returned %v", clip([]byte(id)), err)
		}
	}
	if _, err := s.LoadCheckpoint(c.ctx, c.flow("g"), good.ID); !isNotFound(err) {
		c.Errorf("LoadCheckpoint of another flow's returned %v", err)
	}
	c.wantUnchanged(d, before, "after what was refused")
}

// checkpointsCut ends the process before each physical write: the checkpoint is there whole or
// not at all, and nothing of it is left.
func checkpointsCut(c *caseRun) {
	d := c.openTight()
	for i, size := range []int{0, 1500, 20_000} {
		for _, saved := range []bool{false, true} {
			for cut := 0; ; cut++ {
				flow := fmt.Sprintf("f%d.%v.%d", i, saved, cut)
				if saved {
					c.save(c.store(d), c.snapshot(flow, 1, 0))
				}
				f := newFaultDriver(d)
				f.cut = cut
				_, err := c.store(f).SaveCheckpoint(c.ctx, c.checkpoint(flow, core.MainBranch, 2, size))
				c.judgeCutCheckpoint(d, c.flow(flow), fmt.Sprintf("%d bytes, cut after %d writes", size, cut), err)
				if f.writes < cut || c.Failed() {
					break
				}
			}
		}
	}
}

// judgeCutCheckpoint compares what SaveCheckpoint returned with what is there, and removes it.
func (c *caseRun) judgeCutCheckpoint(d driver.Driver, flowID, what string, err error) {
	c.Helper()
	listed := 0
	for info, lerr := range c.store(d).Checkpoints(c.ctx, flowID) {
		listed++
		if lerr == nil {
			_, lerr = c.store(d).LoadCheckpoint(c.ctx, info.FlowID, info.ID)
		}
		if lerr != nil {
			c.Errorf("%s: what is listed cannot be loaded: %v", what, lerr)
		}
	}
	if err == nil && listed != 1 || err != nil && !core.OutcomeUnknown(err) && listed != 0 {
		c.Errorf("%s: SaveCheckpoint returned %v and %d are listed", what, err, listed)
	}
	if _, err := c.store(d).PruneCheckpoints(c.ctx, flowID, core.MainBranch, 0); err != nil {
		c.Errorf("%s: pruning failed: %v", what, err)
	}
	if c.h.has(InjectedClock) {
		c.clock.set(c.clock.Now().Add(25 * time.Hour)) // a claim has run out
		c.wantNothingOf(d, c.store(d), flowID, what)
	}
}

func checkpointDamaged(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	cp := c.keep(s, c.checkpoint("f", core.MainBranch, 1, 20_000))
	gone := false
	for _, r := range c.siblings(d, driver.Partition(cp.FlowID), driver.WithPrefix("seg/")) {
		if !gone {
			c.remove(d, driver.Partition(cp.FlowID).Sibling(r.Sort))
			gone = true
		}
	}
	if !gone {
		c.Skipf("%sa checkpoint that takes segments", unsupportedPrefix)
	}
	got, err := c.store(d).LoadCheckpoint(c.ctx, cp.FlowID, cp.ID)
	c.wantErr(err, core.ErrCorrupt, "LoadCheckpoint with a segment missing")
	if len(got.State) > 0 {
		c.Errorf("with the error came a part of the state: %s", clip(got.State))
	}
}

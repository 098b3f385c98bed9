package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
)

func ended(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

func revisionsAreExact() law {
	return law{
		layer: storeLayer, name: "revisions_are_exact",
		text: "Revisions count 1, 2, 3; a save on a revision succeeds only while it is the newest, in every race.",
		cases: []testCase{
			{"count_from_one", countFromOne},
			{"stale_is_a_conflict", staleIsConflict},
			{"zero_demands_no_flow", zeroDemandsNoFlow},
			{"deleted_and_made_again", deletedAndMadeAgain},
			{"two_stores_one_flow", twoStores},
			{"one_winner_of_32", func(c *caseRun) { storeOneWinner(c, 10) }},
			{"one_winner_of_32_large_states", func(c *caseRun) { storeOneWinner(c, 1500) }},
			{"no_update_is_lost", storeNoLostUpdate},
			{"clocks_decide_nothing", clocksDecideNothing},
			{"state_and_progress_are_one", func(c *caseRun) { stateAndProgressAreOne(c, 10) }},
			{"state_and_progress_are_one_large", func(c *caseRun) { stateAndProgressAreOne(c, 1500) }},
		},
	}
}

func countFromOne(c *caseRun) {
	s := c.store(c.openTight())
	tags := map[string]bool{}
	for n := 1; n <= 12; n++ {
		snap := c.snapshot("f", n, n%4*400)
		var opts []core.SaveOption
		if n%2 == 0 {
			opts = append(opts, core.IfRevision(c.load(s, snap.FlowID).Revision))
		}
		snap.Revision = core.Revision{N: 99, Tag: "ignored"}
		saved := c.save(s, snap, opts...)
		if saved.Revision.N != uint64(n) || tags[saved.Revision.Tag] {
			c.Errorf("save %d returned the revision %+v", n, saved.Revision)
		}
		tags[saved.Revision.Tag] = true
		snap.Revision = saved.Revision
		c.wantSnapshot(s, snap)
		if saved.State != nil || saved.Pruned != nil {
			c.Errorf("save %d without a reducer returned a state or pruned messages", n)
		}
	}
}

func staleIsConflict(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	first := c.save(s, c.snapshot("f", 1, 10)).Revision
	want := c.snapshot("f", 2, 10)
	want.Revision = c.save(s, want, core.IfRevision(first)).Revision
	other := c.save(s, c.snapshot("g", 1, 10)).Revision
	before := c.dump(d)
	for name, r := range map[string]core.Revision{
		"the one before":    first,
		"none":              {},
		"another flow's":    other,
		"the same N":        {N: 2, Tag: "x"},
		"only N":            {N: 2},
		"the next":          {N: 3, Tag: want.Revision.Tag + "x"},
		"a tag cut short":   {N: 2, Tag: want.Revision.Tag[:len(want.Revision.Tag)-1]},
		"that of another N": {N: 1, Tag: first.Tag},
	} {
		for _, size := range []int{10, 1500} {
			_, err := s.SaveState(c.ctx, c.snapshot("f", 3, size), core.IfRevision(r))
			c.wantErr(err, core.ErrConflict, "SaveState on the revision "+name)
			c.wantWrapped(err, want.FlowID)
			if core.OutcomeUnknown(err) {
				c.Errorf("SaveState on the revision %s leaves the outcome open", name)
			}
		}
	}
	c.wantUnchanged(d, before, "after conflicts")
	c.wantSnapshot(s, want)
	c.save(s, c.snapshot("f", 4, 10), core.IfRevision(want.Revision))
}

func zeroDemandsNoFlow(c *caseRun) {
	s := c.store(c.openTight())
	for _, size := range []int{10, 1500} {
		snap := c.snapshot(fmt.Sprint("f", size), 1, size)
		snap.Revision = c.save(s, snap, core.IfRevision(core.Revision{})).Revision
		_, err := s.SaveState(c.ctx, c.snapshot(fmt.Sprint("f", size), 2, size), core.IfRevision(core.Revision{}))
		c.wantErr(err, core.ErrConflict, "SaveState of a flow that must not exist")
		c.wantSnapshot(s, snap)
		_, err = s.SaveState(c.ctx, c.snapshot(fmt.Sprint("absent", size), 1, size), core.IfRevision(snap.Revision))
		c.wantErr(err, core.ErrConflict, "SaveState of no flow on a revision")
		c.wantNoFlow(s, c.flow(fmt.Sprint("absent", size)), "after a conflict")
	}
}

func deletedAndMadeAgain(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for _, size := range []int{10, 1500} {
		id := c.flow("f")
		var old []core.Revision
		for n := range 3 {
			old = append(old, c.save(s, c.snapshot("f", n, size)).Revision)
		}
		if err := s.Delete(c.ctx, id); err != nil {
			c.Fatalf("Delete failed: %v", err)
		}
		c.wantNoFlow(s, id, "after Delete")
		for n := range 4 {
			for i, r := range old {
				_, err := s.SaveState(c.ctx, c.snapshot("f", 99, size), core.IfRevision(r))
				c.wantErr(err, core.ErrConflict, fmt.Sprintf("%d saves after Delete, SaveState on revision %d of the earlier life", n, i+1))
			}
			if saved := c.save(s, c.snapshot("f", 10+n, size)); saved.Revision.N != uint64(n+1) {
				c.Errorf("save %d of a flow made again has the revision %v", n+1, saved.Revision)
			}
		}
		if err := s.Delete(c.ctx, id); err != nil {
			c.Fatalf("Delete failed: %v", err)
		}
	}
}

// twoStores lets two Stores over one driver, with knowledge of their own, take turns.
func twoStores(c *caseRun) {
	d := c.openTight()
	s := [2]flowStore{c.store(d), c.store(d)}
	for n := 1; n <= 10; n++ {
		mine, other := s[n%2], s[(n+1)%2]
		snap := c.snapshot("f", n, n%3*700)
		snap.Revision = c.save(mine, snap).Revision
		if snap.Revision.N != uint64(n) {
			c.Errorf("blind save %d, after one of the other Store, has the revision %v", n, snap.Revision)
		}
		c.wantSnapshot(other, snap)
		next := c.snapshot("f", n, n%2*700)
		if n%3 == 0 {
			if err := other.Delete(c.ctx, snap.FlowID); err != nil {
				c.Fatalf("Delete failed: %v", err)
			}
			_, err := mine.SaveState(c.ctx, next, core.IfRevision(snap.Revision))
			c.wantErr(err, core.ErrConflict, "SaveState on the revision of a flow that the other Store deleted")
			c.wantNoFlow(mine, snap.FlowID, "after Delete through the other Store")
			for k := range n {
				c.save(other, c.snapshot("f", k+1, 0))
			}
		}
	}
}

func storeOneWinner(c *caseRun, size int) {
	d := c.openTight()
	stores := [4]flowStore{c.store(d), c.store(d), c.store(d), c.store(d)}
	var current core.Revision
	snaps := make([]core.Snapshot, crowd)
	for round := range 4 {
		for i := range snaps {
			snaps[i] = c.snapshot("f", round*crowd+i, size)
		}
		winners := c.race(func(i int) error {
			saved, err := stores[i%4].SaveState(c.ctx, snaps[i], core.IfRevision(current))
			if err == nil && saved.Revision.N != uint64(round+1) {
				return fmt.Errorf("the winner has revision %v, want %d", saved.Revision, round+1)
			}
			return err
		})
		if len(winners) != 1 {
			c.Fatalf("round %d: %d of %d saved on one revision, want exactly one", round, len(winners), crowd)
		}
		c.wantSnapshot(stores[0], snaps[winners[0]])
		current = c.load(stores[1], snaps[0].FlowID).Revision
	}
	c.wantNothingLeft(d, stores[0], snaps[0].FlowID)
}

// storeNoLostUpdate counts up by load and save on the revision, beside readers that must see
// it grow.
func storeNoLostUpdate(c *caseRun) {
	const workers, each = 8, 5
	d := c.openTight()
	id := c.flow("f")
	c.save(c.store(d), core.Snapshot{FlowID: id, State: []byte(`{"n":0}`)})
	increment := func(s flowStore) error {
		for {
			snap, err := s.LoadState(c.ctx, id)
			if err != nil {
				return err
			}
			var v struct{ N int }
			if err := json.Unmarshal(snap.State, &v); err != nil {
				return err
			}
			snap.State = fmt.Appendf(nil, `{"n":%d}`, v.N+1)
			_, err = s.SaveState(c.ctx, snap, core.IfRevision(snap.Revision))
			if !errors.Is(err, core.ErrConflict) {
				return err
			}
		}
	}
	c.parallel(workers, func(int) error {
		s := c.store(d)
		for range each {
			if err := increment(s); err != nil {
				return err
			}
		}
		return nil
	})
	got := c.load(c.store(d), id)
	if err := sameJSON(got.State, fmt.Appendf(nil, `{"n":%d}`, workers*each)); err != nil {
		c.Errorf("after %d increments: %v", workers*each, err)
	}
	if got.Revision.N != workers*each+1 {
		c.Errorf("after %d saves the revision is %v", workers*each+1, got.Revision)
	}
}

// clocksDecideNothing has two writers whose clocks differ by hours, and one whose clock goes
// back: what is newest is what was saved last.
func clocksDecideNothing(c *caseRun) {
	d := c.openTight()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	fast, slow := clock{}, clock{}
	stores := []flowStore{
		c.store(d, persistence.WithHistory(6), persistence.WithClock(fast.Now)),
		c.store(d, persistence.WithHistory(6), persistence.WithClock(slow.Now)),
	}
	var all []core.Snapshot
	for n := range 6 {
		fast.set(at.Add(time.Hour))
		slow.set(at.Add(-time.Duration(n) * time.Hour))
		snap := c.snapshot("f", n, n%3*700)
		snap.SavedAt = time.Time{} // the Store's clock
		s := stores[n%2]
		var opts []core.SaveOption
		if n > 0 && n%3 == 0 {
			opts = append(opts, core.IfRevision(all[n-1].Revision))
		}
		snap.Revision = c.save(s, snap, opts...).Revision
		snap.SavedAt = []*clock{&fast, &slow}[n%2].Now()
		if snap.Revision.N != uint64(n+1) {
			c.Errorf("save %d has the revision %v", n+1, snap.Revision)
		}
		all = append(all, snap)
		c.wantSnapshot(stores[0], snap)
		c.wantSnapshot(stores[1], snap)
	}
	c.wantHistory(stores[0], all)
}

// stateAndProgressAreOne has blind writers of whole snapshots, and readers that look for a
// mixture or for time going back.
func stateAndProgressAreOne(c *caseRun, size int) {
	const writes = 20
	d := c.openTight()
	snaps := make([]core.Snapshot, writes+1)
	for n := range snaps {
		snaps[n] = c.snapshot("f", n, size*(n%3))
	}
	c.save(c.store(d), snaps[0])
	var acknowledged atomic.Int64
	var done atomic.Bool
	c.parallel(4, func(i int) error {
		s := c.store(d)
		if i == 0 {
			defer done.Store(true)
			for n := 1; n <= writes; n++ {
				if _, err := s.SaveState(c.ctx, snaps[n]); err != nil {
					return err
				}
				acknowledged.Store(int64(n))
			}
			return nil
		}
		for !done.Load() {
			atLeast := int(acknowledged.Load())
			snap, err := s.LoadState(c.ctx, snaps[0].FlowID)
			if err != nil {
				return err
			}
			n, err := agreed(snap)
			if err != nil {
				return err
			}
			if n < atLeast {
				return fmt.Errorf("loaded save %d after save %d was acknowledged", n, atLeast)
			}
			if err := sameSnapshot(snap, snaps[n]); err != nil {
				return err
			}
		}
		return nil
	})
	c.wantNothingLeft(d, c.store(d), snaps[0].FlowID)
}

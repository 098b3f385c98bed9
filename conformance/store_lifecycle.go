package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func deleteLeavesNothing() law {
	return law{
		layer: storeLayer, name: "delete_leaves_nothing",
		text: "Delete removes a flow with everything under it, and nothing else.",
		cases: []testCase{
			{"nothing_is_left", nothingIsLeft},
			{"nothing_else_goes", nothingElseGoes},
			{"absent_is_no_error", storeDeleteAbsent},
			{"beside_a_writer", deleteBesideWriter},
			{"thousands_of_records", deleteThousands},
			{"beside_a_listing", deleteBesideListing},
		},
	}
}

func nothingIsLeft(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithHistory(4))
	for n := range 6 {
		c.save(s, c.snapshot("f", n, n*500))
	}
	if err := s.Delete(c.ctx, c.flow("f")); err != nil {
		c.Fatalf("Delete failed: %v", err)
	}
	if left := c.dump(d); len(left) > 0 {
		c.Errorf("after Delete there are %d records: %q", len(left), left.keys())
	}
	c.wantNoFlow(s, c.flow("f"), "after Delete")
	if n := len(c.flows(s)); n > 0 {
		c.Errorf("after Delete Flows lists %d", n)
	}
}

func nothingElseGoes(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	family := []string{"a", "ab", "a/b", "a#b", "a:b", "a.b", "a ", "A", "a*", "*", "a%", "%", "_", "[a-z]*", "a\x00", ""}
	for i, id := range family {
		c.save(s, c.snapshot(id, i, i%2*1500))
	}
	for i, id := range family {
		before := c.dump(d)
		if err := s.Delete(c.ctx, c.flow(id)); err != nil {
			c.Fatalf("Delete of %q failed: %v", id, err)
		}
		for k := range before {
			if string(k.Partition) == c.flow(id) {
				delete(before, k)
			}
		}
		c.wantUnchanged(d, before, fmt.Sprintf("after Delete of %q", id))
		for j, other := range family[i+1:] {
			if n, err := agreed(c.load(s, c.flow(other))); err != nil || n != i+1+j {
				c.Errorf("after Delete of %q flow %q has snapshot %d (%v)", id, other, n, err)
			}
		}
	}
}

func storeDeleteAbsent(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for range 2 {
		if err := s.Delete(c.ctx, c.flow("f")); err != nil {
			c.Errorf("Delete of no flow failed: %v", err)
		}
	}
	c.save(s, c.snapshot("f", 1, 1500))
	for range 2 {
		if err := s.Delete(c.ctx, c.flow("f")); err != nil {
			c.Errorf("Delete failed: %v", err)
		}
	}
	c.wantNoFlow(s, c.flow("f"), "after Delete")
}

// deleteBesideWriter deletes while others save. In the end each flow is whole or not there,
// and a last Delete leaves nothing.
func deleteBesideWriter(c *caseRun) {
	d := c.openTight()
	snaps := make([]core.Snapshot, 40)
	for n := range snaps {
		snaps[n] = c.snapshot("f", n, n%3*900)
	}
	c.parallel(4, func(i int) error {
		s := c.store(d)
		for n := i; n < len(snaps); n += 4 {
			if i == 0 {
				if err := s.Delete(c.ctx, c.flow("f")); err != nil {
					return err
				}
				continue
			}
			if _, err := s.SaveState(c.ctx, snaps[n]); err != nil && !core.OutcomeUnknown(err) {
				return err
			}
			snap, err := s.LoadState(c.ctx, c.flow("f"))
			if err == nil {
				_, err = agreed(snap)
			} else if isNotFound(err) {
				err = nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	s := c.store(d)
	if err := s.Delete(c.ctx, c.flow("f")); err != nil {
		c.Fatalf("Delete failed: %v", err)
	}
	if _, err := s.Sweep(c.ctx, c.flow("f")); err != nil {
		c.Errorf("Sweep failed: %v", err)
	}
	if left := c.dump(d); len(left) > 0 {
		c.Errorf("after the last Delete and a sweep there are %d records: %q", len(left), left.keys())
	}
}

func foreignHeads() law {
	return law{
		layer: storeLayer, name: "foreign_heads",
		text: "A head that another program wrote is a state without progress; it can be read, continued and written over, either way.",
		cases: []testCase{
			{"read_and_continued", foreignContinued},
			{"written_over_ours", foreignOverOurs},
			{"not_a_state", foreignNoState},
		},
	}
}

// foreign writes a head as another program does: without Data.
func (c *caseRun) foreign(d driver.Driver, flow, state string) core.Snapshot {
	c.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	c.put(d, c.id(flow).Head(), driver.Record{State: []byte(state), Method: "theirs", SavedAt: at}, driver.Condition{})
	return core.Snapshot{FlowID: c.flow(flow), Method: "theirs", State: []byte(state), SavedAt: at}
}

func foreignContinued(c *caseRun) {
	for _, size := range []int{0, 1500} {
		d := c.openTight()
		s := c.store(d)
		name := fmt.Sprint("f", size)
		want := c.foreign(d, name, `{"id":"x","n":9007199254740993}`)
		c.wantSnapshot(s, want)
		rev := c.load(s, want.FlowID).Revision
		if rev.IsZero() {
			c.Errorf("a head of another program has the revision of no flow")
		}
		_, err := s.SaveState(c.ctx, c.snapshot(name, 1, size), core.IfRevision(core.Revision{}))
		c.wantErr(err, core.ErrConflict, "SaveState of a flow that must not exist over a head of another program")
		if _, err := s.Sweep(c.ctx, want.FlowID); err != nil {
			c.Errorf("Sweep failed: %v", err)
		}
		want.Revision = rev
		c.wantSnapshot(s, want)
		ours := c.snapshot(name, 2, size)
		ours.Revision = c.save(s, ours, core.IfRevision(rev)).Revision
		c.wantSnapshot(c.store(d), ours)
		_, err = s.SaveState(c.ctx, c.snapshot(name, 3, size), core.IfRevision(rev))
		c.wantErr(err, core.ErrConflict, "SaveState on the revision of the head that was replaced")
	}
}

func foreignOverOurs(c *caseRun) {
	for _, size := range []int{0, 1500} {
		d := c.openTight()
		s, cold := c.store(d), c.store(d)
		name := fmt.Sprint("f", size)
		ours := c.save(s, c.snapshot(name, 1, size)).Revision
		want := c.foreign(d, name, `{"theirs":1}`)
		for _, st := range []flowStore{s, cold} {
			_, err := st.SaveState(c.ctx, c.snapshot(name, 2, size), core.IfRevision(ours))
			c.wantErr(err, core.ErrConflict, "SaveState on the revision that another program wrote over")
			c.wantSnapshot(st, want)
		}
		rev := c.load(s, want.FlowID).Revision
		want = c.foreign(d, name, `{"theirs":1}`)
		_, err := s.SaveState(c.ctx, c.snapshot(name, 3, size), core.IfRevision(rev))
		c.wantErr(err, core.ErrConflict, "SaveState after another program wrote the same content again")
		c.wantSnapshot(s, want)
		blind := c.snapshot(name, 4, size)
		c.save(s, blind)
		c.wantSnapshot(cold, blind)
		c.wantNothingLeft(d, s, want.FlowID)
	}
}

func foreignNoState(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for i, state := range []string{`{"a":`, `{"a":1,"a":2}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"a":1}x`} {
		want := driver.Record{State: []byte(state), Method: "theirs"}
		k := c.id(fmt.Sprint("bad", i)).Head()
		if _, err := d.Put(c.ctx, k, want, driver.Condition{}); err != nil {
			continue // a store of JSON values refuses it at once
		}
		_, err := s.LoadState(c.ctx, string(k.Partition))
		c.wantErr(err, core.ErrCorrupt, fmt.Sprintf("LoadState of %q, which another program wrote", state))
	}
}

func historyIsExact() law {
	return law{
		layer: storeLayer, name: "history_is_exact",
		text: "History yields what is kept, newest first, of this incarnation only.",
		cases: []testCase{
			{"newest_first", func(c *caseRun) { newestFirst(c, 10) }},
			{"newest_first_large_states", func(c *caseRun) { newestFirst(c, 1200) }},
			{"without_history", withoutHistory},
			{"of_this_life_only", historyOfThisLife},
		},
	}
}

func (c *caseRun) history(s flowStore, flowID string) []core.Snapshot {
	c.Helper()
	var out []core.Snapshot
	for snap, err := range s.History(c.ctx, flowID) {
		if err != nil {
			c.Fatalf("History failed after %d snapshots: %v", len(out), err)
		}
		out = append(out, snap)
	}
	return out
}

// wantHistory demands exactly these snapshots, oldest first as given.
func (c *caseRun) wantHistory(s flowStore, want []core.Snapshot) {
	c.Helper()
	got := c.history(s, want[0].FlowID)
	if len(got) != len(want) {
		c.Errorf("History yields %d snapshots, want %d", len(got), len(want))
		return
	}
	slices.Reverse(got)
	for i := range want {
		if err := sameSnapshot(got[i], want[i]); err != nil {
			c.Errorf("History, %d from the end: %v", len(want)-1-i, err)
		}
	}
}

func newestFirst(c *caseRun, size int) {
	const keep = 3
	d := c.openTight()
	s := c.store(d, persistence.WithHistory(keep))
	var all []core.Snapshot
	for n := range 12 { // more than ten revisions
		snap := c.snapshot("f", n, n%3*size)
		var opts []core.SaveOption
		if n%2 == 1 {
			opts = append(opts, core.IfRevision(all[n-1].Revision))
		}
		snap.Revision = c.save(s, snap, opts...).Revision
		all = append(all, snap)
		c.wantHistory(s, all[max(0, len(all)-keep):])
		c.wantSnapshot(s, snap)
	}
	for snap, err := range s.History(c.ctx, c.flow("f")) { // left early, with a save inside
		if err != nil {
			c.Fatalf("History failed: %v", err)
		}
		c.save(s, c.snapshot("g", 1, size), core.IfRevision(core.Revision{}))
		if err := sameSnapshot(snap, all[11]); err != nil {
			c.Errorf("History begins with another than the newest: %v", err)
		}
		break
	}
}

func withoutHistory(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for n := range 4 {
		snap := c.snapshot("f", n, n*400)
		snap.Revision = c.save(s, snap).Revision
		c.wantHistory(s, []core.Snapshot{snap})
	}
	n := 0
	for _, err := range s.History(c.ctx, c.flow("absent")) {
		n++
		c.wantErr(err, core.ErrNotFound, "History of no flow")
		c.wantWrapped(err, c.flow("absent"))
	}
	if n != 1 {
		c.Errorf("History of no flow yields %d pairs, want its error once", n)
	}
}

func historyOfThisLife(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithHistory(5))
	for n := range 4 {
		c.save(s, c.snapshot("f", n, 600))
	}
	if err := s.Delete(c.ctx, c.flow("f")); err != nil {
		c.Fatalf("Delete failed: %v", err)
	}
	first := c.snapshot("f", 10, 600)
	first.Revision = c.save(s, first).Revision
	c.wantHistory(s, []core.Snapshot{first})
	theirs := c.foreign(d, "f", `{"theirs":1}`)
	c.wantHistory(s, []core.Snapshot{theirs})
}

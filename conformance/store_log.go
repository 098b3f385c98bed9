package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func logsAreExact() law {
	return law{
		layer: storeLayer, name: "logs_are_exact",
		text: "What saves append to a flow's log is there once, in their order, if and only if the save is; it goes with the flow.",
		cases: []testCase{
			{"in_order", logInOrder},
			{"of_saves_that_lost", logOfLosers},
			{"cut_anywhere", logCut},
			{"goes_with_the_flow", logGoes},
			{"bad_entries", logRefused},
		},
	}
}

// entries returns the log entries of save n, which fill chunks soon.
func entries(n int) []json.RawMessage {
	out := make([]json.RawMessage, 0, 2)
	for i := range 2 {
		out = append(out, fmt.Appendf(nil, `{"save":%d,"n":%d,"pad":"%060d"}`, n, i, n))
	}
	return out
}

// wantLogged demands that the log of a flow consists of the entries of these saves.
func (c *caseRun) wantLogged(s flowStore, flowID, when string, saves ...int) {
	c.Helper()
	var got, want []string
	for e, err := range s.Log(c.ctx, flowID) {
		if err != nil {
			c.Errorf("%s: Log failed after %d entries: %v", when, len(got), err)
			return
		}
		got = append(got, string(e))
	}
	for _, n := range saves {
		for _, e := range entries(n) {
			want = append(want, string(e))
		}
	}
	if !slices.Equal(got, want) {
		c.Errorf("%s: the log has %d entries, want the %d of the saves %v; it has %s", when, len(got), len(want), saves, clip([]byte(strings.Join(got, " "))))
	}
}

func logInOrder(c *caseRun) {
	d := c.openTight()
	id := c.flow("f")
	var saves []int
	warm := c.store(d)
	for n := range 40 {
		snap := c.snapshot("f", n, n%3*700)
		if n%4 != 3 {
			snap.Log = entries(n)
			saves = append(saves, n)
		}
		s := warm
		if n%5 == 0 {
			s = c.store(d)
		}
		c.save(s, snap)
		if n%8 == 7 {
			if _, err := c.store(d).Sweep(c.ctx, id); err != nil {
				c.Fatalf("Sweep failed: %v", err)
			}
		}
		c.wantLogged(c.store(d), id, fmt.Sprintf("after save %d", n), saves...)
	}
	snap := c.load(c.store(d), id)
	if snap.Log != nil {
		c.Errorf("LoadState returned %d log entries, want none", len(snap.Log))
	}
}

func logOfLosers(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	first := c.snapshot("f", 1, 0)
	first.Log = entries(1)
	base := c.save(s, first).Revision
	won := make([]bool, 8)
	c.parallel(len(won), func(i int) error {
		snap := first
		snap.Log = slices.Concat(entries(10+i), entries(10+i), entries(10+i), entries(10+i))
		_, err := c.store(d).SaveState(c.ctx, snap, core.IfRevision(base))
		if won[i] = err == nil; err != nil && !errors.Is(err, core.ErrConflict) {
			return fmt.Errorf("a save beside others: %w", err)
		}
		return nil
	})
	winner := 10 + slices.Index(won, true)
	c.wantLogged(s, first.FlowID, "after one of eight saves", 1, winner, winner, winner, winner)
	if _, err := s.Sweep(c.ctx, first.FlowID); err != nil {
		c.Errorf("Sweep failed: %v", err)
	}
	c.wantLogged(s, first.FlowID, "after a sweep", 1, winner, winner, winner, winner)
}

// logCut ends the process before each physical write of a save that moves entries to a chunk.
func logCut(c *caseRun) {
	d := c.openTight()
	for cut := 0; ; cut++ {
		flow := fmt.Sprint("f", cut)
		old, next := c.snapshot(flow, 1, 0), c.snapshot(flow, 2, 1500)
		old.Log, next.Log = entries(1), entries(2)
		c.save(c.store(d), old)
		f := newFaultDriver(d)
		f.cut = cut
		_, err := c.store(f).SaveState(c.ctx, next)
		want := []int{1}
		if now := c.load(c.store(d), old.FlowID); now.Method == next.Method {
			want = append(want, 2)
		} else if err == nil {
			c.Errorf("cut after %d writes: the save was acknowledged and is not there", cut)
		}
		c.wantLogged(c.store(d), old.FlowID, fmt.Sprintf("cut after %d writes", cut), want...)
		if f.writes < cut || c.Failed() {
			return
		}
	}
}

func logGoes(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	snap := c.snapshot("f", 1, 0)
	for n := range 10 {
		snap.Log = entries(n)
		c.save(s, snap)
	}
	if err := s.Delete(c.ctx, snap.FlowID); err != nil {
		c.Fatalf("Delete failed: %v", err)
	}
	if rs := c.siblings(d, driver.Partition(snap.FlowID), driver.RangeOptions{}); len(rs) > 0 {
		c.Errorf("after Delete %d siblings are left, the first is %q", len(rs), rs[0].Sort)
	}
	for _, err := range s.Log(c.ctx, snap.FlowID) {
		c.wantErr(err, core.ErrNotFound, "Log of a deleted flow")
	}
	snap.Log = entries(77)
	c.save(s, snap)
	c.wantLogged(c.store(d), snap.FlowID, "of a flow that was made anew", 77)
}

func logRefused(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	c.save(s, c.snapshot("f", 1, 0))
	before := c.dump(d)
	for _, bad := range []struct {
		entry  string
		target error
	}{
		{`{`, core.ErrInvalidState},
		{``, core.ErrInvalidState},
		{`"` + strings.Repeat("x", core.MaxLogEntry) + `"`, core.ErrTooLarge},
	} {
		snap := c.snapshot("f", 2, 0)
		snap.Log = []json.RawMessage{[]byte(`1`), []byte(bad.entry)}
		_, err := s.SaveState(c.ctx, snap)
		c.wantErr(err, bad.target, "SaveState with the log entry "+clip([]byte(bad.entry)))
	}
	c.wantUnchanged(d, before, "after what was refused")
}

package conformance

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// step is one call on a Store that takes several physical writes.
type step struct {
	name    string
	before  int // size of the snapshot there is before; -1: none
	after   int // size of the snapshot that is saved; -1: the flow is deleted
	cas     bool
	history int
}

func steps() []step {
	return []step{
		{name: "first small", before: -1, after: 0},
		{name: "first large", before: -1, after: 1500},
		{name: "first large on no flow", before: -1, after: 1500, cas: true},
		{name: "small over small", before: 0, after: 0, cas: true},
		{name: "large over small", before: 0, after: 1500},
		{name: "small over large", before: 1500, after: 0},
		{name: "large over large", before: 1500, after: 1500, cas: true},
		{name: "large over large with history", before: 1500, after: 1500, history: 2},
		{name: "delete of small", before: 0, after: -1},
		{name: "delete of large", before: 1500, after: -1},
		{name: "delete of large with history", before: 1500, after: -1, history: 2},
	}
}

func cutAnywhere() law {
	return law{
		layer: storeLayer, name: "cut_anywhere",
		text: "A process that dies between any two physical writes leaves the old snapshot or the new one; trying again converges, and a sweep leaves nothing.",
		cases: []testCase{
			{"record_by_record", func(c *caseRun) { cutSteps(c, false) }},
			{"inside_batches", func(c *caseRun) { cutSteps(c, true) }},
		},
	}
}

func cutSteps(c *caseRun, batches bool) {
	d := c.openTight()
	for i, st := range steps() {
		for cut := 0; ; cut++ {
			t := c.prepare(d, st, fmt.Sprintf("f%d.%d", i, cut))
			f := newFaultDriver(d)
			f.cut = cut
			err := t.run(c.over(f, batches, st))
			whole := f.writes < cut
			if err == nil && cut == 0 {
				c.Fatalf("%s: it succeeded without a write", st.name)
			}
			t.judge(c, d, err, fmt.Sprintf("%s, cut after %d writes", st.name, cut))
			if whole || c.Failed() {
				break
			}
		}
	}
}

// over returns a cold Store over a driver with faults.
func (c *caseRun) over(f *faultDriver, batches bool, st step) flowStore {
	var d driver.Driver = f
	if batches {
		d = batchFaultDriver{f}
	}
	return c.store(d, persistence.WithHistory(st.history))
}

// trial is one step at work on one flow.
type trial struct {
	c       *caseRun
	st      step
	flow    string
	old     *core.Snapshot
	next    core.Snapshot
	oldLife core.Revision
}

func (c *caseRun) prepare(d driver.Driver, st step, flow string) *trial {
	c.Helper()
	t := &trial{c: c, st: st, flow: c.flow(flow), next: c.snapshot(flow, 2, max(0, st.after))}
	if st.before >= 0 {
		old := c.snapshot(flow, 1, st.before)
		old.Revision = c.save(c.store(d, persistence.WithHistory(st.history)), old).Revision
		t.old, t.oldLife = &old, old.Revision
	}
	return t
}

func (t *trial) run(s flowStore) error {
	if t.st.after < 0 {
		return s.Delete(t.c.ctx, t.flow)
	}
	var opts []core.SaveOption
	if t.st.cas {
		opts = append(opts, core.IfRevision(t.oldLife))
	}
	_, err := s.SaveState(t.c.ctx, t.next, opts...)
	return err
}

// found is what a reader finds after a step.
type found int

const (
	foundOld found = iota + 1
	foundNew
	foundOther
)

// look loads the flow through a cold Store.
func (t *trial) look(d driver.Driver) (found, error) {
	snap, err := t.c.store(d).LoadState(t.c.ctx, t.flow)
	switch {
	case isNotFound(err) && t.st.after < 0:
		return foundNew, nil
	case isNotFound(err) && t.old == nil:
		return foundOld, nil
	case err != nil:
		return foundOther, err
	case t.st.after >= 0 && sameSnapshot(snap, t.next) == nil:
		return foundNew, nil
	case t.old != nil:
		return foundOld, sameSnapshot(snap, *t.old)
	}
	return foundOther, fmt.Errorf("a snapshot that was never saved: %s", clip(snap.State))
}

// judge compares what a step reported with what is there, repeats it, and looks for
// leftovers.
func (t *trial) judge(c *caseRun, d driver.Driver, err error, what string) {
	c.Helper()
	which, lerr := t.look(d)
	switch {
	case lerr != nil:
		c.Errorf("%s: neither the old snapshot nor the new one: %v", what, lerr)
		return
	case err == nil && which != foundNew:
		c.Errorf("%s: it was acknowledged and is not there", what)
	case err != nil && !core.OutcomeUnknown(err) && which == foundNew && t.st.after >= 0:
		c.Errorf("%s: it failed for certain and is there: %v", what, err)
	case errors.Is(err, core.ErrNotFound):
		c.Errorf("%s: a fault was reported as ErrNotFound: %v", what, err)
	}
	intact := c.store(d)
	if t.st.after < 0 {
		if err := intact.Delete(c.ctx, t.flow); err != nil {
			c.Errorf("%s: Delete again failed: %v", what, err)
		}
		if _, err := intact.Sweep(c.ctx, t.flow); err != nil {
			c.Errorf("%s: Sweep failed: %v", what, err)
		}
		if rs := c.siblings(d, driver.Partition(t.flow), driver.RangeOptions{}); len(rs) > 0 {
			c.Errorf("%s: after Delete again and a sweep %d siblings are left", what, len(rs))
		}
		c.wantNoFlow(intact, t.flow, what)
		return
	}
	again := t.next
	if _, err := intact.SaveState(c.ctx, again); err != nil {
		c.Errorf("%s: the save again failed: %v", what, err)
		return
	}
	c.wantSnapshot(c.store(d), again)
	c.wantNothingOf(d, intact, t.flow, what)
}

// wantNothingOf is wantNothingLeft without a look at other flows.
func (c *caseRun) wantNothingOf(d driver.Driver, s flowStore, flowID, what string) {
	c.Helper()
	c.save(s, core.Snapshot{FlowID: flowID, State: []byte(`{}`)})
	if _, err := s.Sweep(c.ctx, flowID); err != nil {
		c.Errorf("%s: Sweep failed: %v", what, err)
	}
	if rs := c.siblings(d, driver.Partition(flowID), driver.RangeOptions{}); len(rs) > 0 {
		c.Errorf("%s: after a small save and a sweep %d siblings are left, the first is %q", what, len(rs), rs[0].Sort)
	}
}

func failuresKeepTheirMeaning() law {
	return law{
		layer: storeLayer, name: "failures_keep_their_meaning",
		text: "A failed read is never \"not found\"; an own write whose reply was lost is recognized or left open, never denied.",
		cases: []testCase{
			{"failed_reads", failedReads},
			{"lost_replies", func(c *caseRun) { replies(c, lost) }},
			{"replies_lost_and_retried", func(c *caseRun) { replies(c, retried) }},
		},
	}
}

func failedReads(c *caseRun) {
	d := c.openTight()
	snap := c.snapshot("f", 1, 1500)
	snap.Revision = c.save(c.store(d), snap).Revision
	before := c.dump(d)
	strange := errors.New("strange")
	for _, cause := range []error{core.ErrUnavailable, core.ErrDenied, strange} {
		f := newFaultDriver(d)
		f.reads = cause
		s := c.store(f)
		for _, id := range []string{snap.FlowID, c.flow("absent")} {
			_, err := s.LoadState(c.ctx, id)
			c.wantErr(err, cause, "LoadState while reads fail")
			if errors.Is(err, core.ErrNotFound) {
				c.Errorf("LoadState while reads fail returned ErrNotFound: %v", err)
			}
			c.wantWrapped(err, id)
			next := c.snapshot("f", 2, 1500)
			next.FlowID = id
			_, err = s.SaveState(c.ctx, next, core.IfRevision(snap.Revision))
			c.wantErr(err, cause, "SaveState while reads fail")
			c.wantErr(s.Delete(c.ctx, id), cause, "Delete while reads fail")
		}
		var last error
		for _, err := range s.Flows(c.ctx, driver.ListOptions{}) {
			last = err
		}
		c.wantErr(last, cause, "Flows while reads fail")
		last = nil
		for _, err := range s.History(c.ctx, snap.FlowID) {
			last = err
		}
		c.wantErr(last, cause, "History while reads fail")
	}
	c.wantUnchanged(d, before, "after calls whose reads failed")
	c.wantSnapshot(c.store(d), snap)
}

// replies loses the reply of each physical write of each step in turn.
func replies(c *caseRun, kind reply) {
	d := c.openTight()
	for i, st := range steps() {
		for n := 0; ; n++ {
			t := c.prepare(d, st, fmt.Sprintf("f%d.%d", i, n))
			f := newFaultDriver(d)
			f.lose = map[int]reply{n: kind}
			err := t.run(c.over(f, false, st))
			what := fmt.Sprintf("%s, reply %d of %d lost", st.name, n, f.writes)
			if errors.Is(err, core.ErrConflict) && !core.OutcomeUnknown(err) {
				c.Errorf("%s: its own write was taken for another's: %v", what, err)
			}
			t.judge(c, d, err, what)
			if n >= f.writes || c.Failed() {
				break
			}
		}
	}
}

package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func isNotFound(err error) bool { return errors.Is(err, core.ErrNotFound) }

func flowsExpire() law {
	return law{
		layer: storeLayer, name: "flows_expire",
		text: "A flow with a TTL is gone at once and as a whole, and what comes after is a new flow.",
		cases: []testCase{
			{"gone_as_a_whole", goneAsAWhole},
			{"a_new_flow_after", newFlowAfter},
			{"each_save_begins_anew", eachSaveBeginsAnew},
			{"without_ttl_it_stays", withoutTTL},
		},
	}
}

// ttl returns a time to live that the case can wait for.
func (c *caseRun) ttl() time.Duration { return c.soon().Sub(c.clock.Now()) }

// expireFlow lets the flow's head expire, by what Flows says of it.
func (c *caseRun) expireFlow(s flowStore, flowID string) {
	c.Helper()
	info, ok := c.flows(s)[flowID]
	if !ok || info.Headless {
		return // a real clock was faster
	}
	if info.ExpireAt.IsZero() {
		c.Fatalf("a flow with a TTL has no expiry")
	}
	c.expire(info.ExpireAt)
}

func goneAsAWhole(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithTTL(c.ttl()), persistence.WithHistory(2))
	for _, size := range []int{0, 1500} {
		name := fmt.Sprint("f", size)
		c.save(s, c.snapshot(name, 1, size))
		rev := c.save(s, c.snapshot(name, 2, size)).Revision
		c.expireFlow(s, c.flow(name))
		for _, st := range []flowStore{s, c.store(d)} {
			c.wantNoFlow(st, c.flow(name), "after its expiry")
			_, err := st.SaveState(c.ctx, c.snapshot(name, 3, size), core.IfRevision(rev))
			c.wantErr(err, core.ErrConflict, "SaveState on the revision of an expired flow")
			for _, err := range st.History(c.ctx, c.flow(name)) {
				c.wantErr(err, core.ErrNotFound, "History of an expired flow")
			}
		}
		if info, ok := c.flows(s)[c.flow(name)]; ok && !info.Headless {
			c.Errorf("Flows lists an expired flow: %+v", info)
		}
		if _, err := s.Sweep(c.ctx, c.flow(name)); err != nil {
			c.Errorf("Sweep of an expired flow failed: %v", err)
		}
		if left := c.dump(d); len(left) > 0 {
			c.Errorf("after expiry and a sweep there are %d records: %q", len(left), left.keys())
		}
	}
}

func newFlowAfter(c *caseRun) {
	d := c.openTight()
	s, lasting := c.store(d, persistence.WithTTL(c.ttl())), c.store(d)
	for _, size := range []int{0, 1500} {
		name := fmt.Sprint("f", size)
		c.save(s, c.snapshot(name, 1, size))
		old := c.save(s, c.snapshot(name, 2, size)).Revision
		c.expireFlow(s, c.flow(name))
		snap := c.snapshot(name, 3, size)
		snap.Revision = c.save(lasting, snap, core.IfRevision(core.Revision{})).Revision
		if snap.Revision.N != 1 {
			c.Errorf("the first save after an expiry has the revision %v", snap.Revision)
		}
		_, err := s.SaveState(c.ctx, c.snapshot(name, 4, size), core.IfRevision(old))
		c.wantErr(err, core.ErrConflict, "SaveState on a revision from before the expiry")
		c.wantSnapshot(s, snap)
		c.wantNothingLeft(d, lasting, c.flow(name))
	}
}

func eachSaveBeginsAnew(c *caseRun) {
	if !c.h.has(InjectedClock) {
		c.unsupported(InjectedClock)
	}
	d := c.openTight()
	s := c.store(d, persistence.WithTTL(time.Hour))
	for n := range 5 {
		snap := c.snapshot("f", n, n%2*1500)
		snap.Revision = c.save(s, snap).Revision
		saved := c.clock.Now()
		c.clock.set(saved.Add(time.Hour - time.Millisecond))
		c.wantSnapshot(s, snap)
		if at := c.flows(s)[snap.FlowID].ExpireAt; !at.Equal(saved.Add(time.Hour)) {
			c.Errorf("save %d at %v with a TTL of an hour expires at %v", n, saved, at)
		}
	}
	c.clock.set(c.clock.Now().Add(time.Hour))
	c.wantNoFlow(s, c.flow("f"), "an hour after the last save")
}

func withoutTTL(c *caseRun) {
	if !c.h.has(InjectedClock) {
		c.unsupported(InjectedClock)
	}
	d := c.openTight()
	snap := c.snapshot("f", 2, 1500)
	c.save(c.store(d, persistence.WithTTL(time.Hour)), c.snapshot("f", 1, 1500))
	c.save(c.store(d), snap)
	c.clock.set(c.clock.Now().AddDate(50, 0, 0))
	c.wantSnapshot(c.store(d), snap)
	if info := c.flows(c.store(d))[snap.FlowID]; !info.ExpireAt.IsZero() {
		c.Errorf("a flow saved without a TTL expires at %v", info.ExpireAt)
	}
}

func sweepTakesGarbageOnly() law {
	return law{
		layer: storeLayer, name: "sweep_takes_garbage_only",
		text: "Sweep removes what killed writers left and nothing that is named, whoever writes at the same time.",
		cases: []testCase{
			{"live_flows_stay", liveFlowsStay},
			{"headless_partitions_go", headlessGo},
			{"between_payload_and_head", betweenPayloadAndHead},
			{"beside_writers", sweepBesideWriters},
		},
	}
}

func liveFlowsStay(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithHistory(3))
	var all []core.Snapshot
	for n := range 5 {
		snap := c.snapshot("f", n, 1500)
		snap.Revision = c.save(s, snap).Revision
		all = append(all, snap)
	}
	before := c.dump(d).keys()
	for range 3 {
		removed, err := s.Sweep(c.ctx, c.flow("f"))
		if err != nil || removed != 0 {
			c.Errorf("Sweep of a flow without garbage removed %d records (error %v): %q are left of %q", removed, err, c.dump(d).keys(), before)
		}
	}
	c.wantSnapshot(s, all[4])
	c.wantHistory(s, all[2:])
	// The revision is still the newest one: a sweep never makes a run fail.
	c.save(s, c.snapshot("f", 9, 1500), core.IfRevision(all[4].Revision))
	if removed, err := s.Sweep(c.ctx, c.flow("absent")); err != nil || removed != 0 {
		c.Errorf("Sweep of no flow removed %d records (error %v)", removed, err)
	}
}

// headlessGo takes the head away, as an expiry does.
func headlessGo(c *caseRun) {
	d := c.openSmall(tight)
	s := c.store(d)
	snap, rs := c.overflowing(d, s)
	other := c.snapshot("g", 1, 1500)
	c.save(s, other)
	c.remove(d, driver.Partition(snap.FlowID).Head())
	c.wantNoFlow(s, snap.FlowID, "after its head is gone")
	removed, err := s.Sweep(c.ctx, snap.FlowID)
	if err != nil || removed != len(rs) {
		c.Errorf("Sweep removed %d records (error %v), there were %d", removed, err, len(rs))
	}
	if _, ok := c.list(d)[driver.Partition(snap.FlowID)]; ok {
		c.Errorf("after Sweep Partitions still lists the partition")
	}
	c.wantSnapshot(s, other)
}

// betweenPayloadAndHead lets others strike when the segments of a save are written and its
// head is not. A blind save must get through; a save on a revision may get through or be told
// of a conflict where another has written. Whatever is acknowledged must be whole.
func betweenPayloadAndHead(c *caseRun) {
	d := c.openSmall(tight)
	other := c.store(d)
	strikes := map[string]func(id string) error{
		"sweep": func(id string) error {
			_, err := other.Sweep(c.ctx, id)
			return err
		},
		"delete": func(id string) error { return other.Delete(c.ctx, id) },
		"delete and sweep": func(id string) error {
			_, err := other.Sweep(c.ctx, id)
			return errors.Join(other.Delete(c.ctx, id), err)
		},
		"save": func(id string) error {
			_, err := other.SaveState(c.ctx, core.Snapshot{FlowID: id, State: []byte(`{"other":1}`)})
			return err
		},
	}
	for name, strike := range strikes {
		for _, first := range []bool{true, false} {
			for _, swap := range []bool{true, false} {
				flow := fmt.Sprint(name, first, swap)
				c.strikeBetween(d, flow, first, swap, name == "sweep", strike)
			}
		}
	}
}

func (c *caseRun) strikeBetween(d driver.Driver, flow string, first, swap, harmless bool, strike func(id string) error) {
	c.Helper()
	id, what := c.flow(flow), fmt.Sprintf("%s (first save: %t, on a revision: %t)", flow, first, swap)
	var rev core.Revision
	if !first {
		rev = c.save(c.store(d), c.snapshot(flow, 1, 1500)).Revision
	}
	h := &hookDriver{Driver: d, hook: func() error { return strike(id) }}
	next := c.snapshot(flow, 2, 1500)
	var opts []core.SaveOption
	if swap {
		opts = append(opts, core.IfRevision(rev))
	}
	_, err := c.store(h).SaveState(c.ctx, next, opts...)
	switch {
	case h.hook != nil || h.err != nil:
		c.Errorf("%s: the strike did not happen or failed: %v", what, h.err)
	case err == nil:
		c.wantSnapshot(c.store(d), next)
	case !swap || harmless || !errors.Is(err, core.ErrConflict):
		c.Errorf("%s: the save failed: %v", what, err)
	default:
		// The loser's payload is not to be seen.
		if snap, err := c.store(d).LoadState(c.ctx, id); err == nil && sameSnapshot(snap, next) == nil {
			c.Errorf("%s: a save that was told of a conflict is there", what)
		} else if err != nil && !isNotFound(err) {
			c.Errorf("%s: LoadState after a conflict: %v", what, err)
		}
	}
	c.wantNothingOf(d, c.store(d), id, what)
}

func sweepBesideWriters(c *caseRun) {
	const writes = 15
	d := c.openTight()
	snaps := make([]core.Snapshot, 3*writes)
	for n := range snaps {
		snaps[n] = c.snapshot("f", n, n%3*800)
	}
	var unknown atomic.Uint64 // a client that is never sure of a conflict may leave it open
	c.parallel(5, func(i int) error {
		s := c.store(d)
		for n := range writes {
			if i >= 3 {
				if _, err := s.Sweep(c.ctx, c.flow("f")); err != nil {
					return err
				}
				continue
			}
			if _, err := s.SaveState(c.ctx, snaps[i*writes+n]); core.OutcomeUnknown(err) {
				unknown.Add(1)
			} else if err != nil {
				return err
			}
			snap, err := s.LoadState(c.ctx, c.flow("f"))
			if err != nil {
				return err
			}
			if _, err := agreed(snap); err != nil {
				return err
			}
		}
		return nil
	})
	rev := c.load(c.store(d), c.flow("f")).Revision
	if rev.N > 3*writes || rev.N < 3*writes-unknown.Load() {
		c.Errorf("after %d saves beside sweeps, %d of them with an open outcome, the revision is %v", 3*writes, unknown.Load(), rev)
	}
	c.wantNothingLeft(d, c.store(d), c.flow("f"))
}

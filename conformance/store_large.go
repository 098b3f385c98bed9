package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func valuesComeBack() law {
	return law{
		layer: storeLayer, name: "values_come_back",
		text: "State, progress, method and time come back equal, whether kept inline, compressed or in segments.",
		cases: []testCase{
			{"numbers", func(c *caseRun) { snapshotsComeBack(c, numberStates()) }},
			{"strings", func(c *caseRun) { snapshotsComeBack(c, stringStates()) }},
			{"keys", func(c *caseRun) { snapshotsComeBack(c, keyStates()) }},
			{"empties_and_nesting", func(c *caseRun) { snapshotsComeBack(c, shapeStates()) }},
			{"markers_and_attacks", func(c *caseRun) { snapshotsComeBack(c, markerStates()) }},
			{"deepest", func(c *caseRun) {
				snapshotsComeBack(c, []string{`{"a":` + strings.Repeat("[", core.MaxStateDepth-1) + strings.Repeat("]", core.MaxStateDepth-1) + `}`})
			}},
			{"ten_thousand_keys", tenThousandKeys},
			{"ids", storeIDs},
			{"nothing_is_aliased", storeNothingAliased},
		},
	}
}

func snapshotsComeBack(c *caseRun, states []string) {
	d := c.openTight()
	s := c.store(d)
	for i, state := range states {
		snap := c.snapshot("f", i, 0)
		snap.State = []byte(state)
		switch i % 3 {
		case 0:
			snap.Progress = nil
		case 1:
			snap.Progress = []byte(state)
		}
		snap.Revision = c.save(s, snap).Revision
		c.wantSnapshot(s, snap)
		c.wantSnapshot(c.store(d), snap) // one that knows nothing yet
	}
}

func tenThousandKeys(c *caseRun) {
	var keys, list bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&keys, `%s"k%d":%d.0`, comma(i), i, i)
		fmt.Fprintf(&list, `%s%d`, comma(i), i)
	}
	snapshotsComeBack(c, []string{`{` + keys.String() + `}`, `{"a":[` + list.String() + `]}`})
}

// storeIDs uses the ids of law 1, with a state that takes siblings.
func storeIDs(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	var ids []string
	for _, id := range slices.Concat(queryIDs(), lookalikeIDs(), sentinelIDs()) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for i, id := range ids {
		snap := c.snapshot(id, i, i%2*600)
		if _, err := s.SaveState(c.ctx, snap, core.IfRevision(core.Revision{})); err != nil {
			c.Errorf("SaveState of the new flow %q failed, is it taken for another? %v", id, err)
		}
	}
	for i, id := range ids {
		if n, err := agreed(c.load(s, c.flow(id))); err != nil || n != i {
			c.Errorf("flow %q has the snapshot of flow %d of %d, want %d (%v)", id, n, len(ids), i, err)
		}
	}
	listed := c.flows(s)
	for i, id := range ids {
		if _, ok := listed[c.flow(id)]; !ok {
			c.Errorf("Flows does not list %q", id)
		}
		if i%2 == 0 {
			if err := s.Delete(c.ctx, c.flow(id)); err != nil {
				c.Errorf("Delete of %q failed: %v", id, err)
			}
		}
	}
	for i, id := range ids {
		if i%2 == 0 {
			c.wantNoFlow(s, c.flow(id), "after Delete")
		} else if n, err := agreed(c.load(s, c.flow(id))); err != nil || n != i {
			c.Errorf("after Delete of others flow %q has the snapshot %d (%v)", id, n, err)
		}
	}
}

// flows lists the case's flows.
func (c *caseRun) flows(s flowStore) map[string]persistence.FlowInfo {
	c.Helper()
	out := map[string]persistence.FlowInfo{}
	for info, err := range s.Flows(c.ctx, driver.ListOptions{}) {
		if err != nil {
			c.Fatalf("Flows failed: %v", err)
		}
		if c.mine(driver.Partition(info.FlowID)) {
			out[info.FlowID] = info
		}
	}
	return out
}

func storeNothingAliased(c *caseRun) {
	for _, size := range []int{0, 200, 1500} {
		s := c.store(c.openTight())
		snap := c.snapshot(fmt.Sprint("f", size), 1, size)
		given := snap
		given.State, given.Progress = bytes.Clone(snap.State), bytes.Clone(snap.Progress)
		c.save(s, given)
		spoil(given.State)
		spoil(given.Progress)
		for range 2 {
			c.wantSnapshot(s, snap)
			got := c.load(s, snap.FlowID)
			spoil(got.State)
			spoil(got.Progress)
		}
		c.wantSnapshot(s, snap)
	}
}

func largeStatesLeaveNothing() law {
	return law{
		layer: storeLayer, name: "large_states",
		text: "A state of any size is kept whole or refused whole, and what it no longer needs is removed.",
		cases: []testCase{
			{"around_the_limits", aroundTheLimits},
			{"grow_and_shrink", growAndShrink},
			{"large_progress_small_state", func(c *caseRun) { unevenParts(c, 10, 3000) }},
			{"small_progress_large_state", func(c *caseRun) { unevenParts(c, 3000, 10) }},
			{"compressible", compressible},
			{"many_segments", manySegments},
		},
	}
}

// wantOnlyHead demands that a flow without history is one record.
func (c *caseRun) wantOnlyHead(d driver.Driver, flowID, why string) {
	c.Helper()
	for k := range c.dump(d) {
		if string(k.Partition) == flowID && k.Sort != "" {
			c.Errorf("%s: %s is left over", why, show(k))
		}
	}
}

// wantNothingLeft saves a small state, sweeps, and demands that only the head is there.
func (c *caseRun) wantNothingLeft(d driver.Driver, s flowStore, flowID string) {
	c.Helper()
	c.save(s, core.Snapshot{FlowID: flowID, State: []byte(`{}`)})
	if _, err := s.Sweep(c.ctx, flowID); err != nil {
		c.Errorf("Sweep failed: %v", err)
	}
	c.wantOnlyHead(d, flowID, "after a small save and a sweep")
}

// aroundTheLimits tries every size at which the layout could change by one byte.
func aroundTheLimits(c *caseRun) {
	d := c.openSmall(tight)
	s := c.store(d)
	var sizes []int
	for _, around := range []int{tight.Inline, tight.Record, 2 * tight.Record} {
		for n := around - 400; n <= around+20; n += 7 {
			sizes = append(sizes, n)
		}
	}
	for i, n := range sizes {
		snap := core.Snapshot{FlowID: c.flow("f"), Method: "m", State: fmt.Appendf(nil, `{"x":"%s"}`, c.noise(n))}
		if i%2 == 0 {
			snap.Progress = []byte(`{"p":1}`)
		}
		snap.Revision = c.save(s, snap).Revision
		if err := sameSnapshot(c.load(s, snap.FlowID), snap); err != nil {
			c.Fatalf("a state of %d bytes, the limits are %+v: %v", len(snap.State), tight, err)
		}
	}
	c.wantNothingLeft(d, s, c.flow("f"))
}

func growAndShrink(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for i, size := range []int{0, 300, 700, 1500, 5000, 1500, 700, 300, 0, 5000, 0} {
		snap := c.snapshot("f", i, size)
		snap.Revision = c.save(s, snap).Revision
		c.wantSnapshot(s, snap)
		if size == 0 {
			c.wantOnlyHead(d, snap.FlowID, fmt.Sprintf("save %d, of a small state", i))
		}
	}
	other := c.snapshot("g", 1, 1500)
	c.save(s, other)
	before := c.dump(d)
	c.save(s, c.snapshot("f", 1, 5000))
	c.save(s, c.snapshot("f", 2, 0))
	for k := range before {
		if string(k.Partition) == c.flow("f") {
			delete(before, k)
		}
	}
	after := c.dump(d)
	c.wantOnlyHead(d, c.flow("f"), "after growing and shrinking")
	delete(after, driver.Partition(c.flow("f")).Head())
	if !slices.Equal(before.keys(), after.keys()) {
		c.Errorf("saving one flow changed the records of another from %q to %q", before.keys(), after.keys())
	}
	c.wantSnapshot(s, other)
}

func unevenParts(c *caseRun, state, progress int) {
	d := c.openTight()
	s := c.store(d)
	for n := range 3 {
		snap := c.snapshot("f", n, 0)
		snap.State = fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, n, c.noise(state*n))
		snap.Progress = fmt.Appendf(nil, `["%s"]`, c.noise(progress*n))
		snap.Revision = c.save(s, snap).Revision
		c.wantSnapshot(c.store(d), snap)
	}
	c.wantNothingLeft(d, s, c.flow("f"))
}

func compressible(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for n, size := range []int{1000, 20_000, 200_000} {
		snap := c.snapshot("f", n, 0)
		snap.State = fmt.Appendf(nil, `{"n":%d,"x":%q}`, n, bytes.Repeat([]byte("x"), size))
		snap.Revision = c.save(s, snap).Revision
		c.wantSnapshot(c.store(d), snap)
	}
	c.wantNothingLeft(d, s, c.flow("f"))
}

// manySegments has more segments than ten and than a page.
func manySegments(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	for n, size := range []int{12_000, 90_000} {
		snap := c.snapshot("f", n, size)
		snap.Revision = c.save(s, snap).Revision
		c.wantSnapshot(c.store(d), snap)
	}
	c.wantNothingLeft(d, s, c.flow("f"))
}

func damageIsReported() law {
	return law{
		layer: storeLayer, name: "damage_is_reported",
		text: "A damaged or newer record is ErrCorrupt or ErrUnsupported: never a part, never \"not found\", never overwritten unread.",
		cases: []testCase{
			{"missing_segment", missingSegment},
			{"damaged_segment", damagedSegment},
			{"damaged_head", damagedHead},
			{"newer_version", newerVersion},
			{"decompression_is_bounded", decompressionBounded},
		},
	}
}

// overflowing saves a flow that must have siblings, and returns them.
func (c *caseRun) overflowing(d driver.Driver, s flowStore) (core.Snapshot, []driver.Record) {
	c.Helper()
	snap := c.snapshot("f", 1, 3000)
	snap.Revision = c.save(s, snap).Revision
	rs := c.siblings(d, driver.Partition(snap.FlowID), driver.RangeOptions{})
	if len(rs) < 2 {
		c.Fatalf("a state of %d bytes has %d siblings at the limits %+v; the case needs two", len(snap.State), len(rs), d.Limits())
	}
	return snap, rs
}

// wantCorrupt demands ErrCorrupt of stores that knew the flow and of one that did not.
func (c *caseRun) wantCorrupt(what, flowID string, stores ...flowStore) {
	c.Helper()
	for _, s := range stores {
		snap, err := s.LoadState(c.ctx, flowID)
		c.wantErr(err, core.ErrCorrupt, what+": LoadState")
		if errors.Is(err, core.ErrNotFound) {
			c.Errorf("%s: the error is ErrNotFound as well: %v", what, err)
		}
		if snap.State != nil || snap.Progress != nil {
			c.Errorf("%s: a part of the snapshot came with the error", what)
		}
	}
}

func missingSegment(c *caseRun) {
	d := c.openSmall(tight)
	s := c.store(d)
	snap, rs := c.overflowing(d, s)
	p := driver.Partition(snap.FlowID)
	for i, r := range rs {
		c.remove(d, p.Sibling(r.Sort))
		c.wantCorrupt(fmt.Sprintf("segment %d of %d is gone", i, len(rs)), snap.FlowID, s, c.store(d))
		c.put(d, p.Sibling(r.Sort), driver.Record{Data: r.Data}, driver.IfAbsent())
		c.wantSnapshot(s, snap)
	}
	for _, r := range rs {
		c.remove(d, p.Sibling(r.Sort))
	}
	c.wantCorrupt("all segments are gone", snap.FlowID, s, c.store(d))
	// A new save needs nothing of what is lost.
	next := c.snapshot("f", 2, 3000)
	c.save(s, next)
	c.wantSnapshot(c.store(d), next)
}

func damagedSegment(c *caseRun) {
	d := c.openSmall(tight)
	s := c.store(d)
	snap, rs := c.overflowing(d, s)
	p := driver.Partition(snap.FlowID)
	try := func(what string, r driver.Record, data []byte) {
		c.put(d, p.Sibling(r.Sort), driver.Record{Data: data}, driver.Condition{})
		c.wantCorrupt(what, snap.FlowID, s, c.store(d))
		c.put(d, p.Sibling(r.Sort), driver.Record{Data: r.Data}, driver.Condition{})
	}
	for i, r := range rs {
		for _, at := range []int{0, len(r.Data) / 2, len(r.Data) - 1} {
			flipped := bytes.Clone(r.Data)
			flipped[at] ^= 0x10
			try(fmt.Sprintf("byte %d of segment %d is another", at, i), r, flipped)
		}
		try("a segment is cut short", r, r.Data[:len(r.Data)-1])
		try("a segment is empty", r, nil)
		try("a segment is another", r, rs[(i+1)%len(rs)].Data)
	}
	c.wantSnapshot(s, snap)
}

func damagedHead(c *caseRun) {
	d := c.openSmall(tight)
	for _, size := range []int{0, 200, 3000} {
		s := c.store(d)
		snap := c.snapshot(fmt.Sprint("f", size), 1, size)
		snap.Revision = c.save(s, snap).Revision
		head := driver.Partition(snap.FlowID).Head()
		r := c.get(d, head)
		try := func(what string, data []byte) {
			broken := r
			broken.Data = data
			c.put(d, head, broken, driver.Condition{})
			c.wantCorrupt(what, snap.FlowID, s, c.store(d))
		}
		for n := 1; n < len(r.Data); n += 1 + len(r.Data)/60 {
			if cut := r.Data[:n]; bytes.IndexByte(cut, '\n') < 0 {
				try(fmt.Sprintf("the head's data is cut to %d of %d bytes", n, len(r.Data)), cut)
			}
		}
		try("the head's data is noise", c.noise(300))
		try("the head's data is zeros", make([]byte, 300))
		try("the head's data is a number", []byte("1\n"))
		try("the head's data is an empty object", []byte("{}\n"))
		if payload := bytes.IndexByte(r.Data, '\n') + 1; payload < len(r.Data) {
			for at := payload; at < len(r.Data); at += 1 + (len(r.Data)-payload)/20 {
				flipped := bytes.Clone(r.Data)
				flipped[at] ^= 0x10
				try(fmt.Sprintf("byte %d of the head's data is another", at), flipped)
			}
			try("the payload in the head is cut short", r.Data[:len(r.Data)-1])
		}
		c.put(d, head, r, driver.Condition{})
		c.wantSnapshot(s, snap)
	}
}

// newerVersion raises the format version in the head's first line: the flow of a newer
// program is neither read nor written over.
func newerVersion(c *caseRun) {
	d := c.openTight()
	for _, size := range []int{0, 3000} {
		snap := c.snapshot(fmt.Sprint("f", size), 1, size)
		rev := c.save(c.store(d), snap).Revision
		head := driver.Partition(snap.FlowID).Head()
		r := c.get(d, head)
		newer := bytes.Replace(r.Data, []byte(`"v":1`), []byte(`"v":9`), 1)
		if bytes.Equal(newer, r.Data) {
			c.Fatalf("the head's data has no version to raise: %s", clip(r.Data))
		}
		r.Data = newer
		c.put(d, head, r, driver.Condition{})
		before := c.dump(d)
		s := c.store(d)
		_, err := s.LoadState(c.ctx, snap.FlowID)
		c.wantErr(err, core.ErrUnsupported, "LoadState of a newer version")
		for _, opts := range [][]core.SaveOption{nil, {core.IfRevision(rev)}, {core.IfRevision(core.Revision{})}} {
			_, err := s.SaveState(c.ctx, c.snapshot(fmt.Sprint("f", size), 2, size), opts...)
			c.wantErr(err, core.ErrUnsupported, "SaveState over a newer version")
		}
		_, err = s.Sweep(c.ctx, snap.FlowID)
		c.wantErr(err, core.ErrUnsupported, "Sweep of a newer version")
		c.wantUnchanged(d, before, "after calls on a newer version")
	}
}

// decompressionBounded reads with a small bound what was written with a large one.
func decompressionBounded(c *caseRun) {
	d := c.openSmall(tight)
	snap := core.Snapshot{FlowID: c.flow("bomb"), State: fmt.Appendf(nil, `{"x":%q}`, bytes.Repeat([]byte{' '}, 1<<20))}
	c.save(c.store(d), snap)
	before := c.dump(d)
	got, err := c.store(d, persistence.WithMaxState(10_000)).LoadState(c.ctx, snap.FlowID)
	if err == nil || got.State != nil {
		c.Errorf("LoadState with a bound of 10000 bytes returned %d bytes", len(got.State))
	}
	if errors.Is(err, core.ErrNotFound) {
		c.Errorf("LoadState over the bound returned %v", err)
	}
	c.wantUnchanged(d, before, "after a load over the bound")
}

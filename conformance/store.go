package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// flowStore is what the store layer judges.
type flowStore = subject.Store

// store returns a Store over d that shares the case's clock.
func (c *caseRun) store(d driver.Driver, opts ...persistence.Option) flowStore {
	return subject.New(c.ctx, d, append([]persistence.Option{persistence.WithClock(c.clock.Now)}, opts...)...)
}

// tight are limits at which a state of a few hundred bytes is compressed and one of a
// thousand overflows.
var tight = driver.Limits{Record: 1024, Inline: 512}

// openTight returns the case's store with tight limits where the driver can pretend them,
// else with its own.
func (c *caseRun) openTight() driver.Driver {
	c.Helper()
	if c.h.has(PretendedLimits) {
		return c.openSmall(tight)
	}
	return c.open()
}

// flow returns the ID of a flow of this case.
func (c *caseRun) flow(s string) string { return string(c.id(s)) }

// save saves a snapshot that must be accepted.
func (c *caseRun) save(s flowStore, snap core.Snapshot, opts ...core.SaveOption) core.Saved {
	c.Helper()
	saved, err := s.SaveState(c.ctx, snap, opts...)
	if err != nil {
		c.Fatalf("SaveState of flow %s failed: %v", clip([]byte(snap.FlowID)), err)
	}
	if saved.Revision.IsZero() || saved.Revision.Tag == "" {
		c.Fatalf("SaveState returned the revision %+v, which stands for no flow", saved.Revision)
	}
	return saved
}

// load loads a flow that must be there.
func (c *caseRun) load(s flowStore, flowID string) core.Snapshot {
	c.Helper()
	snap, err := s.LoadState(c.ctx, flowID)
	if err != nil {
		c.Fatalf("LoadState of flow %s failed: %v", clip([]byte(flowID)), err)
	}
	return snap
}

// wantSnapshot demands that the flow's newest snapshot is want.
func (c *caseRun) wantSnapshot(s flowStore, want core.Snapshot) {
	c.Helper()
	if err := sameSnapshot(c.load(s, want.FlowID), want); err != nil {
		c.Errorf("LoadState of flow %s: %v", clip([]byte(want.FlowID)), err)
	}
}

// wantNoFlow demands that the flow is not found.
func (c *caseRun) wantNoFlow(s flowStore, flowID, why string) {
	c.Helper()
	snap, err := s.LoadState(c.ctx, flowID)
	if err == nil {
		c.Errorf("%s: LoadState of flow %s returned %s", why, clip([]byte(flowID)), clip(snap.State))
		return
	}
	c.wantErr(err, core.ErrNotFound, why+": LoadState")
	c.wantWrapped(err, flowID)
}

// wantWrapped demands the one wrapper that says which flow.
func (c *caseRun) wantWrapped(err error, flowID string) {
	c.Helper()
	var e *core.Error
	if err != nil && (!errors.As(err, &e) || e.FlowID != flowID || e.Op == "") {
		c.Errorf("the error %q is no *core.Error with the operation and the flow", err)
	}
}

// sameSnapshot compares what was loaded with what was saved. The revision is compared unless
// want has none.
func sameSnapshot(got, want core.Snapshot) error {
	if got.FlowID != want.FlowID || got.Method != want.Method {
		return fmt.Errorf("flow %q, method %q, saved was flow %q, method %q", got.FlowID, got.Method, want.FlowID, want.Method)
	}
	if !want.Revision.IsZero() && got.Revision != want.Revision {
		return fmt.Errorf("revision is %+v, was %+v", got.Revision, want.Revision)
	}
	if !want.SavedAt.IsZero() {
		if err := sameTime(got.SavedAt, want.SavedAt, time.Microsecond); err != nil {
			return fmt.Errorf("SavedAt %w", err)
		}
	}
	if err := sameJSON(got.State, want.State); err != nil {
		return fmt.Errorf("state %w", err)
	}
	if (got.Progress == nil) != (want.Progress == nil) {
		return fmt.Errorf("progress is %s, was %s", clipState(got.Progress), clipState(want.Progress))
	}
	if want.Progress == nil {
		return nil
	}
	if err := sameJSON(got.Progress, want.Progress); err != nil {
		return fmt.Errorf("progress %w", err)
	}
	return nil
}

// snapshot returns a snapshot in which state and progress tell the same n, with about size
// bytes that do not compress in each.
func (c *caseRun) snapshot(flow string, n, size int) core.Snapshot {
	name, err := json.Marshal(flow)
	if err != nil {
		c.Fatalf("%v", err) // a string always has JSON
	}
	return core.Snapshot{
		FlowID: c.flow(flow), Method: fmt.Sprintf("method %d", n),
		State:    fmt.Appendf(nil, `{"id":%s,"n":%d,"pad":"%s"}`, name, n, c.noise(size)),
		Progress: fmt.Appendf(nil, `{"done":["a","b"],"n":%d,"pad":"%s"}`, n, c.noise(size)),
		SavedAt:  time.Date(2026, 3, 4, 5, 6, 7, n%1000*1000, time.UTC),
	}
}

// noise is text that does not compress well.
func (c *caseRun) noise(size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	b := make([]byte, size)
	for i := range b {
		b[i] = letters[c.rng.IntN(len(letters))]
	}
	return b
}

// agreed returns the n that state and progress of a snapshot agree on.
func agreed(s core.Snapshot) (int, error) {
	var state, progress struct{ N int }
	if err := errors.Join(json.Unmarshal(s.State, &state), json.Unmarshal(s.Progress, &progress)); err != nil {
		return 0, err
	}
	if state.N != progress.N || s.Method != fmt.Sprintf("method %d", state.N) {
		return 0, fmt.Errorf("state of save %d, progress of save %d, method of %q: three writes mixed", state.N, progress.N, s.Method)
	}
	return state.N, nil
}

// dump is every record of the case as the driver shows it.
type dump map[driver.Key]driver.Record

func (c *caseRun) dump(d driver.Driver) dump {
	c.Helper()
	out := dump{}
	for p, e := range c.list(d) {
		if !e.Headless {
			out[p.Head()] = c.get(d, p.Head())
		}
		for _, r := range c.siblings(d, p, driver.RangeOptions{}) {
			out[p.Sibling(r.Sort)] = r
		}
	}
	return out
}

// keys returns the keys in order, for messages.
func (u dump) keys() []string {
	var out []string
	for k := range maps.Keys(u) {
		out = append(out, fmt.Sprintf("%q %q", k.Partition, k.Sort))
	}
	slices.Sort(out)
	return out
}

// wantUnchanged demands that no record was written, changed or removed since before.
func (c *caseRun) wantUnchanged(d driver.Driver, before dump, why string) {
	c.Helper()
	after := c.dump(d)
	for k, b := range before {
		a, ok := after[k]
		if !ok {
			c.Errorf("%s: %s is gone", why, show(k))
		} else if a.Tag != b.Tag || !bytes.Equal(a.Data, b.Data) || !bytes.Equal(a.State, b.State) {
			c.Errorf("%s: %s was written", why, show(k))
		}
	}
	for k := range after {
		if _, ok := before[k]; !ok {
			c.Errorf("%s: %s is new", why, show(k))
		}
	}
}

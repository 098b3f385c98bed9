package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// countingDriver counts writes.
type countingDriver struct {
	driver.Driver
	puts atomic.Int32
}

func (c *countingDriver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	c.puts.Add(1)
	return c.Driver.Put(ctx, k, r, cond)
}

func entry(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"n":%d,"filler":"%0100d"}`, n, n))
}

func readLog(t *testing.T, s *persistence.Store, flowID string) (numbers []int) {
	t.Helper()
	for e, err := range s.Log(t.Context(), flowID) {
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ N int }
		if err := json.Unmarshal(e, &v); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, v.N)
	}
	return numbers
}

func TestTheLogRidesInTheHeadUntilItIsFull(t *testing.T) {
	d := &countingDriver{Driver: inmem.New(inmem.Config{})}
	s := persistence.New(d)
	const saves = 300
	for n := range saves {
		mustSave(t, s, core.Snapshot{FlowID: "f", State: []byte(`{}`), Log: []json.RawMessage{entry(n)}})
		r, err := d.Get(t.Context(), driver.Partition("f").Head())
		if err != nil || len(r.Data) > 4<<10+1000 {
			t.Fatalf("the head has %d bytes, %v", len(r.Data), err)
		}
	}
	chunks := siblings(t, d, "f")
	perChunk := 4 << 10 / (len(entry(100)) + 1)
	if len(chunks) < saves/perChunk-1 || len(chunks) > saves/perChunk+1 || !strings.HasPrefix(chunks[0], "ev/") {
		t.Errorf("%d chunks: %q", len(chunks), chunks)
	}
	if puts, want := int(d.puts.Load()), saves+len(chunks); puts > want+1 {
		t.Errorf("%d puts for %d saves and %d chunks", puts, saves, len(chunks))
	}
	for _, reader := range []*persistence.Store{s, persistence.New(d)} {
		got := readLog(t, reader, "f")
		if len(got) != saves {
			t.Fatalf("%d entries, want %d", len(got), saves)
		}
		for i, n := range got {
			if n != i {
				t.Fatalf("entry %d is %d", i, n)
			}
		}
	}
	if n, err := s.Sweep(t.Context(), "f"); n != 0 || err != nil {
		t.Errorf("a sweep takes %d records, %v", n, err)
	}
	if err := s.Delete(t.Context(), "f"); err != nil || len(siblings(t, d, "f")) != 0 {
		t.Errorf("deleted: %v, %q is left", err, siblings(t, d, "f"))
	}
	mustSave(t, s, core.Snapshot{FlowID: "f", State: []byte(`{}`)})
	if got := readLog(t, s, "f"); got != nil {
		t.Errorf("a flow that was made anew has the log %v", got)
	}
}

func TestASaveWithoutEntriesKeepsTheLog(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small})
	for n := range 20 {
		snap := core.Snapshot{FlowID: "f", State: state(10)}
		if n%2 == 0 {
			snap.Log = []json.RawMessage{entry(n), entry(n)}
		}
		mustSave(t, persistence.New(d), snap) // none that remembers the head
	}
	if got := readLog(t, s, "f"); len(got) != 20 || got[0] != 0 || got[19] != 18 {
		t.Errorf("got %v", got)
	}
}

func TestALogEntryThatCannotBeKeptIsRefused(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small})
	for _, c := range []struct {
		entry string
		want  error
	}{
		{`"` + strings.Repeat("x", core.MaxLogEntry) + `"`, core.ErrTooLarge},
		{`"` + strings.Repeat("x", small.Record) + `"`, core.ErrTooLarge},
		{`{`, core.ErrInvalidState},
	} {
		_, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: []byte(`{}`), Log: []json.RawMessage{[]byte(c.entry)}})
		if !errors.Is(err, c.want) {
			t.Errorf("%.20s: %v", c.entry, err)
		}
	}
	if _, err := d.Get(t.Context(), driver.Partition("f").Head()); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("something was written: %v", err)
	}
}

// A program that knows no logs goes on reading flows that have none.
func TestAFlowWithoutALogIsWrittenInTheFormatBeforeLogs(t *testing.T) {
	s, d := newStore(t, inmem.Config{})
	version := func() string {
		r, err := d.Get(t.Context(), driver.Partition("f").Head())
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Data[:6])
	}
	mustSave(t, s, core.Snapshot{FlowID: "f", State: []byte(`{}`)})
	if v := version(); v != `{"v":1` {
		t.Errorf("without a log: %s", v)
	}
	mustSave(t, s, core.Snapshot{FlowID: "f", State: []byte(`{}`), Log: []json.RawMessage{entry(1)}})
	if v := version(); v != `{"v":2` {
		t.Errorf("with a log: %s", v)
	}
}

func TestAMissingChunkOfTheLogIsCorrupt(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small})
	for n := range 10 {
		mustSave(t, s, core.Snapshot{FlowID: "f", State: []byte(`{}`), Log: []json.RawMessage{entry(n)}})
	}
	removeSibling(t, d, siblings(t, d, "f")[1])
	var last error
	for _, err := range s.Log(t.Context(), "f") {
		last = err
	}
	if !errors.Is(last, core.ErrCorrupt) {
		t.Errorf("got %v", last)
	}
}

func TestAFlowThatHasOnlyCheckpointsStays(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	s, d := newStore(t, inmem.Config{Now: clock}, persistence.WithClock(clock))
	info, err := s.SaveCheckpoint(t.Context(), core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "f"}, State: state(10)})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	if n, err := persistence.New(d, persistence.WithClock(clock)).Sweep(t.Context(), "f"); n != 0 || err != nil {
		t.Errorf("a sweep takes %d records, %v", n, err)
	}
	if _, err := s.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("it has a state: %v", err)
	}
	if saved := mustSave(t, s, core.Snapshot{FlowID: "f", State: state(20)}, core.IfRevision(core.Revision{})); saved.Revision.N != 1 {
		t.Errorf("its first save is revision %v", saved.Revision)
	}
	if c, err := s.LoadCheckpoint(t.Context(), "f", info.ID); err != nil || string(c.State) != string(state(10)) {
		t.Errorf("after the first save the checkpoint is %s, %v", c.State, err)
	}
}

func TestAPrunedCheckpointLeavesNothing(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small})
	for n := range 3 {
		c := core.Checkpoint{CheckpointInfo: core.CheckpointInfo{FlowID: "f"}, State: state(3000 + n), Progress: []byte(`{"n":1}`)}
		if _, err := s.SaveCheckpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.PruneCheckpoints(t.Context(), "f", core.MainBranch, 0); n != 3 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if left := siblings(t, d, "f"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// A checkpoint's id orders after its parent's also where the clock went back.
func TestACheckpointComesAfterItsParent(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, _ := newStore(t, inmem.Config{}, persistence.WithClock(func() time.Time { return now }))
	parent := ""
	for n := range 3 {
		info, err := s.SaveCheckpoint(t.Context(), core.Checkpoint{
			CheckpointInfo: core.CheckpointInfo{FlowID: "f", Parent: parent, Method: fmt.Sprint(n)}, State: []byte(`{}`),
		})
		if err != nil || info.ID <= parent {
			t.Fatalf("%q after %q, %v", info.ID, parent, err)
		}
		parent, now = info.ID, now.Add(-time.Hour)
	}
	for info, err := range s.Checkpoints(t.Context(), "f") {
		if err != nil || info.ID != parent {
			t.Errorf("the newest is %+v, %v", info, err)
		}
		break
	}
}

package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

func TestAReservationIsSweptAfterADay(t *testing.T) {
	clk := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s, d := newStore(t, inmem.Config{Limits: small, Now: clk.read}, persistence.WithClock(clk.read))
	cut := persistence.New(&cutDriver{Driver: d, after: 2}, persistence.WithClock(clk.read)) // reserves, puts one segment, dies
	_, err := cut.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(9_000)))})
	if !errors.Is(err, core.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("a reservation reads as %v, want ErrNotFound", err)
	}
	clk.advance(23 * time.Hour)
	if _, err := s.Sweep(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), driver.Partition("f").Head()); err != nil {
		t.Errorf("swept before its day was over: %v", err)
	}
	clk.advance(2 * time.Hour)
	if _, err := s.Sweep(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), driver.Partition("f").Head()); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
	if left := siblings(t, d, "f"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// cutDriver lets a number of writes through and then fails as a store that is gone.
type cutDriver struct {
	driver.Driver
	after int
}

func (c *cutDriver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if c.after--; c.after < 0 {
		return "", core.ErrUnavailable
	}
	return c.Driver.Put(ctx, k, r, cond)
}

func (c *cutDriver) Delete(context.Context, driver.Key, driver.Condition) error {
	return core.ErrUnavailable
}

func TestALostReplyIsNoConflict(t *testing.T) {
	for name, c := range map[string]struct {
		others int // blind saves between the write and its repetition
		cas    bool
		want   error
		doubt  bool
	}{
		"compare and swap":                   {0, true, nil, false},
		"blind":                              {0, false, nil, false},
		"blind, seven others since":          {7, false, nil, false},
		"blind, eight others since":          {8, false, core.ErrConflict, true},
		"compare and swap, one other since":  {1, true, core.ErrConflict, false},
		"compare and swap, and many writers": {9, true, core.ErrConflict, true},
	} {
		t.Run(name, func(t *testing.T) {
			other, d := newStore(t, inmem.Config{})
			first := mustSave(t, other, core.Snapshot{FlowID: "f", State: state(0)})
			lossy := persistence.New(&repeatDriver{Driver: d, between: func() {
				for i := range c.others {
					mustSave(t, other, core.Snapshot{FlowID: "f", State: state(100 + i)})
				}
			}})
			var opts []core.SaveOption
			if c.cas {
				opts = append(opts, core.IfRevision(first.Revision))
			}
			saved, err := lossy.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: state(1)}, opts...)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || core.OutcomeUnknown(err) != c.doubt {
				t.Fatalf("got %v (outcome unknown: %v)", err, core.OutcomeUnknown(err))
			}
			if err == nil && saved.Revision.N != 2 {
				t.Errorf("revision %v, want 2", saved.Revision)
			}
			if got := mustLoad(t, other, "f"); got.Revision.N != uint64(2+c.others) {
				t.Errorf("%d state writes, want %d: a save was applied twice", got.Revision.N, 2+c.others)
			}
		})
	}
}

// repeatDriver loses the reply of its first Put and repeats it, as SDKs do.
type repeatDriver struct {
	driver.Driver
	between func()
	done    bool
}

func (r *repeatDriver) Put(ctx context.Context, k driver.Key, rec driver.Record, cond driver.Condition) (driver.Tag, error) {
	tag, err := r.Driver.Put(ctx, k, rec, cond)
	if r.done || err != nil {
		return tag, err
	}
	r.done = true
	r.between()
	if _, err := r.Driver.Put(ctx, k, rec, cond); errors.Is(err, core.ErrConflict) {
		return "", core.ErrConflict
	}
	return "", errors.New("the repetition was let through")
}

func TestAnUnknownOutcomeIsLookedUp(t *testing.T) {
	_, d := newStore(t, inmem.Config{})
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(&brokenDriver{Driver: d, apply: applied})
			_, err := s.SaveState(t.Context(), core.Snapshot{FlowID: name, State: state(1)})
			if applied && err != nil {
				t.Errorf("the write is there, but: %v", err)
			}
			if !applied && (!errors.Is(err, core.ErrUnavailable) || !core.OutcomeUnknown(err)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// brokenDriver breaks the connection after sending a Put, which arrives or does not.
type brokenDriver struct {
	driver.Driver
	apply bool
}

func (b *brokenDriver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if b.apply {
		if _, err := b.Driver.Put(ctx, k, r, cond); err != nil {
			return "", err
		}
	}
	return "", core.WithOutcomeUnknown(fmt.Errorf("%w: connection reset", core.ErrUnavailable))
}

// rotten cannot read the head, as a store whose payload of it is gone.
type rotten struct{ driver.Driver }

func (rotten) Get(context.Context, driver.Key) (driver.Record, error) {
	return driver.Record{}, core.ErrCorrupt
}

func TestADamagedFlowCanBeDeleted(t *testing.T) {
	s, d := newStore(t, inmem.Config{Limits: small})
	mustSave(t, s, core.Snapshot{FlowID: "f", State: json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(9_000)))})
	if err := persistence.New(rotten{d}).Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	for e := range d.Partitions(t.Context(), driver.ListOptions{}) {
		t.Errorf("left: %+v", e)
	}
}

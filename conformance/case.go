package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

const unsupportedPrefix = "unsupported: "

// patience is how long a case waits for something that must happen. It only passes in full
// when the verdict is a failure.
const patience = 30 * time.Second

// caseRun is one case at work: the test, the store it opened, and the words it speaks in.
type caseRun struct {
	T
	ctx    context.Context
	h      Harness
	rng    *mathrand.Rand
	opts   Options
	prefix string
	clock  *clock
	failed atomic.Int64
}

// mostMessages is how many failures one case reports; a broken law breaks everywhere.
const mostMessages = 10

// Errorf reports a failure and goes on.
func (c *caseRun) Errorf(format string, args ...any) {
	c.Helper()
	switch n := c.failed.Add(1); {
	case n <= mostMessages:
		c.T.Errorf(format, args...)
	case n == mostMessages+1:
		c.T.Errorf("further failures of this case are not shown")
	}
}

func newCase(t T, h Harness, seed uint64, path string) *caseRun {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(cancel)
	sum := fnv.New64a()
	sum.Write([]byte(path)) // a case draws the same numbers whether or not others run before it
	token := randomHex(6)
	c := &caseRun{
		T: t, ctx: ctx, h: h,
		rng:    mathrand.New(mathrand.NewPCG(seed, sum.Sum64())),
		opts:   Options{Namespace: "weir_" + token},
		prefix: "cf-" + token + "-",
		clock:  &clock{},
	}
	if h.has(InjectedClock) {
		// A moment with milliseconds that are not round, in a zone that is not UTC.
		c.clock.set(time.Date(2031, 5, 6, 7, 8, 9, 123_000_000, time.FixedZone("", 2*3600)))
		c.opts.Now = c.clock.Now
	}
	return c
}

// randomHex is random in every run, also of the same seed: on a shared server two runs must
// not meet.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// open returns the case's store.
func (c *caseRun) open() driver.Driver {
	c.Helper()
	d, err := c.h.New(c, c.opts)
	return c.opened(d, err)
}

// openSmall returns the case's store with a record limit of about so many bytes, or ends the
// case where the driver cannot pretend one.
func (c *caseRun) openSmall(limits driver.Limits) driver.Driver {
	c.Helper()
	if !c.h.has(PretendedLimits) {
		c.unsupported(PretendedLimits)
	}
	c.opts.Limits = limits
	d := c.open()
	if d.Limits() != limits {
		c.Fatalf("asked to pretend the limits %+v, the driver has %+v", limits, d.Limits())
	}
	return d
}

// reopen returns another handle on the store of open, or ends the case.
func (c *caseRun) reopen() driver.Driver {
	c.Helper()
	if c.h.Reopen == nil {
		c.Skipf("%sa second handle (Harness.Reopen is nil)", unsupportedPrefix)
	}
	d, err := c.h.Reopen(c, c.opts)
	return c.opened(d, err)
}

func (c *caseRun) opened(d driver.Driver, err error) driver.Driver {
	c.Helper()
	if err != nil {
		c.Fatalf("opening the store failed: %v", err)
	}
	if d == nil {
		c.Fatalf("the harness opened no driver and returned no error")
	}
	c.Cleanup(func() {
		if err := d.Close(); err != nil {
			c.Errorf("Close failed: %v", err)
		}
	})
	c.alive(d)
	return d
}

// alive demands that d keeps one record for a moment. Some promises are kept by doing
// nothing; nobody shall pass a case that way.
func (c *caseRun) alive(d driver.Driver) {
	c.Helper()
	k := c.id("alive").Head()
	r := driver.Record{State: []byte(`{"alive":true}`), Data: []byte(randomHex(6))}
	c.put(d, k, r, driver.Condition{})
	c.want(d, k, "", r)
	if err := d.Delete(c.ctx, k, driver.Condition{}); err != nil {
		c.Fatalf("Delete of %s failed: %v", show(k), err)
	}
}

func (c *caseRun) unsupported(what Capability) {
	c.Helper()
	c.Skipf("%s%s", unsupportedPrefix, what)
}

// id returns a partition of this case.
func (c *caseRun) id(s string) driver.Partition { return driver.Partition(c.prefix + s) }

// mine reports whether p is a partition of this case.
func (c *caseRun) mine(p driver.Partition) bool { return strings.HasPrefix(string(p), c.prefix) }

// put writes a record that must be accepted.
func (c *caseRun) put(d driver.Driver, k driver.Key, r driver.Record, cond driver.Condition) driver.Tag {
	c.Helper()
	tag, err := d.Put(c.ctx, k, r, cond)
	if err != nil {
		c.Fatalf("Put of %s failed: %v", show(k), err)
	}
	if tag == "" {
		c.Fatalf("Put of %s returned the empty tag, which stands for no tag", show(k))
	}
	return tag
}

// get reads a record that must be there.
func (c *caseRun) get(d driver.Driver, k driver.Key) driver.Record {
	c.Helper()
	r, err := d.Get(c.ctx, k)
	if err != nil {
		c.Fatalf("Get of %s failed: %v", show(k), err)
	}
	return r
}

// want reads a record and compares it, tag included unless it is "".
func (c *caseRun) want(d driver.Driver, k driver.Key, tag driver.Tag, want driver.Record) {
	c.Helper()
	got := c.get(d, k)
	if err := sameRecord(k.Sort, got, want); err != nil {
		c.Errorf("Get of %s: %v", show(k), err)
	}
	if tag != "" && got.Tag != tag {
		c.Errorf("Get of %s returned tag %q, the Put had returned %q", show(k), got.Tag, tag)
	}
}

// wantAbsent demands that a record is not found.
func (c *caseRun) wantAbsent(d driver.Driver, k driver.Key, why string) {
	c.Helper()
	r, err := d.Get(c.ctx, k)
	if err == nil {
		c.Errorf("%s: Get of %s returned a record (tag %q, data %s), want ErrNotFound", why, show(k), r.Tag, clip(r.Data))
		return
	}
	c.wantErr(err, core.ErrNotFound, why+": Get of "+show(k))
}

// wantErr demands that err wraps target, and says so if it is none.
func (c *caseRun) wantErr(err, target error, what string) {
	c.Helper()
	switch {
	case err == nil:
		c.Errorf("%s succeeded, want the error %q", what, target)
	case !errors.Is(err, target):
		c.Errorf("%s returned the error %q, want one that wraps %q", what, err, target)
	}
}

// remove deletes without a condition.
func (c *caseRun) remove(d driver.Driver, k driver.Key) {
	c.Helper()
	if err := d.Delete(c.ctx, k, driver.Condition{}); err != nil {
		c.Fatalf("Delete of %s failed: %v", show(k), err)
	}
}

// siblings reads a range that must succeed.
func (c *caseRun) siblings(d driver.Driver, p driver.Partition, o driver.RangeOptions) []driver.Record {
	c.Helper()
	var out []driver.Record
	for r, err := range d.Range(c.ctx, p, o) {
		if err != nil {
			c.Fatalf("Range of %q (%+v) failed after %d records: %v", p, o, len(out), err)
		}
		out = append(out, r)
	}
	return out
}

// list reads the partitions of this case, each once.
func (c *caseRun) list(d driver.Driver) map[driver.Partition]driver.Entry {
	c.Helper()
	out := map[driver.Partition]driver.Entry{}
	for e, err := range d.Partitions(c.ctx, driver.ListOptions{}) {
		if err != nil {
			c.Fatalf("Partitions failed after %d entries: %v", len(out), err)
		}
		if c.mine(e.Partition) || !c.h.Shared {
			out[e.Partition] = e
		}
	}
	return out
}

// parallel runs f(0) … f(n-1) at once and waits for all; each error fails the case, and so
// does one that does not return.
func (c *caseRun) parallel(n int, f func(i int) error) {
	c.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	c.within("the goroutines", wg.Wait)
	if err := errors.Join(errs...); err != nil {
		c.Fatalf("%v", err)
	}
}

// within runs f in a goroutine of its own and ends the case when it does not return. f must
// not end the case itself.
func (c *caseRun) within(what string, f func()) {
	c.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		c.Fatalf("%s did not return within %v: a lock, cursor or connection is held", what, patience)
	}
}

// eventually polls until ok, at most for patience.
func (c *caseRun) eventually(what string, ok func() bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("%s: not so after %v", what, patience)
		}
	}
}

// clock is the injected clock, or the real one until it is set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time that the driver judges by.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.IsZero() {
		return time.Now()
	}
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// soon returns an expiry that the case can wait for.
func (c *caseRun) soon() time.Time {
	d := time.Second
	if c.h.has(InjectedClock) {
		d = time.Hour
	}
	return c.clock.Now().Add(d).Truncate(time.Millisecond)
}

// expire lets the moment at come: an injected clock is set to exactly at, a real one is
// waited for, by Skew longer.
func (c *caseRun) expire(at time.Time) {
	c.Helper()
	if c.h.has(InjectedClock) {
		c.clock.set(at)
		return
	}
	timer := time.NewTimer(time.Until(at.Add(c.skew())))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
		c.Fatalf("waiting for an expiry: %v", c.ctx.Err())
	}
}

func (c *caseRun) skew() time.Duration {
	if c.h.Skew > 0 {
		return c.h.Skew
	}
	return 250 * time.Millisecond
}

// show names a key in a message.
func show(k driver.Key) string {
	if k.Sort == "" {
		return "the head of " + clip([]byte(k.Partition))
	}
	return fmt.Sprintf("sibling %q of %s", k.Sort, clip([]byte(k.Partition)))
}

// clip quotes the beginning of b.
func clip(b []byte) string {
	const most = 120
	if len(b) <= most {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
}

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func contexts() law {
	return law{
		layer: driverLayer, name: "law10_context",
		text: "A context that ends leaves no goroutine and no lock, and starts no request.",
		cases: []testCase{
			{"canceled_before", func(c *caseRun) { endedBefore(c, context.Canceled) }},
			{"deadline_before", func(c *caseRun) { endedBefore(c, context.DeadlineExceeded) }},
			{"canceled_inside_range", canceledInsideRange},
			{"canceled_inside_partitions", canceledInsidePartitions},
			{"canceled_in_flight", canceledInFlight},
			{"nothing_is_left_running", nothingLeftRunning},
			{"close_twice", closeTwice},
			{"close_one_of_two", closeOneOfTwo},
		},
	}
}

// endedBefore calls everything with a context that has ended.
func endedBefore(c *caseRun, why error) {
	d := c.open()
	p := c.id("f")
	tag := c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, []string{"s"}, nil)
	ctx, cancel := context.WithCancel(c.ctx)
	if errors.Is(why, context.DeadlineExceeded) {
		ctx, cancel = context.WithDeadline(c.ctx, time.Unix(1, 0))
	}
	cancel()
	_, err := d.Get(ctx, p.Head())
	c.wantErr(err, why, "Get")
	_, err = d.Get(ctx, c.id("absent").Head())
	c.wantErr(err, why, "Get of nothing")
	for _, cond := range []driver.Condition{{}, driver.IfTag(tag), driver.IfAbsent()} {
		_, err = d.Put(ctx, p.Head(), aHead(2), cond)
		c.wantErr(err, why, "Put")
		if core.OutcomeUnknown(err) {
			c.Errorf("Put with an ended context leaves the outcome open, but no request may be started: %v", err)
		}
	}
	_, err = d.Put(ctx, c.id("new").Head(), aHead(2), driver.IfAbsent())
	c.wantErr(err, why, "Put of something new")
	c.wantErr(d.Delete(ctx, p.Head(), driver.Condition{}), why, "Delete")
	c.wantErr(d.Delete(ctx, p.Sibling("s"), driver.Condition{}), why, "Delete of a sibling")
	endedIterators(c, ctx, d, p, why)
	if batch, ok := d.(driver.BatchPutter); ok {
		c.wantErr(batch.PutSiblings(ctx, p, []driver.Record{{Sort: "t", Data: []byte("t")}}), why, "PutSiblings")
	}
	if batch, ok := d.(driver.BatchDeleter); ok {
		c.wantErr(batch.DeleteSiblings(ctx, p, []string{"s"}), why, "DeleteSiblings")
	}
	c.want(d, p.Head(), tag, aHead(1))
	c.wantSorts(d, p, driver.RangeOptions{}, []string{"s"})
	c.wantAbsent(d, c.id("new").Head(), "after a Put with an ended context")
}

func endedIterators(c *caseRun, ctx context.Context, d driver.Driver, p driver.Partition, why error) {
	c.Helper()
	var pairs int
	var last error
	for r, err := range d.Range(ctx, p, driver.RangeOptions{}) {
		if pairs++; err == nil {
			c.Errorf("Range with an ended context yields the sibling %q", r.Sort)
		}
		last = err
	}
	c.wantErr(last, why, "Range")
	if pairs != 1 {
		c.Errorf("Range with an ended context yields %d pairs, want its error once", pairs)
	}
	pairs, last = 0, nil
	for e, err := range d.Partitions(ctx, driver.ListOptions{}) {
		if pairs++; err == nil {
			c.Errorf("Partitions with an ended context yields %q", e.Partition)
		}
		last = err
	}
	c.wantErr(last, why, "Partitions")
	if pairs != 1 {
		c.Errorf("Partitions with an ended context yields %d pairs, want its error once", pairs)
	}
}

// canceledInsideRange allows what had been read before, and then wants the error once, as the
// last pair. Nothing may look like the end of the siblings.
func canceledInsideRange(c *caseRun) {
	d := c.open()
	p := c.id("f")
	var sorts []string
	for i := range 250 {
		sorts = append(sorts, fmt.Sprintf("s/%03d", i))
	}
	c.fill(d, p, sorts, nil)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var failures []error
	records := 0
	for _, err := range d.Range(ctx, p, driver.RangeOptions{}) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if records++; len(failures) > 0 {
			c.Errorf("Range yields a record after its error")
		}
		if records == 3 {
			cancel()
		}
	}
	c.wantLastError("Range", failures, records == len(sorts))
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
}

func canceledInsidePartitions(c *caseRun) {
	d := c.open()
	headless := c.population(d, 60)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var failures []error
	seen := map[driver.Partition]driver.Entry{}
	for e, err := range d.Partitions(ctx, driver.ListOptions{PageSize: 5}) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if len(failures) > 0 {
			c.Errorf("Partitions yields an entry after its error")
		}
		if c.mine(e.Partition) {
			seen[e.Partition] = e
		}
		if len(seen) == 3 {
			cancel()
		}
	}
	c.wantLastError("Partitions", failures, len(seen) == len(headless))
	c.put(d, c.id("after").Head(), aHead(1), driver.Condition{})
}

// wantLastError judges a loop whose context ended inside it.
func (c *caseRun) wantLastError(what string, failures []error, complete bool) {
	c.Helper()
	switch {
	case len(failures) > 1:
		c.Errorf("%s yields its error %d times, want once: %v", what, len(failures), failures)
	case len(failures) == 1:
		c.wantErr(failures[0], context.Canceled, what)
	case !complete:
		c.Errorf("%s ended early and without an error after its context was canceled", what)
	}
}

// canceledInFlight cancels writes at random moments. A write that failed for certain never
// happened; the store goes on working.
func canceledInFlight(c *caseRun) {
	const each = 12
	d := c.open()
	waits := make([]time.Duration, crowd*each)
	for i := range waits {
		waits[i] = time.Duration(c.rng.IntN(1500)) * time.Microsecond
	}
	fate := make([]error, crowd*each)
	key := func(n int) driver.Key { return c.id("f").Sibling(fmt.Sprintf("s/%d", n)) }
	c.parallel(crowd, func(i int) error {
		for j := range each {
			n := i*each + j
			ctx, cancel := context.WithTimeout(c.ctx, waits[n])
			_, fate[n] = d.Put(ctx, key(n), aSibling(n), driver.IfAbsent())
			cancel()
		}
		return nil
	})
	var acknowledged int
	for n, err := range fate {
		switch {
		case err == nil:
			acknowledged++
			c.want(d, key(n), "", aSibling(n))
		case !errors.Is(err, context.DeadlineExceeded):
			c.Errorf("a Put whose deadline passed returned %v, want one that wraps the context's error", err)
		case !core.OutcomeUnknown(err):
			c.wantAbsent(d, key(n), "after a Put that failed for certain")
		}
	}
	c.Logf("%d of %d writes were acknowledged", acknowledged, len(fate))
	c.within("a write after many that were canceled", func() {
		if _, err := d.Put(c.ctx, c.id("f").Head(), aHead(1), driver.Condition{}); err != nil {
			c.Errorf("Put after many that were canceled: %v", err)
		}
	})
}

// nothingLeftRunning marks what it does with a profiler label, which goroutines inherit:
// those that outlive Close with the label on were leaked by the driver.
func nothingLeftRunning(c *caseRun) {
	mark := "conformance-" + randomHex(6)
	pprof.Do(c.ctx, pprof.Labels("weir", mark), func(context.Context) { c.busyLife() })
	leaked := func() string {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			return ""
		}
		var found []string
		for block := range strings.SplitSeq(b.String(), "\n\n") {
			if strings.Contains(block, mark) {
				found = append(found, block)
			}
		}
		return strings.Join(found, "\n\n")
	}
	for deadline := time.Now().Add(10 * time.Second); leaked() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("goroutines are left running after Close:\n%s", leaked())
		}
	}
}

// busyLife opens a handle, does what may leave something behind, and closes it.
func (c *caseRun) busyLife() {
	d, err := c.h.New(c, c.opts)
	if err != nil {
		c.Fatalf("opening the store failed: %v", err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			c.Errorf("Close failed: %v", err)
		}
	}()
	c.alive(d)
	p := c.id("f")
	var sorts []string
	for i := range 150 {
		sorts = append(sorts, fmt.Sprintf("s/%03d", i))
	}
	c.fill(d, p, sorts, nil)
	for n := range 10 {
		ctx, cancel := context.WithCancel(c.ctx)
		for _, err := range d.Range(ctx, p, driver.RangeOptions{}) {
			if err != nil {
				c.Errorf("Range failed: %v", err)
			}
			if n%2 == 0 {
				cancel()
			}
			break
		}
		for _, err := range d.Partitions(ctx, driver.ListOptions{PageSize: 2}) {
			_ = err // half of them begin after the cancel
			break
		}
		cancel()
		_, _ = d.Get(ctx, p.Head())                                     // fails: the context has ended
		_, _ = d.Put(ctx, p.Head(), aHead(n), driver.Condition{})       // fails
		short, stop := context.WithTimeout(c.ctx, 200*time.Microsecond) // may fail
		_, _ = d.Put(short, p.Head(), aHead(n), driver.Condition{})     // may fail
		stop()
	}
}

func closeTwice(c *caseRun) {
	d, err := c.h.New(c, c.opts)
	if err != nil {
		c.Fatalf("opening the store failed: %v", err)
	}
	c.alive(d)
	for n := range 3 {
		if err := d.Close(); err != nil {
			c.Errorf("Close, call %d, failed: %v", n+1, err)
		}
	}
	c.within("calls after Close", func() {
		// What they return is not laid down, but they return.
		_, _ = d.Get(c.ctx, c.id("f").Head())
		_, _ = d.Put(c.ctx, c.id("f").Head(), aHead(2), driver.Condition{})
		for _, err := range d.Range(c.ctx, c.id("f"), driver.RangeOptions{}) {
			_ = err
			break
		}
	})
}

func closeOneOfTwo(c *caseRun) {
	d := c.open()
	other := c.reopen()
	k := c.id("f").Head()
	c.put(other, k, aHead(1), driver.Condition{})
	if err := other.Close(); err != nil {
		c.Fatalf("Close failed: %v", err)
	}
	c.want(d, k, "", aHead(1))
	c.put(d, k, aHead(2), driver.Condition{})
	c.want(d, k, "", aHead(2))
}

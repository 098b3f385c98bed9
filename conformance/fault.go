package conformance

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// errFault is what an injected fault returns: the network, as the Store sees it.
var errFault = fmt.Errorf("%w: fault injected by the conformance suite", core.ErrUnavailable)

// faultDriver is a driver with a plan of what goes wrong. It counts physical writes.
type faultDriver struct {
	driver.Driver

	mu     sync.Mutex
	writes int
	cut    int           // no write after so many, and then nothing at all; -1: never
	lose   map[int]reply // what becomes of the reply to write n, from 0
	reads  error         // every read fails with it
}

// reply is what becomes of a reply.
type reply int

const (
	lost    reply = iota + 1 // the client is told that the outcome is unknown
	retried                  // the client sent the request again, and reports that answer
)

func newFaultDriver(d driver.Driver) *faultDriver { return &faultDriver{Driver: d, cut: -1} }

// write counts a write and says what to do to it.
func (f *faultDriver) write() (reply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut >= 0 && f.writes >= f.cut {
		return 0, errFault
	}
	f.writes++
	return f.lose[f.writes-1], nil
}

// read says whether a read fails: after a cut the process is dead.
func (f *faultDriver) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut >= 0 && f.writes >= f.cut && f.writes > 0 {
		return errFault
	}
	return f.reads
}

func (f *faultDriver) Size(k driver.Key, r driver.Record) int { return driver.Size(f.Driver, k, r) }

func (f *faultDriver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	if err := f.read(); err != nil {
		return driver.Record{}, err
	}
	return f.Driver.Get(ctx, k)
}

func (f *faultDriver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	what, err := f.write()
	if err != nil {
		return "", err
	}
	tag, err := f.Driver.Put(ctx, k, r, cond)
	switch {
	case err == nil && what == lost:
		return "", core.WithOutcomeUnknown(errFault)
	case err == nil && what == retried:
		if tag, err = f.Driver.Put(ctx, k, r, cond); err != nil {
			return "", core.ErrConflict // of which the client cannot know that it is its own doing
		}
	}
	return tag, err
}

func (f *faultDriver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	what, err := f.write()
	if err != nil {
		return err
	}
	err = f.Driver.Delete(ctx, k, cond)
	switch {
	case err == nil && what == lost:
		return core.WithOutcomeUnknown(errFault)
	case err == nil && what == retried:
		if f.Driver.Delete(ctx, k, cond) != nil {
			return core.ErrConflict
		}
	}
	return err
}

func (f *faultDriver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		if err := f.read(); err != nil {
			yield(driver.Record{}, err)
			return
		}
		f.Driver.Range(ctx, p, o)(yield)
	}
}

func (f *faultDriver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := f.read(); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		f.Driver.Partitions(ctx, o)(yield)
	}
}

// batchFaultDriver also takes batches; a fault can strike between any two of their records.
type batchFaultDriver struct{ *faultDriver }

func (f batchFaultDriver) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	for _, r := range rs {
		if _, err := f.Put(ctx, p.Sibling(r.Sort), r, driver.IfAbsent()); err != nil {
			return err
		}
	}
	return nil
}

func (f batchFaultDriver) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	for _, s := range sorts {
		if err := f.Delete(ctx, p.Sibling(s), driver.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// hookDriver runs a hook once, just before the first Put of a head that follows a Put of a
// sibling: at the moment when the payload of a save is there and nothing names it yet.
type hookDriver struct {
	driver.Driver
	hook  func() error
	armed bool
	err   error // of the hook
}

func (h *hookDriver) Size(k driver.Key, r driver.Record) int { return driver.Size(h.Driver, k, r) }

func (h *hookDriver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	switch {
	case k.Sort != "":
		h.armed = true
	case h.armed && h.hook != nil:
		hook := h.hook
		h.hook = nil
		h.err = hook()
	}
	return h.Driver.Put(ctx, k, r, cond)
}

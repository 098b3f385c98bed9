package faulty

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// Mutant is correct code with one bug.
type Mutant struct {
	Name string
	Bug  string // what it does wrong
	Law  string // the path of the law that must find it

	// Break returns a handle with the bug on the store of a correct one; nil: the driver is
	// correct.
	Break func(driver.Driver) driver.Driver

	store  subject.Maker            // makes a Store with the bug; nil: the Store is correct
	offers []conformance.Capability // what the driver says it can do beside
}

// Judge runs the laws below the path only ("" is all) against m: over an in-memory store of
// which every handle has the bug, with all that a harness can offer. The zero Mutant is
// correct.
func (m Mutant) Judge(ctx context.Context, only string) (conformance.Report, error) {
	if m.store != nil {
		ctx = subject.With(ctx, m.store)
	}
	h := Harness(m)
	h.Only = only
	return conformance.Check(ctx, h)
}

// Harness returns the harness under which the driver of a mutant is judged: an in-memory store
// of which every handle has the bug, with all that a harness can offer.
func Harness(m Mutant) conformance.Harness {
	var s stores
	open := func(_ conformance.T, o conformance.Options) (driver.Driver, error) {
		d := driver.Driver(s.handle(o))
		if m.Break != nil {
			d = m.Break(d)
		}
		return d, nil
	}
	return conformance.Harness{
		New: open, Reopen: open, Outage: s.outage,
		Capabilities: append([]conformance.Capability{conformance.InjectedClock, conformance.PretendedLimits}, m.offers...),
	}
}

// stores are in-memory servers by namespace.
type stores struct{ byName sync.Map }

// server is one store and whether it can be reached.
type server struct {
	*inmem.Driver
	down   atomic.Bool
	making atomic.Bool // of the mutant tableMadeTwice
}

func (s *stores) server(o conformance.Options) *server {
	fresh := &server{Driver: inmem.New(inmem.Config{Now: o.Now, Limits: o.Limits})}
	v, _ := s.byName.LoadOrStore(fmt.Sprint(o.Namespace, o.Limits), fresh)
	return v.(*server)
}

func (s *stores) handle(o conformance.Options) *handle { return &handle{s.server(o)} }

func (s *stores) outage(_ conformance.T, o conformance.Options) (end func()) {
	srv := s.server(o)
	srv.down.Store(true)
	return func() { srv.down.Store(false) }
}

// handle is a correct driver whose server can be unreachable.
type handle struct{ *server }

func (h *handle) reach() error {
	if h.down.Load() {
		return fmt.Errorf("%w: connection refused", core.ErrUnavailable)
	}
	return nil
}

func (h *handle) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	if err := h.reach(); err != nil {
		return driver.Record{}, err
	}
	return h.server.Get(ctx, k)
}

func (h *handle) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := h.reach(); err != nil {
		return "", err
	}
	return h.server.Put(ctx, k, r, cond)
}

func (h *handle) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if err := h.reach(); err != nil {
		return err
	}
	return h.server.Delete(ctx, k, cond)
}

func (h *handle) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	if err := h.reach(); err != nil {
		return func(yield func(driver.Record, error) bool) { yield(driver.Record{}, err) }
	}
	return h.server.Range(ctx, p, o)
}

func (h *handle) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if err := h.reach(); err != nil {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, err) }
	}
	return h.server.Partitions(ctx, o)
}

package persistence_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// gate is a driver whose every call waits until a schedule lets it through: one step of an
// actor is one driver call. Range is one step; what it yields was read in that step.
type gate struct {
	driver.Driver
	ask   chan<- string   // announces the next call
	grant <-chan struct{} // lets it through

	// loseReply makes the n-th Put of a head lose its reply: the client repeats it, so that it
	// meets its own first attempt. 0 loses none.
	loseReply int32
	headPuts  atomic.Int32
}

func (g *gate) step(call string) {
	g.ask <- call
	<-g.grant
}

func (g *gate) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	g.step("get " + k.Sort)
	return g.Driver.Get(ctx, k)
}

func (g *gate) Put(ctx context.Context, k driver.Key, r driver.Record, c driver.Condition) (driver.Tag, error) {
	g.step("put " + k.Sort)
	tag, err := g.Driver.Put(ctx, k, r, c)
	if k.Sort != "" || err != nil || g.headPuts.Add(1) != g.loseReply {
		return tag, err
	}
	g.step("put again " + k.Sort)
	if tag, err = g.Driver.Put(ctx, k, r, c); err != nil {
		return "", core.ErrConflict // a client that repeats itself is never sure
	}
	return tag, nil
}

func (g *gate) Delete(ctx context.Context, k driver.Key, c driver.Condition) error {
	g.step("delete " + k.Sort)
	return g.Driver.Delete(ctx, k, c)
}

func (g *gate) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		g.step("range " + o.From)
		var all []driver.Record
		for r, err := range g.Driver.Range(ctx, p, o) {
			if err != nil {
				yield(driver.Record{}, err)
				return
			}
			all = append(all, r)
		}
		if o.KeysOnly {
			// By age instead of by random name, so that a schedule means the same in every run.
			slices.SortFunc(all, func(a, b driver.Record) int {
				return cmp.Or(cmp.Compare(len(a.Tag), len(b.Tag)), cmp.Compare(a.Tag, b.Tag))
			})
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// actor is one participant of a schedule: a function over its own Store.
type actor struct {
	name      string
	loseReply int32
	run       func(w *world)
}

// running is an actor in a run of a schedule.
type running struct {
	ask   chan string
	grant chan struct{}
	done  chan struct{}
	over  bool
}

// start begins an actor and waits until it asks for its first step or is over.
func start(a actor, w *world) *running {
	r := &running{ask: make(chan string), grant: make(chan struct{}), done: make(chan struct{})}
	mine := *w
	mine.drv = &gate{Driver: w.drv, ask: r.ask, grant: r.grant, loseReply: a.loseReply}
	go func() {
		defer close(r.done)
		a.run(&mine)
	}()
	r.wait()
	return r
}

// wait blocks until the actor asks for a step or is over.
func (r *running) wait() {
	select {
	case <-r.ask:
	case <-r.done:
		r.over = true
	}
}

// step lets the actor make one driver call and go on to the next.
func (r *running) step() {
	r.grant <- struct{}{}
	r.wait()
}

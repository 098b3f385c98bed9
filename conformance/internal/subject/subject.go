// Package subject says which Store the suite judges. It is persistence.Store for everybody
// but the suite's own tests, which put a broken one in its place through the context of
// conformance.Check: so neither the harness nor the production code has a hook for it.
package subject

import (
	"context"
	"iter"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// Store is what the laws of the upper layers call.
type Store interface {
	core.FlowPersistence
	core.FlowLog
	core.CheckpointProvider
	Delete(ctx context.Context, flowID string) error
	Flows(ctx context.Context, o driver.ListOptions) iter.Seq2[persistence.FlowInfo, error]
	History(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error]
	Sweep(ctx context.Context, flowID string) (removed int, err error)
}

// Maker makes a Store over a driver, as persistence.New does.
type Maker func(d driver.Driver, opts ...persistence.Option) Store

type key struct{}

// With returns a context in which m makes the Store under test.
func With(ctx context.Context, m Maker) context.Context { return context.WithValue(ctx, key{}, m) }

// New makes the Store under test.
func New(ctx context.Context, d driver.Driver, opts ...persistence.Option) Store {
	if m, ok := ctx.Value(key{}).(Maker); ok {
		return m(d, opts...)
	}
	return persistence.New(d, opts...)
}

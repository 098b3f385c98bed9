package persistence

import (
	"context"
	"iter"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// FlowInfo is one flow as Flows lists it.
type FlowInfo struct {
	FlowID   string
	Method   string    // whose completion was saved last
	SavedAt  time.Time // when
	ExpireAt time.Time // zero: never
	// Headless says that records of the flow are left but no state: it was deleted, or
	// expired, while something went wrong. Sweep removes them.
	Headless bool
	// Cursor goes on after this flow when given as driver.ListOptions.Cursor.
	Cursor string
}

// Flows yields every flow that has any record, in no particular order and each at least once,
// page by page. It reads keys and metadata only, but it reads all of them: it is for
// operators and not for a hot path. A flow whose first save is under way may be listed
// already. An error is yielded once, as the last pair. Writing in the loop is allowed; what
// is written may or may not be seen.
func (s *Store) Flows(ctx context.Context, o driver.ListOptions) iter.Seq2[FlowInfo, error] {
	return func(yield func(FlowInfo, error) bool) {
		for e, err := range s.drv.Partitions(ctx, o) {
			if err != nil {
				yield(FlowInfo{}, &core.Error{Op: "list flows", Err: err})
				return
			}
			info := FlowInfo{
				FlowID: string(e.Partition), Method: e.Method, SavedAt: e.SavedAt, ExpireAt: e.ExpireAt,
				Headless: e.Headless, Cursor: e.Cursor,
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

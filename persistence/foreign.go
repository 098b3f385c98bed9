package persistence

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

var _ core.ForeignRequests = (*Store)(nil)

// LoadForeignRequest returns the request at which another program paused a flow, see
// core.ForeignRequests. It is core.ErrNotFound on a driver that is no driver.ForeignRequests,
// and for a flow that has no state: such requests are found through their flow.
func (s *Store) LoadForeignRequest(ctx context.Context, flowID string) (core.ForeignRequest, error) {
	r, err := s.foreignRequest(ctx, flowID)
	if err != nil {
		return core.ForeignRequest{}, &core.Error{Op: "load request", FlowID: flowID, Err: err}
	}
	return r, nil
}

func (s *Store) foreignRequest(ctx context.Context, flowID string) (core.ForeignRequest, error) {
	if err := core.ValidateID(flowID); err != nil {
		return core.ForeignRequest{}, err
	}
	d, ok := s.drv.(driver.ForeignRequests)
	if !ok {
		return core.ForeignRequest{}, core.ErrNotFound
	}
	// The two reads need no common moment: a save that answers demands that both the head and
	// the request are still the ones read.
	part := driver.Partition(flowID)
	h, err := s.readHeadOf(ctx, part)
	if err == nil && !h.writtenElsewhere() {
		err = core.ErrNotFound
	}
	if err != nil {
		return core.ForeignRequest{}, err
	}
	r, err := d.ForeignRequest(ctx, part)
	if err != nil {
		return core.ForeignRequest{}, err
	}
	if err := core.ValidateState(r.State); err != nil {
		return core.ForeignRequest{}, fmt.Errorf("%w: the state that another program paused it with: %w", core.ErrCorrupt, err)
	}
	r.Revision = h.revision()
	return r, nil
}

// writtenElsewhere reports whether the state is one that another program wrote last, also if
// the head has been given an epoch since.
func (h head) writtenElsewhere() bool {
	return !h.stateless && strings.HasPrefix(h.hdr.token(), foreignToken)
}

// answers refuses a save that answers a request where no driver could take that away.
func (s *Store) answers(requestID string) error {
	if _, ok := s.drv.(driver.ForeignRequests); requestID == "" || ok {
		return nil
	}
	return fmt.Errorf("%w: this store holds no requests of other programs, so it cannot take request %q away", core.ErrUnsupported, requestID)
}

// put writes the head and, if the save answers a request, takes that away with it.
func (w *write) put(ctx context.Context, r driver.Record) (driver.Tag, error) {
	if d, ok := w.s.drv.(driver.ForeignRequests); ok && w.request != "" {
		return d.PutAnswer(ctx, w.part, r, w.base.condition(), w.request)
	}
	return w.s.drv.Put(ctx, w.part.Head(), r, w.base.condition())
}

// answered returns core.ErrConflict if a Put was refused although the head is the one it built
// on: then it was the request that was not there any more.
func (w *write) answered(before head) error {
	if w.request == "" || w.base.tag != before.tag {
		return nil
	}
	return fmt.Errorf("%w: request %q was answered or withdrawn", core.ErrConflict, w.request)
}

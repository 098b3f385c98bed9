package persistence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// write is one SaveState on its way through the protocol "payload before pointer":
//
//  1. Know the head. If there is none and the payload needs siblings, reserve one, so that a
//     sibling never exists before its head.
//  2. Put the siblings under new names.
//  3. Put the head on condition of its tag.
//  4. Remove the siblings that only the old head named.
//
// A conflict in step 3 reads the head once and decides, see settle.
type write struct {
	s     *Store
	snap  core.Snapshot
	cond  *core.Revision
	part  driver.Partition
	token string // of this logical save, the same in every attempt

	request string // of another program, which the save answers; "" for none

	base   head      // the head this attempt builds on
	expire time.Time // of this attempt
}

// maxAttempts bounds how often a save starts again because the head changed under it.
const maxAttempts = 100

func (s *Store) newWrite(snap core.Snapshot, set core.SaveSettings) *write {
	return &write{s: s, snap: snap, cond: set.If, part: driver.Partition(snap.FlowID), token: newName(), request: set.Answers}
}

func (w *write) run(ctx context.Context) (core.Revision, error) {
	if err := w.know(ctx); err != nil {
		return core.Revision{}, err
	}
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return core.Revision{}, err
		}
		rev, done, err := w.attempt(ctx)
		if done || err != nil {
			return rev, err
		}
	}
	return core.Revision{}, fmt.Errorf("%w: other writers were first %d times in a row; try again", core.ErrUnavailable, maxAttempts)
}

// pause waits a little, more and more, from the third attempt on.
func pause(ctx context.Context, attempt int) error {
	if err := ctx.Err(); err != nil || attempt < 2 {
		return err
	}
	const longest = 50 * time.Millisecond
	limit := min(longest, time.Millisecond<<min(attempt, 10))
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// know sets the base from memory or by a Get, and tests the condition of a compare-and-swap.
func (w *write) know(ctx context.Context) error {
	if h, ok := w.s.known.get(w.snap.FlowID); ok {
		w.base = h
		if w.satisfied() {
			return nil // if memory is stale, the Put finds out
		}
	}
	h, err := w.s.readHeadOf(ctx, w.part)
	if err != nil {
		return err
	}
	w.base = h
	return w.conflict()
}

func (w *write) satisfied() bool { return w.cond == nil || w.base.revision().Tag == w.cond.Tag }

// conflict returns ErrConflict unless the base satisfies the condition.
func (w *write) conflict() error {
	if w.satisfied() {
		return nil
	}
	return fmt.Errorf("%w: the newest revision is %v, not %v", core.ErrConflict, w.base.revision(), *w.cond)
}

// readHeadOf gets a head; none is the zero head.
func (s *Store) readHeadOf(ctx context.Context, part driver.Partition) (head, error) {
	r, err := s.drv.Get(ctx, part.Head())
	if errors.Is(err, core.ErrNotFound) {
		return head{}, nil
	}
	if err != nil {
		return head{}, err
	}
	h, _, err := readHead(r)
	return h, err
}

// attempt goes through steps 1 to 4 once. It reports done=false when it must start again on
// the base that it has meanwhile set.
func (w *write) attempt(ctx context.Context) (rev core.Revision, done bool, err error) {
	if w.s.ttl > 0 {
		w.expire = w.s.now().Add(w.s.ttl)
	}
	plan, err := w.plan()
	if err == nil && plan.needsEpoch {
		if err = w.giveEpoch(ctx); err == nil {
			plan, err = w.plan()
		}
	}
	if err != nil || plan.needsEpoch {
		return core.Revision{}, false, err
	}
	if err := w.putPayload(ctx, plan); err != nil {
		w.discard(ctx, plan)
		return core.Revision{}, false, err
	}
	tag, err := w.put(ctx, plan.record)
	if err != nil {
		return w.settle(ctx, plan, err)
	}
	old := w.base
	w.base = head{tag: tag, hdr: plan.hdr, tail: plan.log.tail}
	w.s.known.remember(w.snap.FlowID, w.base)
	w.cleanUp(ctx, old)
	return w.base.revision(), true, nil
}

// plan is one attempt worked out before anything is written.
type plan struct {
	hdr        header
	record     driver.Record
	payload    packed
	history    *entry
	log        logPlan
	needsEpoch bool // siblings are needed and the base has no epoch yet
}

func (w *write) plan() (plan, error) {
	var p plan
	p.hdr = header{
		V: plainVersion, Epoch: w.base.hdr.Epoch,
		N: w.base.hdr.N + 1, Tokens: nextTokens(w.token, w.base.hdr.Tokens),
	}
	if p.hdr.Epoch == "" {
		p.hdr.Epoch = newName()
	}
	if w.s.history > 0 {
		p.history = &entry{id: newName()}
		p.hdr.History = p.history.id
	}
	var err error
	if p.log, err = w.s.planLog(w.part, w.base, p.hdr.Epoch, w.snap.Log); err != nil {
		return plan{}, err
	}
	if p.hdr.Log = p.log.state; p.hdr.Log.Chunks > 0 || p.log.tail != nil {
		p.hdr.V = formatVersion
	}
	c := content{state: w.snap.State, progress: w.snap.Progress, log: p.log.tail}
	p.payload = layout(c, true, w.s.limits, func(pk packed) int {
		return driver.Size(w.s.drv, w.part.Head(), w.record(p.hdr, pk))
	})
	if err := w.s.cut(&p.payload, w.part, p.hdr.Epoch, newName()); err != nil {
		return plan{}, err
	}
	p.hdr.Payload = p.payload.manifest
	p.record = w.record(p.hdr, p.payload)
	if err := w.s.fits(w.part.Head(), p.record); err != nil {
		return plan{}, err
	}
	if p.history != nil {
		if err := w.planEntry(p.history, p.hdr, c); err != nil {
			return plan{}, err
		}
	}
	siblings := len(p.payload.segments) > 0 || p.history != nil || len(p.log.chunks) > 0
	p.needsEpoch = siblings && w.base.hdr.Epoch == ""
	return p, nil
}

// record is the head as it would be put with that payload.
func (w *write) record(hdr header, pk packed) driver.Record {
	hdr.Payload = pk.manifest
	if len(pk.segments) > 0 && hdr.Payload.ID == "" {
		// For the size: the owner and the number of segments are not known yet.
		hdr.Payload.ID, hdr.Payload.Segments = newName(), maxSegments
	}
	return driver.Record{
		State: pk.native, Method: w.snap.Method, SavedAt: w.snap.SavedAt, ExpireAt: w.expire,
		Data: hdr.encode(pk.inline),
	}
}

// siblingExpiry is when a store may drop what the head names: never before the head.
func siblingExpiry(headExpiry time.Time) time.Time {
	if headExpiry.IsZero() {
		return time.Time{}
	}
	return headExpiry.Add(25 * time.Hour)
}

// giveEpoch makes the base a head that siblings can live under: it reserves one where there
// is none, and puts a head of another program again, content unchanged, with an epoch.
func (w *write) giveEpoch(ctx context.Context) error {
	if w.base.foreign {
		h, err := w.s.adopt(ctx, w.part)
		if errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotFound) {
			return w.reread(ctx)
		}
		if err != nil {
			return err
		}
		w.base = h
		return w.conflict()
	}
	hdr := header{V: plainVersion, Epoch: newName(), Reserved: w.s.now().UnixMilli()}
	r := driver.Record{SavedAt: w.snap.SavedAt, ExpireAt: w.expire, Method: w.snap.Method, Data: hdr.encode(nil)}
	tag, err := w.s.drv.Put(ctx, w.part.Head(), r, w.base.condition())
	if errors.Is(err, core.ErrConflict) {
		return w.reread(ctx)
	}
	if err != nil {
		return err
	}
	w.base = head{tag: tag, hdr: hdr, stateless: true}
	return nil
}

// reread sets the base anew and tests the condition.
func (w *write) reread(ctx context.Context) error {
	w.s.known.forget(w.snap.FlowID)
	h, err := w.s.readHeadOf(ctx, w.part)
	if err != nil {
		return err
	}
	w.base = h
	return w.conflict()
}

// putPayload writes the siblings that the head will name.
func (w *write) putPayload(ctx context.Context, p plan) error {
	expire := siblingExpiry(w.expire)
	if err := w.s.putSegments(ctx, p.payload, w.part, p.hdr.Epoch, expire); err != nil {
		return err
	}
	if err := w.putChunks(ctx, p, expire); err != nil || p.history == nil {
		return err
	}
	return w.s.putEntry(ctx, w.part, p.history, p.hdr.Epoch, expire)
}

func (w *write) putChunks(ctx context.Context, p plan, expire time.Time) error {
	chunks := slices.Clone(p.log.chunks)
	for i := range chunks {
		chunks[i].ExpireAt = expire
	}
	return w.s.putSiblings(ctx, w.part, chunks)
}

// settle decides after a Put of the head that did not succeed.
func (w *write) settle(ctx context.Context, p plan, putErr error) (core.Revision, bool, error) {
	w.s.known.forget(w.snap.FlowID)
	if !errors.Is(putErr, core.ErrConflict) {
		return w.settleFailure(ctx, p, putErr)
	}
	now, err := w.current(ctx, putErr)
	if err != nil {
		// Whether the refused Put was an own earlier attempt stays open.
		return core.Revision{}, false, core.WithOutcomeUnknown(err)
	}
	if rev, newest, ok := now.written(w.token); ok {
		return w.settleWritten(now, rev, newest)
	}
	w.discard(ctx, p)
	before := w.base
	w.base = now
	var conflict *driver.ConflictError
	sure := errors.As(putErr, &conflict) && conflict.Sure
	if !sure && forgotten(before, now) {
		return core.Revision{}, false, core.WithOutcomeUnknown(fmt.Errorf(
			"%w: %d or more writes came since; the own one may be among those forgotten", core.ErrConflict, maxTokens))
	}
	if err := w.answered(before); err != nil {
		return core.Revision{}, false, err
	}
	// A fence changes the tag and neither the epoch nor the token, so the condition of a
	// compare-and-swap still holds and the attempt is repeated.
	return core.Revision{}, false, w.conflict()
}

// current returns the head that refused a Put, from the refusal itself if it brought it.
func (w *write) current(ctx context.Context, putErr error) (head, error) {
	var conflict *driver.ConflictError
	if !errors.As(putErr, &conflict) || !conflict.Known {
		return w.s.readHeadOf(ctx, w.part)
	}
	if conflict.Current == nil {
		return head{}, nil
	}
	h, _, err := readHead(*conflict.Current)
	return h, err
}

// forgotten reports whether an own write on top of before could have been followed by more
// writes than a head remembers.
func forgotten(before, now head) bool {
	return before.hdr.Epoch == now.hdr.Epoch && now.hdr.N >= before.hdr.N+1+maxTokens
}

// settleWritten ends a save that found its own token in the head.
func (w *write) settleWritten(now head, rev core.Revision, newest bool) (core.Revision, bool, error) {
	w.s.known.remember(w.snap.FlowID, now)
	if !newest && w.cond != nil {
		return core.Revision{}, false, fmt.Errorf("%w: it was written as revision %v and replaced since", core.ErrConflict, rev)
	}
	return rev, true, nil
}

// settleFailure ends a save whose Put failed otherwise. If the write may have happened, one
// look at the head can turn the doubt into success; never into certain failure, since the
// request may still be on its way.
func (w *write) settleFailure(ctx context.Context, p plan, putErr error) (core.Revision, bool, error) {
	if !core.OutcomeUnknown(putErr) {
		w.discard(ctx, p)
		return core.Revision{}, false, putErr
	}
	if now, err := w.s.readHeadOf(ctx, w.part); err == nil {
		if rev, newest, ok := now.written(w.token); ok {
			return w.settleWritten(now, rev, newest)
		}
	}
	return core.Revision{}, false, putErr
}

// discard removes the siblings of an attempt that failed for certain.
func (w *write) discard(ctx context.Context, p plan) {
	w.s.removePayload(ctx, w.part, p.hdr.Epoch, p.payload.manifest)
	sorts := make([]string, len(p.log.chunks))
	for i, c := range p.log.chunks {
		sorts[i] = c.Sort
	}
	w.s.removeSorts(ctx, w.part, sorts)
	if p.history != nil {
		w.s.removeEntry(ctx, w.part, p.hdr.Epoch, *p.history)
	}
}

// cleanUp removes what only the old head named. Its failure loses nothing: Sweep finds it.
func (w *write) cleanUp(ctx context.Context, old head) {
	w.s.removePayload(ctx, w.part, old.hdr.Epoch, old.hdr.Payload)
	if w.s.history > 0 {
		w.s.trimHistory(ctx, w.part, w.base.hdr)
	}
}

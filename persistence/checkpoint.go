package persistence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

var _ core.CheckpointProvider = (*Store)(nil)

// A checkpoint is a sibling cp/<epoch>/<id>. What does not fit into one record goes to
// segments that the checkpoint owns, seg/<epoch>/<id>/…, by the rule that the head follows,
// too: an owner is there before its segments. So the record is put as a claim, which nobody
// is shown and which expires; then the segments; then the record again on condition of the
// claim's tag.
const (
	checkpointFormat = 1
	claimedFor       = 24 * time.Hour
)

// maxCheckpointRecord bounds the record of a checkpoint, so that listing and pruning many of
// them reads little.
const maxCheckpointRecord = 16 << 10

// checkpointHeader is the first line of a checkpoint's Data.
type checkpointHeader struct {
	V           int      `json:"v"`
	Claim       bool     `json:"claim,omitempty"` // the segments are yet to come
	Payload     manifest `json:"payload,omitzero"`
	Parent      string   `json:"parent,omitempty"`
	ParentFlow  string   `json:"parent_flow,omitempty"` // if not the flow itself
	Branch      string   `json:"branch"`
	Trigger     string   `json:"trigger,omitempty"`
	Method      string   `json:"method,omitempty"`
	Flow        string   `json:"flow,omitempty"`
	Fingerprint string   `json:"fingerprint,omitempty"`
	Run         string   `json:"run,omitempty"`
	At          int64    `json:"at"` // unix microseconds
}

func (h *checkpointHeader) encode(inline []byte) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic(err) // it holds text and integers only
	}
	return append(append(line, '\n'), inline...)
}

func decodeCheckpoint(data []byte) (checkpointHeader, []byte, error) {
	var h checkpointHeader
	inline, err := decodeLine(data, checkpointFormat, &h)
	return h, inline, err
}

func (h *checkpointHeader) info(flowID, id string) core.CheckpointInfo {
	info := core.CheckpointInfo{
		ID: id, FlowID: flowID, Parent: h.Parent, ParentFlow: h.ParentFlow, Branch: h.Branch, Trigger: h.Trigger,
		Method: h.Method, Flow: h.Flow, Fingerprint: h.Fingerprint, Run: h.Run, At: time.UnixMicro(h.At).UTC(),
	}
	if info.Parent != "" && info.ParentFlow == "" {
		info.ParentFlow = flowID
	}
	for _, p := range h.Payload.Parts {
		info.Bytes += p.Size
	}
	return info
}

func checkpointPrefix(epoch string) string { return "cp/" + epoch + "/" }

func checkpointSort(epoch, id string) string { return checkpointPrefix(epoch) + id }

// newCheckpointID returns a name that orders after parent's and, as far as clocks allow, by
// time.
func newCheckpointID(at time.Time, parent string) string {
	micros := uint64(max(at.UnixMicro(), 0))
	var before uint64
	if _, err := fmt.Sscanf(parent, "%16x-", &before); err == nil {
		micros = max(micros, before+1)
	}
	return fmt.Sprintf("%016x-%s", micros, newName())
}

// maxCheckpointID is longer than the ids that are made here, for ids of later versions.
const maxCheckpointID = 64

// checkCheckpointID keeps text from strangers out of keys. What has not the form of an id is
// the id of nothing.
func checkCheckpointID(id string) error {
	ok := id != "" && len(id) <= maxCheckpointID && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz-") == ""
	if !ok {
		return fmt.Errorf("%w: there is no checkpoint %.80q", core.ErrNotFound, id)
	}
	return nil
}

// SaveCheckpoint implements core.CheckpointProvider. A flow that has no head yet is given one
// that owns its checkpoints, which readers see as core.ErrNotFound.
func (s *Store) SaveCheckpoint(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
	info, err := s.saveCheckpoint(ctx, c)
	if err != nil {
		return core.CheckpointInfo{}, &core.Error{Op: "save checkpoint", FlowID: c.FlowID, Err: err}
	}
	return info, nil
}

func (s *Store) saveCheckpoint(ctx context.Context, c core.Checkpoint) (core.CheckpointInfo, error) {
	if c.Branch == "" {
		c.Branch = core.MainBranch
	}
	if err := s.checkCheckpoint(ctx, c); err != nil {
		return core.CheckpointInfo{}, err
	}
	if c.At.IsZero() {
		c.At = s.now()
	}
	part := driver.Partition(c.FlowID)
	hdr := checkpointHeader{
		V: checkpointFormat, Parent: c.Parent, Branch: c.Branch, Trigger: c.Trigger, Method: c.Method,
		Flow: c.Flow, Fingerprint: c.Fingerprint, Run: c.Run, At: c.At.UnixMicro(),
	}
	if c.ParentFlow != c.FlowID && c.Parent != "" {
		hdr.ParentFlow = c.ParentFlow
	}
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return core.CheckpointInfo{}, err
		}
		owner, err := s.ownHead(ctx, part)
		if errors.Is(err, core.ErrConflict) {
			continue
		}
		if err != nil {
			return core.CheckpointInfo{}, err
		}
		put := checkpointPut{s: s, part: part, owner: owner, hdr: hdr, id: newCheckpointID(c.At, c.Parent)}
		err = put.run(ctx, content{state: c.State, progress: c.Progress})
		if errors.Is(err, core.ErrConflict) {
			// Its claim is gone, deleted with the flow or expired.
			s.known.forget(c.FlowID)
			put.discard(ctx)
			continue
		}
		if err != nil {
			return core.CheckpointInfo{}, err
		}
		// A checkpoint under a head that was deleted meanwhile went with it.
		now, err := s.readHeadOf(ctx, part)
		if err != nil {
			return core.CheckpointInfo{}, core.WithOutcomeUnknown(err)
		}
		if now.hdr.Epoch == owner.hdr.Epoch {
			return put.hdr.info(c.FlowID, put.id), nil
		}
		s.known.forget(c.FlowID)
		put.discard(ctx)
	}
	return core.CheckpointInfo{}, fmt.Errorf("%w: the flow was deleted %d times in a row; try again", core.ErrUnavailable, maxAttempts)
}

// errCheckpointID is for a checkpoint that brings an id.
var errCheckpointID = errors.New("the store names a checkpoint; its ID must be empty")

func (s *Store) checkCheckpoint(ctx context.Context, c core.Checkpoint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.ID != "" {
		return errCheckpointID
	}
	if err := errors.Join(core.ValidateID(c.FlowID), core.ValidateBranch(c.Branch)); err != nil {
		return err
	}
	if err := core.ValidateState(c.State); err != nil {
		return err
	}
	if c.Progress != nil && !json.Valid(c.Progress) {
		return &core.StateError{Reason: "the progress is not JSON"}
	}
	if size := len(c.State) + len(c.Progress); size > s.maxPayload {
		return &core.SizeError{Size: int64(size), Limit: int64(s.maxPayload)}
	}
	return nil
}

// ownHead returns a head that siblings can live under for as long as they like: one with
// state, or one that says that it stays. It is core.ErrConflict when another writer was first.
func (s *Store) ownHead(ctx context.Context, part driver.Partition) (head, error) {
	if h, ok := s.known.get(string(part)); ok && h.owns() {
		return h, nil
	}
	h, err := s.readHeadOf(ctx, part)
	switch {
	case err != nil:
		return head{}, err
	case h.foreign:
		return s.adopt(ctx, part)
	case h.owns():
		return h, nil
	}
	if !h.exists() {
		h.hdr = header{V: plainVersion, Epoch: newName()}
	}
	h.hdr.Held, h.hdr.Reserved, h.stateless = true, s.now().UnixMilli(), true
	r := driver.Record{SavedAt: s.now().UTC().Truncate(time.Microsecond), ExpireAt: s.expiry(), Data: h.hdr.encode(nil)}
	h.tag, err = s.drv.Put(ctx, part.Head(), r, h.condition())
	return h, err
}

// owns reports whether h has an epoch and no reservation that could run out.
func (h head) owns() bool { return h.exists() && !h.foreign && (!h.stateless || h.hdr.Held) }

func (s *Store) expiry() time.Time {
	if s.ttl <= 0 {
		return time.Time{}
	}
	return s.now().Add(s.ttl)
}

// checkpointPut is one attempt to put a checkpoint.
type checkpointPut struct {
	s      *Store
	part   driver.Partition
	owner  head
	hdr    checkpointHeader
	id     string
	packed packed
}

func (p *checkpointPut) key() driver.Key {
	return p.part.Sibling(checkpointSort(p.owner.hdr.Epoch, p.id))
}

func (p *checkpointPut) run(ctx context.Context, c content) error {
	hdr := p.hdr
	limits := lower(driver.Limits{Record: maxCheckpointRecord, Inline: maxCheckpointRecord}, p.s.limits)
	p.packed = layout(c, false, limits, func(pk packed) int {
		hdr.Payload = pk.manifest
		if len(pk.segments) > 0 {
			hdr.Payload.ID, hdr.Payload.Segments = p.id, maxSegments
		}
		return driver.Size(p.s.drv, p.key(), driver.Record{Data: hdr.encode(pk.inline)})
	})
	if err := p.s.cut(&p.packed, p.part, p.owner.hdr.Epoch, p.id); err != nil {
		return err
	}
	p.hdr.Payload = p.packed.manifest
	record := driver.Record{Data: p.hdr.encode(p.packed.inline), ExpireAt: siblingExpiry(p.s.expiry())}
	if err := p.s.fits(p.key(), record); err != nil {
		return err
	}
	if len(p.packed.segments) == 0 {
		_, err := p.put(ctx, record, driver.IfAbsent())
		return err
	}
	claim := checkpointHeader{V: checkpointFormat, Claim: true, Branch: p.hdr.Branch, At: p.hdr.At}
	tag, err := p.put(ctx, driver.Record{Data: claim.encode(nil), ExpireAt: p.s.now().Add(claimedFor)}, driver.IfAbsent())
	if err != nil {
		return err
	}
	if err := p.s.putSegments(ctx, p.packed, p.part, p.owner.hdr.Epoch, siblingExpiry(p.s.expiry())); err != nil {
		p.discard(ctx)
		return err
	}
	_, err = p.put(ctx, record, driver.IfTag(tag))
	return err
}

// put puts the checkpoint's record. Its name is random, so whoever stands in the way, or may
// have written although the answer was lost, can only be this very Put: one look tells.
func (p *checkpointPut) put(ctx context.Context, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	tag, err := p.s.drv.Put(ctx, p.key(), r, cond)
	if err == nil || !errors.Is(err, core.ErrConflict) && !core.OutcomeUnknown(err) {
		return tag, err
	}
	if now, look := p.s.drv.Get(ctx, p.key()); look == nil && bytes.Equal(now.Data, r.Data) {
		return now.Tag, nil
	}
	return "", err
}

// discard removes what was put, the owner of the segments first.
func (p *checkpointPut) discard(ctx context.Context) {
	p.s.removeSorts(ctx, p.part, []string{p.key().Sort})
	p.s.removePayload(ctx, p.part, p.owner.hdr.Epoch, p.packed.manifest)
}

// LoadCheckpoint implements core.CheckpointProvider. A record that is damaged, or whose
// segments are not there, is core.ErrCorrupt.
func (s *Store) LoadCheckpoint(ctx context.Context, flowID, id string) (core.Checkpoint, error) {
	err := core.ValidateID(flowID)
	if err == nil {
		err = checkCheckpointID(id)
	}
	var c core.Checkpoint
	if err == nil {
		c, err = s.loadCheckpoint(ctx, driver.Partition(flowID), id)
	}
	if err != nil {
		return core.Checkpoint{}, &core.Error{Op: "load checkpoint", FlowID: flowID, Err: err}
	}
	return c, nil
}

func (s *Store) loadCheckpoint(ctx context.Context, part driver.Partition, id string) (core.Checkpoint, error) {
	h, err := s.readHeadOf(ctx, part)
	if err != nil {
		return core.Checkpoint{}, err
	}
	if !h.exists() || h.foreign {
		return core.Checkpoint{}, core.ErrNotFound
	}
	for attempt := 0; ; attempt++ {
		r, err := s.drv.Get(ctx, part.Sibling(checkpointSort(h.hdr.Epoch, id)))
		if err != nil {
			return core.Checkpoint{}, err
		}
		hdr, inline, err := decodeCheckpoint(r.Data)
		if err != nil {
			return core.Checkpoint{}, err
		}
		if hdr.Claim {
			return core.Checkpoint{}, core.ErrNotFound
		}
		c, err := s.unpack(ctx, part, header{Epoch: h.hdr.Epoch, Payload: hdr.Payload}, nil, inline)
		if errors.Is(err, errMissingSegment) && attempt == 0 {
			continue // pruned between the two reads, or really damaged: the record tells
		}
		return core.Checkpoint{CheckpointInfo: hdr.info(string(part), id), State: c.state, Progress: c.progress}, err
	}
}

// Checkpoints implements core.CheckpointProvider.
func (s *Store) Checkpoints(ctx context.Context, flowID string) iter.Seq2[core.CheckpointInfo, error] {
	return listOf(ctx, s, "list checkpoints", flowID, s.checkpoints)
}

func (s *Store) checkpoints(ctx context.Context, part driver.Partition, epoch string) iter.Seq2[core.CheckpointInfo, error] {
	return func(yield func(core.CheckpointInfo, error) bool) {
		for k, err := range s.kept(ctx, part, epoch) {
			if err != nil {
				yield(core.CheckpointInfo{}, err)
				return
			}
			if !yield(k.hdr.info(string(part), k.id), nil) {
				return
			}
		}
	}
}

// keptCheckpoint is one as Range returns it.
type keptCheckpoint struct {
	id  string
	tag driver.Tag
	hdr checkpointHeader
}

// kept yields the checkpoints under an epoch, newest first.
func (s *Store) kept(ctx context.Context, part driver.Partition, epoch string) iter.Seq2[keptCheckpoint, error] {
	return func(yield func(keptCheckpoint, error) bool) {
		o := driver.WithPrefix(checkpointPrefix(epoch))
		o.Reverse = true
		for r, err := range s.drv.Range(ctx, part, o) {
			var hdr checkpointHeader
			if err == nil {
				hdr, _, err = decodeCheckpoint(r.Data)
			}
			if err != nil {
				yield(keptCheckpoint{}, err)
				return
			}
			if _, _, id := place(r.Sort); !hdr.Claim && !yield(keptCheckpoint{id, r.Tag, hdr}, nil) {
				return
			}
		}
	}
}

// PruneCheckpoints implements core.CheckpointProvider.
func (s *Store) PruneCheckpoints(ctx context.Context, flowID, branch string, keep int) (int, error) {
	err := errors.Join(core.ValidateID(flowID), core.ValidateBranch(branch))
	if err == nil && keep < 0 {
		err = fmt.Errorf("a number of checkpoints cannot be negative: %d", keep)
	}
	removed := 0
	if err == nil {
		removed, err = s.pruneCheckpoints(ctx, driver.Partition(flowID), branch, keep)
	}
	if err != nil {
		return removed, &core.Error{Op: "prune checkpoints", FlowID: flowID, Err: err}
	}
	return removed, nil
}

func (s *Store) pruneCheckpoints(ctx context.Context, part driver.Partition, branch string, keep int) (removed int, err error) {
	h, err := s.readHeadOf(ctx, part)
	if err != nil || !h.exists() || h.foreign {
		return 0, err
	}
	epoch := h.hdr.Epoch
	if keep == 0 {
		if err := s.deleteSorts(ctx, part, []string{branchSort(epoch, branch)}); err != nil {
			return 0, err
		}
	}
	var old []keptCheckpoint
	for k, err := range s.kept(ctx, part, epoch) {
		if err != nil {
			return 0, err
		}
		if k.hdr.Branch == branch {
			old = append(old, k)
		}
	}
	if len(old) <= keep {
		return 0, nil
	}
	begins := map[string]bool{} // where branches begin
	for b, err := range s.branches(ctx, part, epoch) {
		if err != nil {
			return 0, err
		}
		begins[b.Checkpoint] = true
	}
	for _, k := range old[keep:] {
		if begins[k.id] {
			continue
		}
		// The record goes before its segments, so that nobody is shown half of it.
		err := s.drv.Delete(ctx, part.Sibling(checkpointSort(epoch, k.id)), driver.IfTag(k.tag))
		if errors.Is(err, core.ErrConflict) {
			continue // somebody else pruned it
		}
		if err != nil {
			return removed, err
		}
		removed++
		s.removePayload(ctx, part, epoch, k.hdr.Payload)
	}
	return removed, nil
}

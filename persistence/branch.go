package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// A branch is recorded beside the flow it was made from, in a sibling whose key is a hash of
// its name: that the key must not exist is what makes the name unique.

// branchRecord is the Data of such a sibling.
type branchRecord struct {
	V          int    `json:"v"`
	Name       string `json:"name"`
	Checkpoint string `json:"checkpoint"`
	Into       string `json:"into"`
	At         int64  `json:"at"` // unix microseconds
}

func (b *branchRecord) same(o *branchRecord) bool {
	return b.Name == o.Name && b.Checkpoint == o.Checkpoint && b.Into == o.Into
}

func (b *branchRecord) encode() []byte {
	line, err := json.Marshal(b)
	if err != nil {
		panic(err) // it holds text and integers only
	}
	return append(line, '\n')
}

func branchPrefix(epoch string) string { return "br/" + epoch + "/" }

func branchSort(epoch, name string) string { return branchPrefix(epoch) + checksum([]byte(name)) }

// CreateBranch implements core.CheckpointProvider.
func (s *Store) CreateBranch(ctx context.Context, b core.Branch) error {
	err := errors.Join(core.ValidateID(b.FlowID), core.ValidateBranch(b.Name), core.ValidateID(b.Into))
	if err == nil {
		err = checkCheckpointID(b.Checkpoint)
	}
	if err == nil {
		err = s.createBranch(ctx, b)
	}
	if err != nil {
		return &core.Error{Op: "create branch", FlowID: b.FlowID, Err: err}
	}
	return nil
}

func (s *Store) createBranch(ctx context.Context, b core.Branch) error {
	part := driver.Partition(b.FlowID)
	from, err := s.loadCheckpoint(ctx, part, b.Checkpoint)
	if err != nil {
		return err
	}
	if b.Name == core.MainBranch || b.Name == from.Branch {
		return takenError(b.Name, b.FlowID)
	}
	if b.At.IsZero() {
		b.At = s.now()
	}
	h, err := s.readHeadOf(ctx, part)
	if err != nil {
		return err
	}
	if !h.owns() {
		return fmt.Errorf("%w: the flow was deleted meanwhile", core.ErrNotFound)
	}
	key := part.Sibling(branchSort(h.hdr.Epoch, b.Name))
	rec := branchRecord{V: checkpointFormat, Name: b.Name, Checkpoint: b.Checkpoint, Into: b.Into, At: b.At.UnixMicro()}
	_, err = s.drv.Put(ctx, key, driver.Record{Data: rec.encode(), ExpireAt: siblingExpiry(s.expiry())}, driver.IfAbsent())
	if err == nil || !errors.Is(err, core.ErrConflict) && !core.OutcomeUnknown(err) {
		return err
	}
	there, look := s.drv.Get(ctx, key)
	if look != nil {
		return core.WithOutcomeUnknown(errors.Join(err, look))
	}
	var was branchRecord
	if _, look := decodeLine(there.Data, checkpointFormat, &was); look != nil {
		return look
	}
	if !was.same(&rec) {
		return takenError(b.Name, was.Into)
	}
	return nil
}

func takenError(name, flowID string) error {
	return fmt.Errorf("%w: there is a branch %q already, flow %q is on it; give another name", core.ErrConflict, name, flowID)
}

// Branches implements core.CheckpointProvider.
func (s *Store) Branches(ctx context.Context, flowID string) iter.Seq2[core.Branch, error] {
	return listOf(ctx, s, "list branches", flowID, s.branches)
}

func (s *Store) branches(ctx context.Context, part driver.Partition, epoch string) iter.Seq2[core.Branch, error] {
	return func(yield func(core.Branch, error) bool) {
		for r, err := range s.drv.Range(ctx, part, driver.WithPrefix(branchPrefix(epoch))) {
			var b branchRecord
			if err == nil {
				_, err = decodeLine(r.Data, checkpointFormat, &b)
			}
			if err != nil {
				yield(core.Branch{}, err)
				return
			}
			branch := core.Branch{
				FlowID: string(part), Name: b.Name, Checkpoint: b.Checkpoint, Into: b.Into, At: time.UnixMicro(b.At).UTC(),
			}
			if !yield(branch, nil) {
				return
			}
		}
	}
}

// listOf yields what a flow owns beside its head, and nothing where there is no head of ours.
func listOf[T any](
	ctx context.Context, s *Store, op, flowID string, of func(context.Context, driver.Partition, string) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		fail := func(err error) { yield(none, &core.Error{Op: op, FlowID: flowID, Err: err}) }
		err := core.ValidateID(flowID)
		var h head
		if err == nil {
			h, err = s.readHeadOf(ctx, driver.Partition(flowID))
		}
		if err != nil {
			fail(err)
			return
		}
		if !h.exists() || h.foreign {
			return
		}
		for v, err := range of(ctx, driver.Partition(flowID), h.hdr.Epoch) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

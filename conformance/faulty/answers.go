package faulty

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// answerMutants give wrong answers, or make several calls of one.
func answerMutants() []Mutant {
	return []Mutant{
		{Name: "outage_is_no_flow", Bug: "an outage on load is \"not found\"", Law: "store/failures_keep_their_meaning", store: becomes(core.ErrUnavailable, core.ErrNotFound)},
		{Name: "damage_is_no_flow", Bug: "a damaged record is \"not found\"", Law: "store/damage_is_reported", store: becomes(core.ErrCorrupt, core.ErrNotFound)},
		{Name: "siblings_deleted_first", Bug: "Delete begins with the segments", Law: "store/cut_anywhere", store: answering(siblingsFirst)},
		{Name: "only_the_head_deleted", Bug: "Delete leaves the siblings", Law: "store/delete_leaves_nothing", store: answering(onlyHead)},
		{Name: "revision_is_a_number", Bug: "only the number of a revision is compared", Law: "store/revisions_are_exact", store: answering(numberedRevisions)},
		{Name: "load_from_memory", Bug: "a Store answers loads with what it saved last", Law: "store/revisions_are_exact", store: answering(loadFromMemory)},
		{Name: "progress_saved_after_state", Bug: "state and progress are two saves", Law: "store/cut_anywhere", store: answering(progressAfter)},
		{Name: "bad_state_becomes_empty", Bug: "a state that cannot be stored is saved as {}", Law: "store/bad_input_writes_nothing", store: answering(badBecomesEmpty)},
		{Name: "ids_are_trimmed", Bug: "space around a flow's id does not count", Law: "store/values_come_back", store: answering(trimmed)},
		{Name: "history_without_current", Bug: "History begins with the snapshot before", Law: "store/history_is_exact", store: answering(historyWithoutCurrent)},
		{Name: "pruning_is_not_told", Bug: "what the reducer removed does not come back", Law: "store/pruning", store: answering(pruningNotTold)},
		{Name: "conflict_is_overwritten", Bug: "a save that meets a conflict saves again without its condition", Law: "runtime/one_resumer_wins", store: answering(conflictOverwritten)},
		{Name: "progress_is_lost", Bug: "loads bring the state alone", Law: "runtime/resume_is_exact", store: answering(progressLost)},
		{Name: "conflict_is_success", Bug: "a save that meets a conflict reports that it has saved", Law: "runtime/pauses_are_claimed_once", store: answering(conflictIsSuccess)},
		{Name: "progress_alone_is_not_saved", Bug: "a save of which only the progress is new is skipped", Law: "runtime/pauses_are_claimed_once", store: answering(progressAloneSkipped)},
		{Name: "condition_tested_in_the_client", Bug: "the revision is compared with that of a load, then the save is blind", Law: "store/linearizable", store: answering(clientTests)},
		{Name: "delete_after_a_conflict", Bug: "the Delete that follows a conflict does nothing", Law: "store/like_the_model", store: answering(deleteAfterConflict)},
		{Name: "missing_is_empty", Bug: "a flow that does not exist is an empty one", Law: "runtime/forks_are_apart", store: answering(missingIsEmpty)},
	}
}

func siblingsFirst(s subject.Store, d driver.Driver) answer {
	return answer{del: func(ctx context.Context, flowID string) error {
		for r, err := range d.Range(ctx, driver.Partition(flowID), driver.RangeOptions{KeysOnly: true}) {
			if err == nil {
				err = d.Delete(ctx, driver.Partition(flowID).Sibling(r.Sort), driver.Condition{})
			}
			if err != nil {
				return wrapped("delete", flowID, err)
			}
		}
		return s.Delete(ctx, flowID)
	}}
}

func onlyHead(_ subject.Store, d driver.Driver) answer {
	return answer{del: func(ctx context.Context, flowID string) error {
		return d.Delete(ctx, driver.Partition(flowID).Head(), driver.Condition{})
	}}
}

func numberedRevisions(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		if want := core.NewSaveSettings(opts).If; want != nil {
			if now, err := s.LoadState(ctx, snap.FlowID); err == nil && now.Revision.N == want.N {
				opts = append(opts, core.IfRevision(now.Revision))
			}
		}
		return s.SaveState(ctx, snap, opts...)
	}}
}

func loadFromMemory(s subject.Store, _ driver.Driver) answer {
	var memory sync.Map
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if snap.Revision = saved.Revision; err == nil {
			memory.Store(snap.FlowID, snap)
		}
		return saved, err
	}, load: func(ctx context.Context, flowID string) (core.Snapshot, error) {
		if snap, ok := memory.Load(flowID); ok {
			return snap.(core.Snapshot), nil
		}
		return s.LoadState(ctx, flowID)
	}, del: func(ctx context.Context, flowID string) error { memory.Delete(flowID); return s.Delete(ctx, flowID) }}
}

func progressAfter(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		full := snap
		snap.Progress = nil
		saved, err := s.SaveState(ctx, snap, opts...)
		if err != nil || full.Progress == nil {
			return saved, err
		}
		return s.SaveState(ctx, full, core.IfRevision(saved.Revision))
	}}
}

func badBecomesEmpty(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if errors.Is(err, core.ErrInvalidState) {
			snap.State = []byte(`{}`)
			return s.SaveState(ctx, snap, opts...)
		}
		return saved, err
	}}
}

func trimmed(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		snap.FlowID = strings.TrimSpace(snap.FlowID)
		return s.SaveState(ctx, snap, opts...)
	}, load: func(ctx context.Context, flowID string) (core.Snapshot, error) {
		snap, err := s.LoadState(ctx, strings.TrimSpace(flowID))
		if err == nil {
			snap.FlowID = flowID
		}
		return snap, err
	}}
}

func historyWithoutCurrent(s subject.Store, _ driver.Driver) answer {
	return answer{history: func(ctx context.Context, flowID string) iter.Seq2[core.Snapshot, error] {
		return func(yield func(core.Snapshot, error) bool) {
			first := true
			for snap, err := range s.History(ctx, flowID) {
				if first && err == nil {
					first = false
				} else if !yield(snap, err) {
					return
				}
			}
		}
	}}
}

func pruningNotTold(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		saved.Pruned = nil
		return saved, err
	}}
}

func conflictOverwritten(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if errors.Is(err, core.ErrConflict) {
			return s.SaveState(ctx, snap)
		}
		return saved, err
	}}
}

func progressLost(s subject.Store, _ driver.Driver) answer {
	return answer{load: func(ctx context.Context, flowID string) (core.Snapshot, error) {
		snap, err := s.LoadState(ctx, flowID)
		snap.Progress = nil
		return snap, err
	}}
}

func missingIsEmpty(s subject.Store, _ driver.Driver) answer {
	return answer{load: func(ctx context.Context, flowID string) (core.Snapshot, error) {
		snap, err := s.LoadState(ctx, flowID)
		if errors.Is(err, core.ErrNotFound) {
			return core.Snapshot{FlowID: flowID, State: []byte(`{}`)}, nil
		}
		return snap, err
	}}
}

func conflictIsSuccess(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if now, lerr := s.LoadState(ctx, snap.FlowID); errors.Is(err, core.ErrConflict) && lerr == nil {
			return core.Saved{Revision: now.Revision}, nil
		}
		return saved, err
	}}
}

func progressAloneSkipped(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		if now, err := s.LoadState(ctx, snap.FlowID); err == nil && bytes.Equal(now.State, snap.State) {
			return core.Saved{Revision: now.Revision}, nil
		}
		return s.SaveState(ctx, snap, opts...)
	}}
}

// clientTests is right as long as nobody else saves between the load and the save.
func clientTests(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		if want := core.NewSaveSettings(opts).If; want != nil {
			now, err := s.LoadState(ctx, snap.FlowID)
			if errors.Is(err, core.ErrNotFound) || err == nil && now.Revision != *want {
				return s.SaveState(ctx, snap, opts...)
			}
			time.Sleep(time.Millisecond)
		}
		return s.SaveState(ctx, snap)
	}}
}

func deleteAfterConflict(s subject.Store, _ driver.Driver) answer {
	var refused sync.Map
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if errors.Is(err, core.ErrConflict) {
			refused.Store(snap.FlowID, true)
		}
		return saved, err
	}, del: func(ctx context.Context, flowID string) error {
		if _, ok := refused.LoadAndDelete(flowID); ok {
			return nil
		}
		return s.Delete(ctx, flowID)
	}}
}

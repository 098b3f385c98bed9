package faulty

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// logMutants have logs that tell another story than the saves.
func logMutants() []Mutant {
	const exact = "store/logs_are_exact"
	return []Mutant{
		{Name: "log_entry_twice", Bug: "the last entry of a save is appended twice", Law: exact, store: answering(entryTwice)},
		{Name: "log_forgets", Bug: "only the newest 20 entries of a log are kept", Law: exact, store: answering(newestEntries)},
		{Name: "log_newest_first", Bug: "a log begins with its newest entry", Law: exact, store: answering(newestFirst)},
		{Name: "log_is_a_save_late", Bug: "entries are seen when the next save comes", Law: exact, store: answering(entriesLate)},
		{Name: "log_of_the_losers", Bug: "a save that meets a conflict leaves its entries", Law: exact, store: answering(losersLogged)},
		{Name: "log_saved_after_state", Bug: "state and entries are two saves", Law: exact, store: answering(logAfter)},
		{Name: "bad_entries_are_dropped", Bug: "a save with an entry that cannot be kept is done without its entries", Law: exact, store: answering(badEntriesDropped)},
		{Name: "log_outlives_its_flow", Bug: "Delete of a flow leaves the chunks of its log", Law: exact, store: over(chunksStay)},
	}
}

func entryTwice(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		if n := len(snap.Log); n > 0 {
			snap.Log = slices.Concat(snap.Log, snap.Log[n-1:])
		}
		return s.SaveState(ctx, snap, opts...)
	}}
}

func newestEntries(s subject.Store, _ driver.Driver) answer {
	return answer{log: func(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
		return whole(s.Log(ctx, flowID), func(all []json.RawMessage) []json.RawMessage {
			return all[max(0, len(all)-20):]
		})
	}}
}

func newestFirst(s subject.Store, _ driver.Driver) answer {
	return answer{log: func(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
		return whole(s.Log(ctx, flowID), reversed)
	}}
}

func entriesLate(s subject.Store, _ driver.Driver) answer {
	var late sync.Map // by flow: the entries of its last save
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		now := snap.Log
		if before, ok := late.Load(snap.FlowID); ok {
			snap.Log = before.([]json.RawMessage)
		} else {
			snap.Log = nil
		}
		late.Store(snap.FlowID, now)
		return s.SaveState(ctx, snap, opts...)
	}}
}

func losersLogged(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		saved, err := s.SaveState(ctx, snap, opts...)
		if now, lerr := s.LoadState(ctx, snap.FlowID); errors.Is(err, core.ErrConflict) && lerr == nil {
			now.Log = snap.Log
			_, lerr = s.SaveState(ctx, now, core.IfRevision(now.Revision))
			return saved, errors.Join(err, lerr)
		}
		return saved, err
	}}
}

func logAfter(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		full := snap
		snap.Log = nil
		saved, err := s.SaveState(ctx, snap, opts...)
		if err != nil || len(full.Log) == 0 {
			return saved, err
		}
		return s.SaveState(ctx, full, core.IfRevision(saved.Revision))
	}}
}

func badEntriesDropped(s subject.Store, _ driver.Driver) answer {
	return answer{save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
		if core.ValidateLog(snap.Log) != nil {
			snap.Log = nil
		}
		return s.SaveState(ctx, snap, opts...)
	}}
}

func chunksStay(d driver.Driver) driver.Driver {
	return patch{Driver: d, del: func(ctx context.Context, k driver.Key, cond driver.Condition) error {
		if strings.HasPrefix(k.Sort, "ev/") {
			return nil
		}
		return d.Delete(ctx, k, cond)
	}}
}

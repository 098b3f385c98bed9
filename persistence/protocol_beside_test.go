package persistence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Checkpoints and the log are what a flow has beside its head that outlives a save. Their
// actors run through the same explorer.

func keep(name string) actor {
	return actor{name: name, run: func(w *world) {
		info, err := w.store().SaveCheckpoint(context.Background(), core.Checkpoint{
			CheckpointInfo: core.CheckpointInfo{FlowID: flowID, Method: name}, State: bigState(name),
		})
		w.results.set(name, err)
		if err == nil {
			w.results.keep(name, info.ID)
		}
	}}
}

func (r *results) keep(name, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[name] = id
}

func prune(name string, keep int) actor {
	return actor{name: name, run: func(w *world) {
		_, err := w.store().PruneCheckpoints(context.Background(), flowID, core.MainBranch, keep)
		w.results.set(name, err)
	}}
}

// saveLogging appends entries that do not fit into the head.
func saveLogging(name string) actor {
	return actor{name: name, run: func(w *world) {
		_, err := w.store().SaveState(context.Background(), core.Snapshot{
			FlowID: flowID, Method: name, State: bigState(name), Log: entriesBy(name),
		})
		w.results.set(name, err)
	}}
}

func entriesBy(name string) []json.RawMessage {
	var out []json.RawMessage
	for n := range 3 {
		out = append(out, json.RawMessage(fmt.Sprintf(`{"by":%q,"n":%d,"filler":"%060d"}`, name, n, n)))
	}
	return out
}

// checkpointsAreWhole demands that what is listed can be loaded whole and that what was
// acknowledged is listed, unless somebody removes it.
func checkpointsAreWhole(removed bool) func(w *world) error {
	return func(w *world) error {
		ctx, s := context.Background(), w.store()
		listed := map[string]bool{}
		for info, err := range s.Checkpoints(ctx, flowID) {
			if err != nil {
				return err
			}
			c, err := s.LoadCheckpoint(ctx, flowID, info.ID)
			if err != nil {
				return fmt.Errorf("a checkpoint by %q is listed: %w", info.Method, err)
			}
			if string(c.State) != string(bigState(info.Method)) {
				return fmt.Errorf("the checkpoint by %q holds another state", info.Method)
			}
			listed[info.ID] = true
		}
		for name, id := range w.results.kept {
			if !removed && !listed[id] {
				return fmt.Errorf("the checkpoint that %q was told is kept is gone", name)
			}
		}
		return nil
	}
}

// logIsWhole demands that the entries of each save are in the log once, together and in their
// order, those of every save that was acknowledged, unless the flow was deleted.
func logIsWhole(removed bool) func(w *world) error {
	return func(w *world) error {
		var all []string
		for e, err := range w.store().Log(context.Background(), flowID) {
			if errors.Is(err, core.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			all = append(all, string(e))
		}
		text := strings.Join(all, "\n")
		for _, name := range []string{"A", "B"} {
			var own []string
			for _, e := range entriesBy(name) {
				own = append(own, string(e))
			}
			want := strings.Join(own, "\n")
			n, first := strings.Count(text, want), strings.Count(text, own[0])
			err, over := w.results.of[name]
			if n != first || n > 1 || n == 0 && over && err == nil && !removed {
				return fmt.Errorf("of the entries that %q saved (over: %v) the log has %d whole of %d: %w", name, over, n, first, errors.Join(errLog, err))
			}
		}
		return nil
	}
}

var errLog = errors.New("the log is not whole")

func besideHeadPairs() []protocolCase {
	whole, gone := checkpointsAreWhole(false), checkpointsAreWhole(true)
	return []protocolCase{
		{name: "checkpoint, sweep", initial: true, actors: []actor{keep("A"), sweep("W")}, also: whole},
		{name: "first checkpoint, sweep", actors: []actor{keep("A"), sweep("W")}, also: whole},
		{name: "checkpoint, delete", initial: true, actors: []actor{keep("A"), remove("D")}, also: gone},
		{name: "first checkpoint, delete", actors: []actor{keep("A"), remove("D")}, also: gone},
		{name: "checkpoint, save", initial: true, actors: []actor{keep("A"), save("B")}, also: whole},
		{name: "first checkpoint, first save", actors: []actor{keep("A"), save("B")}, also: whole},
		{name: "first checkpoint, first checkpoint", actors: []actor{keep("A"), keep("B")}, also: whole},
		{name: "checkpoint, prune", initial: true, actors: []actor{keep("A"), prune("P", 0)}, also: gone},
		{name: "log, sweep", initial: true, actors: []actor{saveLogging("A"), sweep("W")}, also: logIsWhole(false)},
		{name: "log, log", initial: true, actors: []actor{saveLogging("A"), saveLogging("B")}, also: logIsWhole(false)},
		{name: "first log, delete", actors: []actor{saveLogging("A"), remove("D")}, also: logIsWhole(true)},
		{name: "lost reply: log, log", initial: true, actors: []actor{lossy(saveLogging("A")), saveLogging("B")}, also: logIsWhole(false)},
	}
}

func besideHeadTriples() []protocolCase {
	return []protocolCase{
		{name: "checkpoint, prune, sweep", initial: true, actors: []actor{keep("A"), prune("P", 0), sweep("W")}, also: checkpointsAreWhole(true)},
		{name: "checkpoint, save, sweep", initial: true, actors: []actor{keep("A"), save("B"), sweep("W")}, also: checkpointsAreWhole(false)},
		{name: "checkpoint, sweep, delete", initial: true, actors: []actor{keep("A"), sweep("W"), remove("D")}, also: checkpointsAreWhole(true)},
		{name: "claim runs out: checkpoint, sweep", initial: true, actors: []actor{keep("A"), sweep("W"), elapse("T", 25*time.Hour)}, also: checkpointsAreWhole(false)},
		{name: "log, log, sweep", initial: true, actors: []actor{saveLogging("A"), saveLogging("B"), sweep("W")}, also: logIsWhole(false)},
	}
}

// isCheckpoint reports whether a sibling, whose sort without its kind is given, is or belongs
// to a checkpoint under the flow's head, or is a chunk of its log.
func (w *world) isCheckpoint(rest string) bool {
	ctx, part := context.Background(), driver.Partition(flowID)
	epoch, rest, _ := strings.Cut(rest, "/")
	id, _, _ := strings.Cut(rest, "/")
	head, err := w.drv.Get(ctx, part.Head())
	if err != nil || !strings.Contains(string(head.Data), epoch) {
		return false
	}
	_, err = w.drv.Get(ctx, part.Sibling("cp/"+epoch+"/"+id))
	return err == nil
}

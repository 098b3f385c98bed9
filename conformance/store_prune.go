package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/reducer"
)

func pruning() law {
	return law{
		layer: storeLayer, name: "pruning",
		text: "A reducer shortens the messages inside the save, touches nothing else, and what it removed comes back.",
		cases: []testCase{
			{"only_the_messages", onlyTheMessages},
			{"nothing_to_do", nothingToPrune},
			{"a_failing_reducer", failingReducer},
		},
	}
}

// keepLast is the simplest of reducers: it keeps the newest messages.
type keepLast struct {
	n    int
	fail error
}

func (k keepLast) Idle(messages int) bool { return messages <= k.n }

func (k keepLast) ReduceJSON(_ context.Context, messages []byte) (reducer.Result, error) {
	if k.fail != nil {
		return reducer.Result{}, k.fail
	}
	var all []json.RawMessage
	if err := json.Unmarshal(messages, &all); err != nil {
		return reducer.Result{}, err
	}
	if len(all) <= k.n {
		return reducer.Result{Messages: messages}, nil
	}
	cut := len(all) - k.n
	kept, err := json.Marshal(all[cut:])
	return reducer.Result{Messages: kept, Pruned: all[:cut], Changed: true}, err
}

// chat is a state with messages that a careless rewrite would change.
func chat(key string, from, to int) []byte {
	var m bytes.Buffer
	for n := from; n < to; n++ {
		fmt.Fprintf(&m, `%s{"role":"user","n":%d,"x":1.0,"big":9007199254740993}`, comma(n-from), n)
	}
	return fmt.Appendf(nil, `{ "before":{"%s":[1,2,3,4,5,6]}, "%s":[%s], "after":1e400, "n":%d}`, key, key, m.Bytes(), to)
}

func onlyTheMessages(c *caseRun) {
	const keep = 3
	for _, key := range []string{"messages", "a.b", "é", ""} {
		d := c.openTight()
		opts := []persistence.Option{persistence.WithReducer(keepLast{n: keep}, persistence.MessagesKey(key))}
		if key == "" {
			key, opts = "messages", []persistence.Option{persistence.WithReducer(keepLast{n: keep})}
		}
		s := c.store(d, opts...)
		for _, n := range []int{keep + 1, 12, 60} {
			snap := core.Snapshot{FlowID: c.flow(fmt.Sprint(key, n)), Method: "m", State: chat(key, 0, n)}
			saved := c.save(s, snap)
			want := chat(key, n-keep, n)
			if err := sameJSON(saved.State, want); err != nil {
				c.Errorf("SaveState with a reducer returned another state: %v", err)
			}
			if len(saved.Pruned) != n-keep {
				c.Errorf("SaveState returned %d pruned messages, want %d", len(saved.Pruned), n-keep)
			}
			for i, m := range saved.Pruned {
				if err := sameJSON(m, fmt.Appendf(nil, `{"role":"user","n":%d,"x":1.0,"big":9007199254740993}`, i)); err != nil {
					c.Errorf("pruned message %d: %v", i, err)
				}
			}
			snap.State, snap.Revision = want, saved.Revision
			c.wantSnapshot(s, snap)
			c.wantSnapshot(c.store(d), snap)
			spoil(saved.State)
			c.wantSnapshot(s, snap)
		}
	}
}

func nothingToPrune(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithReducer(keepLast{n: 5}))
	for i, state := range []string{string(chat("messages", 0, 5)), `{}`, `{"messages":[]}`, `{"other":[1,2,3,4,5,6,7]}`, `{"x":{"messages":[1,2,3,4,5,6,7]}}`} {
		snap := core.Snapshot{FlowID: c.flow(fmt.Sprint("f", i)), State: []byte(state)}
		saved := c.save(s, snap)
		if saved.State != nil || len(saved.Pruned) > 0 {
			c.Errorf("SaveState of %s returned a state or %d pruned messages, there was nothing to prune", clip([]byte(state)), len(saved.Pruned))
		}
		snap.Revision = saved.Revision
		c.wantSnapshot(s, snap)
	}
}

func failingReducer(c *caseRun) {
	d := c.openTight()
	snap := c.snapshot("f", 1, 10)
	snap.Revision = c.save(c.store(d), snap).Revision
	before := c.dump(d)
	s := c.store(d, persistence.WithReducer(keepLast{n: 1, fail: context.DeadlineExceeded}))
	_, err := s.SaveState(c.ctx, core.Snapshot{FlowID: snap.FlowID, State: chat("messages", 0, 9)})
	c.wantErr(err, context.DeadlineExceeded, "SaveState with a failing reducer")
	c.wantUnchanged(d, before, "after a failing reducer")
	_, err = s.SaveState(c.ctx, core.Snapshot{FlowID: snap.FlowID, State: []byte(`{"messages":[1,2],"a":NaN}`)})
	c.wantErr(err, core.ErrInvalidState, "SaveState of a bad state with a reducer")
	c.wantUnchanged(d, before, "after a refused state")
	c.wantSnapshot(s, snap)
}

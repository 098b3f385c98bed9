package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func linearizable() law {
	return law{
		layer: storeLayer, name: "linearizable",
		text: "Concurrent saves, loads and deletes of a flow have one order that explains every result and respects time.",
		cases: []testCase{
			{"small_states", func(c *caseRun) { linearizableHistory(c, 0) }},
			{"large_states", func(c *caseRun) { linearizableHistory(c, 900) }},
		},
	}
}

// call is one operation of a history. Every save writes a value of its own, so that a value
// names a write; 0 is "no flow".
type call struct {
	kind   string // save, swap, load, delete
	value  int    // what it writes
	expect int    // what a swap demands
}

// answer is what came back.
type answer struct {
	value    int // what a load returned
	conflict bool
	unknown  bool // it may have happened, at any time from the call on
}

// register is the sequential meaning of the calls.
var register = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(int), input.(call), output.(answer)
		switch in.kind {
		case "load":
			return now == out.value, now
		case "delete":
			return true, 0
		case "save":
			return true, in.value
		}
		switch { // swap
		case out.unknown && now != in.expect:
			return true, now
		case out.conflict:
			return now != in.expect, now
		}
		return now == in.expect, in.value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

const (
	linearClients = 5
	linearCalls   = 10
)

func linearizableHistory(c *caseRun, size int) {
	d := c.openTight()
	handles := []driver.Driver{d}
	if c.h.Reopen != nil {
		handles = append(handles, c.reopen())
	}
	rounds := 3
	if c.h.Large {
		rounds = 30
	}
	for round := range rounds {
		h := &history{c: c, flow: fmt.Sprint("f", round), start: time.Now()}
		h.prepare(size)
		c.parallel(linearClients, func(i int) error { return h.client(i, c.store(handles[i%len(handles)])) })
		switch porcupine.CheckOperationsTimeout(register, h.operations, patience) {
		case porcupine.Illegal:
			for _, op := range h.operations {
				c.Logf("client %d, %8d to %8d us: %s", op.ClientId, op.Call/1000, op.Return/1000, register.DescribeOperation(op.Input, op.Output))
			}
			c.Fatalf("round %d: no order explains the results of %d calls; they are logged", round, len(h.operations))
		case porcupine.Unknown:
			c.Logf("round %d: not decided within %v", round, patience)
		}
	}
}

// history records what clients call and what they are told.
type history struct {
	c     *caseRun
	flow  string
	start time.Time
	plan  [linearClients][]call
	snaps map[int]core.Snapshot

	mu         sync.Mutex
	operations []porcupine.Operation
}

// prepare draws the calls, and makes the snapshots, of which the drawing is not concurrent.
func (h *history) prepare(size int) {
	h.snaps = map[int]core.Snapshot{}
	value := 0
	for i := range h.plan {
		for range linearCalls {
			kinds := []string{"save", "swap", "swap", "swap", "load", "load", "delete"}
			value++
			h.plan[i] = append(h.plan[i], call{kind: kinds[h.c.rng.IntN(len(kinds))], value: value})
			h.snaps[value] = h.c.snapshot(h.flow, value, size*(value%2))
		}
	}
}

func (h *history) client(i int, s flowStore) error {
	var known core.Revision
	var value int
	for _, in := range h.plan[i] {
		var out answer
		in.expect = value
		began := time.Since(h.start)
		var err error
		switch in.kind {
		case "load":
			var snap core.Snapshot
			if snap, err = s.LoadState(h.c.ctx, h.c.flow(h.flow)); err == nil {
				known = snap.Revision
				value, err = agreed(snap)
			} else if isNotFound(err) {
				known, value, err = core.Revision{}, 0, nil
			}
			out.value = value
		case "delete":
			err = s.Delete(h.c.ctx, h.c.flow(h.flow))
		case "save", "swap":
			var opts []core.SaveOption
			if in.kind == "swap" {
				opts = append(opts, core.IfRevision(known))
			}
			var saved core.Saved
			if saved, err = s.SaveState(h.c.ctx, h.snaps[in.value], opts...); err == nil {
				known, value = saved.Revision, in.value
			}
		}
		if out, err = told(in, out, err); err != nil {
			return err
		}
		h.record(i, in, out, began)
	}
	return nil
}

// told turns an error into an answer, or returns it when there is no excuse for it.
func told(in call, out answer, err error) (answer, error) {
	switch {
	case err == nil:
	case core.OutcomeUnknown(err):
		out.unknown = true
	case in.kind == "swap" && errors.Is(err, core.ErrConflict):
		out.conflict = true
	default:
		return out, fmt.Errorf("%s: %w", in.kind, err)
	}
	return out, nil
}

func (h *history) record(i int, in call, out answer, began time.Duration) {
	ended := time.Since(h.start)
	if out.unknown {
		ended = caseTimeout // it may take effect at any time
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: i, Input: in, Output: out, Call: int64(began), Return: int64(ended)})
}

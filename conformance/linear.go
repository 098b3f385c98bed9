package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirflow/weir/conformance/internal/linear"
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
		switch undecided, err := linear.Check(h.operations, patience); {
		case err != nil:
			c.Fatalf("round %d: %v", round, err)
		case undecided:
			c.Logf("round %d: not decided within %v", round, patience)
		}
	}
}

// history records what clients call and what they are told.
type history struct {
	c     *caseRun
	flow  string
	start time.Time
	plan  [linearClients][]linear.Call
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
			kinds := []string{linear.Save, linear.Swap, linear.Swap, linear.Swap, linear.Load, linear.Load, linear.Delete}
			value++
			h.plan[i] = append(h.plan[i], linear.Call{Kind: kinds[h.c.rng.IntN(len(kinds))], Value: value})
			h.snaps[value] = h.c.snapshot(h.flow, value, size*(value%2))
		}
	}
}

func (h *history) client(i int, s flowStore) error {
	client := linear.Client{
		Store: s, Flow: h.c.flow(h.flow), Value: agreed,
		Snapshot: func(value int) core.Snapshot { return h.snaps[value] },
	}
	for _, in := range h.plan[i] {
		in.Expect = client.Expect()
		began := time.Since(h.start)
		out, err := client.Do(h.c.ctx, in)
		if err != nil {
			return err
		}
		h.record(i, in, out, began)
	}
	return nil
}

func (h *history) record(i int, in linear.Call, out linear.Answer, began time.Duration) {
	ended := time.Since(h.start)
	if out.Unknown {
		ended = caseTimeout // it may take effect at any time
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: i, Input: in, Output: out, Call: int64(began), Return: int64(ended)})
}

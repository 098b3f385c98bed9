package reducer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/reducer"
)

var errHook = errors.New("the archive is away")

// An archive is what a hook feeds: messages by key.
type archive struct {
	mu   sync.Mutex
	got  map[string]string
	runs int
	fail bool
}

func (a *archive) hook(_ context.Context, d *reducer.Delivery) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	if a.fail {
		return errHook
	}
	if a.got == nil {
		a.got = map[string]string{}
	}
	for _, m := range d.Messages {
		a.got[m.Key] = string(m.Raw)
	}
	return nil
}

func TestFailedHookKeepsTheMessages(t *testing.T) {
	first, second := &archive{}, &archive{fail: true}
	cfg := messages(4, 2)
	cfg.Hooks = []reducer.Hook{first.hook, second.hook}
	r := mustNew(t, cfg)
	in := joinRaw(short(t, "S U A(1) T(1) A U A"))
	res, err := r.ReduceJSON(t.Context(), in)
	if err != nil || res.Changed || string(res.Messages) != string(in) || res.Pruned != nil {
		t.Fatalf("%v, %+v", err, res)
	}
	if !errors.Is(res.HookErr, errHook) || !res.OverBudget || res.MessagesAfter != 7 {
		t.Errorf("the report hides it: %+v", res.Report)
	}
	before := len(first.got)
	second.fail = false
	if res, err = r.ReduceJSON(t.Context(), in); err != nil || !res.Changed || res.HookErr != nil {
		t.Fatalf("%v, %+v", err, res.Report)
	}
	if before == 0 || len(first.got) != before {
		t.Errorf("redelivery has other keys: %d, then %d", before, len(first.got))
	}
	if len(second.got) != len(res.Pruned) {
		t.Errorf("%d of %d messages were delivered", len(second.got), len(res.Pruned))
	}
}

// TestDeliveryKeys: a key is the same in another process and after the
// history has grown, and differs between namespaces and between messages.
func TestDeliveryKeys(t *testing.T) {
	in := short(t, "S U A U A U A U A")
	keys := func(namespace string, in []json.RawMessage) map[string]string {
		var a archive
		cfg := messages(4, 2)
		cfg.Hooks = []reducer.Hook{a.hook}
		if _, err := mustNew(t, cfg).Scoped(namespace).ReduceJSON(t.Context(), joinRaw(in)); err != nil {
			t.Fatal(err)
		}
		return a.got
	}
	alice, again, bob := keys("alice", in), keys("alice", in), keys("bob", in)
	grown := keys("alice", append(in, short(t, "U A")...))
	if len(alice) != 6 || len(bob) != 6 {
		t.Fatalf("%d and %d keys for 6 messages", len(alice), len(bob))
	}
	for k, m := range alice {
		if again[k] != m || grown[k] != m {
			t.Errorf("%s has another key the next time", m)
		}
		if bob[k] != "" {
			t.Errorf("%s has the same key in two namespaces", m)
		}
	}
	yes := `{"role":"user","content":"yes"}`
	same := short(t, "{\"role\":\"system\",\"content\":\"s\"}", yes, `{"role":"assistant","content":"1"}`, yes, `{"role":"assistant","content":"2"}`, "U", "A")
	if got := keys("", same); len(got) != 4 {
		t.Errorf("equal messages with different successors share a key: %v", got)
	}
}

func TestHooksCannotReachTheResult(t *testing.T) {
	cfg := messages(4, 2)
	var seen []int
	spoil := func(_ context.Context, d *reducer.Delivery) error {
		seen = append(seen, len(d.Messages))
		for i := range d.Messages {
			clear(d.Messages[i].Raw)
		}
		d.Messages = nil
		return nil
	}
	cfg.Hooks = []reducer.Hook{spoil, spoil}
	in := joinRaw(short(t, "S U A U A U A"))
	res := reduceTwice(t, mustNew(t, cfg), in)
	checkConserved(t, splitRaw(t, in), res)
	if !slices.Equal(seen, []int{4, 4}) {
		t.Errorf("the hooks saw %v messages", seen)
	}
}

func TestSummariesAreNotDelivered(t *testing.T) {
	var a archive
	cfg := messages(6, 4)
	cfg.Hooks = []reducer.Hook{a.hook}
	n := 0
	cfg.Summarize = func(context.Context, []reducer.Message) (string, error) { n++; return fmt.Sprint("summary ", n), nil }
	r := mustNew(t, cfg)
	history := short(t, "S U A U A U A")
	for range 4 {
		res := reduceTwice(t, r, joinRaw(history))
		history = append(splitRaw(t, res.Messages), short(t, "U A U A")...)
	}
	if n < 3 {
		t.Fatalf("%d summaries", n)
	}
	for _, m := range a.got {
		if strings.Contains(m, "summary") || strings.Contains(m, "Understood") {
			t.Errorf("delivered as if the user had said it: %s", m)
		}
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	var a archive
	cfg := messages(6, 4)
	cfg.Hooks = []reducer.Hook{a.hook}
	cfg.Summarize = func(context.Context, []reducer.Message) (string, error) { return "s", nil }
	r := mustNew(t, cfg)
	in := joinRaw(short(t, "S U A U A U A U A"))
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := r.Scoped(fmt.Sprint(k)).ReduceJSON(t.Context(), in); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

package reducer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// rounds is how many random histories each law is tried on.
const rounds = 600

func randomConfig(rnd *rand.Rand) reducer.Config {
	var cfg reducer.Config
	kind := rnd.IntN(4)
	if kind != 1 {
		cfg.MaxMessages = 1 + rnd.IntN(14)
		cfg.MinMessages = rnd.IntN(cfg.MaxMessages + 1)
	}
	if kind == 1 || kind == 2 {
		cfg.MaxTokens = 1 + rnd.IntN(300)
		cfg.TargetTokens = rnd.IntN(cfg.MaxTokens + 1)
	}
	cfg.PinSystem = rnd.IntN(3) == 0
	return cfg
}

func summarizing(rnd *rand.Rand, cfg reducer.Config) reducer.Config {
	if cfg.MaxTokens > 0 {
		cfg.MaxTokens += 200
		cfg.TargetTokens = 100 + rnd.IntN(100)
	}
	cfg.Summarize = func(_ context.Context, m []reducer.Message) (string, error) {
		return fmt.Sprintf("%d messages, the first %q", len(m), m[0].Text), nil
	}
	return cfg
}

func mustNew(t testing.TB, cfg reducer.Config) *reducer.Reducer {
	t.Helper()
	r, err := reducer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkLaws checks what holds for every history and configuration without summaries.
func checkLaws(t *testing.T, cfg reducer.Config, in []json.RawMessage) reducer.Result {
	t.Helper()
	text := joinRaw(in)
	res := reduceTwice(t, mustNew(t, cfg), text)
	if res.Changed && cfg.Repair != reducer.RepairAnswer {
		checkConserved(t, in, res)
	}
	if cfg.Repair != reducer.RepairAnswer {
		checkNoNewViolations(t, text, res.Messages)
	}
	if i := lastUserOf(in); i >= 0 && !bytes.Contains(res.Messages, in[i]) {
		t.Errorf("the user's last message %s is gone: %s", in[i], res.Messages)
	}
	over := cfg.MaxMessages > 0 && res.MessagesAfter > cfg.MaxMessages || cfg.MaxTokens > 0 && res.TokensAfter > cfg.MaxTokens
	if over != res.OverBudget || over && !res.AboveGoal {
		t.Errorf("over a limit: %v, reported %+v", over, res.Report)
	}
	return res
}

// lastUserOf finds the user's last message in any dialect, by what Validate
// would have to say about a history of this one message; one of the strange
// messages has the user's words beside a result.
func lastUserOf(list []json.RawMessage) int {
	for i := range slices.Backward(list) {
		v := reducer.Validate(joinRaw(list[i:i+1]), reducer.Mistral)
		if len(v) == 0 || bytes.Contains(list[i], []byte("and then?")) {
			return i
		}
	}
	return -1
}

func TestValidInValidOut(t *testing.T) {
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		as := tongue(rnd.IntN(int(tongues)))
		in := newTalk(rnd, 8, as == legacyTongue).speak(as)
		for _, p := range providers {
			if v := reducer.Validate(joinRaw(in), p); slices.ContainsFunc(v, final) {
				t.Fatalf("seed %d: the generator makes what %v refuses: %v\n%s", seed, p, v, joinRaw(in))
			}
		}
		checkLaws(t, randomConfig(rnd), in)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestLawsHoldForBrokenInput(t *testing.T) {
	for seed := range uint64(2 * rounds) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		as := tongue(rnd.IntN(int(tongues)))
		in := spoil(rnd, newTalk(rnd, 6, as == legacyTongue).speak(as))
		cfg := randomConfig(rnd)
		cfg.Repair = reducer.Repair(rnd.IntN(3))
		res := checkLaws(t, cfg, in)
		if cfg.Repair != reducer.RepairOff {
			checkRepaired(t, in, res)
		}
		if t.Failed() {
			t.Fatalf("seed %d, %+v\n in %s\nout %s", seed, cfg, joinRaw(in), res.Messages)
		}
	}
}

// checkRepaired: after a repair the rules of pairing hold, unless the user's
// last words are in a message that breaks them.
func checkRepaired(t *testing.T, in []json.RawMessage, res reducer.Result) {
	t.Helper()
	if i := lastUserOf(in); i >= 0 && bytes.Contains(in[i], []byte("tool_result")) {
		return
	}
	for _, v := range reducer.Validate(res.Messages, reducer.Anthropic) {
		switch v.Rule {
		case reducer.OrphanResult, reducer.DuplicateResult, reducer.UnansweredCall:
			t.Errorf("not repaired: %+v", v)
		case reducer.FirstNotUser:
			if lastUserOf(in) >= 0 {
				t.Errorf("not repaired: %+v", v)
			}
		}
	}
}

func TestOldestGoesFirst(t *testing.T) {
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		talk := newTalk(rnd, 8, false)
		in := talk.speak(chatTongue)
		cfg := randomConfig(rnd)
		cfg.PinSystem = false
		res := checkLaws(t, cfg, in)
		if !res.Changed {
			continue
		}
		want := append([]json.RawMessage{}, in[:len(talk.system)]...)
		rest := splitRaw(t, res.Messages)[len(talk.system):]
		tail := in[len(in)-len(rest):]
		if string(joinRaw(rest)) != string(joinRaw(tail)) { // then the live turn lost steps, and nothing older is left
			live := in[lastUser(in)]
			tail = append([]json.RawMessage{live}, in[len(in)-len(rest)+1:]...)
		}
		if got := string(res.Messages); got != string(joinRaw(append(want, tail...))) {
			t.Fatalf("seed %d: what survives is not the newest\n in %s\nout %s", seed, joinRaw(in), got)
		}
	}
}

func TestDialectsAgree(t *testing.T) {
	for seed := range uint64(rounds / 3) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		talk := newTalk(rnd, 8, true)
		cfg := randomConfig(rnd)
		cfg.CountTokens = func([]byte) int { return 17 }
		want := survivors(t, cfg, talk.speak(chatTongue))
		for as := range tongues {
			if as == responsesTongue {
				continue // its reasoning items are messages more
			}
			if got := survivors(t, cfg, talk.speak(as)); !slices.Equal(got, want) {
				t.Fatalf("seed %d: dialect %d keeps %v, dialect 0 %v\n%s", seed, as, got, want, joinRaw(talk.speak(as)))
			}
		}
	}
}

// survivors returns the indexes of what is kept; to tell equal messages apart
// it gives every one a field of its own.
func survivors(t *testing.T, cfg reducer.Config, in []json.RawMessage) (kept []int) {
	t.Helper()
	for i, m := range in {
		in[i] = append([]byte(fmt.Sprintf(`{"n":%d,`, i)), m[1:]...)
	}
	res, err := mustNew(t, cfg).ReduceJSON(t.Context(), joinRaw(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range splitRaw(t, res.Messages) {
		var f struct{ N int }
		if err := json.Unmarshal(m, &f); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, f.N)
	}
	return kept
}

// TestSummaryLaws: with summaries the result is as valid as without, a second
// reduction does not ask again, there is at most one summary and it is counted
// in the budget.
func TestSummaryLaws(t *testing.T) {
	summaries := 0
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		as := tongue(rnd.IntN(int(tongues)))
		talk := newTalk(rnd, 6, as == legacyTongue)
		cfg := summarizing(rnd, randomConfig(rnd))
		r := mustNew(t, cfg)
		history := talk.speak(as)
		for range 3 {
			text := joinRaw(history)
			res := reduceTwice(t, r, text)
			checkNoNewViolations(t, text, res.Messages)
			if n := strings.Count(string(res.Messages), "[Summary of earlier messages, "); n > 1 {
				t.Errorf("%d summaries in %s", n, res.Messages)
			}
			if over := cfg.MaxMessages > 0 && res.MessagesAfter > cfg.MaxMessages ||
				cfg.MaxTokens > 0 && res.TokensAfter > cfg.MaxTokens; over != res.OverBudget {
				t.Errorf("over a limit: %v, reported %+v", over, res.Report)
			}
			if res.Summarized {
				summaries++
			}
			if t.Failed() {
				t.Fatalf("seed %d, %+v", seed, cfg)
			}
			history = splitRaw(t, res.Messages)
			more := newTalk(rnd, 3, as == legacyTongue)
			if more.system = nil; talk.turns[len(talk.turns)-1].reply != "" {
				history = append(history, more.speak(as)...)
				talk = more
			}
		}
	}
	if summaries < rounds/10 {
		t.Errorf("only %d summaries were made", summaries)
	}
}

// TestWhatIsPinned: three things that no random history shows.
func TestWhatIsPinned(t *testing.T) {
	pin := messages(4, 2)
	pin.PinSystem = true
	for name, c := range map[string]struct {
		cfg  reducer.Config
		in   string
		want []int
	}{
		"a system message inside goes with its turn":       {messages(4, 3), "S U A S U A S U A", []int{0, 7, 8}},
		"or stays, if it is pinned":                        {pin, "S U A S U A S U A", []int{0, 3, 6, 7, 8}},
		"a result without call is not the last step":       {messages(4, 4), "S U A(1) T(1) T(9)", []int{0, 1, 2, 3}},
		"a late result stays with its call":                {messages(4, 3), "S U A(1) A T(1) U A(2) A A T(2)", []int{0, 5, 6, 7, 8, 9}},
		"both go together":                                 {messages(4, 3), "S U A(1) A T(1) U A", []int{0, 5, 6}},
		"without a user, the last step stays":              {messages(3, 2), "S A(1) T(1) A(2) T(2)", []int{0, 3, 4}},
		"an open call stays, and who asked for it":         {messages(4, 3), "S U A A(1) U A U A", []int{0, 1, 3, 6, 7}},
		"what is before the first user message goes first": {messages(4, 4), "S A U A U", []int{0, 2, 3, 4}},
	} {
		in := short(t, c.in)
		res := reduceTwice(t, mustNew(t, c.cfg), joinRaw(in))
		var want []json.RawMessage
		for _, i := range c.want {
			want = append(want, in[i])
		}
		if string(res.Messages) != string(joinRaw(want)) {
			t.Errorf("%s:\n got %s\nwant %s", name, res.Messages, joinRaw(want))
		}
	}
}

// TestNothingIsShared: the result shares no memory with the input.
func TestNothingIsShared(t *testing.T) {
	in := []byte(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`)
	res, err := mustNew(t, reducer.Config{MaxMessages: 2}).ReduceJSON(t.Context(), in)
	if err != nil || !res.Changed {
		t.Fatal(err, res)
	}
	messages, pruned := string(res.Messages), string(res.Pruned[0])
	for i := range in {
		in[i] = 'x'
	}
	if string(res.Messages) != messages || string(res.Pruned[0]) != pruned {
		t.Error("the result changed with the input")
	}
	res.Pruned[0] = append(res.Pruned[0], "!!!!"...)
	if strings.Contains(string(res.Pruned[1]), "!") {
		t.Error("the removed messages write into each other")
	}
}

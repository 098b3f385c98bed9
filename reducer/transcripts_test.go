package reducer_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/weirflow/weir/reducer"
)

type transcript struct {
	ID       string            `json:"id"`
	Messages []json.RawMessage `json:"messages"`
}

func loadTranscripts(t testing.TB) (list []transcript) {
	t.Helper()
	path := os.Getenv("WEIR_TRANSCRIPTS")
	if path == "" {
		path = "testdata/transcripts.jsonl"
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		var c transcript
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		t.Fatalf("%s holds no conversations", path)
	}
	return list
}

// A budget is one configuration of a conversation's limits.
type budget struct {
	name string
	cfg  reducer.Config
}

// budgets are five: tight and roomy ones, by messages, by tokens, and both.
func budgets(tokens int) []budget {
	return []budget{
		{"4 messages", reducer.Config{MaxMessages: 4, MinMessages: 2}},
		{"12 messages", reducer.Config{MaxMessages: 12}},
		{"a third of the tokens", reducer.Config{MaxTokens: tokens/3 + 2, TargetTokens: tokens/4 + 1}},
		{"two thirds of the tokens", reducer.Config{MaxTokens: 2*tokens/3 + 2}},
		{"20 messages and half of the tokens", reducer.Config{MaxMessages: 20, MinMessages: 14, MaxTokens: tokens/2 + 2, TargetTokens: tokens/2 + 1}},
	}
}

// TestTranscripts: every prefix of every conversation, reduced to every
// budget, is as acceptable to every provider as it was before, and the live
// turn is in it. What mode Compat makes of the same data is counted beside it.
func TestTranscripts(t *testing.T) {
	var mu sync.Mutex
	var total compatCount
	reductions := 0
	t.Run("conversations", func(t *testing.T) {
		for _, c := range loadTranscripts(t) {
			t.Run(c.ID, func(t *testing.T) {
				t.Parallel()
				n, compat := checkTranscript(t, c)
				mu.Lock()
				defer mu.Unlock()
				reductions += n
				total.add(compat)
			})
		}
	})
	t.Logf("strict: %d reductions, no violation, no live turn lost", reductions)
	t.Logf("compat: %d reductions of the same inputs, %d break a provider's rule %v, %d lose the user's last message",
		total.reduced, total.broken, total.rules, total.lost)
}

func checkTranscript(t *testing.T, c transcript) (reductions int, compat compatCount) {
	known, tokens := verdicts{}, 0
	for _, m := range c.Messages {
		tokens += reducer.EstimateTokens(m)
	}
	for n := 1; n <= len(c.Messages); n++ {
		p := newPrefix(known, c.Messages[:n])
		for _, b := range budgets(tokens) {
			r, err := reducer.New(b.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if checkPrefix(t, r, b, p) {
				reductions++
			}
			compat.count(t, b.cfg, p)
		}
	}
	return reductions, compat
}

// verdicts remembers what each provider has against messages: different
// budgets often make the same of a conversation.
type verdicts map[string][][]reducer.Violation

func (known verdicts) of(messages []byte) [][]reducer.Violation {
	all, ok := known[string(messages)]
	if !ok {
		for _, p := range providers {
			all = append(all, reducer.Validate(messages, p))
		}
		known[string(messages)] = all
	}
	return all
}

func final(v reducer.Violation) bool { return !v.Pending }

// A prefix is the beginning of a conversation, and what is known of it.
type prefix struct {
	messages []json.RawMessage
	text     []byte
	known    verdicts
	before   [][]reducer.Violation
	live     []int // indexes of what must survive
}

func newPrefix(known verdicts, in []json.RawMessage) *prefix {
	p := &prefix{messages: in, text: joinRaw(in), known: known}
	p.before = known.of(p.text)
	p.live = append(p.live, len(in)-1)
	if i := lastUser(in); i >= 0 {
		p.live = append(p.live, i)
	}
	if roleOfRaw(in[0]) == "system" {
		p.live = append(p.live, 0)
	}
	return p
}

func checkPrefix(t *testing.T, r *reducer.Reducer, b budget, p *prefix) bool {
	t.Helper()
	in, before := p.messages, p.before
	res := reduceTwice(t, r, p.text)
	if !res.Changed {
		return false
	}
	for i, after := range p.known.of(res.Messages) {
		switch {
		case slices.ContainsFunc(after, final) && !slices.ContainsFunc(before[i], final):
			t.Errorf("%s, %d messages, %v: %v", b.name, len(in), providers[i], after)
		case len(after) > 0 && len(before[i]) == 0:
			t.Errorf("%s, %d messages, %v: %v is new", b.name, len(in), providers[i], after)
		}
	}
	checkConserved(t, in, res)
	for _, i := range p.live {
		if !bytes.Contains(res.Messages, in[i]) {
			t.Errorf("%s: message %d of %d is gone", b.name, i, len(in))
		}
	}
	over := b.cfg.MaxMessages > 0 && res.MessagesAfter > b.cfg.MaxMessages || b.cfg.MaxTokens > 0 && res.TokensAfter > b.cfg.MaxTokens
	if over != res.OverBudget {
		t.Errorf("%s, %d messages: over budget is %v, reported %v", b.name, len(in), over, res.OverBudget)
	}
	return true
}

func roleOfRaw(raw []byte) string {
	var m map[string]any
	_ = json.Unmarshal(raw, &m)
	return roleIn(m)
}

// checkConserved: survivors and removed messages are the input, each in
// order and byte for byte. Of equal messages nobody knows which one survived,
// so all the ways are followed at once: ways holds how many of the messages so
// far may have been kept.
func checkConserved(t testing.TB, in []json.RawMessage, res reducer.Result) {
	t.Helper()
	out := splitRaw(t, res.Messages)
	if len(out) != res.MessagesAfter || len(out)+len(res.Pruned) != len(in) {
		t.Fatalf("%d messages kept, %d reported, %d pruned, of %d", len(out), res.MessagesAfter, len(res.Pruned), len(in))
	}
	ways := map[int]bool{0: true}
	for i, m := range in {
		next := map[int]bool{}
		for k := range ways {
			if k < len(out) && string(out[k]) == string(m) {
				next[k+1] = true
			}
			if i-k < len(res.Pruned) && string(res.Pruned[i-k]) == string(m) {
				next[k] = true
			}
		}
		if ways = next; len(ways) == 0 {
			t.Fatalf("message %s is neither kept nor pruned in its place", m)
		}
	}
}

type compatCount struct {
	reduced, broken, lost int
	rules                 map[reducer.Rule]int
}

func (c *compatCount) add(o compatCount) {
	c.reduced += o.reduced
	c.broken += o.broken
	c.lost += o.lost
	if c.rules == nil {
		c.rules = map[reducer.Rule]int{}
	}
	for rule, n := range o.rules {
		c.rules[rule] += n
	}
}

func (c *compatCount) count(t *testing.T, cfg reducer.Config, p *prefix) {
	t.Helper()
	cfg.Mode = reducer.Compat
	if cfg.MaxMessages > 0 && cfg.MinMessages == 0 {
		cfg.MinMessages = cfg.MaxMessages / 2
	}
	if cfg.MaxMessages > 0 && cfg.MaxTokens > 0 {
		cfg.MaxMessages, cfg.MinMessages = 0, 0 // it knows only one kind at a time
	}
	r, err := reducer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.ReduceJSON(t.Context(), p.text)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Changed {
		return
	}
	c.reduced++
	broken := false
	for i, after := range p.known.of(res.Messages) {
		if slices.ContainsFunc(p.before[i], final) {
			continue
		}
		for _, v := range after {
			if !v.Pending {
				if c.rules == nil {
					c.rules = map[reducer.Rule]int{}
				}
				c.rules[v.Rule]++
				broken = true
			}
		}
	}
	if broken {
		c.broken++
	}
	if i := lastUser(p.messages); i >= 0 && !bytes.Contains(res.Messages, p.messages[i]) {
		c.lost++
	}
}

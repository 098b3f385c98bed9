package reducer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// codes is a second validator, written from the violation codes in the README
// block of the vectors and sharing nothing with Validate. TestCodesAgree holds
// it against the recorded codes.
type codes struct {
	found    []string
	calls    map[any]bool
	answered map[any]bool
	talking  bool
	user     bool
	function bool // the message before made a legacy call
	last     string
}

func roleIn(m map[string]any) string {
	role, _ := m["role"].(string)
	if role == "" {
		role, _ = m["type"].(string)
	}
	switch role = strings.ToLower(role); role {
	case "user":
		return "human"
	case "assistant", "agent":
		return "ai"
	case "developer":
		return "system"
	}
	return role
}

// callsAndResults reads tool_calls and Anthropic's blocks.
func callsAndResults(m map[string]any, role string) (calls, results []any, other bool) {
	list, _ := m["tool_calls"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && role == "ai" && c["id"] != nil {
			calls = append(calls, c["id"])
		}
	}
	blocks, _ := m["content"].([]any)
	for _, b := range blocks {
		b, _ := b.(map[string]any)
		switch {
		case b["type"] == "tool_use" && role == "ai":
			calls = append(calls, b["id"])
		case b["type"] == "tool_result" && role == "human":
			results = append(results, b["tool_use_id"])
		default:
			other = true
		}
	}
	if len(blocks) == 0 {
		other = true
	}
	if role == "tool" {
		results = append(results, m["tool_call_id"])
	}
	return calls, results, other
}

func (c *codes) add(code string) { c.found = append(c.found, code) }

func (c *codes) closeBlock(code string) {
	for id := range c.calls {
		if !c.answered[id] {
			c.add(code)
		}
	}
	c.calls, c.answered = nil, nil
}

func (c *codes) message(m map[string]any) {
	role := roleIn(m)
	calls, results, other := callsAndResults(m, role)
	if len(results) > 0 {
		for _, id := range results {
			switch {
			case !c.calls[id]:
				c.add("orphan_result")
			case c.answered[id]:
				c.add("duplicate_result")
			default:
				c.answered[id] = true
			}
		}
	} else {
		c.closeBlock("unanswered_call")
	}
	if role == "function" && !c.function {
		c.add("orphan_function")
	}
	c.function = role == "ai" && m["function_call"] != nil
	plain := ""
	switch {
	case role == "system":
		if c.talking {
			c.add("system_not_leading")
		}
		return
	case role == "human" && (len(results) == 0 || other):
		c.user = true
	}
	if role == "human" && len(results) == 0 || role == "ai" && len(calls) == 0 && !c.function {
		plain = role
		if plain == c.last {
			c.add(map[string]string{"human": "consecutive_user", "ai": "consecutive_assistant"}[plain])
		}
	}
	c.last = plain
	known := role == "human" || role == "ai" || role == "model" || role == "tool" || role == "function"
	if !c.talking && known && role != "human" {
		c.add("first_not_user")
	}
	c.talking = true
	for _, id := range calls {
		if c.calls == nil {
			c.calls, c.answered = map[any]bool{}, map[any]bool{}
		}
		c.calls[id] = true
	}
}

func violationCodes(list []json.RawMessage) []string {
	var c codes
	for _, raw := range list {
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		c.message(m)
	}
	c.closeBlock("pending_call")
	if c.talking && !c.user {
		c.add("no_user_message")
	}
	slices.Sort(c.found)
	return c.found
}

func TestCodesAgree(t *testing.T) {
	for _, v := range loadVectors(t) {
		if got := violationCodes(v.messages()); v.Steps == nil && !slices.Equal(got, v.Checks.ViolationsIn) {
			t.Errorf("%s: %v, recorded %v", v.Name, got, v.Checks.ViolationsIn)
		}
	}
}

// strictConfig gives a vector's limits to Strict, as far as it takes them.
func strictConfig(t testing.TB, v *vector) (reducer.Config, bool) {
	cfg := compatConfig(t, v)
	cc := cfg.Compat
	cfg.Mode, cfg.Compat = reducer.Strict, nil
	if cc.MaxTokens != nil {
		cfg.MaxTokens = *cc.MaxTokens
		cfg.TargetTokens = cc.TargetTokens
		if cfg.TargetTokens == 0 {
			cfg.TargetTokens = cfg.MaxTokens
		}
	} else if cc.MaxMessages != nil {
		cfg.MaxMessages, cfg.MinMessages = *cc.MaxMessages, cc.MinMessages
	}
	if !cc.InjectSummary {
		cfg.Summarize = nil
	}
	if cfg.Summarize != nil && cfg.MaxTokens > 0 {
		cfg.Summarize = nil // limits of a few tokens have no room for one
	}
	_, err := reducer.New(cfg)
	return cfg, err == nil
}

// TestStrictOnVectors: where the input of a vector keeps the hard rules, so
// does what Strict makes of it, by either validator; the user's last message
// survives and a second reduction changes nothing. Where the limits of a vector
// are refused as a mistake, limits nearby are used.
func TestStrictOnVectors(t *testing.T) {
	valid, reduced := 0, 0
	for _, v := range loadVectors(t) {
		if v.Steps != nil {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			in := v.messages()
			if !hardRules(violationCodes(in)) {
				return
			}
			valid++
			cfg, ok := strictConfig(t, &v)
			if !ok {
				cfg = reducer.Config{MaxMessages: 3, MinMessages: 2}
			}
			r, err := reducer.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			res := reduceTwice(t, r, joinRaw(in))
			if res.Changed {
				reduced++
			}
			out := splitRaw(t, res.Messages)
			if got := violationCodes(out); !hardRules(got) {
				t.Errorf("%v in %s", got, res.Messages)
			}
			checkNoNewViolations(t, joinRaw(in), res.Messages)
			if i := lastUser(in); i >= 0 && !slices.ContainsFunc(out, func(m json.RawMessage) bool { return string(m) == string(in[i]) }) {
				t.Errorf("the user's last message %s is gone from %s", in[i], res.Messages)
			}
		})
	}
	t.Logf("%d inputs keep the hard rules, %d of them were reduced", valid, reduced)
	if valid == 0 || reduced == 0 {
		t.Error("the vectors show nothing")
	}
}

// hardRules reports whether none of the codes is one that a provider refuses
// wherever it comes from, and that is not only about the end of the history.
func hardRules(found []string) bool {
	for _, c := range found {
		switch c {
		case "orphan_result", "unanswered_call", "duplicate_result", "orphan_function", "first_not_user", "no_user_message":
			return false
		}
	}
	return true
}

func lastUser(list []json.RawMessage) int {
	for i, raw := range slices.Backward(list) {
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		role := roleIn(m)
		if _, results, other := callsAndResults(m, role); role == "human" && (len(results) == 0 || other) {
			return i
		}
	}
	return -1
}

func splitRaw(t testing.TB, text []byte) (list []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return list
}

var providers = []reducer.Provider{reducer.OpenAI, reducer.Anthropic, reducer.Gemini, reducer.Bedrock, reducer.Mistral}

// checkNoNewViolations: whichever provider accepts the input, now or after the
// message that it waits for, accepts the output as far.
func checkNoNewViolations(t testing.TB, in, out []byte) {
	t.Helper()
	for _, p := range providers {
		before, after := reducer.Validate(in, p), reducer.Validate(out, p)
		pending := func(v reducer.Violation) bool { return v.Pending }
		final := func(v reducer.Violation) bool { return !v.Pending }
		if !slices.ContainsFunc(before, final) && slices.ContainsFunc(after, final) {
			t.Errorf("%v: %v\n in %s\nout %s", p, after, in, out)
		}
		if len(before) == 0 && slices.ContainsFunc(after, pending) {
			t.Errorf("%v: %v is new\n in %s\nout %s", p, after, in, out)
		}
	}
}

// reduceTwice reduces, and checks what holds for every reduction: the parts
// make up the input, and doing it again changes nothing.
func reduceTwice(t testing.TB, r *reducer.Reducer, in []byte) reducer.Result {
	t.Helper()
	before := string(in)
	res, err := r.ReduceJSON(t.Context(), in)
	if err != nil {
		t.Fatalf("%v: %s", err, in)
	}
	if string(in) != before {
		t.Fatalf("the input was changed: %s", before)
	}
	if !res.Changed && string(res.Messages) != before {
		t.Errorf("not Changed, but %s became %s", before, res.Messages)
	}
	again, err := r.ReduceJSON(t.Context(), res.Messages)
	if err != nil {
		t.Fatal(err)
	}
	if again.Changed || again.Summarized {
		t.Errorf("a second reduction goes on\n    in %s\n  once %s\n twice %s", in, res.Messages, again.Messages)
	}
	return res
}

func join(list []string) string { return "[" + strings.Join(list, ",") + "]" }

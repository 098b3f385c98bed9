package reducer_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// A chatMessage is a message type as an application has one.
type chatMessage struct {
	Role      string
	Text      string
	CallIDs   []string
	AnswersTo string
}

var chatAccess = reducer.Accessor[chatMessage]{
	Describe: func(m chatMessage) reducer.Message {
		d := reducer.Message{Text: m.Text, Calls: m.CallIDs}
		switch m.Role {
		case "system":
			d.Role = reducer.System
		case "user":
			d.Role = reducer.User
		case "assistant":
			d.Role = reducer.Assistant
		case "tool":
			d.Role, d.Results = reducer.Tool, []string{m.AnswersTo}
		}
		return d
	},
	Compose: func(m reducer.Message) chatMessage {
		c := chatMessage{Role: m.Role.String(), Text: m.Text}
		if len(m.Results) > 0 {
			c.AnswersTo = m.Results[0]
		}
		return c
	},
	Tokens: func(m chatMessage) int { return 10 + len(m.CallIDs) },
}

func fromJSON(t *testing.T, list []json.RawMessage) (out []chatMessage) {
	t.Helper()
	for _, raw := range list {
		var m struct {
			Role, Content string
			ToolCallID    string                `json:"tool_call_id"`
			ToolCalls     []struct{ ID string } `json:"tool_calls"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		c := chatMessage{Role: m.Role, Text: m.Content, AnswersTo: m.ToolCallID}
		for _, call := range m.ToolCalls {
			c.CallIDs = append(c.CallIDs, call.ID)
		}
		out = append(out, c)
	}
	return out
}

// TestEntrancesAgree: typed messages and their JSON are reduced alike.
func TestEntrancesAgree(t *testing.T) {
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		in := newTalk(rnd, 8, false).speak(chatTongue)
		cfg := randomConfig(rnd)
		cfg.CountTokens = func(raw []byte) int { return chatAccess.Tokens(fromJSON(t, []json.RawMessage{raw})[0]) }
		cfg.Repair = reducer.Repair(rnd.IntN(3))
		if rnd.IntN(2) == 0 {
			cfg = summarizing(rnd, cfg)
			cfg.Summarize = func(context.Context, []reducer.Message) (string, error) { return "what was", nil }
		}
		r := mustNew(t, cfg)
		want, err := r.ReduceJSON(t.Context(), joinRaw(in))
		if err != nil {
			t.Fatal(err)
		}
		values := fromJSON(t, in)
		before := slices.Clone(values)
		got, err := reducer.Reduce(t.Context(), mustNew(t, cfg), values, chatAccess)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(values, before, equalMessages) {
			t.Fatalf("seed %d: the input was changed", seed)
		}
		if !slices.EqualFunc(got.Messages, fromJSON(t, splitRaw(t, want.Messages)), equalMessages) ||
			!slices.EqualFunc(got.Pruned, fromJSON(t, want.Pruned), equalMessages) || got.Changed != want.Changed {
			t.Fatalf("seed %d: %+v\ntyped %+v\n JSON %s", seed, cfg, got.Messages, want.Messages)
		}
	}
}

func equalMessages(a, b chatMessage) bool {
	return a.Role == b.Role && a.Text == b.Text && a.AnswersTo == b.AnswersTo && slices.Equal(a.CallIDs, b.CallIDs)
}

func TestTypedEntranceSaysWhatIsMissing(t *testing.T) {
	summary := func(context.Context, []reducer.Message) (string, error) { return "", nil }
	for name, c := range map[string]struct {
		cfg reducer.Config
		a   reducer.Accessor[chatMessage]
	}{
		"no Describe":             {reducer.Config{MaxMessages: 2}, reducer.Accessor[chatMessage]{}},
		"Compat":                  {reducer.Config{Mode: reducer.Compat, MaxMessages: 2}, chatAccess},
		"summary without Compose": {reducer.Config{MaxMessages: 2, Summarize: summary}, reducer.Accessor[chatMessage]{Describe: chatAccess.Describe}},
	} {
		_, err := reducer.Reduce(t.Context(), mustNew(t, c.cfg), []chatMessage{{}, {}, {}}, c.a)
		if !errors.Is(err, reducer.ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

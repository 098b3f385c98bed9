package reducer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A talk is a conversation without a dialect, from which the property tests
// make histories that every provider accepts.
type talk struct {
	system []string
	turns  []talkTurn
}

type talkTurn struct {
	user  string
	steps []talkStep
	reply string // "": the turn is still open
}

type talkStep struct {
	text    string
	calls   []talkCall
	pending bool // the results did not come yet
}

type talkCall struct{ id, name, result string }

// A tongue is a dialect.
type tongue int

const (
	chatTongue tongue = iota
	anthropicTongue
	geminiTongue
	bedrockTongue
	langchainTongue
	envelopeTongue
	constructorTongue
	responsesTongue
	legacyTongue
	vercelTongue
	tongues
)

var words = strings.Fields("book shelf card late fee river stone glass kyoto lighthouse schön 日本 что 📚 quo\"te back\\slash")

func phrase(rnd *rand.Rand) string {
	var s []string
	for range 1 + rnd.IntN(8) {
		s = append(s, words[rnd.IntN(len(words))])
	}
	return strings.Join(s, " ")
}

// newTalk makes a conversation of up to so many turns, at most one call a step
// if single is set.
func newTalk(rnd *rand.Rand, turns int, single bool) (t talk) {
	for range rnd.IntN(3) {
		t.system = append(t.system, phrase(rnd))
	}
	ids := 0
	reuse := rnd.IntN(3) == 0
	n := 1 + rnd.IntN(turns)
	for k := range n {
		turn := talkTurn{user: phrase(rnd), reply: phrase(rnd)}
		for range steps(rnd) {
			s := talkStep{}
			if rnd.IntN(2) == 0 {
				s.text = phrase(rnd)
			}
			if reuse {
				ids = 0
			}
			calls := 1
			if !single {
				calls += rnd.IntN(3)
			}
			for range calls {
				ids++
				s.calls = append(s.calls, talkCall{fmt.Sprintf("call_%d", ids), words[rnd.IntN(9)], phrase(rnd)})
			}
			turn.steps = append(turn.steps, s)
		}
		if k == n-1 && rnd.IntN(2) == 0 {
			turn.reply = ""
			if len(turn.steps) > 0 && rnd.IntN(2) == 0 {
				turn.steps[len(turn.steps)-1].pending = true
			}
		}
		t.turns = append(t.turns, turn)
	}
	return t
}

// steps is how many steps a turn has: mostly few, sometimes a long loop.
func steps(rnd *rand.Rand) int {
	switch rnd.IntN(6) {
	case 0:
		return 3 + rnd.IntN(10)
	case 1, 2:
		return 1 + rnd.IntN(2)
	}
	return 0
}

type obj = map[string]any

// speak writes the talk in a dialect.
func (t talk) speak(as tongue) (out []json.RawMessage) {
	add := func(list ...any) {
		for _, m := range list {
			b, err := json.Marshal(m)
			if err != nil {
				panic(err)
			}
			out = append(out, b)
		}
	}
	for _, s := range t.system {
		add(as.say("system", s))
	}
	for _, turn := range t.turns {
		add(as.say("user", turn.user))
		for _, s := range turn.steps {
			add(as.call(s)...)
			if !s.pending {
				add(as.results(s)...)
			}
		}
		if turn.reply != "" {
			add(as.say("assistant", turn.reply))
		}
	}
	return out
}

func (as tongue) say(role, text string) any {
	short := map[string]string{"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}[role]
	class := map[string]string{"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}[role]
	switch as {
	case anthropicTongue:
		if role == "assistant" {
			return obj{"role": role, "content": []any{obj{"type": "text", "text": text}}}
		}
	case geminiTongue:
		if role == "assistant" {
			role = "model"
		}
		return obj{"role": role, "parts": []any{obj{"text": text}}}
	case bedrockTongue:
		return obj{"role": role, "content": []any{obj{"text": text}}}
	case langchainTongue:
		return obj{"type": short, "content": text}
	case envelopeTongue:
		return obj{"type": short, "data": obj{"type": short, "content": text, "additional_kwargs": obj{}}}
	case constructorTongue:
		return obj{"lc": 1, "type": "constructor", "id": []string{"langchain", "schema", "messages", class}, "kwargs": obj{"content": text}}
	case responsesTongue:
		return obj{"type": "message", "role": role, "content": []any{obj{"type": map[string]string{"assistant": "output_text"}[role], "text": text}}}
	}
	return obj{"role": role, "content": text}
}

func (as tongue) call(s talkStep) (out []any) {
	var blocks, calls []any
	if s.text != "" && as == bedrockTongue || as == geminiTongue && s.text != "" {
		blocks = append(blocks, obj{"text": s.text})
	} else if s.text != "" {
		blocks = append(blocks, obj{"type": "text", "text": s.text})
	}
	for _, c := range s.calls {
		switch as {
		case anthropicTongue:
			blocks = append(blocks, obj{"type": "tool_use", "id": c.id, "name": c.name, "input": obj{"q": 1}})
		case geminiTongue:
			blocks = append(blocks, obj{"functionCall": obj{"name": c.name, "args": obj{"q": 1}}})
		case bedrockTongue:
			blocks = append(blocks, obj{"toolUse": obj{"toolUseId": c.id, "name": c.name, "input": obj{}}})
		case vercelTongue:
			blocks = append(blocks, obj{"type": "tool-call", "toolCallId": c.id, "toolName": c.name, "input": obj{}})
		case langchainTongue, envelopeTongue, constructorTongue:
			calls = append(calls, obj{"id": c.id, "name": c.name, "args": obj{"q": 1}, "type": "tool_call"})
		case responsesTongue:
			out = append(out, obj{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": "{}"})
		default:
			calls = append(calls, obj{"id": c.id, "type": "function", "function": obj{"name": c.name, "arguments": "{}"}})
		}
	}
	switch as {
	case anthropicTongue, bedrockTongue, vercelTongue:
		return []any{obj{"role": "assistant", "content": blocks}}
	case geminiTongue:
		return []any{obj{"role": "model", "parts": blocks}}
	case langchainTongue:
		return []any{obj{"type": "ai", "content": s.text, "tool_calls": calls}}
	case envelopeTongue:
		return []any{obj{"type": "ai", "data": obj{"content": s.text, "tool_calls": calls}}}
	case constructorTongue:
		return []any{obj{"lc": 1, "type": "constructor", "id": []string{"langchain", "AIMessage"}, "kwargs": obj{"content": s.text, "tool_calls": calls}}}
	case responsesTongue:
		return append([]any{obj{"type": "reasoning", "id": "rs_1", "summary": []any{}}}, out...)
	case legacyTongue:
		return []any{obj{"role": "assistant", "content": nil, "function_call": obj{"name": s.calls[0].name, "arguments": "{}"}}}
	}
	return []any{obj{"role": "assistant", "content": nil, "tool_calls": calls}}
}

func (as tongue) results(s talkStep) (out []any) {
	var blocks []any
	for _, c := range s.calls {
		switch as {
		case anthropicTongue:
			blocks = append(blocks, obj{"type": "tool_result", "tool_use_id": c.id, "content": c.result})
		case geminiTongue:
			blocks = append(blocks, obj{"functionResponse": obj{"name": c.name, "response": obj{"result": c.result}}})
		case bedrockTongue:
			blocks = append(blocks, obj{"toolResult": obj{"toolUseId": c.id, "content": []any{obj{"text": c.result}}}})
		case vercelTongue:
			blocks = append(blocks, obj{"type": "tool-result", "toolCallId": c.id, "toolName": c.name, "output": obj{"type": "text", "value": c.result}})
		case langchainTongue:
			out = append(out, obj{"type": "tool", "tool_call_id": c.id, "content": c.result})
		case envelopeTongue:
			out = append(out, obj{"type": "tool", "data": obj{"tool_call_id": c.id, "content": c.result}})
		case constructorTongue:
			out = append(out, obj{"lc": 1, "type": "constructor", "id": []string{"langchain", "ToolMessage"}, "kwargs": obj{"tool_call_id": c.id, "content": c.result}})
		case responsesTongue:
			out = append(out, obj{"type": "function_call_output", "call_id": c.id, "output": c.result})
		case legacyTongue:
			return []any{obj{"role": "function", "name": c.name, "content": c.result}}
		default:
			out = append(out, obj{"role": "tool", "tool_call_id": c.id, "content": c.result})
		}
	}
	switch as {
	case anthropicTongue, bedrockTongue:
		return []any{obj{"role": "user", "content": blocks}}
	case geminiTongue:
		return []any{obj{"role": "user", "parts": blocks}}
	case vercelTongue:
		return []any{obj{"role": "tool", "content": blocks}}
	}
	return out
}

// spoil breaks a history: it drops, repeats, swaps and inserts messages.
func spoil(rnd *rand.Rand, list []json.RawMessage) []json.RawMessage {
	strange := []string{
		`{"role":"system","content":"note"}`, `{"role":"assistant","content":"hm"}`, `{"role":"user","content":""}`,
		`{"role":"tool","tool_call_id":"call_1","content":"r"}`, `{"role":"tool","content":"r"}`, `{}`, `null`, `"text"`, `[1]`, `7`,
		`{"role":7}`, `{"role":"narrator","content":"x"}`, `{"type":"remove","id":"x"}`, `{"role":"assistant","content":null,"tool_calls":null}`,
		`{"role":"assistant","tool_calls":[{"id":"call_1"},{"id":"call_1"},{},7]}`, `{"type":"reasoning"}`, `{"role":"function","name":"f","content":"r"}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_2","content":"r"},{"type":"text","text":"and then?"}]}`,
		`{"role":"assistant","content":[{"type":"server_tool_use","id":"s1"},{"type":"tool_use","id":"call_3","caller":{"tool_id":"s1"}}]}`,
		`{"role":"assistant","content":[{"type":"code_execution_tool_result","tool_use_id":"s1"}]}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"call_4"}]}`,
		`{"role":"user","content":"[Summary of earlier messages, 0123456789abcdef]\nno"}`,
	}
	for range 1 + rnd.IntN(4) {
		if len(list) == 0 {
			break
		}
		i, j := rnd.IntN(len(list)), rnd.IntN(len(list))
		switch rnd.IntN(4) {
		case 0:
			list = append(list[:i:i], list[i+1:]...)
		case 1:
			list = append(list[:i:i], append([]json.RawMessage{list[j]}, list[i:]...)...)
		case 2:
			list[i], list[j] = list[j], list[i]
		case 3:
			list = append(list[:i:i], append([]json.RawMessage{json.RawMessage(strange[rnd.IntN(len(strange))])}, list[i:]...)...)
		}
	}
	return list
}

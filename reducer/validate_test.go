package reducer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// TestProviderRules: each rule is found where it is broken, by the providers
// that enforce it and by no other. A ? marks what later messages can cure.
func TestProviderRules(t *testing.T) {
	all := "OpenAI Anthropic Gemini Bedrock Mistral"
	notOpenAI := "Anthropic Gemini Bedrock Mistral"
	for _, c := range []struct {
		in    []string
		rule  string // index:rule
		whose string
	}{
		{[]string{"S U A"}, "", ""},
		{[]string{"U", "7"}, "1:not-an-object", all},
		{[]string{"U", `{"role":"narrator","content":"x"}`}, "1:unknown-role", all},
		{[]string{"U T(1)"}, "1:orphan-result", all},
		{[]string{"U A(1) T(2) T(1)"}, "2:orphan-result", all},
		{[]string{"U A(1) T(1) T(1)"}, "3:duplicate-result", all},
		{[]string{"U A(1) A T(1)"}, "3:orphan-result", all},
		{[]string{"U", `{"role":"assistant","tool_calls":[{"id":7}]}`, `{"role":"tool","tool_call_id":"7"}`}, "2:orphan-result", all},
		{[]string{"U A(1,2) T(1) U"}, "1:unanswered-call", all},
		{[]string{"U A(1,2) T(2)"}, "1:pending-call?", all},
		{[]string{"S A U"}, "1:first-not-user", notOpenAI},
		{[]string{"S"}, "0:no-user-message?", notOpenAI},
		{[]string{"U A"}, "1:ends-with-assistant?", "Gemini Bedrock Mistral"},
		{[]string{"S S U S A U"}, "3:system-not-leading", notOpenAI},
		{[]string{"U U"}, "1:same-role-twice", "Bedrock Mistral"},
		{[]string{"U A A U"}, "2:same-role-twice", "Bedrock Mistral"},
		{[]string{"U A(1) T(1) U"}, "3:user-after-result", "Mistral"},
		{[]string{`{"role":"user","content":""}`}, "0:empty-content", "Anthropic Gemini Bedrock"},
		{[]string{`{"role":"user","content":[{"type":"text","text":""}]}`}, "0:empty-content", "Anthropic Gemini Bedrock"},
		{[]string{"U", bareCall, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"2"}]}`}, "2:result-not-first", "Anthropic"},
		{[]string{"U", `{"role":"assistant","content":null,"function_call":{"name":"f"}}`, `{"role":"function","name":"f","content":"r"}`}, "", ""},
		{[]string{"U", `{"role":"assistant","content":"x"}`, `{"role":"function","name":"f","content":"r"}`}, "2:orphan-result", all},
		{[]string{"U", askApproval, giveApproval, approved}, "", ""},
		{[]string{"U", serverCall, result1, `{"role":"assistant","content":[{"type":"code_execution_tool_result","tool_use_id":"srv"},{"type":"text","text":"x"}]}`, "U"}, "", ""},
		{[]string{`{"role":"user","parts":[{"text":"q"}]}`, waitingCall, interim}, "1:pending-call?", all},
	} {
		in := joinRaw(expand(t, c.in))
		for _, p := range providers {
			var got []string
			for _, v := range reducer.Validate(in, p) {
				s := fmt.Sprintf("%d:%s", v.Index, v.Rule)
				if v.Pending {
					s += "?"
				}
				got = append(got, s)
			}
			if want := strings.Contains(c.whose, p.String()) && c.rule != ""; slices.Contains(got, c.rule) != want {
				t.Errorf("%v about %v: %v, want %q %v", p, c.in, got, c.rule, want)
			}
			if c.rule == "" && slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, "?") }) {
				t.Errorf("%v about %v: %v, want nothing", p, c.in, got)
			}
		}
	}
}

// TestCallsAreFoundInEveryDress: calls and results pair in forms that no other
// test has.
func TestCallsAreFoundInEveryDress(t *testing.T) {
	for name, pair := range map[string][2]string{
		"LangChain additional_kwargs":  {`{"type":"ai","content":"","additional_kwargs":{"tool_calls":[{"id":"1"}]}}`, `{"type":"tool","tool_call_id":"1","content":""}`},
		"LangChain invalid_tool_calls": {`{"type":"AIMessageChunk","content":"","invalid_tool_calls":[{"id":"1"}]}`, `{"type":"tool","tool_call_id":"1"}`},
		"LangChain, three copies":      {`{"type":"ai","content":[{"type":"tool_use","id":"1"}],"tool_calls":[{"id":"1"}],"additional_kwargs":{"tool_calls":[{"id":"1"}]}}`, `{"type":"tool","tool_call_id":"1"}`},
		"LangChain chat message":       {`{"type":"chat","data":{"role":"assistant","content":"","tool_calls":[{"id":"1"}]}}`, `{"type":"tool","data":{"tool_call_id":"1"}}`},
		"camel case":                   {`{"role":"assistant","toolCalls":[{"id":"1"}]}`, `{"role":"tool","toolCallId":"1"}`},
		"Ollama, by name":              {`{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]}`, `{"role":"tool","tool_name":"g"},{"role":"tool","tool_name":"f"}`},
		"ids that are numbers":         {`{"role":"assistant","tool_calls":[{"id":7}]}`, `{"role":"tool","tool_call_id":7}`},
		"ids with escapes":             {`{"role":"assistant","tool_calls":[{"id":"a\u0062"}]}`, `{"role":"tool","tool_call_id":"ab"}`},
		"keys with escapes":            {`{"ro\u006ce":"assistant","tool_calls":[{"id":"1"}]}`, `{"role":"tool","tool_call_id":"1"}`},
		"the same id twice":            {`{"role":"assistant","tool_calls":[{"id":"1"},{"id":"1"}]}`, `{"role":"tool","tool_call_id":"1"}`},
		"Gemini snake case":            {`{"role":"model","parts":[{"function_call":{"name":"f"}},{"function_call":{"name":"f"}}]}`, `{"role":"function","parts":[{"function_response":{"name":"f"}},{"function_response":{"name":"f"}}]}`},
		"Gemini, id on one side":       {`{"role":"model","parts":[{"functionCall":{"id":"1","name":"f"}}]}`, `{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}`},
		"Responses custom tool":        {`{"type":"custom_tool_call","call_id":"1"}`, `{"type":"custom_tool_call_output","call_id":"1"}`},
		"Responses approval":           {`{"type":"mcp_approval_request","id":"p"}`, `{"type":"mcp_approval_response","approval_request_id":"p","approve":true}`},
		"Responses shell":              {`{"type":"local_shell_call","call_id":"1"}`, `{"type":"local_shell_call_output","id":"1"}`},
	} {
		user := `{"role":"user","content":"q"}`
		whole := "[" + user + "," + pair[0] + "," + pair[1] + "," + user + "]"
		if v := reducer.Validate([]byte(whole), reducer.OpenAI); len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
		open := "[" + user + "," + pair[0] + "]"
		if v := reducer.Validate([]byte(open), reducer.OpenAI); len(v) != 1 || v[0].Rule != reducer.PendingCall {
			t.Errorf("%s, without the result: %v", name, v)
		}
		orphan := "[" + user + "," + pair[1] + "]"
		if v := reducer.Validate([]byte(orphan), reducer.OpenAI); len(v) == 0 || v[0].Rule != reducer.OrphanResult {
			t.Errorf("%s, without the call: %v", name, v)
		}
		res := reduceTwice(t, mustNew(t, messages(3, 1)), []byte(whole))
		if string(res.Messages) != "["+user+"]" {
			t.Errorf("%s: reduced to %s", name, res.Messages)
		}
	}
}

// TestSelfContainedCallsNeedNoResult: what runs at the provider has its result
// in the same message.
func TestSelfContainedCallsNeedNoResult(t *testing.T) {
	for _, m := range []string{
		`{"type":"web_search_call","id":"ws_1","status":"completed"}`,
		`{"role":"assistant","content":[{"type":"server_tool_use","id":"s"},{"type":"web_search_tool_result","tool_use_id":"s"}]}`,
		`{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","providerExecuted":true},{"type":"tool-result","toolCallId":"1"}]}`,
		`{"role":"assistant","tool_calls":null}`, `{"role":"assistant","tool_calls":[],"function_call":null}`,
	} {
		if v := reducer.Validate([]byte(`[{"role":"user","content":"q"},`+m+`,{"role":"user","content":"q"}]`), reducer.OpenAI); len(v) > 0 {
			t.Errorf("%s: %v", m, v)
		}
	}
}

// hostile are histories made to be slow, of n parts each.
var hostile = map[string]func(n int) string{
	"calls of one message": func(n int) string {
		return `{"role":"assistant","tool_calls":[` + many(n, `{"id":"#"}`) + `]},` + many(n, `{"role":"tool","tool_call_id":"#"}`)
	},
	"one id": func(n int) string {
		return `{"role":"assistant","parts":[` + many(n, `{"functionCall":{"name":"f"}}`) + `]},` +
			many(n, `{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}`)
	},
	"no answers": func(n int) string {
		return many(n, `{"role":"assistant","tool_calls":[{"id":"#"}]}`) + `,{"role":"user"},` + many(n, `{"role":"tool","tool_call_id":"#"}`)
	},
	"server calls referred to": func(n int) string {
		return many(n, `{"role":"assistant","content":[{"type":"server_tool_use","id":"#"}]}`) + "," +
			many(n, `{"role":"assistant","content":[{"type":"tool_use","id":"#","caller":{"tool_id":"#"}}]}`)
	},
	"thinking once": func(n int) string {
		return `{"role":"assistant","content":[{"type":"thinking"},{"type":"tool_use","id":"0"}]},` +
			many(n, `{"role":"assistant","content":[{"type":"tool_use","id":"#"}]}`)
	},
	"one id for every message": func(n int) string {
		return many(n, `{"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1"}`)
	},
	"a late result": func(n int) string {
		return `{"role":"assistant","tool_calls":[{"id":"1"}]},` + many(n, `{"role":"user","content":"q"}`) + `,{"role":"tool","tool_call_id":"1"}`
	},
}

func many(n int, format string) string {
	var b strings.Builder
	for k := range n {
		if k > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(format, "#", strconv.Itoa(k)))
	}
	return b.String()
}

// surrounded puts what is between two user turns.
func surrounded(history string) []byte {
	const user = `{"role":"user","content":"q"}`
	return []byte("[" + user + "," + history + "," + user + "]")
}

// hostileModes are how hostile histories are reduced.
var hostileModes = map[string]reducer.Config{
	"strict": {MaxMessages: 2, MaxTokens: 100, Repair: reducer.RepairAnswer},
	"compat": {Mode: reducer.Compat, MaxMessages: 2},
}

// TestHostileHistoriesEnd: histories of 20,000 parts that an algorithm of quadratic time would
// take minutes for. What the time is beside that of a shorter one, BenchmarkHostile tells.
func TestHostileHistoriesEnd(t *testing.T) {
	for name, history := range hostile {
		text := surrounded(history(20_000))
		res, err := mustNew(t, hostileModes["strict"]).ReduceJSON(t.Context(), text)
		if err != nil || len(res.Messages) >= len(text) {
			t.Errorf("%s: %d bytes of %d are left, %v", name, len(res.Messages), len(text), err)
		}
		if v := reducer.Validate(res.Messages, reducer.Mistral); slices.ContainsFunc(v, func(v reducer.Violation) bool { return v.Rule == reducer.OrphanResult }) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// deep is JSON nested as deep as it may be, around a long list.
func deep() []byte {
	inner := strings.Repeat(`{"a":`, 9000) + "[" + many(50_000, `"#"`) + "]" + strings.Repeat("}", 9000)
	return []byte(`[{"role":"user","content":` + inner + `},{"role":"assistant","tool_calls":[{"id":` + inner + `}]},{"role":"tool","tool_call_id":` + inner + `}]`)
}

// TestDepthIsNoHarm: level by level it is 450 million elements.
func TestDepthIsNoHarm(t *testing.T) {
	res, err := mustNew(t, reducer.Config{MaxTokens: 1, Repair: reducer.RepairAnswer}).ReduceJSON(t.Context(), deep())
	if err != nil || !json.Valid(res.Messages) {
		t.Errorf("%d bytes, %v", len(res.Messages), err)
	}
}

func TestEstimate(t *testing.T) {
	text := strings.Repeat("word", 100)
	for name, c := range map[string]struct {
		raw      string
		low, top int
	}{
		"nothing":         {`{"role":"user","content":null}`, 4, 4},
		"English":         {`{"role":"user","content":"` + text + `"}`, 100, 110},
		"parts":           {`{"role":"user","content":[{"type":"text","text":"` + text + `"}]}`, 100, 110},
		"arguments":       {`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"` + text + `"}}]}`, 100, 110},
		"argument object": {`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"q":"` + text + `"}}]}`, 100, 112},
		"result":          {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"` + text + `"}]}]}`, 100, 110},
		"a name":          {`{"role":"tool","name":"` + text + `","content":""}`, 100, 110},
		"Cyrillic":        {`{"role":"user","content":"` + strings.Repeat("ж", 100) + `"}`, 50, 60},
		"Japanese":        {`{"role":"user","content":"` + strings.Repeat("本", 100) + `"}`, 100, 110},
		"a picture":       {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 100_000) + `"}}]}`, 1000, 1010},
		"Gemini picture":  {`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"` + strings.Repeat("A", 100_000) + `"}}]}`, 1000, 1010},
		"signatures":      {`{"role":"model","parts":[{"text":"x","thoughtSignature":"` + strings.Repeat("A", 10_000) + `"}]}`, 4, 10},
		"no JSON":         {text, 100, 110},
	} {
		if got := reducer.EstimateTokens([]byte(c.raw)); got < c.low || got > c.top {
			t.Errorf("%s: %d tokens, want %d to %d", name, got, c.low, c.top)
		}
	}
}

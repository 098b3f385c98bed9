package reducer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// short writes a history from a shorthand: S system, U user, A assistant,
// A(x,y) assistant with calls, T(x) result, and a ! for a very long one.
// Anything else is a message as it is.
func short(t testing.TB, words ...string) (out []json.RawMessage) {
	t.Helper()
	if len(words) == 1 && words[0][0] >= 'A' && words[0][0] <= 'Z' {
		words = strings.Fields(words[0])
	}
	for n, w := range words {
		if w[0] < 'A' || w[0] > 'Z' {
			out = append(out, json.RawMessage(w))
			continue
		}
		content := fmt.Sprintf("message %d", n)
		if strings.HasSuffix(w, "!") {
			content = strings.Repeat("long ", 2000)
		}
		m := obj{"role": map[byte]string{'S': "system", 'U': "user", 'A': "assistant", 'T': "tool"}[w[0]], "content": content}
		if _, ids, ok := strings.Cut(strings.TrimRight(w, "!"), "("); ok {
			ids = strings.TrimSuffix(ids, ")")
			if w[0] == 'T' {
				m["tool_call_id"] = ids
			} else {
				var calls []any
				for id := range strings.SplitSeq(ids, ",") {
					calls = append(calls, obj{"id": id, "type": "function", "function": obj{"name": "f", "arguments": "{}"}})
				}
				m["content"], m["tool_calls"] = nil, calls
			}
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

const (
	thinkingCall = `{"role":"assistant","content":[{"type":"thinking","thinking":"…","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}}]}`
	bareCall     = `{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"f","input":{}}]}`
	result1      = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]}`
	result2      = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"r"}]}`
	askApproval  = `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"f","input":{}},{"type":"tool-approval-request","approvalId":"p","toolCallId":"1"}]}`
	giveApproval = `{"role":"tool","content":[{"type":"tool-approval-response","approvalId":"p","approved":true}]}`
	approved     = `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"f","output":{"type":"text","value":"r"}}]}`
	serverCall   = `{"role":"assistant","content":[{"type":"server_tool_use","id":"srv","name":"code_execution","input":{}},{"type":"tool_use","id":"1","name":"f","input":{},"caller":{"type":"code_execution","tool_id":"srv"}}]}`
	callFromCode = `{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"f","input":{},"caller":{"type":"code_execution","tool_id":"srv"}}]}`
	waitingCall  = `{"role":"model","parts":[{"functionCall":{"id":"1","name":"confirm","args":{}}}]}`
	interim      = `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"confirm","response":{"status":"pending"},"willContinue":true}}]}`
)

// A report is a public report of wrong pruning by some package: the smallest
// input that shows it, and what is left if it is done right.
type report struct {
	name string
	cfg  reducer.Config
	in   []string
	want []int // indexes of what survives
	over bool  // and it is over budget
}

func messages(limit, goal int) reducer.Config {
	return reducer.Config{MaxMessages: limit, MinMessages: goal}
}

func tokens(limit int) reducer.Config { return reducer.Config{MaxTokens: limit, TargetTokens: limit} }

func repairing(cfg reducer.Config, how reducer.Repair) reducer.Config {
	cfg.Repair = how
	return cfg
}

var reports = []report{
	{"01 langchain-ai/langchain#33245: a result at the head", messages(5, 5), []string{"U A(1) T(1) U A U A"}, []int{3, 4, 5, 6}, false},
	{"02 langchain-ai/langchain#38352: a stranger among the results", repairing(messages(20, 10), reducer.RepairDrop), []string{"S U A(1) T(old) T(1) A U A"}, []int{0, 1, 2, 4, 5, 6, 7}, false},
	{"03 langchain-ai/langchain#34794: thinking goes with its turn", messages(4, 3), []string{"U", thinkingCall, result1, "A", "U"}, []int{4}, false},
	{"03 langchain-ai/langchain#34794: thinking stays with its loop", messages(4, 3), []string{"U", thinkingCall, result1, bareCall, result2}, []int{0, 1, 2, 3, 4}, true},
	{"05 langchain-ai/langchainjs#9740: ten parallel calls", messages(6, 6), []string{"U A(1,2,3,4,5,6,7,8,9,10) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10)"}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, true},
	{"06 langchain-ai/langmem#111: the task goes, a huge result stays", tokens(100), []string{"S U A(1) T(1)!"}, []int{0, 1, 2, 3}, true},
	{"07 langchain-ai/langmem#126: half of two parallel results", tokens(100), []string{"U A(1,2) T(1)! T(2) A U"}, []int{5}, false},
	{"08 langchain-ai/langmem#98: results twice", messages(3, 3), []string{"U A(1,2) T(1) T(2)"}, []int{0, 1, 2, 3}, true},
	{"11 microsoft/semantic-kernel#12708: a result at the head", messages(3, 3), []string{"S U A(1) T(1) U A"}, []int{0, 4, 5}, false},
	{"12 microsoft/semantic-kernel#12612: the system prompt goes", messages(4, 3), []string{"S U A U A U A U A"}, []int{0, 7, 8}, false},
	{"13 dotnet/extensions#6890: calls removed below the limit", messages(4, 2), []string{"U A(1) T(1) A"}, []int{0, 1, 2, 3}, false},
	{"14 microsoft/autogen#7955: a call popped from the middle", tokens(20), []string{"U A(1) T(1) A U"}, []int{4}, false},
	{"15 microsoft/autogen#3178: the last n begin with a result", messages(4, 4), []string{"U A(1) T(1) A U A"}, []int{4, 5}, false},
	{"16 strands-agents/harness-sdk#1749: a call at the head", messages(3, 3), []string{"U A(1) T(1) A(2) T(2)"}, []int{0, 3, 4}, false},
	{"17 strands-agents/harness-sdk#2173: one long turn", messages(4, 4), []string{"U A(1) T(1) A(2) T(2) A(3) T(3) A(4) T(4)"}, []int{0, 7, 8}, false},
	{"18 strands-agents/harness-sdk#702: a result cut short before old messages go", tokens(100), []string{"U A(1) T(1)! A U A"}, []int{4, 5}, false},
	{"18 strands-agents/harness-sdk#95: a result inside the window restructured", tokens(100), []string{"U A U A(1) T(1)!"}, []int{2, 3, 4}, true},
	{"19 openai/openai-agents-python#4322: a result at the head", messages(2, 2), []string{"U A(1) T(1) A"}, []int{0, 3}, false},
	{"20 google/adk-python#4740: a call that waits for its user", messages(5, 4), []string{"S U A(confirm) U A U A U A"}, []int{0, 1, 2, 7, 8}, false},
	{"20 google/adk-python#6179: an interim response closes nothing", messages(5, 4), []string{`{"role":"user","parts":[{"text":"q"}]}`, waitingCall, interim, "U", "A", "U", "A", "U"}, []int{0, 1, 2, 7}, false},
	{"21 google/adk-python#7236: a dead call stops all reduction", messages(5, 4), []string{"U A(1) U A U A U A"}, []int{0, 1, 6, 7}, false},
	{"21 google/adk-python#7236: a dead call is dropped", repairing(messages(20, 4), reducer.RepairDrop), []string{"U A(1) U A U A U A"}, []int{0, 2, 3, 4, 5, 6, 7}, false},
	{"22 spring-projects/spring-ai#5940: a result at the head", messages(3, 3), []string{"U A(1) T(1) A U"}, []int{4}, false},
	{"23 BerriAI/litellm#4931: results stripped below the limit", messages(4, 4), []string{"S U A(1) T(1)"}, []int{0, 1, 2, 3}, false},
	{"23 BerriAI/litellm#6505: a result trimmed, its call kept", tokens(60), []string{"S U A(1) T(1)! U A(2) T(2)"}, []int{0, 4, 5, 6}, false},
	{"24 vercel/ai#10445: nothing but the tail was kept", messages(4, 2), []string{"U A(1) T(1) A U A(2) T(2) A U A"}, []int{8, 9}, false},
	{"25 vercel/ai#20953: an approval without its call", messages(4, 3), []string{"U A U", askApproval, giveApproval, approved}, []int{2, 3, 4, 5}, false},
	{"25 vercel/ai#16385: an approval that is still open", messages(2, 2), []string{"U A U", askApproval}, []int{2, 3}, false},
	{"26 vercel/ai#12504: a call made by a server tool's code", messages(4, 3), []string{"U", serverCall, result1, callFromCode, result2}, []int{0, 1, 2, 3, 4}, true},
	{"27 pydantic/pydantic-ai#2050: keep the last message", messages(1, 1), []string{"U A(1) T(1)"}, []int{0, 1, 2}, true},
	{"27 pydantic/pydantic-ai#4728: a poisoned history", repairing(messages(20, 10), reducer.RepairDrop), []string{"T(1) U A"}, []int{1, 2}, false},
	{"28 langchain4j/langchain4j#585: the call evicted, the result left", messages(4, 4), []string{"S U A(1) T(1) U A"}, []int{0, 4, 5}, false},
	{"28 langchain4j/langchain4j#3806: an orphan that was stored", repairing(messages(20, 10), reducer.RepairDrop), []string{"S T(1) U A U"}, []int{0, 2, 3, 4}, false},
	{"29 gwenlake/gwenflow#125: only the system prompt is left", tokens(45), []string{"S U A(1) T(1)! A(2) T(2)"}, []int{0, 1, 4, 5}, false},
	{"30 google-gemini/gemini-cli#11814: the slice begins with a call", messages(6, 6), []string{"U A(1) T(1) A(2) T(2) U A(3) T(3)"}, []int{5, 6, 7}, false},
	{"31 n8n-io/n8n#24772: a result and a call without one at the head", repairing(messages(20, 10), reducer.RepairDrop), []string{"T(1) A(2) U A"}, []int{2, 3}, false},
}

// expand lets shorthand stand between messages that are written out.
func expand(t testing.TB, in []string) []json.RawMessage {
	var words []string
	for _, s := range in {
		if s[0] < 'A' || s[0] > 'Z' {
			words = append(words, s)
		} else {
			words = append(words, strings.Fields(s)...)
		}
	}
	if len(words) == 1 {
		return short(t, words[0])
	}
	return short(t, words...)
}

func TestPublicReports(t *testing.T) {
	for _, r := range reports {
		t.Run(r.name, func(t *testing.T) {
			in := expand(t, r.in)
			res := reduceTwice(t, mustNew(t, r.cfg), joinRaw(in))
			var want []json.RawMessage
			for _, i := range r.want {
				want = append(want, in[i])
			}
			if got := string(res.Messages); got != string(joinRaw(want)) {
				t.Errorf("%+v\n got %s\nwant %s", res.Report, got, joinRaw(want))
			}
			if res.OverBudget != r.over {
				t.Errorf("over budget: reported %v, is %v", res.OverBudget, r.over)
			}
		})
	}
}

// reportSummarizer notes what it is asked and answers with a count.
func reportSummarizer(asked *[][]reducer.Message) reducer.Summarizer {
	return func(_ context.Context, m []reducer.Message) (string, error) {
		*asked = append(*asked, m)
		return fmt.Sprintf("summary %d", len(*asked)), nil
	}
}

func TestReport04SummaryBeforeResult(t *testing.T) { // langchain-ai/deepagents#270
	var asked [][]reducer.Message
	cfg := messages(5, 4)
	cfg.Summarize = reportSummarizer(&asked)
	in := short(t, "U A(1) T(1) A U A")
	res := reduceTwice(t, mustNew(t, cfg), joinRaw(in))
	out := splitRaw(t, res.Messages)
	if len(out) != 4 || string(out[2]) != string(in[4]) || string(out[3]) != string(in[5]) {
		t.Errorf("want a summary, its reply and the last turn, got %s", res.Messages)
	}
	if len(asked) != 1 || len(asked[0]) != 4 {
		t.Errorf("asked for %d summaries: %v", len(asked), asked)
	}
}

func TestReport09SummaryIsMergedNotReused(t *testing.T) { // langchain-ai/langmem#118
	var asked [][]reducer.Message
	cfg := messages(7, 5)
	cfg.Summarize = reportSummarizer(&asked)
	r := mustNew(t, cfg)
	first := reduceTwice(t, r, joinRaw(short(t, "S U A(1) T(1) A(2) T(2) A(3) T(3)")))
	grown := append(splitRaw(t, first.Messages), short(t, "A(4) T(4) A(5) T(5)")...)
	second := reduceTwice(t, r, joinRaw(grown))
	if len(asked) != 2 || !asked[1][0].Summary || asked[1][0].Text != "summary 1" || len(asked[1]) < 3 {
		t.Fatalf("the second summary was asked of %+v", asked)
	}
	if s := string(second.Messages); strings.Contains(s, "summary 1") || !strings.Contains(s, "summary 2") {
		t.Errorf("the old summary stayed, or the new one is missing: %s", s)
	}
}

func TestReport10StoreAndViewAreSeparate(t *testing.T) { // langchain-ai/langgraph#6302
	var asked [][]reducer.Message
	cfg := messages(4, 3)
	cfg.Summarize = reportSummarizer(&asked)
	r := mustNew(t, cfg)
	in := short(t, "U A(1) T(1) A U")
	stored := joinRaw(in)
	view := reduceTwice(t, r, stored) // checks that the input is untouched
	for _, p := range providers {
		if v := reducer.Validate(view.Messages, p); slices.ContainsFunc(v, final) {
			t.Errorf("%v refuses the view: %v", p, v)
		}
	}
	again, err := r.ReduceJSON(t.Context(), stored)
	if err != nil || string(again.Messages) != string(view.Messages) || len(asked) != 1 {
		t.Errorf("the same store gave another view, or a second call: %v, %d calls", err, len(asked))
	}
}

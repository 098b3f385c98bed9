package tokens_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/reducer"
	"github.com/weirflow/weir/reducer/tokens"
)

func content(t testing.TB, s string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]string{"role": "user", "content": s})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCountsAreTheModels: the numbers are those that OpenAI publishes for its
// tokenizer, plus 4 for the message.
func TestCountsAreTheModels(t *testing.T) {
	for _, c := range []struct {
		e    tokens.Encoding
		text string
		want int
	}{
		{tokens.CL100k, "tiktoken is great!", 6},
		{tokens.CL100k, "antidisestablishmentarianism", 6},
		{tokens.CL100k, "2 + 2 = 4", 7},
		{tokens.CL100k, "お誕生日おめでとう", 9},
		{tokens.O200k, "antidisestablishmentarianism", 6},
		{tokens.O200k, "2 + 2 = 4", 7},
		{tokens.O200k, "お誕生日おめでとう", 8},
		{tokens.O200k, "", 0},
	} {
		count, err := tokens.New(c.e)
		if err != nil {
			t.Fatal(err)
		}
		if got := count(content(t, c.text)); got != c.want+4 {
			t.Errorf("%s: %q has %d tokens, want %d", c.e, c.text, got-4, c.want)
		}
	}
}

func TestArgumentsAndNamesCount(t *testing.T) {
	count, err := tokens.ForModel("gpt-4o")
	if err != nil {
		t.Fatal(err)
	}
	call := func(name, args string) int {
		b, err := json.Marshal(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
			map[string]any{"id": "call_1", "function": map[string]string{"name": name, "arguments": args}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return count(b)
	}
	long := strings.Repeat("the quick brown fox ", 50)
	if short, more := call("f", "{}"), call("f", long); more < short+200 {
		t.Errorf("%d tokens of arguments cost %d", 200, more-short)
	}
	if short, more := call("f", "{}"), call("the quick brown fox", "{}"); more != short+3 {
		t.Errorf("a name of four words costs %d more than one of one", more-short)
	}
}

// TestSpecialTokensAreText: what would be a control token is counted as the
// text that it is, and raises nothing.
func TestSpecialTokensAreText(t *testing.T) {
	count, err := tokens.New(tokens.CL100k)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(content(t, "<|endoftext|>")) - 4; n < 3 {
		t.Errorf("counted as %d token", n)
	}
	if n := count([]byte("\xff no JSON \xfe")); n < 5 {
		t.Errorf("text that is no JSON has %d tokens", n)
	}
}

func TestUnknownNamesSayWhatToDo(t *testing.T) {
	if _, err := tokens.New("gpt2"); !errors.Is(err, tokens.ErrUnknown) || !strings.Contains(err.Error(), "O200k") {
		t.Error(err)
	}
	if _, err := tokens.ForModel("no-such-model"); !errors.Is(err, tokens.ErrUnknown) || !strings.Contains(err.Error(), "New") {
		t.Error(err)
	}
}

// TestRememberedCountsAreRight: more messages than are remembered, counted by
// several goroutines at once, cost the same every time.
func TestRememberedCountsAreRight(t *testing.T) {
	count, err := tokens.New(tokens.O200k)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	first := make([]int, n)
	message := func(k int) []byte { return fmt.Appendf(nil, `{"content":"word %d"}`, k) }
	for k := range n {
		first[k] = count(message(k))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for k := range n {
				if got := count(message(k)); got != first[k] {
					t.Errorf("message %d: %d, then %d", k, first[k], got)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCount(b *testing.B) {
	message := content(b, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100))
	count, err := tokens.New(tokens.O200k)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("remembered", func(b *testing.B) {
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			count(message)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.SetBytes(int64(len(message)))
		for k := 0; b.Loop(); k++ {
			count(content(b, fmt.Sprint(k)+string(message[30:len(message)-2])))
		}
	})
}

func Example() {
	count, err := tokens.ForModel("gpt-4o")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := reducer.New(reducer.Config{MaxTokens: 30, TargetTokens: 20, CountTokens: count})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := r.ReduceJSON(context.Background(), []byte(`[
		{"role":"user","content":"Which books about rivers are on the shelf today?"},
		{"role":"assistant","content":"Rivers of the North, and two others."},
		{"role":"user","content":"Reserve the first one, please."}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.TokensBefore, "tokens became", res.TokensAfter)
	// Output:
	// 39 tokens became 11
}

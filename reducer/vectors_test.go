package reducer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirflow/weir/reducer"
)

// The vectors file records what the Python package does; its README block
// explains the fields.
type vectorFile struct {
	Cases         []vector `json:"cases"`
	RandomCases   []vector `json:"random_cases"`
	StatefulCases []vector `json:"stateful_cases"`
}

type vector struct {
	Name        string         `json:"name"`
	NonPortable bool           `json:"non_portable"`
	Config      map[string]any `json:"config"`
	Hooks       []string       `json:"hooks"`
	Steps       []vectorStep   `json:"steps"`
	Checks      struct {
		ViolationsIn []string `json:"violations_in"`
	} `json:"checks"`
	vectorStep
}

type vectorStep struct {
	Existing  []json.RawMessage `json:"existing"`
	New       []json.RawMessage `json:"new"`
	Namespace json.RawMessage   `json:"namespace"`
	Expect    struct {
		Surviving    []json.RawMessage `json:"surviving"`
		Pruned       []int             `json:"pruned"`
		Summary      *string           `json:"summary"`
		TokensBefore *int              `json:"tokens_before"`
		TokensAfter  *int              `json:"tokens_after"`
		Error        string            `json:"error"`
		Deliveries   []vectorDelivery  `json:"deliveries"`
	} `json:"expect"`
}

type vectorDelivery struct {
	Hook      int             `json:"hook"`
	IDs       []any           `json:"ids"`
	Namespace json.RawMessage `json:"namespace"`
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	path := os.Getenv("WEIR_REDUCER_VECTORS")
	if path == "" {
		path = "testdata/reducer_vectors.json"
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	all := append(append(f.Cases, f.RandomCases...), f.StatefulCases...)
	if len(all) == 0 {
		t.Fatalf("%s holds no cases", path)
	}
	return all
}

func (s *vectorStep) messages() []json.RawMessage {
	return slices.Concat(s.Existing, s.New)
}

func joinRaw(list []json.RawMessage) []byte {
	if list == nil {
		list = []json.RawMessage{}
	}
	parts := make([]string, len(list))
	for i, m := range list {
		parts[i] = string(m)
	}
	return []byte("[" + strings.Join(parts, ",") + "]")
}

// vectorText is text(message) of the README block.
func vectorText(raw []byte) string {
	var m struct{ Content any }
	_ = json.Unmarshal(raw, &m)
	switch c := m.Content.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, e := range c {
			switch e := e.(type) {
			case string:
				b.WriteString(e)
			case map[string]any:
				if s, ok := e["text"].(string); ok {
					b.WriteString(s)
				}
			}
		}
		return b.String()
	}
	return ""
}

var vectorCounters = map[string]reducer.TokenCounter{
	"fixed100": func([]byte) int { return 100 },
	"field": func(raw []byte) int {
		var m struct{ Tokens int }
		_ = json.Unmarshal(raw, &m)
		return m.Tokens
	},
	"words":     func(raw []byte) int { return len(strings.Fields(vectorText(raw))) },
	"chars":     func(raw []byte) int { return utf8.RuneCountInString(vectorText(raw)) },
	"chars4":    func(raw []byte) int { return utf8.RuneCountInString(vectorText(raw)) / 4 },
	"heuristic": nil,
}

var errVector = errors.New("raised by the vector")

func vectorSummarizer(t testing.TB, name string) reducer.Summarizer {
	switch name {
	case "":
		return nil
	case "none", "raise": // a summary of null and an exception look the same
		return func(context.Context, []reducer.Message) (string, error) { return "", errVector }
	case "empty":
		return func(context.Context, []reducer.Message) (string, error) { return "", nil }
	case "count":
		return func(_ context.Context, m []reducer.Message) (string, error) { return fmt.Sprintf("S[%d]", len(m)), nil }
	case "ids":
		return func(_ context.Context, m []reducer.Message) (string, error) {
			ids := make([]string, len(m))
			for i := range m {
				if ids[i] = m[i].ID; ids[i] == "" {
					ids[i] = "?"
				}
			}
			return "S:" + strings.Join(ids, ","), nil
		}
	case "concat":
		return func(_ context.Context, m []reducer.Message) (string, error) {
			texts := make([]string, len(m))
			for i := range m {
				texts[i] = vectorText(m[i].Raw)
			}
			return strings.Join(texts, "|"), nil
		}
	}
	t.Fatalf("unknown summarizer %q", name)
	return nil
}

func vectorFactory(t testing.TB, name string) func(string, int) ([]json.RawMessage, error) {
	format := func(list ...string) func(string, int) ([]json.RawMessage, error) {
		return func(s string, n int) (out []json.RawMessage, _ error) {
			for i := 0; i < len(list); i += 2 {
				content := strings.NewReplacer("<n>", fmt.Sprint(n), "<summary>", s).Replace(list[i+1])
				b, err := json.Marshal(map[string]string{"role": list[i], "content": content})
				if err != nil {
					return nil, err
				}
				out = append(out, b)
			}
			return out, nil
		}
	}
	switch name {
	case "", "default":
		return nil
	case "single_system":
		return format("system", "[<n>] <summary>")
	case "single_user":
		return format("user", "<summary>")
	case "openai_pair":
		return format("user", "Summary (<n>): <summary>", "assistant", "OK")
	case "empty":
		return format()
	case "raise":
		return func(string, int) ([]json.RawMessage, error) { return nil, errVector }
	}
	t.Fatalf("unknown summary factory %q", name)
	return nil
}

// compatConfig translates a vector's configuration. Only keys that it knows
// are let through, so that a new kind of vector is not passed by accident.
func compatConfig(t testing.TB, v *vector) reducer.Config {
	t.Helper()
	cc := &reducer.CompatConfig{MinMessages: 10}
	limit := 20
	cc.MaxMessages = &limit
	if v.Config["via_constructor"] == true {
		cc.MinMessages, cc.MaxMessages = 0, nil
	}
	cfg := reducer.Config{Mode: reducer.Compat, Compat: cc}
	for key, x := range v.Config {
		switch {
		case key == "max_messages" && x == nil:
			cc.MaxMessages = nil
		case x != nil: // null is the default of everything else
			setField(t, &cfg, key, x)
		}
	}
	return cfg
}

func setField(t testing.TB, cfg *reducer.Config, key string, x any) {
	t.Helper()
	cc := cfg.Compat
	n, _ := x.(float64)
	num := int(n)
	name, _ := x.(string)
	on := x == true
	switch key {
	case "via_constructor", "namespace_key":
	case "min_messages":
		cc.MinMessages = num
	case "max_messages":
		cc.MaxMessages = &num
	case "max_tokens":
		cc.MaxTokens = &num
	case "target_tokens":
		cc.TargetTokens = num
	case "token_counter":
		counter, ok := vectorCounters[name]
		if !ok {
			t.Fatalf("unknown counter %q", x)
		}
		cfg.CountTokens = counter
	case "preserve_first":
		cc.PruneFirst = !on
	case "cascade_tool_messages":
		cc.KeepToolResults = !on
	case "summarizer":
		cfg.Summarize = vectorSummarizer(t, name)
	case "inject_summary":
		cc.InjectSummary = on
	case "summary_factory":
		cc.SummaryMessages = vectorFactory(t, name)
	case "dedupe_on_prune":
		cc.AlwaysDeliver = !on
	case "dedupe_window":
		if cc.DedupeWindow = num; num == 0 {
			cc.DedupeWindow = -1
		}
	default:
		t.Fatalf("unknown configuration key %q", key)
	}
}

func TestUpstreamVectors(t *testing.T) {
	for _, v := range loadVectors(t) {
		t.Run(v.Name, func(t *testing.T) { runVector(t, &v) })
	}
}

func runVector(t *testing.T, v *vector) {
	if v.NonPortable {
		t.Log("marked non_portable; run all the same, because Python's text form is known")
	}
	cfg := compatConfig(t, v)
	var log []vectorDelivery
	for k, kind := range v.Hooks {
		cfg.Hooks = append(cfg.Hooks, func(_ context.Context, d *reducer.Delivery) error {
			got := vectorDelivery{Hook: k, IDs: []any{}, Namespace: json.RawMessage(d.Namespace)}
			for _, m := range d.Messages {
				var f struct{ ID any }
				if err := json.Unmarshal(m.Raw, &f); err != nil {
					t.Error(err)
				}
				got.IDs = append(got.IDs, f.ID)
			}
			log = append(log, got)
			switch kind {
			case "record":
			case "raise":
				return errVector
			case "clear_list":
				d.Messages = nil
			default:
				t.Errorf("unknown hook %q", kind)
			}
			return nil
		})
	}
	r, err := reducer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	steps := v.Steps
	if steps == nil {
		steps = []vectorStep{v.vectorStep}
	}
	for k := range steps {
		log = nil
		checkStep(t, r, &steps[k], k)
		if v.Steps != nil {
			checkDeliveries(t, steps[k].Expect.Deliveries, log)
		}
	}
}

func checkDeliveries(t *testing.T, want, got []vectorDelivery) {
	t.Helper()
	for i := range got {
		if len(got[i].Namespace) == 0 {
			got[i].Namespace = json.RawMessage("null")
		}
	}
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	if len(want)+len(got) > 0 && !sameJSON(t, w, g) {
		t.Errorf("deliveries\n got %s\nwant %s", g, w)
	}
}

func checkStep(t *testing.T, r *reducer.Reducer, s *vectorStep, k int) {
	t.Helper()
	if string(s.Namespace) != "null" {
		r = r.Scoped(string(s.Namespace))
	}
	in := s.messages()
	text := joinRaw(in)
	before := string(text)
	res, err := r.ReduceJSON(t.Context(), text)
	if string(text) != before {
		t.Fatalf("step %d: the input was changed", k)
	}
	if s.Expect.Error != "" {
		if !errors.Is(err, reducer.ErrCompat) {
			t.Fatalf("step %d: error %v, want one for Python's %s", k, err, s.Expect.Error)
		}
		return
	}
	if err != nil {
		t.Fatalf("step %d: %v", k, err)
	}
	wantKept := make([]json.RawMessage, 0, len(in))
	for _, e := range s.Expect.Surviving {
		var i int
		if json.Unmarshal(e, &i) == nil {
			wantKept = append(wantKept, in[i])
			continue
		}
		var ins struct{ Inserted json.RawMessage }
		if err := json.Unmarshal(e, &ins); err != nil {
			t.Fatal(err)
		}
		wantKept = append(wantKept, ins.Inserted)
	}
	if want := joinRaw(wantKept); !sameJSON(t, want, res.Messages) {
		t.Errorf("step %d: survivors\n got %s\nwant %s", k, res.Messages, want)
	}
	wantPruned := make([]json.RawMessage, 0, len(in))
	for _, i := range s.Expect.Pruned {
		wantPruned = append(wantPruned, in[i])
	}
	if w, g := joinRaw(wantPruned), joinRaw(res.Pruned); string(w) != string(g) {
		t.Errorf("step %d: pruned\n got %s\nwant %s", k, g, w)
	}
	switch want := s.Expect.Summary; {
	case want == nil && res.Summarized:
		t.Errorf("step %d: summary %q, want none", k, res.Summary)
	case want != nil && (!res.Summarized || res.Summary != *want):
		t.Errorf("step %d: summary %q (%v), want %q", k, res.Summary, res.Summarized, *want)
	}
	if want := s.Expect.TokensBefore; want != nil && res.TokensBefore != *want {
		t.Errorf("step %d: %d tokens before, want %d", k, res.TokensBefore, *want)
	}
	if want := s.Expect.TokensAfter; want != nil && res.TokensAfter != *want {
		t.Errorf("step %d: %d tokens after, want %d", k, res.TokensAfter, *want)
	}
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

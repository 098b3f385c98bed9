package reducer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weirflow/weir/reducer"
)

// conversation makes a support conversation of n messages, a third of them
// tool calls and results, of about size bytes each.
func conversation(n, size int) []json.RawMessage {
	filler := string(bytes.Repeat([]byte("lorem ipsum "), max(1, (size-40)/12)))
	var out []json.RawMessage
	add := func(m obj) {
		b, _ := json.Marshal(m)
		out = append(out, b)
	}
	add(obj{"role": "system", "content": filler})
	for k := 0; len(out) < n; k++ {
		id := fmt.Sprintf("call_%d", k)
		add(obj{"role": "user", "content": filler})
		add(obj{"role": "assistant", "content": nil, "tool_calls": []any{obj{"id": id, "type": "function", "function": obj{"name": "find", "arguments": filler}}}})
		add(obj{"role": "tool", "tool_call_id": id, "content": filler})
		add(obj{"role": "assistant", "content": filler})
	}
	return out[:n]
}

// BenchmarkNoPruning decides that a history of 1 MiB needs none, beside what
// only checking it costs.
func BenchmarkNoPruning(b *testing.B) {
	in := joinRaw(conversation(2000, 480))
	run := func(name string, f func() bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if !f() {
					b.Fatal("wrong")
				}
			}
		})
	}
	run("json.Valid", func() bool { return json.Valid(in) })
	for name, cfg := range map[string]reducer.Config{
		"messages": {MaxMessages: 5000},
		"tokens":   {MaxTokens: 50_000_000},
		"repair":   {MaxMessages: 5000, Repair: reducer.RepairDrop},
	} {
		r := mustNew(b, cfg)
		run(name, func() bool {
			res, err := r.ReduceJSON(b.Context(), in)
			return err == nil && !res.Changed
		})
	}
}

// BenchmarkPruning reduces histories of 200 bytes a message to 50 messages and
// to half.
func BenchmarkPruning(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		in := joinRaw(conversation(n, 200))
		for name, goal := range map[string]int{"to 50": 50, "to half": n / 2} {
			for _, mode := range []reducer.Mode{reducer.Strict, reducer.Compat} {
				b.Run(fmt.Sprintf("%d %s/mode %d", n, name, mode), func(b *testing.B) {
					r := mustNew(b, reducer.Config{Mode: mode, MaxMessages: n - 1, MinMessages: goal})
					b.SetBytes(int64(len(in)))
					b.ReportAllocs()
					for b.Loop() {
						if res, err := r.ReduceJSON(b.Context(), in); err != nil || !res.Changed {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/message")
				})
			}
		}
	}
}

// BenchmarkHostile reduces and validates histories made to be slow, and tells how many times as
// long eight times the history takes: about 8, where a quadratic algorithm would take up to 64.
func BenchmarkHostile(b *testing.B) {
	const small, factor = 1000, 8
	for name, history := range hostile {
		for mode, cfg := range hostileModes {
			b.Run(name+"/"+mode, func(b *testing.B) {
				r, err := reducer.New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				pass := func(text []byte) time.Duration {
					start := time.Now()
					if _, err := r.ReduceJSON(b.Context(), text); err != nil {
						b.Fatal(err)
					}
					reducer.Validate(text, reducer.Mistral)
					return time.Since(start)
				}
				one, eight := surrounded(history(small)), surrounded(history(factor*small))
				var short, long time.Duration
				for b.Loop() {
					short, long = short+pass(one), long+pass(eight)
				}
				b.ReportMetric(float64(long)/float64(short), "x-for-8x")
			})
		}
	}
}

// BenchmarkDepth reduces what is nested as deep as JSON may be, beside what only checking it
// costs.
func BenchmarkDepth(b *testing.B) {
	text := deep()
	r, err := reducer.New(reducer.Config{MaxTokens: 1, Repair: reducer.RepairAnswer})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("json.Valid", func(b *testing.B) {
		for b.Loop() {
			json.Valid(text)
		}
	})
	b.Run("Reduce", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.ReduceJSON(b.Context(), text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

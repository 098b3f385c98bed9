package reducer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/reducer"
)

// FuzzReduce: no text makes any mode panic, and what is a JSON array is
// reduced by the laws that need no valid input.
func FuzzReduce(f *testing.F) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		f.Add(joinRaw(spoil(rnd, newTalk(rnd, 4, false).speak(tongue(rnd.IntN(int(tongues)))))), seed)
	}
	for _, r := range reports {
		f.Add(joinRaw(expand(f, r.in)), uint64(3))
	}
	f.Add([]byte(`[{"role":"user","parts":[{"functionResponse":{}}]},{"lc":1,"type":"constructor","id":["HumanMessage"],"kwargs":{}}]`), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		cfg := randomConfig(rnd)
		cfg.Repair = reducer.Repair(rnd.IntN(3))
		var list []json.RawMessage
		before := bytes.Clone(text)
		if !json.Valid(text) || json.Unmarshal(text, &list) != nil || list == nil {
			if _, err := mustNew(t, cfg).ReduceJSON(t.Context(), text); !errors.Is(err, reducer.ErrInput) {
				t.Fatalf("error %v for %q", err, text)
			}
			return
		}
		res := reduceTwice(t, mustNew(t, cfg), text)
		if cfg.Repair == reducer.RepairOff {
			checkNoNewViolations(t, text, res.Messages)
		}
		if !json.Valid(res.Messages) {
			t.Fatalf("not JSON: %s", res.Messages)
		}
		if res.Changed && cfg.Repair != reducer.RepairAnswer && len(list) < 200 {
			checkConserved(t, splitExact(text), res)
		}
		r := mustNew(t, summarizing(rnd, cfg))
		once := reduceTwice(t, r, text)
		if cfg.Repair == reducer.RepairOff {
			checkNoNewViolations(t, text, once.Messages)
		}
		reducer.EstimateTokens(text)
		compat := reducer.Config{Mode: reducer.Compat, MaxMessages: 1 + rnd.IntN(6), MinMessages: rnd.IntN(6)}
		if rnd.IntN(2) == 0 {
			compat = reducer.Config{Mode: reducer.Compat, MaxTokens: 1 + rnd.IntN(100)}
		}
		if _, err := mustNew(t, compat).ReduceJSON(t.Context(), text); err != nil && !errors.Is(err, reducer.ErrCompat) {
			t.Fatalf("compat: %v", err)
		}
		if !bytes.Equal(before, text) {
			t.Fatal("the input was changed")
		}
	})
}

// splitExact splits an array as it is written; json.RawMessage in a slice
// keeps an element's bytes.
func splitExact(text []byte) (list []json.RawMessage) {
	_ = json.Unmarshal(text, &list)
	return list
}

// FuzzLaws tries the laws on more random histories than the tests do.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed%uint64(tongues), seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed, dialect uint64, broken bool) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		as := tongue(dialect % uint64(tongues))
		in := newTalk(rnd, 8, as == legacyTongue).speak(as)
		cfg := randomConfig(rnd)
		if broken {
			in = spoil(rnd, in)
			cfg.Repair = reducer.Repair(rnd.IntN(3))
		}
		res := checkLaws(t, cfg, in)
		if cfg.Repair != reducer.RepairOff {
			checkRepaired(t, in, res)
		}
		once := reduceTwice(t, mustNew(t, summarizing(rnd, cfg)), joinRaw(in))
		if cfg.Repair == reducer.RepairOff {
			checkNoNewViolations(t, joinRaw(in), once.Messages)
		}
	})
}

package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestRegisterModel keeps the judge of histories honest.
func TestRegisterModel(t *testing.T) {
	step := func(state int, in Call, out Answer) (bool, int) {
		ok, next := Register.Step(state, in, out)
		return ok, next.(int)
	}
	for name, c := range map[string]struct {
		state int
		in    Call
		out   Answer
		ok    bool
		next  int
	}{
		"load of the newest":         {3, Call{Kind: Load}, Answer{Value: 3}, true, 3},
		"stale load":                 {3, Call{Kind: Load}, Answer{Value: 2}, false, 3},
		"blind save":                 {3, Call{Kind: Save, Value: 4}, Answer{}, true, 4},
		"swap":                       {3, Call{Kind: Swap, Value: 4, Expect: 3}, Answer{}, true, 4},
		"lost update":                {3, Call{Kind: Swap, Value: 4, Expect: 2}, Answer{}, false, 4},
		"conflict":                   {3, Call{Kind: Swap, Value: 4, Expect: 2}, Answer{Conflict: true}, true, 3},
		"conflict without reason":    {3, Call{Kind: Swap, Value: 4, Expect: 3}, Answer{Conflict: true}, false, 3},
		"open swap that missed":      {3, Call{Kind: Swap, Value: 4, Expect: 2}, Answer{Unknown: true}, true, 3},
		"open swap that hit":         {3, Call{Kind: Swap, Value: 4, Expect: 3}, Answer{Unknown: true}, true, 4},
		"save that certainly failed": {3, Call{Kind: Save, Value: 4}, Answer{Failed: true}, true, 3},
		"claim":                      {0, Call{Kind: Claim, Value: 4}, Answer{}, true, 4},
		"second claim that wins":     {3, Call{Kind: Claim, Value: 4}, Answer{}, false, 4},
		"claim that came too late":   {3, Call{Kind: Claim, Value: 4}, Answer{Conflict: true}, true, 3},
		"claim refused while open":   {0, Call{Kind: Claim, Value: 4}, Answer{Conflict: true}, false, 0},
		"look at an open request":    {0, Call{Kind: Look}, Answer{Value: 0}, true, 0},
		"look that misses a claim":   {3, Call{Kind: Look}, Answer{Value: 0}, false, 3},
		"delete":                     {3, Call{Kind: Delete}, Answer{}, true, 0},
	} {
		if ok, next := step(c.state, c.in, c.out); ok != c.ok || ok && next != c.next {
			t.Errorf("%s: allowed %t, then %d; want %t, %d", name, ok, next, c.ok, c.next)
		}
	}
}

// TestCheck judges two histories of one writer and one reader.
func TestCheck(t *testing.T) {
	save := func(from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: 0, Input: Call{Kind: Save, Value: 1}, Output: Answer{}, Call: from, Return: to}
	}
	load := func(from, to int64, value int) porcupine.Operation {
		return porcupine.Operation{ClientId: 1, Input: Call{Kind: Load}, Output: Answer{Value: value}, Call: from, Return: to}
	}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		ok      bool
	}{
		"after the save":           {[]porcupine.Operation{save(0, 10), load(20, 30, 1)}, true},
		"stale after the save":     {[]porcupine.Operation{save(0, 10), load(20, 30, 0)}, false},
		"beside the save, either":  {[]porcupine.Operation{save(0, 25), load(20, 30, 0)}, true},
		"there, then gone by time": {[]porcupine.Operation{save(0, 100), load(20, 30, 1), load(40, 50, 0)}, false},
	} {
		undecided, err := Check(c.history, time.Minute)
		if undecided || (err == nil) != c.ok {
			t.Errorf("%s: undecided %t, %v; want ok %t", name, undecided, err, c.ok)
		}
	}
}

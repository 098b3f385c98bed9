package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	s "github.com/weirflow/weir/core/flow/internal/scheduler"
)

// What follows from the answer of an inherited call, also over an encoding, is what follows
// from the same call in a run that was never anywhere else. In each graph the call waits in m,
// and nothing else is going on.
func TestAnInheritedCallLeadsToWhatAnyOtherDoes(t *testing.T) {
	start := s.Method{Name: "s", Role: s.Start}
	around := []s.Method{
		{Name: "n", Role: s.Listener, On: on("m")}, {Name: "q", Role: s.Router, On: on("m")}, {Name: "nn", Role: s.Listener, On: on("n")},
		{Name: "p", Role: s.Router, On: on("yes")}, {Name: "x", Role: s.Listener, On: on("yes")}, {Name: "y", Role: s.Listener, On: on("yes")},
		{Name: "c", Role: s.Start, On: on("yes")}, {Name: "z", Role: s.Listener, On: on("no")}, {Name: "late", Role: s.Listener, On: on("later")},
	}
	with := func(methods ...s.Method) []s.Method { return append(methods, around...) }
	labels := map[string][]string{"m": {"yes"}, "p": {"later"}}
	for name, c := range map[string]struct {
		methods []s.Method
		labels  map[string][]string
		want    string
	}{
		"start":                       {with(s.Method{Name: "m", Role: s.Start}), nil, "m q n nn"},
		"start router":                {with(s.Method{Name: "m", Role: s.StartRouter}), labels, "m q n nn p x y c late"},
		"listener":                    {with(start, s.Method{Name: "m", Role: s.Listener, On: on("s")}), nil, "m q n nn"},
		"router":                      {with(start, s.Method{Name: "m", Role: s.Router, On: on("s")}), labels, "m q n nn p x y c late"},
		"router that chooses nothing": {with(start, s.Method{Name: "m", Role: s.Router, On: on("s")}), nil, "m q n nn"},
		"router that goes around": {[]s.Method{
			start, {Name: "m", Role: s.Router, On: or(on("s"), on("j"))}, {Name: "a", Role: s.Listener, On: on("go")},
			{Name: "b", Role: s.Listener, On: on("go")}, {Name: "j", Role: s.Listener, On: and(on("a"), on("b"))},
			{Name: "log", Role: s.Listener, On: or(on("a"), on("b"))},
		}, map[string][]string{"m": {"go", "go"}}, "m a b log j m a b log j m"},
		"listener that fires once": {[]s.Method{
			start, {Name: "m", Role: s.Listener, On: or(on("s"), on("x"))}, {Name: "n", Role: s.Listener, On: on("m")}, {Name: "x", Role: s.Listener, On: on("n")},
		}, nil, "m n x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimPrefix(play(t, c.methods, c.labels), "s "); got != c.want {
				t.Fatalf("an ordinary run goes on %s, want %s", got, c.want)
			}
			g := s.NewGraph(c.methods)
			first := s.NewState(g, s.Limits{})
			m, _ := g.Index("m")
			if a := first.Inherit(m); !a.Waiting || a.Seq != 1 || a.Call != 1 || a.Method != m {
				t.Errorf("inherited is %+v", a)
			}
			data, err := first.Encode()
			if err != nil {
				t.Fatal(err)
			}
			state, step, err := s.Decode(g, s.Limits{Run: 1000}, data)
			if err != nil || len(step.Start) != 0 || step.Finished {
				t.Fatalf("decoded it is to start %v, finished %v, %v", step.Start, step.Finished, err)
			}
			if got := playOn(t, c.methods, c.labels, state, state.Active()[:1:1]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if restart := state.Restart(); !restart.Finished {
				t.Errorf("it is not finished: %+v", restart)
			}
		})
	}
}

// A label that is chosen again and again leaves nothing behind in the wave that stands for the
// unknown event.
func TestAnInheritedLoopStaysFlat(t *testing.T) {
	g := s.NewGraph([]s.Method{{Name: "s", Role: s.Start}, {Name: "m", Role: s.Router, On: or(on("s"), on("go")), Emits: []string{"go"}}})
	state := s.NewState(g, s.Limits{})
	a := state.Inherit(1)
	size := 0
	for range 1000 {
		step, err := state.Complete(a.Seq, json.RawMessage(`1`), "go")
		if err != nil || len(step.Start) != 1 {
			t.Fatalf("%+v, %v", step, err)
		}
		a = step.Start[0]
		data, err := state.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if size = max(size, len(data)); len(data) > 400 {
			t.Fatalf("call %d: the state takes %d bytes: %s", a.Seq, len(data), data)
		}
	}
	t.Logf("at most %d bytes", size)
}

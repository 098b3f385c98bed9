package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	s "github.com/weirflow/weir/core/flow/internal/scheduler"
)

func on(name string) *s.Cond      { return &s.Cond{Name: name} }
func and(kids ...*s.Cond) *s.Cond { return &s.Cond{Op: s.And, Children: kids} }
func or(kids ...*s.Cond) *s.Cond  { return &s.Cond{Op: s.Or, Children: kids} }

// play runs a graph to its end, completing calls in the order in which they were started.
// labels holds what each router chooses at its first, second, … call; then it chooses
// nothing. It returns the order of the calls.
func play(t *testing.T, methods []s.Method, labels map[string][]string) string {
	t.Helper()
	state := s.NewState(s.NewGraph(methods), s.Limits{Run: 1000})
	return playOn(t, methods, labels, state, state.Kickoff().Start)
}

// playOn is play from where a state is, with the calls in the queue.
func playOn(t *testing.T, methods []s.Method, labels map[string][]string, state *s.State, queue []*s.Activation) string {
	t.Helper()
	var order []string
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		name := methods[a.Method].Name
		order = append(order, name)
		label := ""
		if list := labels[name]; a.Call <= len(list) {
			label = list[a.Call-1]
		}
		next, err := state.Complete(a.Seq, json.RawMessage(fmt.Sprintf("%q", name)), label)
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, next.Start...)
	}
	return strings.Join(order, " ")
}

// The rules of a wave, each in its smallest form.
func TestWaveOrder(t *testing.T) {
	start := s.Method{Name: "s", Role: s.Start}
	for _, c := range []struct {
		law     string
		methods []s.Method
		labels  map[string][]string
		want    string
	}{
		{"listeners run in order of declaration", []s.Method{start, {Name: "b", Role: s.Listener, On: on("s")}, {Name: "a", Role: s.Listener, On: on("s")}}, nil, "s b a"},
		{"routers run before listeners, the router's own name before both", []s.Method{
			start, {Name: "l", Role: s.Listener, On: on("s")}, {Name: "x", Role: s.Listener, On: on("label")},
			{Name: "r", Role: s.Router, On: on("s")}, {Name: "n", Role: s.Listener, On: on("r")},
		}, map[string][]string{"r": {"label"}}, "s r n l x"},
		{"a label that only a router waits for waits for the first router's own listeners", []s.Method{
			start, {Name: "r", Role: s.Router, On: on("s")}, {Name: "n", Role: s.Listener, On: on("r")}, {Name: "q", Role: s.Router, On: on("label")},
		}, map[string][]string{"r": {"label"}}, "s r n q"},
		{"a label waits for all that follows from the event", []s.Method{
			start, {Name: "r", Role: s.Router, On: on("s")}, {Name: "l", Role: s.Listener, On: on("s")},
			{Name: "ll", Role: s.Listener, On: on("l")}, {Name: "x", Role: s.Listener, On: on("label")},
		}, map[string][]string{"r": {"label"}}, "s r l ll x"},
		{"conditional starts come after listeners, one by one", []s.Method{
			start, {Name: "c", Role: s.Start, On: on("s")}, {Name: "d", Role: s.Start, On: on("s")},
			{Name: "cc", Role: s.Listener, On: on("c")}, {Name: "l", Role: s.Listener, On: on("s")},
		}, nil, "s l c cc d"},
		{"a start-router announces its name, then its label", []s.Method{
			{Name: "x", Role: s.Listener, On: on("label")}, {Name: "n", Role: s.Listener, On: on("e")}, {Name: "e", Role: s.StartRouter},
		}, map[string][]string{"e": {"label"}}, "e n x"},
		{"without a plain start every start is an entry", []s.Method{{Name: "c", Role: s.Start, On: on("x")}, {Name: "d", Role: s.Start, On: on("y")}}, nil, "c d"},
		{"an and joins and starts anew", []s.Method{
			start, {Name: "r", Role: s.Router, On: or(on("s"), on("j"))}, {Name: "a", Role: s.Listener, On: on("go")},
			{Name: "b", Role: s.Listener, On: on("go")}, {Name: "j", Role: s.Listener, On: and(on("a"), on("b"))},
		}, map[string][]string{"r": {"go", "go"}}, "s r a b j r a b j r"},
		{"an or of several fires once", []s.Method{
			start, {Name: "a", Role: s.Listener, On: on("s")}, {Name: "b", Role: s.Listener, On: on("s")}, {Name: "j", Role: s.Listener, On: or(on("a"), on("b"))},
		}, nil, "s a b j"},
		{"an or router fires each time", []s.Method{
			start, {Name: "a", Role: s.Listener, On: on("s")}, {Name: "b", Role: s.Listener, On: on("s")}, {Name: "j", Role: s.Router, On: or(on("a"), on("b"))},
		}, nil, "s a b j j"},
		{"a dead condition never fires", []s.Method{start, {Name: "never", Role: s.Listener, On: or()}}, nil, "s"},
	} {
		if got := play(t, c.methods, c.labels); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.law, got, c.want)
		}
	}
}

// loop is a graph that goes around until its router chooses nothing.
func loop() []s.Method {
	return []s.Method{
		{Name: "s", Role: s.Start},
		{Name: "r", Role: s.Router, On: or(on("s"), on("join")), Emits: []string{"go"}},
		{Name: "a", Role: s.Listener, On: on("go")},
		{Name: "b", Role: s.Listener, On: on("go")},
		{Name: "join", Role: s.Listener, On: and(on("a"), on("b"))},
		{Name: "log", Role: s.Listener, On: or(on("a"), on("b"))},
	}
}

func TestALoopStaysFlat(t *testing.T) {
	for name, methods := range map[string][]s.Method{
		"of listeners":                     loop(),
		"of a router that hears its label": {{Name: "s", Role: s.Start}, {Name: "r", Role: s.Router, On: or(on("s"), on("go")), Emits: []string{"go"}}},
		"of two routers that call the other": {
			{Name: "s", Role: s.Start},
			{Name: "r", Role: s.Router, On: or(on("s"), on("r2")), Emits: []string{"go"}},
			{Name: "r2", Role: s.Router, On: on("go"), Emits: []string{"on"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			early, late := encodedAfter(t, methods, 1_000), encodedAfter(t, methods, 20_000)
			if digits := 80; late > early+digits {
				t.Errorf("after 1,000 calls the state takes %d bytes, after 20,000 it takes %d", early, late)
			}
		})
	}
}

// encodedAfter returns how many bytes the state of a graph takes whose routers always choose
// their first label.
func encodedAfter(t *testing.T, methods []s.Method, calls int) int {
	t.Helper()
	state := s.NewState(s.NewGraph(methods), s.Limits{})
	queue := state.Kickoff().Start
	for range calls {
		a, label := queue[0], ""
		if emits := methods[a.Method].Emits; len(emits) > 0 {
			label = emits[0]
		}
		next, err := state.Complete(a.Seq, json.RawMessage(`"x"`), label)
		if err != nil {
			t.Fatal(err)
		}
		queue = append(slices.Clone(queue[1:]), next.Start...)
	}
	data, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func TestLimitsRefuseTheCallAfter(t *testing.T) {
	g := s.NewGraph(loop())
	state := s.NewState(g, s.Limits{Method: []int{0, 2}})
	queue := state.Kickoff().Start
	var refused []s.Refusal
	for len(queue) > 0 {
		a := queue[0]
		next, _ := state.Complete(a.Seq, nil, map[bool]string{true: "go"}[a.Method == 1])
		queue = append(queue[1:], next.Start...)
		refused = append(refused, next.Refused...)
	}
	if want := []s.Refusal{{Method: 1, Limit: 2}}; !reflect.DeepEqual(refused, want) {
		t.Fatalf("refused %v, want %v", refused, want)
	}
	data, _ := state.Encode()
	_, step, err := s.Decode(g, s.Limits{Method: []int{0, 3}}, data)
	if err != nil || len(step.Start) != 1 || step.Start[0].Call != 3 {
		t.Errorf("with a larger limit the refused call is not made: %+v, %v", step, err)
	}
	_, step, _ = s.Decode(g, s.Limits{Run: 3}, data)
	if len(step.Refused) != 1 || !step.Refused[0].OfRun {
		t.Errorf("the limit of the run does not hold: %+v", step)
	}
}

// randomGraph makes a graph of starts, listeners and routers with nested conditions.
func randomGraph(r *rand.Rand) []s.Method {
	n := 3 + r.IntN(7)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("m", i)
	}
	labels := []string{"x", "y", "z"}
	var cond func(depth int, self string) *s.Cond
	cond = func(depth int, self string) *s.Cond {
		if depth > 0 && r.IntN(2) == 0 {
			kids := []*s.Cond{cond(depth-1, self), cond(depth-1, self)}
			return &s.Cond{Op: s.Op(1 + r.IntN(2)), Children: kids}
		}
		all := append(slices.Clone(labels), names...)
		for {
			if e := all[r.IntN(len(all))]; e != self {
				return on(e)
			}
		}
	}
	methods := make([]s.Method, n)
	for i := range methods {
		m := s.Method{Name: names[i], Role: s.Role(r.IntN(4)), On: cond(2, names[i])}
		if i == 0 || m.Role == s.Start && r.IntN(2) == 0 {
			m.Role, m.On = s.Start, nil
		}
		m.Dynamic = m.Role == s.Router || m.Role == s.StartRouter
		methods[i] = m
	}
	return methods
}

// A state that is encoded and decoded after every event behaves like one that never was.
func TestDecodedStateGoesOnTheSame(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := s.NewGraph(randomGraph(r))
		limits := s.Limits{Run: 60}
		live, stored := s.NewState(g, limits), s.NewState(g, limits)
		live.Kickoff()
		stored.Kickoff()
		for {
			allowed := slices.DeleteFunc(slices.Clone(live.Active()), func(a *s.Activation) bool { return a.Seq > 60 })
			if len(allowed) == 0 {
				break
			}
			a := allowed[r.IntN(len(allowed))]
			label := []string{"", "x", "y", "z"}[r.IntN(4)]
			out := json.RawMessage(fmt.Sprint(a.Seq))
			x, err1 := live.Complete(a.Seq, out, label)
			y, err2 := stored.Complete(a.Seq, out, label)
			if err1 != nil || err2 != nil || describe(x) != describe(y) {
				t.Fatalf("seed %d: call %d: %v %s, decoded %v %s", seed, a.Seq, err1, describe(x), err2, describe(y))
			}
			data, err := stored.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := live.Encode(); !reflect.DeepEqual(generic(again), generic(data)) {
				t.Fatalf("seed %d: call %d:\nlive    %s\ndecoded %s", seed, a.Seq, again, data)
			}
			if stored, _, err = s.Decode(g, limits, data); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, data)
			}
		}
	}
}

func describe(step s.Step) string {
	var b strings.Builder
	for _, a := range step.Start {
		fmt.Fprintf(&b, "%d:%d:%d:%s ", a.Seq, a.Method, a.Call, a.Payload)
	}
	fmt.Fprint(&b, step.Refused, step.Finished)
	return b.String()
}

func generic(data []byte) (v any) {
	_ = json.Unmarshal(data, &v)
	return v
}

func TestDecodeRefusesANewerFormat(t *testing.T) {
	_, _, err := s.Decode(s.NewGraph(nil), s.Limits{}, fmt.Appendf(nil, `{"v":%d}`, s.Version+1))
	if !errors.Is(err, s.ErrVersion) {
		t.Errorf("got %v", err)
	}
}

func TestMethodsThatAreGoneAreDropped(t *testing.T) {
	start, a := s.Method{Name: "s", Role: s.Start}, s.Method{Name: "a", Role: s.Listener, On: on("s")}
	r := s.Method{Name: "r", Role: s.Router, On: on("s"), Dynamic: true}
	state := s.NewState(s.NewGraph([]s.Method{start, r, a}), s.Limits{})
	if _, err := state.Complete(state.Kickoff().Start[0].Seq, nil, ""); err != nil {
		t.Fatal(err)
	}
	data, _ := state.Encode() // r is running; a waits for it
	_, step, err := s.Decode(s.NewGraph([]s.Method{start, a}), s.Limits{}, data)
	if err != nil || len(step.Start) != 1 || step.Start[0].Method != 1 {
		t.Errorf("without the router its wave does not go on: %+v, %v", step, err)
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	g := s.NewGraph(loop())
	const call = `{"seq":1,"method":"s","call":1`
	for _, data := range []string{
		`{`, `[]`, `{"v":1,"calls":"x"}`,
		`{"v":1,"calls":0,"active":[` + call + `}]}`,
		`{"v":1,"calls":1,"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"active":[` + call + `,"in":-1}]}`,
		`{"v":1,"calls":1,"waves":[{"in":0,"events":[]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"in":7,"events":[{"event":"s"}]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"in":1,"events":[{"event":"s"}]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"in":2,"events":[{"event":"s"}]},{"in":1,"events":[{"event":"s"}]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"phase":2,"at":1,"events":[{"event":"s"}]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"phase":3,"events":[{"event":"s"}]}],"active":[` + call + `,"in":1}]}`,
		`{"v":1,"calls":1,"waves":[{"events":[{"event":"s"}]}],"active":[` + call + `}]}`,
		`{"v":2,"calls":2,"waves":[{"events":[{"event":"s"}]}],"active":[` + call + `,"race":1},{"seq":2,"method":"a","call":1,"race":1,"in":1}]}`,
	} {
		if _, _, err := s.Decode(g, s.Limits{}, []byte(data)); err == nil {
			t.Errorf("accepted: %s", data)
		}
	}
}

// FuzzDecode shows that damaged text is an error or a state that works, never a panic.
func FuzzDecode(f *testing.F) {
	g := s.NewGraph(loop())
	state := s.NewState(g, s.Limits{Run: 50})
	queue := state.Kickoff().Start
	for range 12 {
		data, _ := state.Encode()
		f.Add(string(data))
		next, _ := state.Complete(queue[0].Seq, json.RawMessage(`1`), "go")
		queue = append(queue[1:], next.Start...)
	}
	f.Fuzz(func(t *testing.T, data string) {
		state, step, err := s.Decode(g, s.Limits{Run: 50}, []byte(data))
		if err != nil {
			return
		}
		queue := step.Start
		for n := 0; len(queue) > 0 && n < 100; n++ {
			next, err := state.Complete(queue[0].Seq, nil, "go")
			if err != nil {
				t.Fatal(err)
			}
			queue = append(queue[1:], next.Start...)
		}
	})
}

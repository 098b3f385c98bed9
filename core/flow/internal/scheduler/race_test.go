package scheduler_test

import (
	"testing"

	s "github.com/weirflow/weir/core/flow/internal/scheduler"
)

func first(kids ...*s.Cond) *s.Cond { return &s.Cond{Op: s.First, Children: kids} }

// race is a graph in which a and b race for h, beside c, in rounds.
func race() []s.Method {
	return []s.Method{
		{Name: "s", Role: s.Start},
		{Name: "a", Role: s.Listener, On: or(on("s"), on("again"))},
		{Name: "c", Role: s.Listener, On: on("s")},
		{Name: "b", Role: s.Listener, On: or(on("s"), on("again"))},
		{Name: "h", Role: s.Listener, On: first(on("a"), on("b"))},
		{Name: "r", Role: s.Router, On: on("h"), Dynamic: true},
	}
}

// again is state as another process reads it.
func again(t *testing.T, g *s.Graph, state *s.State) *s.State {
	t.Helper()
	data, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	state, _, err = s.Decode(g, s.Limits{}, data)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// The first completion of a race ends the other calls of it, whether the state was stored in
// between or not, and one that lost can win the next round.
func TestTheWinnerOfARaceEndsTheOthers(t *testing.T) {
	for _, stored := range []bool{false, true} {
		g := s.NewGraph(race())
		state := s.NewState(g, s.Limits{})
		complete := func(seq uint64, label string) s.Step {
			if stored {
				state = again(t, g, state)
			}
			step, err := state.Complete(seq, nil, label)
			if err != nil {
				t.Fatal(err)
			}
			return step
		}
		step := complete(state.Kickoff().Start[0].Seq, "")
		if len(step.Start) != 3 || step.Start[0].Race == 0 || step.Start[0].Race != step.Start[2].Race || step.Start[1].Race != 0 {
			t.Fatalf("a, c and b are started as %+v", step.Start)
		}
		a, c, b := step.Start[0].Seq, step.Start[1].Seq, step.Start[2].Seq
		step = complete(a, "")
		if len(step.Cancel) != 1 || step.Cancel[0].Seq != b || len(step.Start) != 1 {
			t.Fatalf("after a: %+v", step)
		}
		if _, err := state.Complete(b, nil, ""); err == nil {
			t.Error("the loser can complete")
		}
		step = complete(complete(step.Start[0].Seq, "").Start[0].Seq, "again")
		if len(step.Start) != 2 {
			t.Fatalf("the next round is %+v", step)
		}
		step = complete(step.Start[1].Seq, "") // now b is first
		if len(step.Cancel) != 1 || len(step.Start) != 1 {
			t.Fatalf("after b: %+v", step)
		}
		complete(complete(step.Start[0].Seq, "").Start[0].Seq, "")
		if step = complete(c, ""); !step.Finished {
			t.Errorf("the run is not finished: %+v", step)
		}
	}
}

// A method that lost a race has had its turn: another call of it is another round, in which
// what waits for the race can run again.
func TestALoserThatIsCalledAgainReadiesTheJoin(t *testing.T) {
	g := s.NewGraph([]s.Method{
		{Name: "s", Role: s.Start},
		{Name: "a", Role: s.Listener, On: on("s")},
		{Name: "b", Role: s.Listener, On: or(or(on("s"), on("other")))},
		{Name: "h", Role: s.Listener, On: first(on("a"), on("b"))},
		{Name: "other", Role: s.Listener, On: on("s")},
	})
	state := s.NewState(g, s.Limits{})
	step, err := state.Complete(state.Kickoff().Start[0].Seq, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{step.Start[0].Seq, step.Start[2].Seq} { // a wins, then other calls b
		if step, err = state.Complete(seq, nil, ""); err != nil || len(step.Start) != 1 {
			t.Fatalf("%+v, %v", step, err)
		}
		state = again(t, g, state) // also while nothing but the lost race tells that b has had its turn
	}
	if step, err = state.Complete(step.Start[0].Seq, nil, ""); err != nil || len(step.Start) != 1 {
		t.Errorf("after b: %+v, %v", step, err)
	}
}

// What a program stored that knew no races can be read.
func TestTheFirstFormatIsRead(t *testing.T) {
	const data = `{"v":1,"calls":3,"methods":{"s":{"calls":1,"done":1},"a":{"calls":1},"b":{"calls":1}},` +
		`"active":[{"seq":2,"method":"a","call":1},{"seq":3,"method":"b","call":1}]}`
	state, step, err := s.Decode(s.NewGraph(race()), s.Limits{}, []byte(data))
	if err != nil || len(step.Start) != 2 {
		t.Fatalf("%+v, %v", step, err)
	}
	if next, err := state.Complete(2, nil, ""); err != nil || len(next.Cancel) != 0 {
		t.Errorf("calls that did not race do now: %+v, %v", next, err)
	}
}

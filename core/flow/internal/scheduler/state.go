package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Limits bounds the calls of a run. Zero or less is no limit.
type Limits struct {
	Run    int
	Method []int // by method number; may be shorter than the graph
}

// Activation is one call of a method, from the moment it is due until it completed.
type Activation struct {
	Seq     uint64 // counts the calls of the run from 1
	Method  int    // number in the graph
	Call    int    // counts the calls of this method from 1
	Payload json.RawMessage
	Race    uint64 // the race it is in: Seq of its first member; 0 is none
	Waiting bool   // for an answer from outside: not to be started
	Cause   uint64 // Seq of the call by whose completion it became due; 0 is the run's beginning
	wave    *wave
}

// Refusal is a call that a limit forbids. It stays due.
type Refusal struct {
	Method int
	Limit  int
	OfRun  bool
}

// Step is what follows from one event: the commands to the runner.
type Step struct {
	Start    []*Activation
	Cancel   []*Activation // lost their race: nothing of them counts any more
	Refused  []Refusal
	Finished bool // nothing is running or due any more
}

// State is the state of one run. It is for one goroutine.
type State struct {
	graph   *Graph
	limits  Limits
	calls   uint64 // Seq of the newest activation
	tick    uint64 // logical time: counts the firings of one-shot listeners
	methods []methodState
	active  []*Activation // due or running, by Seq
	cause   uint64        // Seq of the call whose completion is being followed up
	root    *wave
}

// methodState is what is remembered of one method.
type methodState struct {
	calls     int
	completed int
	done      bool     // completed, or lost a race, and not triggered again since
	fired     uint64   // one-shot: the tick at which it fired; 0 is armed
	seen      []uint64 // events noted toward its condition
}

// NewState returns the state of a run that has not begun.
func NewState(g *Graph, limits Limits) *State {
	return &State{graph: g, limits: limits, methods: make([]methodState, g.Len()), root: &wave{}}
}

// Kickoff begins the run.
func (s *State) Kickoff() Step {
	var step Step
	s.together(s.root, s.graph.entries, nil, &step)
	step.Finished = len(s.active) == 0
	return step
}

// Restart returns the commands for a decoded state: everything that was due or running is
// to be started (again).
func (s *State) Restart() Step {
	var step Step
	for _, a := range s.active {
		if !a.Waiting {
			s.command(a, &step)
		}
	}
	step.Finished = len(s.active) == 0
	return step
}

// Result is what a completed call came to.
type Result struct {
	Output json.RawMessage
	Label  string          // what a router chose; "" is none
	With   json.RawMessage // payload of the label, also for the routers that wait for it; nil: Output
}

// Complete tells that the activation with the given Seq completed, with its output and, for
// a router, the label it chose ("" is none).
func (s *State) Complete(seq uint64, output json.RawMessage, label string) (Step, error) {
	return s.CompleteWith(seq, Result{Output: output, Label: label})
}

// CompleteWith is Complete for a label that has a payload of its own.
func (s *State) CompleteWith(seq uint64, r Result) (Step, error) {
	i, ok := s.find(seq)
	if !ok {
		return Step{}, fmt.Errorf("scheduler: activation %d is not running", seq)
	}
	a := s.active[i]
	var step Step
	s.decide(a, &step)
	s.remove(a)
	m := &s.methods[a.Method]
	m.completed++
	m.done = true
	s.cause = seq
	s.announce(a, r, &step)
	s.cause = 0
	step.Finished = len(s.active) == 0
	return step, nil
}

func (s *State) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(s.active, seq, func(a *Activation, seq uint64) int {
		switch {
		case a.Seq < seq:
			return -1
		case a.Seq > seq:
			return 1
		}
		return 0
	})
}

// Completed returns how often a method completed.
func (s *State) Completed(method int) int { return s.methods[method].completed }

// Called reports whether there was a call of this Seq.
func (s *State) Called(seq uint64) bool { return seq > 0 && seq <= s.calls }

// Active returns the activations that are due or running, in order.
func (s *State) Active() []*Activation { return s.active }

func (s *State) remove(a *Activation) {
	if i, ok := s.find(a.Seq); ok {
		s.active = slices.Delete(s.active, i, i+1)
	}
}

// dispatch makes a call of method due, inside wave w.
func (s *State) dispatch(w *wave, method int, payload json.RawMessage, race uint64, step *Step) {
	m := &s.methods[method]
	if m.done {
		m.done = false
		s.rearmBelow(method, w)
	}
	s.calls++
	m.calls++
	a := &Activation{Seq: s.calls, Method: method, Call: m.calls, Payload: payload, Race: race, Cause: s.cause, wave: w}
	w.live++
	s.active = append(s.active, a)
	s.command(a, step)
}

// command asks for a to be started, or refuses it while a limit forbids it.
func (s *State) command(a *Activation, step *Step) {
	limit := 0
	if a.Method < len(s.limits.Method) {
		limit = s.limits.Method[a.Method]
	}
	switch {
	case limit > 0 && a.Call > limit:
		step.Refused = append(step.Refused, Refusal{Method: a.Method, Limit: limit})
	case s.limits.Run > 0 && a.Seq > uint64(s.limits.Run):
		step.Refused = append(step.Refused, Refusal{Method: a.Method, Limit: s.limits.Run, OfRun: true})
	default:
		step.Start = append(step.Start, a)
	}
}

// triggered returns those of the candidates whose conditions event satisfies.
func (s *State) triggered(candidates []int, event string) []int {
	var out []int
	for _, method := range candidates {
		m, c := &s.methods[method], s.graph.conds[method]
		if c.oneShot && m.fired != 0 || !c.note(&m.seen, event) {
			continue
		}
		m.seen = nil
		if c.oneShot {
			s.tick++
			m.fired = s.tick
		}
		out = append(out, method)
	}
	return out
}

// rearm readies the fired one-shot listeners among methods for another round, but only those
// that fired before wave w began: within one wave each fires once.
func (s *State) rearm(method int, w *wave) {
	if m := &s.methods[method]; m.fired != 0 && m.fired <= w.began {
		m.fired = 0
	}
}

// rearmBelow is the rule for loops of methods: a method that runs again re-arms the one-shot
// listeners that it leads to, and no others. A listener beside the loop stays fired.
func (s *State) rearmBelow(method int, w *wave) {
	if s.graph.reach == nil {
		return
	}
	for word, set := range s.graph.reach[method] {
		for b := 0; set != 0; b, set = b+1, set>>1 {
			if set&1 != 0 {
				s.rearm(s.graph.shots[word*64+b], w)
			}
		}
	}
}

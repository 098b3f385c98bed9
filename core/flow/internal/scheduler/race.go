package scheduler

import (
	"encoding/json"
	"slices"
)

// findGroups numbers the Firsts of the graph and notes for each method which one it races in.
// A method that several name races in the first of them; Build refuses such a graph.
func (g *Graph) findGroups() {
	count := 0
	for i := range g.methods {
		if g.methods[i].On == nil {
			continue
		}
		todo := []*Cond{g.methods[i].On}
		for len(todo) > 0 {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if n.Op == First {
				count++
				g.enter(n, count)
			}
			todo = append(todo, n.Children...)
		}
	}
}

func (g *Graph) enter(first *Cond, group int) {
	for _, leaf := range first.Children {
		if m, ok := g.index[leaf.Name]; ok && leaf.Op == Leaf && g.groups[m] == 0 {
			g.groups[m] = group
		}
	}
}

// together makes the calls of several methods due at the same time. Those of one group, if
// there are at least two, race.
func (s *State) together(w *wave, methods []int, payload json.RawMessage, step *Step) {
	first := s.calls + 1 // the call of methods[0] that is made now
	for i, m := range methods {
		race := uint64(0)
		if group := s.graph.groups[m]; group != 0 {
			same := func(m int) bool { return s.graph.groups[m] == group }
			lead := slices.IndexFunc(methods, same)
			if lead < i || slices.ContainsFunc(methods[i+1:], same) {
				race = first + uint64(lead)
			}
		}
		s.dispatch(w, m, payload, race, step)
	}
}

// decide ends the race that a is in, with a as its winner: the calls of the others are over,
// and nothing follows from them.
func (s *State) decide(a *Activation, step *Step) {
	if a.Race == 0 {
		return
	}
	for _, other := range s.Rivals(a) {
		s.remove(other)
		s.methods[other.Method].done = true // another call of it is another round
		other.wave.alive().live--
		step.Cancel = append(step.Cancel, other)
	}
	a.Race = 0
}

// Rivals returns the other calls of the undecided race that a is in.
func (s *State) Rivals(a *Activation) []*Activation {
	if a.Race == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.active), func(other *Activation) bool { return other == a || other.Race != a.Race })
}

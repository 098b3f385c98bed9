package scheduler

import "fmt"

func (s *State) lookup(seq uint64) (*Activation, error) {
	i, ok := s.find(seq)
	if !ok {
		return nil, fmt.Errorf("scheduler: activation %d is not running", seq)
	}
	return s.active[i], nil
}

// Park makes a call wait for an answer from outside. Restart does not start it.
func (s *State) Park(seq uint64) error {
	a, err := s.lookup(seq)
	if err == nil {
		a.Waiting = true
	}
	return err
}

// Wake ends the wait of a call that is to be started again.
func (s *State) Wake(seq uint64) (Step, error) {
	a, err := s.lookup(seq)
	if err != nil {
		return Step{}, err
	}
	var step Step
	a.Waiting = false
	s.command(a, &step)
	return step, nil
}

// Decide ends the race that a call is in, if any, with that call as the winner, although it
// has not completed: its own work is done.
func (s *State) Decide(seq uint64) (Step, error) {
	a, err := s.lookup(seq)
	if err != nil {
		return Step{}, err
	}
	var step Step
	s.decide(a, &step)
	return step, nil
}

// Inherit enters a call of method that another program made and that waits for an answer, into
// a run of which nothing else is known: what was called before it, and what was to follow from
// the event that triggered it, is not made up. Only for a state in which nothing was called.
func (s *State) Inherit(method int) *Activation {
	if c := s.graph.conds[method]; c != nil && c.oneShot {
		s.tick++
		s.methods[method].fired = s.tick // it was triggered
	}
	w := s.root
	if s.graph.methods[method].Role == Router {
		// Its label will join the wave of an event. Which one that was is not known: one
		// that has no name and no subscribers stands for it.
		w = &wave{parent: s.root, began: s.tick, events: []event{{}}, cursor: 1, router: true}
		s.root.live++
	}
	var step Step // asks to start it, which its program did
	s.dispatch(w, method, nil, 0, &step)
	a := s.active[len(s.active)-1]
	a.Waiting = true
	return a
}

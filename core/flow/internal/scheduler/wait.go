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

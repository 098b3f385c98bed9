package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// ErrOver is returned by a view of the state when the method it belongs to has returned.
var ErrOver = errors.New("the method has returned; its view of the state is closed")

// State is one call's view of the flow's state. It sees what other methods have committed,
// at the latest moment, and the call's own updates on top. It is safe for the goroutines of
// one method.
type State[S any] struct {
	mu      sync.Mutex
	call    *activation
	current *S               // private copy; nil when it must be made anew
	version uint64           // of the committed state that current is based on
	updates []func(*S) error // applied to current, in order
	viewed  bool             // current has been shown to a View, which may have changed it
	closed  bool
	sealed  json.RawMessage // current, encoded when the method returned
}

// View calls read with the state as this call sees it, and returns read's error. What read
// does to the state is lost by the next Update or the end of the method. It must not call
// View or Update itself.
func (s *State[S]) View(read func(state *S) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return err
	}
	s.viewed = true
	return read(s.current)
}

// Update calls change, which may alter the state. Others see the alteration, and it is
// stored, when the method completes; if the method fails, never. When change returns an
// error, or panics, what it did is undone.
//
// If other methods commit meanwhile, change is called again on the state they left, at the
// latest when the method completes. So it must do nothing but change the state, at once,
// depend on nothing but the state and values that stay as they are, and not call View or
// Update itself.
func (s *State[S]) Update(change func(state *S) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewed {
		s.current = nil // it may not be what it was
	}
	if err := s.refresh(); err != nil {
		return err
	}
	current := s.current
	s.current = nil // until change has succeeded
	if err := change(current); err != nil {
		return err
	}
	s.current = current
	s.updates = append(s.updates, change)
	return nil
}

// refresh makes current the newest committed state with this call's updates.
func (s *State[S]) refresh() error {
	if s.closed {
		return ErrOver
	}
	base, version := s.call.engine.snapshot()
	if s.current != nil && s.version == version {
		return nil
	}
	return s.rebuild(base, version)
}

func (s *State[S]) rebuild(base json.RawMessage, version uint64) error {
	state := new(S)
	if err := decodeJSON(base, state); err != nil {
		return fmt.Errorf("the committed state does not fit %T: %w", *state, err)
	}
	for _, change := range s.updates {
		if err := change(state); err != nil {
			return fmt.Errorf("an update no longer applies to what other methods committed: %w", err)
		}
	}
	s.current, s.version, s.viewed = state, version, false
	return nil
}

// committer is how the engine takes a completed call's updates over.
type committer interface {
	// commit returns the committed state base, of the given version, with the call's updates
	// applied, or nil if there are none.
	commit(base json.RawMessage, version uint64) (json.RawMessage, error)
}

// seal closes the view when the method has returned, and encodes the result while still on
// the method's goroutine.
func (s *State[S]) seal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if len(s.updates) == 0 || s.current == nil || s.viewed {
		return nil
	}
	raw, err := encodeState(*s.current)
	s.sealed = raw
	return err
}

func (s *State[S]) commit(base json.RawMessage, version uint64) (next json.RawMessage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.updates) == 0 {
		return nil, nil
	}
	next = s.sealed
	if next == nil || s.version != version {
		defer func() {
			if p := recover(); p != nil {
				next, err = nil, &PanicError{Value: p}
			}
		}()
		if err := s.rebuild(base, version); err != nil {
			return nil, err
		}
		if next, err = encodeState(*s.current); err != nil {
			return nil, err
		}
	}
	if bytes.Equal(next, base) {
		return nil, nil
	}
	return next, nil
}

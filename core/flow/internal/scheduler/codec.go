package scheduler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Version is the format of an encoded State. A decoder refuses a newer one; fields that it
// does not know in its own version are ignored. Version 2 added races and calls that wait; a
// state of version 1 reads as one that has neither.
const Version = 2

// ErrVersion is returned for a state in a newer format than this package knows.
var ErrVersion = errors.New("scheduler state has a newer format")

type encodedState struct {
	Version int                      `json:"v"`
	Calls   uint64                   `json:"calls"`
	Tick    uint64                   `json:"tick,omitempty"`
	Methods map[string]encodedMethod `json:"methods,omitempty"`
	Waves   []encodedWave            `json:"waves,omitempty"`
	Active  []encodedActivation      `json:"active,omitempty"`
}

type encodedMethod struct {
	Calls     int      `json:"calls,omitempty"`
	Completed int      `json:"done,omitempty"`
	Again     bool     `json:"again,omitempty"` // triggered again since it completed
	Lost      bool     `json:"lost,omitempty"`  // never completed, but called and lost a race
	Fired     uint64   `json:"fired,omitempty"`
	Seen      []string `json:"seen,omitempty"`
}

// encodedWave refers to waves by their place in the list, counted from 1; 0 is the root.
type encodedWave struct {
	Parent  int             `json:"in,omitempty"`
	Began   uint64          `json:"began,omitempty"`
	Phase   phase           `json:"phase,omitempty"`
	Cursor  int             `json:"at,omitempty"`
	Events  []encodedEvent  `json:"events"`
	Queue   []string        `json:"queue,omitempty"`
	Checked bool            `json:"checked,omitempty"`
	Then    string          `json:"then,omitempty"`
	With    json.RawMessage `json:"with,omitempty"`
}

type encodedEvent struct {
	Name    string          `json:"event"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Own     bool            `json:"own,omitempty"`
}

type encodedActivation struct {
	Seq     uint64          `json:"seq"`
	Method  string          `json:"method"`
	Call    int             `json:"call"`
	Wave    int             `json:"in,omitempty"`
	Race    uint64          `json:"race,omitempty"`
	Waiting bool            `json:"waits,omitempty"`
	Cause   uint64          `json:"by,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Encode returns s as JSON. Its size depends on the graph and on what is due or pending, not
// on how many calls were made.
func (s *State) Encode() ([]byte, error) {
	e := encodedState{Version: Version, Calls: s.calls, Tick: s.tick, Methods: make(map[string]encodedMethod, len(s.methods))}
	for i := range s.methods {
		if m := &s.methods[i]; m.calls > 0 || m.seen != nil {
			e.Methods[s.graph.methods[i].Name] = s.encodeMethod(i)
		}
	}
	ids := map[*wave]int{s.root: 0}
	var waves []*wave
	for _, a := range s.active {
		for w := a.wave.alive(); ; w = w.parent.alive() {
			if _, have := ids[w]; have {
				break
			}
			waves = append(waves, w)
			ids[w] = len(waves)
		}
		e.Active = append(e.Active, encodedActivation{
			Seq: a.Seq, Method: s.graph.methods[a.Method].Name, Call: a.Call, Wave: ids[a.wave.alive()], Race: a.Race, Waiting: a.Waiting, Cause: a.Cause, Payload: a.Payload,
		})
	}
	for _, w := range waves {
		e.Waves = append(e.Waves, s.encodeWave(w, ids[w.parent.alive()]))
	}
	return json.Marshal(e)
}

func (s *State) encodeMethod(i int) encodedMethod {
	m := &s.methods[i]
	e := encodedMethod{Calls: m.calls, Completed: m.completed, Again: m.completed > 0 && !m.done, Lost: m.completed == 0 && m.done, Fired: m.fired}
	if m.seen != nil {
		for bit, name := range s.graph.conds[i].names {
			if m.seen[bit/64]&(1<<(bit%64)) != 0 {
				e.Seen = append(e.Seen, name)
			}
		}
	}
	return e
}

func (s *State) encodeWave(w *wave, parent int) encodedWave {
	e := encodedWave{
		Parent: parent, Began: w.began, Phase: w.phase, Cursor: w.cursor,
		Checked: w.checked, Then: w.then, With: w.with,
	}
	for _, ev := range w.events {
		e.Events = append(e.Events, encodedEvent{ev.name, ev.payload, ev.own})
	}
	for _, m := range w.queue {
		e.Queue = append(e.Queue, s.graph.methods[m].Name)
	}
	return e
}

// Decode reads a state that Encode wrote, for a graph that may have changed since: what it
// says about methods that are gone is dropped, and the steps that follow from dropping a call
// are in the returned commands, which are those of Restart. Damaged text is an error.
func Decode(g *Graph, limits Limits, data []byte) (*State, Step, error) {
	var e encodedState
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, Step{}, fmt.Errorf("scheduler state: %w", err)
	}
	if e.Version > Version {
		return nil, Step{}, fmt.Errorf("%w: %d, this program knows %d", ErrVersion, e.Version, Version)
	}
	s := NewState(g, limits)
	s.calls, s.tick = e.Calls, e.Tick
	for name, m := range e.Methods {
		if i, ok := g.index[name]; ok {
			s.decodeMethod(i, m)
		}
	}
	waves, err := s.decodeWaves(e.Waves)
	if err != nil {
		return nil, Step{}, err
	}
	if err := s.decodeActive(e.Active, waves); err != nil {
		return nil, Step{}, err
	}
	return s, s.Restart(), nil
}

func (s *State) decodeMethod(i int, e encodedMethod) {
	m := &s.methods[i]
	m.calls, m.completed, m.done, m.fired = e.Calls, e.Completed, e.Lost || e.Completed > 0 && !e.Again, e.Fired
	c := s.graph.conds[i]
	if c == nil {
		return
	}
	if !c.oneShot {
		m.fired = 0
	}
	for _, name := range e.Seen {
		c.note(&m.seen, name)
	}
}

func (s *State) decodeWaves(list []encodedWave) ([]*wave, error) {
	waves := make([]*wave, len(list)+1)
	waves[0] = s.root
	for i := range list {
		waves[i+1] = &wave{}
	}
	for i, e := range list {
		if e.Parent < 0 || e.Parent > len(list) || !e.sound() {
			return nil, fmt.Errorf("scheduler state: wave %d is damaged", i+1)
		}
		w := waves[i+1]
		w.parent, w.began, w.phase, w.cursor = waves[e.Parent], e.Began, e.Phase, e.Cursor
		w.checked, w.then, w.with = e.Checked, e.Then, e.With
		w.parent.live++
		for _, ev := range e.Events {
			w.events = append(w.events, event{ev.Name, ev.Payload, ev.Own})
		}
		for _, name := range e.Queue {
			if m, ok := s.graph.index[name]; ok {
				w.queue = append(w.queue, m)
			}
		}
	}
	return waves, acyclic(waves)
}

// sound reports whether the wave's place in its own list of events makes sense.
func (e *encodedWave) sound() bool {
	if len(e.Events) == 0 || e.Cursor < 0 || e.Cursor > len(e.Events) || e.Phase > starting {
		return false
	}
	return e.Phase != starting || e.Cursor < len(e.Events)
}

// acyclic refuses waves that are inside themselves.
func acyclic(waves []*wave) error {
	for i, w := range waves {
		steps := 0
		for ; w.parent != nil; w = w.parent {
			if steps++; steps > len(waves) {
				return fmt.Errorf("scheduler state: wave %d is inside itself", i)
			}
		}
	}
	return nil
}

// decodeActive restores the calls, and lets the waves of calls that are dropped go on.
func (s *State) decodeActive(list []encodedActivation, waves []*wave) error {
	var dropped []*wave
	races := map[uint64]int{}
	for _, e := range list {
		at, together := races[e.Race]
		races[e.Race] = e.Wave
		if e.Wave < 0 || e.Wave >= len(waves) || e.Seq == 0 || e.Seq > s.calls || e.Race != 0 && together && at != e.Wave {
			return fmt.Errorf("scheduler state: call %d of method %q is damaged", e.Seq, e.Method)
		}
		w := waves[e.Wave]
		w.live++
		m, ok := s.graph.index[e.Method]
		if !ok {
			dropped = append(dropped, w)
			continue
		}
		s.active = append(s.active, &Activation{Seq: e.Seq, Method: m, Call: e.Call, Race: e.Race, Waiting: e.Waiting, Cause: e.Cause, Payload: e.Payload, wave: w})
	}
	slices.SortFunc(s.active, func(a, b *Activation) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, w := range waves[1:] {
		if w.live == 0 {
			return fmt.Errorf("scheduler state: nothing is running in wave %d", i+1)
		}
	}
	var more Step // what starts now is in s.active too
	for _, w := range dropped {
		w = w.alive()
		w.live--
		s.advance(w, &more)
	}
	return nil
}

package scheduler

import (
	"encoding/json"
	"slices"
)

// event is one entry of a wave's list.
type event struct {
	name    string
	payload json.RawMessage
	own     bool // the routers of the event get its payload, not that of the wave's first event
}

// phase is the step a wave is at.
type phase uint8

const (
	routing   phase = iota // cursor: the next event to look for routers of
	listening              // cursor: the next event to deliver to listeners
	starting               // cursor: the event whose conditional starts run
)

// wave is what follows from one event, see the package comment. The root of a run is a wave
// without events.
type wave struct {
	parent  *wave
	into    *wave // set when dissolved: the wave its children belong to now
	live    int   // activations and waves inside that are not over
	began   uint64
	phase   phase
	cursor  int
	events  []event
	queue   []int // methods still to run, one after another
	router  bool  // a router was started and may yet add a label; not stored, since only its start asks
	checked bool  // starting: the conditions of the starts have been evaluated
	then    string
	with    json.RawMessage // payload of then; nil: that of the first event
}

// alive follows dissolved waves to the one that stands for w now.
func (w *wave) alive() *wave {
	for w.into != nil {
		w = w.into
	}
	return w
}

// announce begins the wave of a completed activation, in the activation's place.
func (s *State) announce(a *Activation, r Result, step *Step) {
	output, label := r.Output, r.Label
	w, method := a.wave.alive(), s.graph.methods[a.Method]
	if s.graph.of(label).none() {
		label = ""
	}
	child := &wave{parent: w, began: s.tick}
	switch method.Role {
	case Router:
		w.router = false
		if label != "" {
			w.events = append(w.events, r.event(label))
		}
	case StartRouter:
		child.then, child.with = label, r.With
	case Start, Listener:
	}
	if !s.graph.of(method.Name).none() {
		child.events = []event{{name: method.Name, payload: output}}
	}
	if child.then != "" && len(child.events) == 0 {
		child.events, child.then, child.with = []event{r.event(label)}, "", nil
	}
	if len(child.events) == 0 {
		w.live--
		s.advance(w, step)
		return
	}
	s.advance(child, step)
	s.dissolve(w)
}

// advance takes w as far as it goes without waiting and, when it is over, the waves around
// it.
func (s *State) advance(w *wave, step *Step) {
	for w != s.root {
		if w.live > 0 {
			s.dissolve(w)
			return
		}
		if s.proceed(w, step) {
			continue
		}
		w = w.parent.alive()
		w.live--
	}
}

// proceed moves w to its next step that starts something. It reports false when there is
// none.
func (s *State) proceed(w *wave, step *Step) bool {
	for {
		switch w.phase {
		case routing:
			if s.next(w, w.routed(), step) {
				w.router = true
				return true
			}
			if w.cursor == len(w.events) {
				w.phase, w.cursor = listening, 0
				continue
			}
			s.forget(w)
			name := w.events[w.cursor].name
			w.queue = s.triggered(s.graph.of(name).routers, name)
			w.cursor++
		case listening:
			if w.cursor == len(w.events) {
				if w.then == "" {
					return false
				}
				w.again(s.tick)
				continue
			}
			w.phase, w.checked = starting, false
			if s.listen(w, step) {
				return true
			}
		case starting:
			if s.begin(w, step) {
				return true
			}
			w.phase = listening
			w.cursor++
		}
	}
}

// forget drops the event before the cursor, whose routers have all run, if nothing else waits
// for it. Otherwise a router that goes on with its own label would make the wave grow with
// each round.
func (s *State) forget(w *wave) {
	last := w.cursor - 1
	if last < 1 {
		return // the first one's payload is that of the wave
	}
	if sub := s.graph.of(w.events[last].name); len(sub.listeners)+len(sub.starts) == 0 {
		w.events = slices.Delete(w.events, last, last+1)
		w.cursor--
	}
}

// again makes w the wave of a start-router's label, which follows that of its name.
func (w *wave) again(tick uint64) {
	payload := w.with
	if payload == nil {
		payload = w.events[0].payload
	}
	w.events = []event{{name: w.then, payload: payload}}
	w.then, w.with, w.phase, w.cursor, w.began = "", nil, routing, 0, tick
}

// event is the one that label announces.
func (r Result) event(label string) event {
	if r.With != nil {
		return event{name: label, payload: r.With, own: true}
	}
	return event{name: label, payload: r.Output}
}

// routed is the payload for the routers in the queue, which the event before the cursor
// triggered.
func (w *wave) routed() json.RawMessage {
	if w.cursor > 0 && w.events[w.cursor-1].own {
		return w.events[w.cursor-1].payload
	}
	return w.events[0].payload
}

// next starts the first method of the queue.
func (s *State) next(w *wave, payload json.RawMessage, step *Step) bool {
	if len(w.queue) == 0 {
		return false
	}
	method := w.queue[0]
	w.queue = w.queue[1:]
	s.dispatch(w, method, payload, 0, step)
	return true
}

// listen starts the listeners of the event at the cursor. A label, that is any event but the
// first, re-arms the one-shot listeners that wait for it.
func (s *State) listen(w *wave, step *Step) bool {
	e := w.events[w.cursor]
	candidates := s.graph.of(e.name).listeners
	if w.cursor > 0 {
		for _, m := range candidates {
			s.rearm(m, w)
		}
	}
	batch := s.triggered(candidates, e.name)
	s.together(w, batch, e.payload, step)
	return len(batch) > 0
}

// begin starts the next conditional start of the event at the cursor.
func (s *State) begin(w *wave, step *Step) bool {
	if !w.checked {
		name := w.events[w.cursor].name
		w.queue = s.triggered(s.graph.of(name).starts, name)
		w.checked = true
	}
	return s.next(w, nil, step)
}

// dissolve removes a wave that has nothing left to do but to wait for what is inside it,
// which the wave around it can do as well.
func (s *State) dissolve(w *wave) {
	if w == s.root || w.into != nil || w.live == 0 || s.pending(w) {
		return
	}
	up := w.parent.alive()
	up.live += w.live - 1
	w.into, w.events, w.queue = up, nil, nil // an activation may hold on to w for long
}

// pending reports whether w may start something after the activations and waves that are
// inside it now.
func (s *State) pending(w *wave) bool {
	if w.router || w.then != "" || len(w.queue) > 0 {
		return true
	}
	from := 0 // first event whose listeners are yet to be looked for
	switch w.phase {
	case routing:
		for _, e := range w.events[w.cursor:] {
			if len(s.graph.of(e.name).routers) > 0 {
				return true
			}
		}
	case listening:
		from = w.cursor
	case starting:
		if !w.checked && len(s.graph.of(w.events[w.cursor].name).starts) > 0 {
			return true
		}
		from = w.cursor + 1
	}
	for _, e := range w.events[from:] {
		if sub := s.graph.of(e.name); len(sub.listeners)+len(sub.starts) > 0 {
			return true
		}
	}
	return false
}

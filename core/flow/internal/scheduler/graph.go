// Package scheduler decides what runs next in a flow. It is a pure state machine: events go
// in (the flow was kicked off, a method completed), commands come out (start these methods,
// the flow is finished), and between two calls its whole state can be encoded, stored, and
// decoded in another process. It has no goroutines, no clock and no I/O, and it never calls
// itself: a loop of a hundred thousand rounds needs no more stack or heap than one of ten.
//
// # Waves
//
// What follows from one event is a wave. Its steps, in order:
//
//  1. Routers. Those that the event triggers run one after another, each with the payload of
//     the event; the label that one emits joins the wave's list of events, and when its turn
//     comes may trigger further routers.
//  2. Listeners. For each event of the list in turn: all the listeners that it triggers run
//     at the same time, then the conditional starts that it triggers, one after another.
//
// A method that completes announces an event of its own name, which begins a wave inside the
// one that the method belongs to; a step is over when all waves inside it are. When nothing
// is left to do in a wave but to wait for the waves inside, it dissolves and they move up.
// That is what keeps a loop flat.
//
// # Conditions
//
// A method's condition is a tree of And and Or over event names. Each event that a condition
// names is remembered until the condition is satisfied, and then all are forgotten. A
// listener whose condition is an Or of several alternatives fires once and is re-armed when
// the flow comes around again, see State.rearm.
//
// # Races
//
// The members of a First that one event starts together race: the first whose work is done
// wins, and the calls of the others are over, see State.decide. What follows from the winner
// is no part of the race.
package scheduler

import "slices"

// Role is what a method is to the scheduler.
type Role uint8

// The roles. A StartRouter is a start whose result is also a label.
const (
	Start Role = iota
	Listener
	Router
	StartRouter
)

func (r Role) isStart() bool  { return r == Start || r == StartRouter }
func (r Role) isRouter() bool { return r == Router || r == StartRouter }

// Method is one node of the graph.
type Method struct {
	Name    string
	Role    Role
	On      *Cond    // nil: for a start, unconditional; else never triggered
	Emits   []string // labels of a router
	Dynamic bool     // a router that may emit any label
}

// Graph is a compiled set of methods. It is immutable.
type Graph struct {
	methods []Method
	index   map[string]int
	conds   []*condition // by method; nil without one
	subs    map[string]*subscribers
	entries []int      // starts to run at kickoff
	reach   [][]uint64 // by method: bit set of the one-shot listeners below it
	shots   []int      // the one-shot listeners: method by bit
	groups  []int      // by method: the First it races in, from 1; 0 is none
}

// subscribers are the methods whose condition names an event, in order of declaration.
type subscribers struct {
	routers, listeners, starts []int
}

var noSubscribers = &subscribers{}

func (s *subscribers) none() bool { return len(s.routers)+len(s.listeners)+len(s.starts) == 0 }

// NewGraph compiles methods, whose names must be unique.
func NewGraph(methods []Method) *Graph {
	g := &Graph{
		methods: methods,
		index:   make(map[string]int, len(methods)),
		conds:   make([]*condition, len(methods)),
		subs:    make(map[string]*subscribers, len(methods)),
		groups:  make([]int, len(methods)),
	}
	for i, m := range methods {
		g.index[m.Name] = i
		if m.On == nil {
			continue
		}
		c := compile(m.On)
		c.oneShot = m.Role == Listener && (m.On.Op == Or || m.On.Op == First) && len(m.On.Children) > 1
		g.conds[i] = c
		if c.oneShot {
			g.shots = append(g.shots, i)
		}
		for _, name := range c.names {
			g.subscribe(name, i, m.Role)
		}
	}
	g.findGroups()
	g.entries = entries(methods)
	g.findReach()
	return g
}

func (g *Graph) subscribe(event string, method int, role Role) {
	s := g.subs[event]
	if s == nil {
		s = &subscribers{}
		g.subs[event] = s
	}
	switch {
	case role.isStart():
		s.starts = append(s.starts, method)
	case role.isRouter():
		s.routers = append(s.routers, method)
	default:
		s.listeners = append(s.listeners, method)
	}
}

// of returns the subscribers of an event; none for one that nobody knows.
func (g *Graph) of(event string) *subscribers {
	if s := g.subs[event]; s != nil {
		return s
	}
	return noSubscribers
}

// entries picks the starts without a condition or, if there are none, all starts.
func entries(methods []Method) []int {
	var plain, all []int
	for i, m := range methods {
		if !m.Role.isStart() {
			continue
		}
		all = append(all, i)
		if m.On == nil {
			plain = append(plain, i)
		}
	}
	if len(plain) > 0 {
		return plain
	}
	return all
}

// Len returns the number of methods.
func (g *Graph) Len() int { return len(g.methods) }

// Index returns the number of the method called name.
func (g *Graph) Index(name string) (int, bool) {
	i, ok := g.index[name]
	return i, ok
}

// Method returns method number i.
func (g *Graph) Method(i int) Method { return g.methods[i] }

// successors calls yield for each method that method i can lead to directly.
func (g *Graph) successors(i int, labels []int, yield func(int)) {
	each := func(event string) {
		s := g.of(event)
		for _, list := range [][]int{s.routers, s.listeners, s.starts} {
			for _, m := range list {
				yield(m)
			}
		}
	}
	m := g.methods[i]
	each(m.Name)
	for _, l := range m.Emits {
		each(l)
	}
	if m.Dynamic {
		for _, l := range labels {
			yield(l)
		}
	}
}

// labelListeners returns the methods whose conditions name an event that is no method: what
// a dynamic router may lead to.
func (g *Graph) labelListeners() []int {
	var out []int
	for i, c := range g.conds {
		if c == nil {
			continue
		}
		isLabel := func(name string) bool { _, isMethod := g.index[name]; return !isMethod }
		if slices.ContainsFunc(c.names, isLabel) {
			out = append(out, i)
		}
	}
	return out
}

// findReach notes for each method which one-shot listeners lie below it. Methods of one
// cycle share a set.
func (g *Graph) findReach() {
	if len(g.shots) == 0 {
		return
	}
	bit := make(map[int]int, len(g.shots))
	for b, m := range g.shots {
		bit[m] = b
	}
	words := (len(g.shots) + 63) / 64
	labels := g.labelListeners()
	g.reach = make([][]uint64, len(g.methods))
	for _, comp := range g.components() {
		set := make([]uint64, words)
		for _, m := range comp {
			g.successors(m, labels, func(next int) {
				if b, ok := bit[next]; ok {
					set[b/64] |= 1 << (b % 64)
				}
				for w, v := range g.reach[next] { // nil inside the component itself
					set[w] |= v
				}
			})
		}
		for _, m := range comp {
			g.reach[m] = set
		}
	}
}

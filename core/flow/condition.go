package flow

import (
	"reflect"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// A Condition says which events a method waits for. Events are names: each completed method
// announces its own name, and a router also announces the label it chose. Handles and labels
// are conditions, and Or, FirstOf, And, On and Any combine them; there are no others.
type Condition interface {
	condition() *node
}

// A Trigger is a Condition whose event carries a payload of type P, so that the compiler
// checks a method's parameter against what the event delivers.
type Trigger[P any] interface {
	Condition
	payload(unused P)
}

// A Handle stands for a defined method. As a condition it is the completion of that method,
// and its payload is the method's output. Handles are values; using one with another builder
// than its own is a build error.
type Handle[P any] struct {
	name  string
	owner any
}

// Name returns the method's name.
func (h Handle[P]) Name() string { return h.name }

func (h Handle[P]) condition() *node {
	return &node{op: scheduler.Leaf, name: h.name, kind: methodLeaf, payload: reflect.TypeFor[P](), owner: h.owner}
}

func (Handle[P]) payload(P) {}

// A Label is a branch that a router can choose, and as a condition the event of that choice.
// P is the type of the payload that travels with it. Labels are constants:
//
//	const refund flow.Label[Order] = "refund"
//
// Labels and methods share one namespace, so a declared label must not be the name of a
// method of the same flow.
type Label[P any] string

func (l Label[P]) condition() *node {
	return &node{op: scheduler.Leaf, name: string(l), kind: labelLeaf, payload: reflect.TypeFor[P]()}
}

func (Label[P]) payload(P) {}

// On is the completion of the method called name, for a method that is defined later or in
// another place, as in a loop. Build checks that the method exists (a warning if not, since
// nothing would ever trigger) and that its output has the type P.
func On[P any](name string) Trigger[P] {
	return trigger[P]{&node{op: scheduler.Leaf, name: name, kind: methodLeaf, payload: reflect.TypeFor[P]()}}
}

// Or is satisfied by the first of its alternatives, whose payload is delivered.
//
// A listener (not a router) that waits for an Or of two or more alternatives, or for a FirstOf, is a one-shot
// join: once it has run, further alternatives are ignored until the flow comes around again,
// that is, until a method that leads to the listener runs another time or a later router
// emits one of its labels. An Or of one alternative is a plain trigger.
func Or[P any](first Trigger[P], more ...Trigger[P]) Trigger[P] {
	n := &node{op: scheduler.Or, children: []*node{childOf(first)}}
	for _, t := range more {
		n.children = append(n.children, childOf(t))
	}
	return trigger[P]{n}
}

// FirstOf is an Or whose members race: of those that one event starts together, the first
// that completes wins. The contexts of the others end, with ErrLost as their cause; what they
// do to the state or return counts no more, and nothing follows from them. Members that
// different events start do not race, and FirstOf is a plain Or of them.
//
// A member that fails is out of the race, and its error does not matter if another one wins;
// if all fail, the run fails with all their errors. What waits for the FirstOf is no part of
// the race and never canceled by it. The run does not wait for the losers before it goes on,
// but it does before it ends.
//
// Members are methods (handles or On), at least two: listeners, or starts without When. A
// method can race in one FirstOf only.
func FirstOf[P any](first, second Trigger[P], more ...Trigger[P]) Trigger[P] {
	n := &node{op: scheduler.First, children: []*node{childOf(first), childOf(second)}}
	for _, t := range more {
		n.children = append(n.children, childOf(t))
	}
	return trigger[P]{n}
}

// And is satisfied once every one of its conditions has been; the payload is that of the
// last one. Events are remembered until then, over the iterations of a loop too, and each
// counts once; when the method has been triggered the join starts anew. And without
// conditions is a build error.
func And(all ...Condition) Trigger[any] {
	n := &node{op: scheduler.And}
	for _, c := range all {
		n.children = append(n.children, childOf(c))
	}
	return trigger[any]{n}
}

// Any is c for a method that takes any payload, or none: it gives conditions with different
// payloads one type. The method's parameter is decoded JSON, with numbers as json.Number.
func Any(c Condition) Trigger[any] {
	return trigger[any]{childOf(c)}
}

type trigger[P any] struct{ n *node }

func (t trigger[P]) condition() *node { return t.n }
func (trigger[P]) payload(P)          {}

// leafKind tells what a leaf claims its name to be.
type leafKind int

const (
	methodLeaf leafKind = iota
	labelLeaf
)

// node is the tree that a condition is made of, with the types Build checks.
type node struct {
	op       scheduler.Op
	name     string
	kind     leafKind
	payload  reflect.Type
	owner    any
	children []*node
}

// childOf is c's tree, or nil for a nil condition, which Build reports.
func childOf(c Condition) *node {
	if c == nil {
		return nil
	}
	return c.condition()
}

package flow

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// labelSpec is one label of an Emits.
type labelSpec struct {
	name    string
	payload reflect.Type
	wrong   bool // not a Label
}

func newLabelSpec(c Condition) labelSpec {
	n := childOf(c)
	if n == nil || n.op != scheduler.Leaf || n.kind != labelLeaf {
		return labelSpec{wrong: true}
	}
	return labelSpec{name: n.name, payload: n.payload}
}

// declared is the part of a method that does not depend on the type of the state.
type declared struct {
	name    string
	kind    kind
	on      *node
	in, out reflect.Type
	nilFn   bool
	*methodConfig
}

// condition is the condition that counts: a start waits for its When.
func (d *declared) condition() *node {
	if d.kind.isStart() {
		return d.when
	}
	return d.on
}

// validator collects what is wrong with a set of methods.
type validator struct {
	owner   any // the builder the handles must come from
	methods []declared
	index   map[string]int
	labels  map[string]reflect.Type
	emitted map[string][]int // label -> routers that declare it
	found   []Diagnostic
	outputs int
	races   map[string]string // by method: who waits for the FirstOf it races in
}

func (v *validator) reportf(s Severity, c Code, method, event, format string, args ...any) {
	v.found = append(v.found, Diagnostic{Severity: s, Code: c, Method: method, Event: event, Text: fmt.Sprintf(format, args...)})
}

// validate finds everything that keeps the methods from making a graph.
func validate(flow string, owner any, methods []declared) []Diagnostic {
	v := &validator{owner: owner, methods: methods, index: map[string]int{}, labels: map[string]reflect.Type{}, emitted: map[string][]int{}, races: map[string]string{}}
	if flow == "" {
		v.reportf(Error, EmptyName, "", "", "the flow has no name")
	}
	for i := range methods {
		v.declare(i)
	}
	for i := range methods {
		v.role(&methods[i])
		v.emits(&methods[i])
	}
	for i := range methods {
		m := &methods[i]
		if m.hasWhen && m.when == nil {
			v.reportf(Error, NilCondition, m.name, "", "When has no condition")
		}
		v.conditions(m, m.on)
		v.conditions(m, m.when)
	}
	if v.outputs > 1 {
		v.reportf(Error, ManyOutputs, "", "", "%d methods have the option Output; one can", v.outputs)
	}
	return v.found
}

// declare enters a method's name and labels.
func (v *validator) declare(i int) {
	m := &v.methods[i]
	if m.name == "" {
		v.reportf(Error, EmptyName, "", "", "method number %d has no name", i+1)
	}
	if _, dup := v.index[m.name]; dup {
		v.reportf(Error, DuplicateMethod, m.name, "", "the name is taken by an earlier method")
	}
	v.index[m.name] = i
	if m.nilFn {
		v.reportf(Error, NilFunction, m.name, "", "it has no function")
	}
	for _, l := range m.emits {
		v.emitted[l.name] = append(v.emitted[l.name], i)
	}
}

// role checks the options against the kind of the method.
func (v *validator) role(m *declared) {
	if m.hasWhen && !m.kind.isStart() {
		v.reportf(Error, MisplacedOption, m.name, "", "When is for starts")
	}
	if len(m.emits) > 0 && !m.kind.isRouter() {
		v.reportf(Error, MisplacedOption, m.name, "", "Emits is for routers")
	}
	if m.misplaced {
		v.reportf(Error, MisplacedOption, m.name, "", "Review is for Start and Listen; its outcomes are the labels")
	}
	if r := m.review; r != nil && r.Default != "" && !slices.Contains(r.Outcomes, r.Default) {
		v.reportf(Error, MisplacedOption, m.name, string(r.Default), "the default %q of its Review is not one of the outcomes", r.Default)
	}
	if m.isOutput {
		v.outputs++
	}
}

// emits checks the labels of a router.
func (v *validator) emits(m *declared) {
	for _, l := range m.emits {
		switch _, clash := v.index[l.name]; {
		case l.wrong:
			v.reportf(Error, MisplacedOption, m.name, "", "Emits takes labels only")
			continue
		case l.name == "":
			v.reportf(Error, EmptyName, m.name, "", "it declares a label without a name, which is never delivered")
		case clash:
			v.reportf(Error, LabelClash, m.name, l.name, "the label %q is also the name of a method, whose listeners it would trigger; rename one", l.name)
		}
		v.labelType(m, l.name, l.payload)
	}
}

// labelType checks that a label has the same payload everywhere.
func (v *validator) labelType(m *declared, label string, payload reflect.Type) {
	have, ok := v.labels[label]
	if !ok {
		v.labels[label] = payload
		return
	}
	if have != payload {
		v.reportf(Error, LabelTypes, m.name, label, "label %q carries %v here and %v elsewhere", label, payload, have)
	}
}

// conditions checks a condition's tree. No condition at all is legal; a nil inside a tree is
// not.
func (v *validator) conditions(m *declared, root *node) {
	if root == nil {
		return
	}
	todo := []*node{root}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case n == nil:
			v.reportf(Error, NilCondition, m.name, "", "a part of its condition is nil")
		case n.op == scheduler.Leaf:
			v.leaf(m, n, n == root)
		case len(n.children) == 0:
			v.reportf(Error, EmptyCondition, m.name, "", "And needs at least one condition")
		default:
			if n.op == scheduler.First {
				v.race(m, n)
			}
			todo = append(todo, n.children...)
		}
	}
}

// race checks the members of a FirstOf.
func (v *validator) race(m *declared, first *node) {
	for _, n := range first.children {
		if n == nil {
			continue // reported elsewhere
		}
		i, known := v.index[n.name]
		if n.op != scheduler.Leaf || n.kind != methodLeaf {
			v.reportf(Error, Racers, m.name, n.name, "only methods race: a member of FirstOf is a handle or On")
			continue
		}
		if known && (v.methods[i].kind.isRouter() || v.methods[i].when != nil) {
			v.reportf(Error, Racers, m.name, n.name, "routers and conditional starts run one after another, so %q cannot race", n.name)
		}
		if other, taken := v.races[n.name]; taken {
			v.reportf(Error, Racers, m.name, n.name, "%q races already in the FirstOf of %q", n.name, other)
		}
		v.races[n.name] = m.name
	}
}

// leaf checks one event name of a condition.
func (v *validator) leaf(m *declared, n *node, whole bool) {
	if n.owner != nil && n.owner != v.owner {
		v.reportf(Error, ForeignHandle, m.name, n.name, "the handle of %q belongs to another builder; use On(%q)", n.name, n.name)
		return
	}
	if n.name == m.name {
		v.reportf(Error, SelfListen, m.name, n.name, "its condition references the handler name itself; loop through a label or another method")
		return
	}
	from, isMethod := v.index[n.name]
	switch {
	case n.kind == methodLeaf && isMethod:
		if r := v.methods[from].review; r != nil && len(r.Outcomes) == 0 {
			if n.payload != feedbackType && m.in != nil && !isAny(m.in) {
				v.reportf(Error, PayloadType, m.name, n.name, "the output of %q is the Feedback of its Review; wait for it with Reviewed", n.name)
			}
			return
		}
		if want := v.methods[from].out; !fits(n.payload, want) {
			v.reportf(Error, PayloadType, m.name, n.name, "On expects %v, but the output of %q is %v", n.payload, n.name, want)
		}
	case n.kind == labelLeaf && isMethod:
		v.reportf(Error, LabelClash, m.name, n.name, "it waits for the label %q, which is the name of a method; use On or the handle", n.name)
	case n.kind == labelLeaf:
		v.labelType(m, n.name, n.payload)
		if m.kind == routerKind && whole {
			v.chain(m, n)
		}
	}
}

// chain checks a router that waits for a label. All routers of a wave receive the payload of
// the event that began it, so the label's type must be what the emitting router received.
func (v *validator) chain(m *declared, n *node) {
	for _, i := range v.emitted[n.name] {
		q := &v.methods[i]
		if q.kind == routerKind && q.review == nil && q.in != nil && !fits(m.in, q.in) {
			v.reportf(Error, PayloadType, m.name, n.name,
				"routers chained by a label receive what the first of them received: %q receives %v, this one expects %v", q.name, q.in, m.in)
		}
	}
}

// fits reports whether a value that was encoded as one type is meant to be decoded as
// another: the same type, or no type in particular.
func fits(want, have reflect.Type) bool {
	return want == have || isAny(want) || isAny(have)
}

func isAny(t reflect.Type) bool {
	return t.Kind() == reflect.Interface && t.NumMethod() == 0 || t == rawType
}

package flow

import (
	"slices"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// lint finds what is legal and probably not meant.
func lint(g *scheduler.Graph, methods []declared) []Diagnostic {
	v := &validator{methods: methods}
	known := map[string]bool{}
	heard := map[string]bool{}
	dynamic, starts, plain := false, 0, 0
	for i := range methods {
		m := &methods[i]
		known[m.name] = true
		for _, l := range m.emits {
			known[l.name] = true
		}
		dynamic = dynamic || m.kind.isRouter() && len(m.emits) == 0
		eachLeaf(m.condition(), func(n *node) { heard[n.name] = true })
		if m.kind.isStart() {
			starts++
			if m.when == nil {
				plain++
			}
		}
	}
	reached := g.Reachable()
	for i := range methods {
		m := &methods[i]
		v.lintEvents(m, known, heard, dynamic)
		if !reached[i] {
			v.reportf(Warning, Unreachable, m.name, "", "no run can come to it")
		}
		if m.kind.isRouter() && len(m.emits) == 0 {
			v.reportf(Warning, DynamicRouter, m.name, "", "it may choose any label; Emits would let Build check the branches")
		}
	}
	if starts > 0 && plain == 0 {
		v.reportf(Warning, NoPlainStart, "", "", "every start has a condition, so all of them run at kickoff")
	}
	for _, loop := range g.EndlessLoops() {
		slices.Sort(loop)
		names := make([]string, len(loop))
		for i, m := range loop {
			names[i] = methods[m].name
		}
		v.reportf(Warning, EndlessLoop, names[0], "", "the loop of %q has no router that could leave it", names)
	}
	return v.found
}

func (v *validator) lintEvents(m *declared, known, heard map[string]bool, dynamic bool) {
	eachLeaf(m.condition(), func(n *node) {
		if !known[n.name] && (!dynamic || n.kind == methodLeaf) {
			v.reportf(Warning, UnknownTrigger, m.name, n.name, "nothing announces %q", n.name)
		}
	})
	for _, l := range m.emits {
		if !heard[l.name] {
			v.reportf(Warning, UnheardLabel, m.name, l.name, "nothing waits for the label %q", l.name)
		}
	}
}

// eachLeaf calls visit for each event name of a condition, left to right.
func eachLeaf(root *node, visit func(*node)) {
	if root == nil {
		return
	}
	todo := []*node{root}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n.op == scheduler.Leaf {
			visit(n)
			continue
		}
		for _, child := range slices.Backward(n.children) {
			todo = append(todo, child)
		}
	}
}

package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// mermaid draws the graph. Names are quoted as entities, so that any name is legal.
func mermaid(nodes []scheduler.Method) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	index := make(map[string]int, len(nodes))
	for i := range nodes {
		index[nodes[i].Name] = i
		open, shut := "[", "]"
		switch nodes[i].Role {
		case scheduler.Start:
			open, shut = "([", "])"
		case scheduler.Router, scheduler.StartRouter:
			open, shut = "{", "}"
		case scheduler.Listener:
		}
		fmt.Fprintf(&b, "    m%d%s\"%s\"%s\n", i, open, entities(nodes[i].Name), shut)
	}
	emitters := map[string][]int{}
	for i := range nodes {
		for _, l := range nodes[i].Emits {
			emitters[l] = append(emitters[l], i)
		}
	}
	for i := range nodes {
		drawEdges(&b, i, nodes[i].On, index, emitters)
	}
	return b.String()
}

// drawEdges draws what leads to method to. A label is drawn from the routers that declare
// it.
func drawEdges(b *strings.Builder, to int, root *scheduler.Cond, index map[string]int, emitters map[string][]int) {
	type item struct {
		cond *scheduler.Cond
		and  bool
	}
	if root == nil {
		return
	}
	todo := []item{{root, false}}
	for len(todo) > 0 {
		it := todo[0]
		todo = todo[1:]
		c := it.cond
		if c.Op != scheduler.Leaf {
			and := it.and || c.Op == scheduler.And && len(c.Children) > 1
			children := make([]item, len(c.Children))
			for i, child := range c.Children {
				children[i] = item{child, and}
			}
			todo = slices.Concat(children, todo)
			continue
		}
		if from, ok := index[c.Name]; ok {
			arrow := "-->"
			if it.and {
				arrow = "-->|and|"
			}
			fmt.Fprintf(b, "    m%d %s m%d\n", from, arrow, to)
			continue
		}
		text := entities(c.Name)
		if it.and {
			text = "and " + text
		}
		for _, from := range emitters[c.Name] {
			fmt.Fprintf(b, "    m%d -.->|\"%s\"| m%d\n", from, text, to)
		}
	}
}

// entities writes what Mermaid would take as syntax, and control characters, as character
// entities.
func entities(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < ' ' || strings.ContainsRune("\"#&;<>[](){}|\\`", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

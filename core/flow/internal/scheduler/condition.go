package scheduler

import "slices"

// Op is the operator of a condition's node.
type Op uint8

// The operators. A Leaf is an event name.
const (
	Leaf Op = iota
	And
	Or
	First // an Or whose members, methods all of them, race; see State.race
)

// Cond is a condition: an event name, or an And or Or of conditions.
type Cond struct {
	Op       Op
	Name     string // of a Leaf
	Children []*Cond
}

// condition is a compiled Cond.
type condition struct {
	names   []string       // the events it names, in order of appearance
	bit     map[string]int // their numbers
	root    *Cond
	plain   bool // any event it names satisfies it: nothing to remember
	oneShot bool
}

func compile(root *Cond) *condition {
	c := &condition{root: root, bit: map[string]int{}, plain: true}
	todo := []*Cond{root}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n.Op == Leaf {
			if _, have := c.bit[n.Name]; !have {
				c.bit[n.Name] = len(c.names)
				c.names = append(c.names, n.Name)
			}
			continue
		}
		if n.Op == And && len(n.Children) > 1 {
			c.plain = false
		}
		for _, child := range slices.Backward(n.Children) {
			todo = append(todo, child)
		}
	}
	return c
}

// note adds event to what was seen and reports whether the condition is now satisfied. The
// caller forgets what was seen when it acts on that.
func (c *condition) note(seen *[]uint64, event string) bool {
	bit, named := c.bit[event]
	if !named {
		return false
	}
	if c.plain {
		return true
	}
	if *seen == nil {
		*seen = make([]uint64, (len(c.names)+63)/64)
	}
	(*seen)[bit/64] |= 1 << (bit % 64)
	return c.holds(c.root, *seen)
}

// holds evaluates a node. Its depth is that of the condition as written.
func (c *condition) holds(n *Cond, seen []uint64) bool {
	switch n.Op {
	case And:
		for _, child := range n.Children {
			if !c.holds(child, seen) {
				return false
			}
		}
		return true
	case Or, First:
		for _, child := range n.Children {
			if c.holds(child, seen) {
				return true
			}
		}
		return false
	default:
		bit := c.bit[n.Name]
		return seen[bit/64]&(1<<(bit%64)) != 0
	}
}

package reducer

// A load is the size of a history, or a bound on one.
type load struct{ messages, tokens int }

// over reports whether l exceeds the bound, in those of the two units for
// which a limit is set.
func (l load) over(bound load, set load) bool {
	return set.messages > 0 && l.messages > bound.messages || set.tokens > 0 && l.tokens > bound.tokens
}

// A group is a run of units that cannot be parted.
type group struct {
	from, to int // messages
	load     load
	opens    bool // a turn begins here
	system   bool // nothing but a system message
	pinned   bool // kept for itself
	anchored bool // kept, and the user message that opens its turn with it
	dropped  bool
}

// A draft is a history while it is being reduced: which messages open it, and
// the groups of the others.
type draft struct {
	h      *history
	head   int // leading system messages
	block  int // messages of the summary that follows them
	groups []group
	left   load // of what is not dropped
}

// newDraft finds the groups of h and what of it must stay.
func newDraft(h *history, pinSystem bool) (*draft, *pairing) {
	d := &draft{h: h}
	for d.head < len(h.items) && h.items[d.head].role == System {
		d.head++
	}
	d.block = h.summaryAt(d.head)
	p := pair(h, d.head+d.block)
	keep := liveUnits(p.units)
	for k, u := range p.units {
		if k == 0 || !u.glued {
			d.groups = append(d.groups, group{from: u.from, opens: u.opens, system: u.system})
		}
		g := &d.groups[len(d.groups)-1]
		g.to = u.to
		g.system = g.system && u.system
		g.pinned = g.pinned || pinSystem && u.system
		g.anchored = g.anchored || u.open || keep[k]
	}
	for i := range h.items {
		d.left.tokens += h.items[i].tokens
	}
	d.left.messages = len(h.items)
	for k := range d.groups {
		g := &d.groups[k]
		g.load = h.load(g.from, g.to)
	}
	return d, p
}

func (h *history) load(from, to int) load {
	l := load{messages: to - from}
	for i := from; i < to; i++ {
		l.tokens += h.items[i].tokens
	}
	return l
}

// liveUnits returns what the model is working on: the user's last message and
// the last step after it.
func liveUnits(units []unit) map[int]bool {
	keep := map[int]bool{}
	last, lastUser := -1, -1
	for k, u := range units {
		if u.authored {
			lastUser = k
		}
		if !u.system && !u.orphan {
			last = k
		}
	}
	if last < 0 {
		last = len(units) - 1
	}
	for _, k := range []int{last, lastUser} {
		if k >= 0 {
			keep[k] = true
		}
	}
	return keep
}

// turns returns where each turn begins in groups, and the end of the last. What
// stands before the first user message counts as a turn.
func (d *draft) turns() []int {
	starts := []int{0}
	for k := range d.groups {
		if k > 0 && d.groups[k].opens {
			starts = append(starts, k)
		}
	}
	return append(starts, len(d.groups))
}

func (d *draft) drop(k int) {
	g := &d.groups[k]
	if g.dropped || g.pinned {
		return
	}
	g.dropped = true
	d.left.messages -= g.load.messages
	d.left.tokens -= g.load.tokens
}

// reduce drops the oldest turns, and then the oldest steps of the turns that
// have to stay, until what is left is within the goal.
func (d *draft) reduce(goal load, set load) {
	turns := d.turns()
	for t := 0; t+2 < len(turns) && d.left.over(goal, set); t++ {
		if !d.holds(turns[t], turns[t+1]) {
			for k := turns[t]; k < turns[t+1]; k++ {
				d.drop(k)
			}
		}
	}
	for t := 0; t+1 < len(turns); t++ {
		for k := turns[t]; k < turns[t+1] && d.left.over(goal, set); k++ {
			if g := &d.groups[k]; !g.anchored && !g.opens {
				d.drop(k)
			}
		}
	}
}

// holds reports whether any of the groups is anchored.
func (d *draft) holds(from, to int) bool {
	for _, g := range d.groups[from:to] {
		if g.anchored {
			return true
		}
	}
	return false
}

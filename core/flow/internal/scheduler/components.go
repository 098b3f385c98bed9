package scheduler

// components returns the strongly connected components of the graph, each after all those it
// leads to: Tarjan's algorithm with a stack of its own instead of recursion.
func (g *Graph) components() [][]int {
	t := &tarjan{
		order: make([]int, len(g.methods)),
		low:   make([]int, len(g.methods)),
		on:    make([]bool, len(g.methods)),
	}
	labels := g.labelListeners()
	next := make([][]int, len(g.methods))
	for i := range g.methods {
		g.successors(i, labels, func(m int) { next[i] = append(next[i], m) })
	}
	for i := range g.methods {
		if t.order[i] == 0 {
			t.visit(i, next)
		}
	}
	return t.out
}

type tarjan struct {
	count      int
	order, low []int
	on         []bool
	stack      []int
	out        [][]int
}

// frame is a method whose successors are being visited.
type frame struct{ method, edge int }

func (t *tarjan) visit(root int, next [][]int) {
	frames := []frame{t.enter(root)}
	for len(frames) > 0 {
		f := &frames[len(frames)-1]
		if f.edge < len(next[f.method]) {
			to := next[f.method][f.edge]
			f.edge++
			switch {
			case t.order[to] == 0:
				frames = append(frames, t.enter(to))
			case t.on[to]:
				t.low[f.method] = min(t.low[f.method], t.order[to])
			}
			continue
		}
		done := f.method
		frames = frames[:len(frames)-1]
		if len(frames) > 0 {
			up := frames[len(frames)-1].method
			t.low[up] = min(t.low[up], t.low[done])
		}
		if t.low[done] == t.order[done] {
			t.pop(done)
		}
	}
}

func (t *tarjan) enter(m int) frame {
	t.count++
	t.order[m], t.low[m], t.on[m] = t.count, t.count, true
	t.stack = append(t.stack, m)
	return frame{method: m}
}

func (t *tarjan) pop(root int) {
	var comp []int
	for {
		m := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.on[m] = false
		comp = append(comp, m)
		if m == root {
			t.out = append(t.out, comp)
			return
		}
	}
}

// EndlessLoops returns the cycles, as lists of method numbers, that hold no router: nothing
// in them can choose to leave.
func (g *Graph) EndlessLoops() [][]int {
	labels := g.labelListeners()
	var out [][]int
	for _, comp := range g.components() {
		router, edge := false, len(comp) > 1
		for _, m := range comp {
			router = router || g.methods[m].Role.isRouter()
			if len(comp) == 1 {
				g.successors(m, labels, func(next int) { edge = edge || next == m })
			}
		}
		if edge && !router {
			out = append(out, comp)
		}
	}
	return out
}

// Reachable reports for each method whether some run can reach it, if every router may emit
// any of its labels. Like the conditions themselves it only grows: each event that can occur
// is added to every condition that names it until nothing changes.
func (g *Graph) Reachable() []bool {
	r := &reacher{g: g, reached: make([]bool, len(g.methods)), seen: make([][]uint64, len(g.methods)), known: map[string]bool{}}
	for _, m := range g.entries {
		r.reach(m)
	}
	for len(r.queue) > 0 {
		event := r.queue[0]
		r.queue = r.queue[1:]
		s := g.of(event)
		for _, list := range [][]int{s.routers, s.listeners, s.starts} {
			for _, m := range list {
				if c := g.conds[m]; !r.reached[m] && c.note(&r.seen[m], event) {
					r.reach(m)
				}
			}
		}
	}
	return r.reached
}

type reacher struct {
	g       *Graph
	reached []bool
	seen    [][]uint64
	known   map[string]bool
	queue   []string
	dynamic bool
}

func (r *reacher) reach(m int) {
	r.reached[m] = true
	method := r.g.methods[m]
	r.announce(method.Name)
	for _, l := range method.Emits {
		r.announce(l)
	}
	if method.Dynamic && !r.dynamic {
		r.dynamic = true
		for event := range r.g.subs {
			if _, isMethod := r.g.index[event]; !isMethod {
				r.announce(event)
			}
		}
	}
}

func (r *reacher) announce(event string) {
	if !r.known[event] {
		r.known[event] = true
		r.queue = append(r.queue, event)
	}
}

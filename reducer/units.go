package reducer

// A unit is a run of messages that are only valid together: a call with its
// results, or one message of any other kind.
type unit struct {
	from, to int
	opens    bool // a user message: a turn begins here
	authored bool // holds something that the user wrote
	system   bool
	tool     bool // begins with a call
	orphan   bool // results without a call
	open     bool // a call in it has no result
	pending  bool // it is open and nothing came after it
	bare     bool // a run of OpenAI Responses items that may go on
	thinks   bool // such a run that begins with reasoning
	glued    bool // cannot be parted from the unit before it
}

// A defect is one message that breaks a rule of pairing.
type defect struct {
	index, unit int
	rule        Rule
	mixed       bool // the message also holds results that are good
	call        int  // unit of the call that those answer
}

// A pairing finds units. Calls and results are paired by position first and by
// id second, because some models use the same ids again in every turn: a
// result belongs to the nearest call message before it, and only if nothing
// but results stands between.
type pairing struct {
	h       *history
	units   []unit
	defects []defect

	// The calls that the block of results at the cursor may answer.
	callUnit, callIndex int // -1: none
	calls               []key
	answered            []bool
	missing             int
	byID                map[string][]int // of calls, if they are many

	waiting  map[string]int // unit of a call that was passed over unanswered
	unmet    map[int]int    // how many of those a unit has
	provided map[string]int // unit of a call that others refer to
	glue     []int          // differences: units a+1…b are glued if glue[a+1]++, glue[b+1]--
	thinking int            // unit of this turn that has reasoning; -1: none
}

// pair finds the units of the messages from start on.
func pair(h *history, start int) *pairing {
	p := &pairing{h: h, callUnit: -1, thinking: -1, units: make([]unit, 0, len(h.items)-start)}
	for i := start; i < len(h.items); i++ {
		if h.items[i].results.empty() {
			p.other(i)
		} else {
			p.results(i)
		}
	}
	p.close(true)
	depth := 0
	for k := range p.units {
		if k < len(p.glue) {
			depth += p.glue[k]
		}
		p.units[k].glued = depth > 0
	}
	return p
}

func (p *pairing) join(a, b int) {
	if a >= b {
		return
	}
	for len(p.glue) < b+2 {
		p.glue = append(p.glue, 0)
	}
	p.glue[a+1]++
	p.glue[b+1]--
}

func (p *pairing) start(u unit) int {
	p.units = append(p.units, u)
	return len(p.units) - 1
}

// other takes a message that holds no result.
func (p *pairing) other(i int) {
	it := &p.h.items[i]
	if it.role == Assistant && p.continues(it) {
		p.units[len(p.units)-1].to = i + 1
		p.expect(i)
		return
	}
	p.close(false)
	u := unit{from: i, to: i + 1, system: it.role == System}
	switch it.role {
	case User:
		u.opens, u.authored = true, true
		p.thinking = -1
	case Assistant:
		u.bare = it.has(bareItem) && (!it.calls.empty() || it.has(reasonItem))
		u.thinks = it.has(reasonItem)
	}
	k := p.start(u)
	p.expect(i)
	if it.role != Assistant {
		return
	}
	if it.has(reasons) {
		p.thinking = k
	} else if p.thinking >= 0 && p.units[k].tool {
		p.join(p.thinking, k) // its reasoning stands in the message of an earlier call
	}
}

// continues reports whether an assistant's message belongs to the run of
// Responses items before it: parallel calls are items of their own, and all
// that one response held needs the reasoning item that it began with.
func (p *pairing) continues(it *item) bool {
	if len(p.units) == 0 || it.has(reasonItem) {
		return false
	}
	u := &p.units[len(p.units)-1] // no longer bare once a result came
	return u.bare && (u.thinks || it.has(bareItem) && !it.calls.empty())
}

// expect notes the calls of message i, whose unit is the last one.
func (p *pairing) expect(i int) {
	k := len(p.units) - 1
	for _, c := range p.h.callsOf(i) {
		switch c.class {
		case provided:
			if p.provided == nil {
				p.provided = map[string]int{}
			}
			p.provided[string(c.id)] = k
		case reference:
			if at, ok := p.provided[string(c.id)]; ok {
				p.join(at, k)
			}
		default:
			if p.callUnit != k {
				p.callUnit, p.callIndex, p.missing = k, i, 0
				p.calls, p.answered, p.byID = p.calls[:0], p.answered[:0], nil
			}
			p.units[k].tool = true
			p.calls = append(p.calls, c)
			p.answered = append(p.answered, false)
			p.missing++
		}
	}
}

// results takes a message that holds results, and maybe more.
func (p *pairing) results(i int) {
	it := &p.h.items[i]
	mine, foreign := 0, Rule("")
	late := -1
	for _, r := range p.h.resultsOf(i) {
		switch rule := p.answer(r, it.has(interim)); {
		case rule == "":
			mine++
		case p.overdue(r) >= 0:
			late, foreign = p.overdue(r), rule
			p.settle(r)
		default:
			foreign = rule
		}
	}
	k := len(p.units) - 1
	if p.callUnit == k && k >= 0 && (mine > 0 || p.missing > 0) {
		p.units[k].to = i + 1 // a stranger among the results stays with them
	} else {
		k = p.start(unit{from: i, to: i + 1, orphan: true})
	}
	u := &p.units[k]
	u.bare = false
	u.authored = u.authored || it.role == User && it.has(authored)
	if late >= 0 {
		p.join(late, k)
	}
	if foreign != "" {
		p.defects = append(p.defects, defect{i, k, foreign, mine > 0, p.callUnit})
	}
}

// answer marks the call that r answers, or says what is wrong with r.
func (p *pairing) answer(r key, interim bool) Rule {
	if p.callUnit < 0 {
		return OrphanResult
	}
	second := false
	for _, k := range p.candidates(r) {
		if !r.answers(p.calls[k]) {
			continue
		}
		if p.answered[k] {
			second = true
			continue
		}
		if !interim {
			p.answered[k] = true
			p.missing--
		}
		return ""
	}
	if second {
		return DuplicateResult
	}
	return OrphanResult
}

// candidates returns which calls r may answer. Many calls are looked up, so
// that ten thousand results of ten thousand calls do not take a hundred million steps.
func (p *pairing) candidates(r key) []int {
	if len(p.calls) <= linear {
		return few[:len(p.calls)]
	}
	if p.byID == nil {
		p.byID = map[string][]int{}
		for k, c := range p.calls {
			name := lookup(c)
			p.byID[name] = append(p.byID[name], k)
		}
	}
	name := lookup(r)
	list := p.byID[name]
	for len(list) > linear && p.answered[list[0]] {
		list = list[1:]
	}
	p.byID[name] = list
	return list
}

// few are the indexes of few calls.
var few = [linear]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// lookup returns what calls and results are looked up by.
func lookup(k key) string {
	switch {
	case k.class == byName && len(k.id) == 0:
		return "n" + string(k.name)
	case k.class == approval:
		return "a" + string(k.id)
	}
	return "i" + string(k.id)
}

// close ends the block of results: what is unanswered now has no valid answer.
func (p *pairing) close(atEnd bool) {
	if p.callUnit < 0 {
		return
	}
	if p.missing > 0 {
		u := &p.units[p.callUnit]
		u.open, u.pending = true, atEnd
		rule := UnansweredCall
		if atEnd {
			rule = PendingCall
		}
		p.defects = append(p.defects, defect{index: p.callIndex, unit: p.callUnit, rule: rule})
		p.wait()
	}
	p.callUnit = -1
	p.calls = p.calls[:0]
	p.missing = 0
}

func (p *pairing) wait() {
	if p.waiting == nil {
		p.waiting, p.unmet = map[string]int{}, map[int]int{}
	}
	for k, c := range p.calls {
		if !p.answered[k] {
			p.waiting[lookup(c)] = p.callUnit
			p.unmet[p.callUnit]++
		}
	}
}

// overdue returns the unit whose unanswered call r answers too late, -1 if
// there is none. The two are kept or removed together.
func (p *pairing) overdue(r key) int {
	if at, ok := p.waiting[lookup(r)]; ok {
		return at
	}
	return -1
}

func (p *pairing) settle(r key) {
	name := lookup(r)
	at := p.waiting[name]
	delete(p.waiting, name)
	if p.unmet[at]--; p.unmet[at] == 0 {
		p.units[at].open = false
	}
}

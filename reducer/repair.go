package reducer

import (
	"cmp"
	"slices"
)

// answerText is what a call is told whose result never came.
const answerText = "No result: the call was interrupted and its outcome is unknown."

// repair removes, or answers, what breaks the rules of pairing, and removes
// what but the system's stands before the first user message. Consecutive messages of one role
// and system messages in the middle stay: only rewriting could cure them.
func (j *job) repair() {
	h := j.src.history()
	d, p := newDraft(h, false)
	start := d.head + d.block
	added := map[int][]int{} // after which index
	last := lastAuthored(p.units)
	for _, u := range p.units {
		if u.opens {
			for i := start; i < u.from; i++ {
				if h.items[i].role != System {
					j.fix(i, FirstNotUser)
				}
			}
			break
		}
	}
	for _, def := range p.defects {
		u := p.units[def.unit]
		switch {
		case def.rule == PendingCall || def.unit == last || j.gone[def.index]:
			continue
		case def.mixed && def.call == last:
			continue
		case def.mixed: // without this message its call would be unanswered
			j.fixUnit(p.units[def.call], def.rule)
			j.fixUnit(u, def.rule)
		case def.rule != UnansweredCall:
			j.fix(def.index, def.rule)
		case j.r.cfg.Repair == RepairAnswer && j.answerable(u):
			at := u.to - 1
			added[at] = append(added[at], j.answer(p.missingOf(u), def.index)...)
			j.rep.Fixes = append(j.rep.Fixes, Fix{Index: def.index, Rule: def.rule, Added: true})
		default:
			j.fixUnit(u, def.rule)
		}
	}
	if len(j.rep.Fixes) == 0 {
		return
	}
	slices.SortStableFunc(j.rep.Fixes, func(a, b Fix) int { return cmp.Compare(a.Index, b.Index) })
	j.rep.Trigger |= NeededRepair
	j.seq = j.seq[:0]
	for i := range j.n {
		if !j.gone[i] {
			j.seq = append(j.seq, i)
		}
		j.seq = append(j.seq, added[i]...)
	}
}

func (j *job) fix(i int, rule Rule) {
	if !j.gone[i] {
		j.gone[i] = true
		j.rep.Fixes = append(j.rep.Fixes, Fix{Index: i, Rule: rule})
	}
}

func (j *job) fixUnit(u unit, rule Rule) {
	for i := u.from; i < u.to; i++ {
		j.fix(i, rule)
	}
}

func lastAuthored(units []unit) int {
	for k, u := range slices.Backward(units) {
		if u.authored {
			return k
		}
	}
	return -1
}

// missingOf returns the calls of a closed unit that its results leave open.
func (p *pairing) missingOf(u unit) (missing []key) {
	var results []key
	for i := u.from; i < u.to; i++ {
		missing = append(missing, p.h.callsOf(i)...)
		results = append(results, p.h.resultsOf(i)...)
	}
	again := pairing{calls: missing, answered: make([]bool, len(missing))}
	for _, r := range results {
		again.answer(r, false)
	}
	out := missing[:0]
	for k, c := range missing {
		if !again.answered[k] && c.class != provided && c.class != reference {
			out = append(out, c)
		}
	}
	return out
}

// answerable reports whether the reducer knows how to write a result for the
// calls of u: not for those that want a picture or the user's consent.
func (j *job) answerable(u unit) bool {
	h := j.src.history()
	for i := u.from; i < u.to; i++ {
		for _, c := range h.callsOf(i) {
			if c.class == approval {
				return false
			}
		}
		if h.items[i].has(bareItem) && !h.items[i].calls.empty() && !plainCall(h.items[i].raw) {
			return false
		}
	}
	return true
}

func plainCall(raw []byte) bool {
	typ, _ := text(field(raw, "type"))
	return len(raw) == 0 || string(typ) == "function_call" || string(typ) == "custom_tool_call"
}

func (j *job) answer(calls []key, like int) []int {
	return j.src.add(addition{role: Tool, text: answerText, calls: calls, like: like})
}

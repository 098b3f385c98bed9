package reducer

import (
	"cmp"
	"slices"
)

// A validation holds one history against one provider's rules.
type validation struct {
	h        *history
	provider Provider
	found    []Violation
	talking  bool // a message that is not the system's came
}

func (v *validation) add(i int, r Rule, pending bool) {
	v.found = append(v.found, Violation{Index: i, Rule: r, Pending: pending})
}

func (v *validation) sort() {
	slices.SortStableFunc(v.found, func(a, b Violation) int { return cmp.Compare(a.Index, b.Index) })
}

func (v *validation) is(providers ...Provider) bool { return slices.Contains(providers, v.provider) }

func (v *validation) pairing() {
	for _, d := range pair(v.h, 0).defects {
		v.add(d.index, d.rule, d.rule == PendingCall)
	}
}

func (v *validation) message(i int) {
	it := &v.h.items[i]
	switch {
	case it.has(shapeless):
		v.add(i, NotAnObject, false)
	case it.role == Other:
		v.add(i, UnknownRole, false)
	case it.role == System && v.talking:
		if !v.is(OpenAI) {
			v.add(i, SystemNotLeading, false)
		}
	}
	if it.role == System || it.role == Other {
		return
	}
	if !v.talking && it.role != User && !v.is(OpenAI) {
		v.add(i, FirstNotUser, false)
	}
	v.talking = true
	if it.has(blank|blankText) && v.is(Anthropic, Gemini, Bedrock) {
		v.add(i, EmptyContent, false)
	}
	if it.has(lateResult) && v.is(Anthropic) {
		v.add(i, ResultNotFirst, false)
	}
	if i > 0 {
		v.neighbors(i, it, &v.h.items[i-1])
	}
}

func (v *validation) neighbors(i int, it, before *item) {
	if !v.is(Bedrock, Mistral) {
		return
	}
	switch {
	case it.has(bareItem) || before.has(bareItem):
	case it.role == Assistant && before.role == Assistant, it.wireUser && before.wireUser:
		v.add(i, SameRoleTwice, false)
	case it.role == User && before.role == Tool && v.is(Mistral):
		v.add(i, UserAfterResult, false)
	}
}

// ends judges the end of the history.
func (v *validation) ends() {
	n := len(v.h.items)
	if !v.talking {
		if !v.is(OpenAI) {
			v.add(n-1, NoUserMessage, true)
		}
		return
	}
	if it := &v.h.items[n-1]; it.role == Assistant && v.is(Gemini, Bedrock, Mistral) {
		v.add(n-1, EndsWithAssistant, true)
	}
}

package flow_test

import (
	"slices"

	"github.com/weirflow/weir/core/flow"
)

// The reference races implicitly: what a listener's Or waits for, and nothing else does, races.
// Here a race is declared, so the scenarios' races are made of FirstOf.

// racers returns the methods that race for m: the direct alternatives of its Or that are
// methods which can race and that no other method waits for.
func (sc *scenario) racers(m *step) []string {
	or, _ := m.listen.(map[string]any)
	if m.routes() || or["or"] == nil {
		return nil
	}
	return slices.DeleteFunc(alternatives(m.listen), func(name string) bool {
		i := slices.IndexFunc(sc.methods, func(o *step) bool { return o.name == name })
		if i < 0 || name == m.name || sc.methods[i].routes() || sc.methods[i].starts() {
			return true
		}
		return slices.ContainsFunc(sc.methods, func(o *step) bool {
			return o != m && (slices.Contains(mentioned(o.listen), name) || slices.Contains(mentioned(o.start), name))
		})
	})
}

// race is m's condition with its racers in a FirstOf.
func (sc *scenario) race(m *step, racers []string) (flow.Trigger[any], error) {
	members := make([]flow.Trigger[any], len(racers))
	for i, name := range racers {
		members[i] = flow.On[any](name)
	}
	all := []flow.Trigger[any]{flow.FirstOf(members[0], members[1], members[2:]...)}
	for _, kid := range branches(m.listen) {
		if name, ok := kid.(string); ok && slices.Contains(racers, name) {
			continue
		}
		t, err := sc.condition(kid)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return flow.Or(all[0], all[1:]...), nil
}

// branches flattens nested Ors.
func branches(cond any) []any {
	m, _ := cond.(map[string]any)
	if m["or"] == nil {
		return []any{cond}
	}
	var out []any
	for _, kid := range items(m["or"]) {
		out = append(out, branches(kid)...)
	}
	return out
}

// alternatives are the event names that satisfy a condition by themselves, each once.
func alternatives(cond any) []string {
	var out []string
	for _, kid := range branches(cond) {
		if name, ok := kid.(string); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// mentioned are all event names of a condition.
func mentioned(cond any) []string {
	switch c := cond.(type) {
	case string:
		return []string{c}
	case map[string]any:
		var out []string
		for _, kid := range append(slices.Clone(items(c["or"])), items(c["and"])...) {
			out = append(out, mentioned(kid)...)
		}
		return out
	}
	return nil
}

package flow_test

import (
	"os"
	"testing"
	"testing/synctest"
)

// notYet lists the scenarios of testdata/flow_scenarios.yaml that are known not to pass, and
// why. The list is exact: one that passes all the same fails the test, as does one that
// fails and is not listed.
var notYet = map[string]string{
	"def-04": declarations, "def-05": declarations, "def-06": declarations,
	"chat-02": chat, "chat-03": chat, "chat-04": chat, "chat-05": chat, "chat-06": chat, "chat-07": chat, "chat-08": chat, "chat-09": chat,
	"chat-10": chat, "chat-11": chat, "chat-12": chat, "chat-13": chat, "chat-14": chat, "chat-15": chat, "chat-16": chat,
}

// The reasons.
const (
	declarations = "definitions from YAML or JSON are not built yet"
	chat         = "chat sessions are not built yet"
)

// notYetAreas are the areas of another file whose scenarios are skipped if they do not pass.
var notYetAreas = map[string]string{
	"chat": chat,
}

// rules are the expectations of scenarios with the verdict "fix" that have no go_expect: the
// rule is in their text. Any other scenario of that kind must be refused by Build.
var rules = map[string][]map[string]any{
	// "record the late completion so that the journal matches the side effects"
	"par-05": {{
		"error": map[string]any{"type": "ValueError", "contains": "boom"}, "state": map[string]any{"b_side_effect": true},
		"completed": map[string]any{"b": 1}, "outputs": []any{"B"}, "never": []any{"c"},
	}},
}

// ownScenarios are rules that the executed vectors do not show.
const (
	givenScenarios = "testdata/flow_scenarios.yaml"
	ownScenarios   = "testdata/weir_scenarios.yaml"
)

// TestScenarios runs the scenarios of testdata, or of the file that WEIR_SCENARIOS names,
// each as a subtest with the scenario's id. Time is virtual (testing/synctest): delays only
// express order, and the results do not depend on the machine.
func TestScenarios(t *testing.T) {
	if file := os.Getenv("WEIR_SCENARIOS"); file != "" {
		for _, sc := range readScenarios(t, locate(file)) {
			t.Run(sc.id, sc.foreign)
		}
		return
	}
	seen := map[string]bool{}
	for _, file := range []string{givenScenarios, ownScenarios} {
		for _, sc := range readScenarios(t, file) {
			seen[sc.id] = true
			t.Run(sc.id, sc.ours)
		}
	}
	for id := range notYet {
		if !seen[id] {
			t.Errorf("not-yet list: there is no scenario %q", id)
		}
	}
}

// problems plays the scenario in a bubble of virtual time.
func (sc *scenario) problems(t *testing.T) (problems []string) {
	synctest.Test(t, func(*testing.T) { problems = sc.run() })
	return problems
}

// ours judges a scenario of testdata by the exact list.
func (sc *scenario) ours(t *testing.T) {
	problems := sc.problems(t)
	switch reason, listed := notYet[sc.id]; {
	case listed && len(problems) == 0:
		t.Error("it passes, but is listed as not yet: " + reason)
	case listed:
		t.Skip("not yet: " + reason)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// foreign judges a scenario of another file: by its area and by what it needs.
func (sc *scenario) foreign(t *testing.T) {
	if sc.missing != "" {
		t.Skip("not yet: " + sc.missing)
	}
	problems := sc.problems(t)
	if reason, out := notYetAreas[sc.area]; out && len(problems) > 0 {
		t.Skip("not yet: " + reason)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

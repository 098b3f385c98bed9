package conformance_test

import (
	"slices"
	"strings"
	"testing"
)

// scenario is one of those that describe CrewAI's state systems, told in Weir's terms. Where
// the original misbehaves, it is what should happen instead.
type scenario struct {
	id  string
	run func(t *testing.T)
}

func play(t *testing.T, list []scenario) {
	t.Helper()
	for _, s := range list {
		t.Run(s.id, s.run)
	}
}

// scenarioIDs are all there are: flow persistence (FP), pending feedback (PF), kickoff
// hydration (KH), checkpoints (CP) and resume from them (CR). Numbers that lack were never
// given.
var scenarioIDs = strings.Fields(`
	FP-01 FP-02 FP-03 FP-04 FP-05 FP-06 FP-07 FP-08 FP-09 FP-11 FP-12 FP-14 FP-15 FP-17 FP-20
	FP-21 FP-22 FP-23 FP-24 FP-25 FP-26 FP-27 FP-28 FP-29
	PF-01 PF-02 PF-03 PF-04 PF-05 PF-06 PF-07 PF-08 PF-09 PF-10 PF-11 PF-12 PF-14 PF-15 PF-16
	PF-17 PF-19 PF-20 PF-21
	KH-01 KH-02 KH-04 KH-05 KH-06 KH-07 KH-08 KH-09 KH-10 KH-11 KH-12 KH-13 KH-14
	CP-01 CP-02 CP-03 CP-06 CP-07 CP-08 CP-09 CP-10 CP-11 CP-12 CP-13 CP-15 CP-16 CP-17 CP-19
	CP-20 CP-21
	CR-02 CR-03 CR-04 CR-05 CR-06 CR-08 CR-09 CR-12 CR-13 CR-14
`)

// scenariosElsewhere tells of those that are not played here: the tests that show them, or
// "none: " and why there is nothing to show. A test in conformance/backends reads this table
// and knows whether the tests exist.
var scenariosElsewhere = map[string]string{
	"FP-01": "TestScenariosOnSQLite/FP-01",
	"FP-02": "TestScenariosOnSQLite/FP-02",
	"FP-03": "TestScenariosOnSQLite/FP-03",
	"FP-04": "TestScenariosOnSQLite/FP-04",
	"FP-05": "TestScenariosOnSQLite/FP-05",
	"FP-12": "none: a run has one store; its methods choose whether to save, not where",
	"FP-15": "TestOpenSaysWhatToDo",
	"FP-24": "TestScenariosOnSQLite/FP-24",
	"FP-25": "TestScenariosOnSQLite/FP-25",
	"FP-26": "TestScenariosOnSQLite/FP-26",
	"FP-27": "TestScenariosOnSQLite/FP-27",
	"FP-29": "TestScenariosOnSQLite/FP-29",
	"PF-06": "TestPythonPendingRowsThatDoNotRead, TestPythonPendingRowsAreRead",
	"PF-08": "TestAPauseNeedsAStore", // there is no store by default: a pause without one is refused
	"PF-17": "none: a Classifier is a function of the definition; no request holds the configuration of a model",
	"KH-08": "TestScenariosOnSQLite/KH-08",
	"CP-03": "none: checkpoints are an option of a run; there are no crews, agents or tasks to inherit it",
	"CP-07": "TestScenariosOnSQLite/CP-07",
	"CP-11": "none: the URL or the constructor names the driver; nothing is guessed from the bytes of a file",
	"CP-13": "TestTheFirstFormatOfProgressIsResumed, TestANewerFormatIsUnsupported",
	"CP-19": "none: Weir calls no models; CP-02 shows that a trigger it does not know is refused and not ignored",
}

// TestEveryScenarioHasOnePlace finds scenarios that nobody plays, and those that are told of
// in two places.
func TestEveryScenarioHasOnePlace(t *testing.T) {
	places := map[string]int{}
	for _, s := range slices.Concat(persistenceScenarios, feedbackScenarios, kickoffScenarios, checkpointScenarios, restoreScenarios) {
		places[s.id]++
	}
	for id, where := range scenariosElsewhere {
		places[id]++
		if reason, none := strings.CutPrefix(where, "none: "); none && len(reason) < 20 {
			t.Errorf("%s has no reason: %q", id, where)
		}
	}
	for _, id := range scenarioIDs {
		if places[id] != 1 {
			t.Errorf("%s has %d places, want one", id, places[id])
		}
		delete(places, id)
	}
	for id := range places {
		t.Errorf("%s is no scenario", id)
	}
}

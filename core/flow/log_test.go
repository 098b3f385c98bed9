package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

func logOf(t testing.TB, store core.FlowPersistence, flowID string) []flow.LogEntry {
	t.Helper()
	var out []flow.LogEntry
	for e, err := range flow.Log(t.Context(), store, flowID) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// told writes a log down: what happened, and by name what each link leads to.
func told(entries ...[]flow.LogEntry) string {
	names := map[string]string{"": "-"}
	name := func(e flow.LogEntry) string {
		return strings.Trim(fmt.Sprintf("%s %s", e.Kind, e.Method), " ")
	}
	all := slices.Concat(entries...)
	for _, e := range all {
		names[e.ID] = name(e)
	}
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s %s | in %s | by %s | after %s\n", name(e), e.Label, names[e.Parent], names[e.Trigger], names[e.Previous])
	}
	return b.String()
}

// forkedRoad is a start whose label leads to two listeners, which are joined.
func forkedRoad(t testing.TB, join func(context.Context, *tallyRun, any) (string, error)) *flow.Definition[tally] {
	t.Helper()
	const both flow.Label[any] = "both"
	b := flow.New[tally]("road")
	a := flow.Start(b, "a", note("a"))
	flow.Router(b, "r", func(context.Context, *tallyRun, any) (flow.Route, error) { return flow.To(both, any(1)), nil }, flow.Any(a), flow.Emits(both))
	left := flow.Listen(b, "left", noteAny("left"), both)
	right := flow.Listen(b, "right", noteAny("right"), both)
	flow.Listen(b, "join", join, flow.And(flow.Any(left), flow.Any(right)))
	return mustBuild(t, b)
}

const wholeRoad = `run_started  | in - | by - | after -
method_completed a  | in run_started | by - | after run_started
method_completed r both | in run_started | by method_completed a | after method_completed a
method_completed left  | in run_started | by method_completed r | after method_completed r
method_completed right  | in run_started | by method_completed r | after method_completed left
method_completed join  | in run_started | by method_completed right | after method_completed right
run_finished  | in run_started | by - | after method_completed join
`

func TestTheLogTellsWhatHappenedAndWhatMadeIt(t *testing.T) {
	store := coretest.New()
	_, err := forkedRoad(t, noteAny("join")).Kickoff(t.Context(), flow.Inputs{"id": "f"},
		flow.WithStore(store), flow.Persist(), flow.KeepLog(), flow.Concurrency(1))
	if got := told(logOf(t, store, "f")); err != nil || got != wholeRoad {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, wholeRoad)
	}
}

func TestTheLogOfARunThatWasCutIsThatOfOneThatWasNot(t *testing.T) {
	store := coretest.New()
	dead := func(context.Context, *tallyRun, any) (string, error) { return "", errors.New("killed") }
	opts := []flow.RunOption{flow.WithStore(store), flow.Persist(), flow.KeepLog(), flow.Concurrency(1)}
	if _, err := forkedRoad(t, dead).Kickoff(t.Context(), flow.Inputs{"id": "f"}, opts...); err == nil {
		t.Fatal("it did not crash")
	}
	_, err := forkedRoad(t, noteAny("join")).Resume(t.Context(), "f", flow.WithStore(store))
	if got := told(logOf(t, store, "f")); err != nil || got != wholeRoad {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, wholeRoad)
	}
}

func TestTheLinksOfARestoredRunLeadBackAcrossTheCheckpoint(t *testing.T) {
	store := coretest.New()
	opts := []flow.RunOption{flow.WithStore(store), flow.Persist(), flow.KeepLog(), flow.WithCheckpoints(checkpoint.Config{})}
	if _, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "f"}, opts...); err != nil {
		t.Fatal(err)
	}
	afterA := checkpointsOf(t, store, "f")[1]
	if _, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "g"}, append(opts, at(afterA), flow.Fork("g"))...); err != nil {
		t.Fatal(err)
	}
	want := `run_started  | in - | by - | after method_completed a
method_completed b  | in run_started | by method_completed a | after run_started
run_finished  | in run_started | by - | after method_completed b
`
	source, fork := logOf(t, store, "f"), logOf(t, store, "g")
	if got := strings.TrimPrefix(told(source, fork), told(source)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if fork[0].From != "f" || fork[0].Checkpoint != afterA.ID {
		t.Errorf("it began from %+v", fork[0])
	}
	if len(source) != 4 {
		t.Errorf("the log of the flow it was made from is\n%s", told(source))
	}
}

func TestTheLogTellsQuestionsAndAnswers(t *testing.T) {
	store := coretest.New()
	_, err := refunds(t, nil).Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(), flow.KeepLog(), flow.WithProvider(says("approved")))
	want := `run_started  | in - | by - | after -
asked draft  | in run_started | by - | after run_started
answered draft approved | in run_started | by - | after asked draft
method_completed draft approved | in run_started | by - | after answered draft
method_completed yes  | in run_started | by method_completed draft | after method_completed draft
run_finished  | in run_started | by - | after method_completed yes
`
	if got := told(logOf(t, store, "f")); err != nil || got != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
}

// plainStore keeps no logs.
type plainStore struct{ core.FlowPersistence }

func TestALogThatNothingWouldKeepIsRefused(t *testing.T) {
	_, err := chain(t, "a").Kickoff(t.Context(), nil, flow.KeepLog())
	if err == nil || !strings.Contains(err.Error(), "KeepLog") {
		t.Errorf("without a store: %v", err)
	}
	_, err = chain(t, "a").Kickoff(t.Context(), nil, flow.KeepLog(), flow.WithStore(plainStore{coretest.New()}))
	if !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("a store that keeps none: %v", err)
	}
	for _, err := range flow.Log(t.Context(), plainStore{coretest.New()}, "f") {
		if !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("reading: %v", err)
		}
	}
	for _, err := range flow.Log(t.Context(), coretest.New(), "f") {
		if !errors.Is(err, core.ErrNotFound) {
			t.Errorf("of a flow that is not there: %v", err)
		}
	}
}

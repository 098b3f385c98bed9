package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// persistenceScenarios are what a run saves, when, and what becomes of it when it cannot.
var persistenceScenarios = []scenario{
	{"FP-06", savedUnderTheIDOfTheMoment},
	{"FP-07", structuredStateIsSaved},
	{"FP-08", flowLevelSavesEachMethod},
	{"FP-09", methodLevelSavesThatMethod},
	{"FP-11", bothLevelsSaveOnce},
	{"FP-14", nothingIsSavedUnlessAsked},
	{"FP-17", failedSaveFailsTheFlow},
	{"FP-20", savesAreLoggedOnRequest},
	{"FP-21", durableBeforeTheListener},
	{"FP-22", failedMethodIsNotSaved},
	{"FP-23", questionsAreDurable},
	{"FP-28", timesComeBack},
}

func TestScenariosPersistence(t *testing.T) { play(t, persistenceScenarios) }

func savedUnderTheIDOfTheMoment(t *testing.T) {
	store := newStore(t)
	b := flow.New[map[string]any]("greeting")
	flow.Start(b, "greet", func(_ context.Context, run *flow.Run[map[string]any]) (any, error) {
		return nil, run.State().Update(func(s *map[string]any) error {
			(*s)["message"], (*s)["id"] = "Hello, World!", "test-uuid"
			return nil
		})
	})
	res := kickoff(t, build(t, b), nil, flow.WithStore(store), flow.Persist())
	want(t, "the id of the flow", res.FlowID, "test-uuid")
	want(t, "the stored message", stateOf[map[string]any](t, store, "test-uuid")["message"], any("Hello, World!"))
	want(t, "saves", store.takeSaves(), "greet")
}

func structuredStateIsSaved(t *testing.T) {
	store := newStore(t)
	b := flow.New[ledger]("count")
	flow.Start(b, "count", func(_ context.Context, run *ledgerRun) (any, error) {
		return nil, run.State().Update(func(s *ledger) error {
			s.Counter++
			s.Message = fmt.Sprint("Count is ", s.Counter)
			return nil
		})
	})
	res := kickoff(t, build(t, b), nil, flow.WithStore(store), flow.Persist())
	stored := stateOf[map[string]any](t, store, res.FlowID)
	want(t, "the stored counter", stored["counter"], any(1.0))
	want(t, "the stored message", stored["message"], any("Count is 1"))
}

func flowLevelSavesEachMethod(t *testing.T) {
	store, s := newStore(t), &stage{}
	res := kickoff(t, s.chain(t, "first", "second"), nil, flow.WithStore(store), flow.Persist())
	want(t, "saves", store.takeSaves(), "first second")
	last := stateOf[ledger](t, store, res.FlowID)
	want(t, "the last counter", last.Counter, 2)
	want(t, "the last id", last.ID, res.FlowID)
}

func methodLevelSavesThatMethod(t *testing.T) {
	store, s := newStore(t), &stage{opts: map[string][]flow.MethodOption{"first": {flow.Persist()}}}
	res := kickoff(t, s.chain(t, "first", "second"), nil, flow.WithStore(store))
	want(t, "saves", store.takeSaves(), "first")
	want(t, "the stored counter", stateOf[ledger](t, store, res.FlowID).Counter, 1)
	want(t, "the counter of the run", res.State.Counter, 2)
}

func bothLevelsSaveOnce(t *testing.T) {
	store, s := newStore(t), &stage{opts: map[string][]flow.MethodOption{"first": {flow.Persist()}}}
	kickoff(t, s.chain(t, "first", "second"), nil, flow.WithStore(store), flow.Persist())
	want(t, "saves", store.takeSaves(), "first second")
}

// What a declaration leaves open is off, here too: a store alone is for restoring. And a
// method can be exempt.
func nothingIsSavedUnlessAsked(t *testing.T) {
	store, s := newStore(t), &stage{opts: map[string][]flow.MethodOption{"b": {flow.NoPersist()}}}
	def := s.chain(t, "a", "b", "c")
	res := kickoff(t, def, nil, flow.WithStore(store))
	want(t, "saves without Persist", store.takeSaves(), "")
	if _, err := store.LoadState(t.Context(), res.FlowID); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("a run without Persist has left something: %v", err)
	}
	kickoff(t, def, nil, flow.WithStore(store), flow.Persist())
	want(t, "saves with an exempt method", store.takeSaves(), "a c")
}

func failedSaveFailsTheFlow(t *testing.T) {
	full := errors.New("disk full")
	store, s, told := newStore(t), &stage{}, &events{}
	store.refuse = func(core.Snapshot) error { return full }
	_, err := s.chain(t, "m", "next").Kickoff(t.Context(), nil, flow.WithStore(store), flow.Persist(), told.option())
	var failed *flow.SaveError
	if !errors.As(err, &failed) || failed.Method != "m" || !errors.Is(err, full) || !strings.HasSuffix(err.Error(), "state persistence failed: disk full") {
		t.Errorf("the run returned %v", err)
	}
	want(t, "events", told.String(), "FlowStarted MethodStarted:m SaveFailed:m FlowFailed")
	want(t, "methods that ran", s.takeRan(), "m")
}

func savesAreLoggedOnRequest(t *testing.T) {
	for level, verbose := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		l := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		s := &stage{}
		kickoff(t, s.chain(t, "a"), flow.Inputs{"id": "log-me"}, flow.WithStore(newStore(t)), flow.Persist(), flow.WithObserver(flow.LogEvents(l)))
		found := false
		for line := range strings.Lines(out.String()) {
			found = found || strings.Contains(line, "state saved") && strings.Contains(line, "log-me")
		}
		if found != verbose {
			t.Errorf("at level %v the log is\n%s", level, &out)
		}
	}
}

func durableBeforeTheListener(t *testing.T) {
	store, s := newStore(t), &stage{}
	s.before = map[string]func() error{"listener": func() error {
		snap, err := store.elsewhere().LoadState(t.Context(), "f")
		want(t, "the method that is stored when its listener begins", snap.Method, "start")
		want(t, "the counter that is stored", stateOf[ledger](t, store.elsewhere(), "f").Counter, 1)
		return err
	}}
	kickoff(t, s.chain(t, "start", "listener"), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist())
	want(t, "methods that ran", s.takeRan(), "start listener")
}

func failedMethodIsNotSaved(t *testing.T) {
	boom := errors.New("boom")
	store, s := newStore(t), &stage{before: map[string]func() error{"b": func() error { return boom }}}
	if _, err := s.chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist()); !errors.Is(err, boom) {
		t.Errorf("the run returned %v", err)
	}
	want(t, "saves", store.takeSaves(), "a")
	want(t, "the stored counter", stateOf[ledger](t, store, "f").Counter, 1)
}

// interview asks two questions in one method.
func (s *stage) interview(t *testing.T) *flow.Definition[ledger] {
	t.Helper()
	b := flow.New[ledger]("interview")
	flow.Start(b, "interview", func(ctx context.Context, run *ledgerRun) (string, error) {
		topic, err := run.Ask(ctx, "Topic?")
		if err != nil {
			return "", err
		}
		depth, err := run.Ask(ctx, "Depth?")
		if err != nil {
			return "", err
		}
		return s.note(run, topic+", "+depth)
	})
	return build(t, b)
}

// Each question is stored before it is asked, the second one beside the answer to the first.
// Here the run fails if that cannot be, where the original goes on: a question that is not
// stored could not be answered by another process.
func questionsAreDurable(t *testing.T) {
	var asked []string
	var store *recorded
	person := flow.ProviderFunc(func(ctx context.Context, r flow.Request) (flow.Reply, error) {
		asked = append(asked, r.Message)
		if store != nil {
			open := pendingOf(t, store, r.FlowID)
			if len(open) != 1 || open[0].Message != r.Message {
				t.Errorf("asked %q while %+v is stored", r.Message, open)
			}
			snap, err := store.LoadState(ctx, r.FlowID)
			want(t, "the answer AI is stored when asked "+r.Message, strings.Contains(string(snap.Progress), `"AI"`), r.Message == "Depth?")
			return flow.Reply{Text: map[string]string{"Topic?": "AI", "Depth?": "detailed"}[r.Message]}, err
		}
		return flow.Reply{Text: map[string]string{"Topic?": "AI", "Depth?": "detailed"}[r.Message]}, nil
	})
	s := &stage{}
	res := kickoff(t, s.interview(t), nil, flow.WithProvider(person))
	wantList(t, "what is written without a store", res.State.Log, "AI, detailed")
	wantList(t, "asked without a store", asked, "Topic?", "Depth?")

	asked, store = nil, newStore(t)
	opened := 0
	res = kickoff(t, s.interview(t), nil, flow.WithStore(store), flow.WithProvider(person), flow.WithObserver(func(_ context.Context, e flow.Event) {
		if _, ok := e.(flow.RequestOpened); ok {
			opened++
		}
	}))
	wantList(t, "what is written with a store", res.State.Log, "AI, detailed")
	want(t, "requests opened", opened, 2)

	asked, store = nil, nil
	refusing := newStore(t)
	refusing.refuse = func(core.Snapshot) error { return errors.New("disk full") }
	_, err := s.interview(t).Kickoff(t.Context(), nil, flow.WithStore(refusing), flow.WithProvider(person))
	var failed *flow.SaveError
	if !errors.As(err, &failed) || len(asked) != 0 {
		t.Errorf("a question that cannot be stored: asked %q, %v", asked, err)
	}
}

func timesComeBack(t *testing.T) {
	type visit struct {
		ID string    `json:"id"`
		At time.Time `json:"at"`
	}
	instant := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := newStore(t)
	b := flow.New[visit]("visit")
	flow.Start(b, "arrive", func(_ context.Context, run *flow.Run[visit]) (any, error) {
		return nil, run.State().Update(func(v *visit) error {
			if v.At.IsZero() {
				v.At = instant
			}
			return nil
		})
	})
	def := build(t, b)
	kickoff(t, def, flow.Inputs{"id": "v"}, flow.WithStore(store), flow.Persist())
	again := kickoff(t, def, flow.Inputs{"id": "v"}, flow.WithStore(store.elsewhere()))
	if !again.State.At.Equal(instant) {
		t.Errorf("restored is %v, want %v", again.State.At, instant)
	}
}

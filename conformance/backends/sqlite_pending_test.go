package backends_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/inmem"
	"github.com/weirflow/weir/persistence/sqlite"
)

// crewFile is a SQLite file that CrewAI has open.
type crewFile struct {
	path string
	db   *sql.DB
}

func newCrewFile(t *testing.T) crewFile {
	t.Helper()
	f := crewFile{path: filepath.Join(t.TempDir(), "flow_states.db")}
	var err error
	if f.db, err = sql.Open("sqlite", "file:"+f.path+"?_pragma=busy_timeout(30000)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, stmt := range []string{
		`PRAGMA journal_mode=WAL`,
		`CREATE TABLE IF NOT EXISTS flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL,
			method_name TEXT NOT NULL, timestamp DATETIME NOT NULL, state_json TEXT NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS idx_flow_states_uuid ON flow_states(flow_uuid)`,
		`CREATE TABLE IF NOT EXISTS pending_feedback (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT NOT NULL UNIQUE,
			context_json TEXT NOT NULL, state_json TEXT NOT NULL, created_at DATETIME NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS idx_pending_feedback_uuid ON pending_feedback(flow_uuid)`,
	} {
		f.exec(t, stmt)
	}
	return f
}

func (f crewFile) exec(t *testing.T, stmt string, args ...any) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), stmt, args...); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// saves is what CrewAI does when a method of flow u has completed.
func (f crewFile) saves(t *testing.T, method, state string) {
	t.Helper()
	f.exec(t, `INSERT INTO flow_states (flow_uuid, method_name, timestamp, state_json) VALUES ('u', ?, ?, ?)`, method, "2026-01-02T03:04:05.000678+00:00", state)
}

const crewPaused = `{"id": "u", "counter": 42, "log": ["generate"]}`

// pauses is what CrewAI does when flow u pauses in a method.
func (f crewFile) pauses(t *testing.T, method, output string) {
	t.Helper()
	f.saves(t, method, crewPaused)
	request := fmt.Sprintf(`{"flow_id": "u", "flow_class": "shop.Refunds", "method_name": %q, "method_output": %s, "message": "Pay?",
		"emit": ["approved", "rejected"], "default_outcome": "rejected", "metadata": {"team": "billing"}, "llm": "gpt-4o-mini",
		"requested_at": "2026-01-02T04:04:05", "execution_uuid": null}`, method, output)
	f.exec(t, `INSERT OR REPLACE INTO pending_feedback (flow_uuid, context_json, state_json, created_at) VALUES ('u', ?, ?, ?)`,
		request, crewPaused, "2026-01-02T03:04:05.000678+00:00")
}

// rows returns how often CrewAI's tables were written to and how many requests there are.
func (f crewFile) rows(t *testing.T) (states, requests int) {
	t.Helper()
	err := f.db.QueryRowContext(t.Context(), `SELECT (SELECT max(id) FROM flow_states), (SELECT count(*) FROM pending_feedback)`).Scan(&states, &requests)
	if err != nil {
		t.Fatal(err)
	}
	return states, requests
}

// open returns the file as another process of Weir has it.
func (f crewFile) open(t *testing.T) *persistence.Store {
	t.Helper()
	d, err := sqlite.Open(t.Context(), sqlite.Config{Path: f.path, Synchronous: sqlite.Off})
	if err != nil {
		t.Fatal(err)
	}
	s := persistence.New(d)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// refund is the state of CrewAI's flow in Go, with a field that Python's does not have.
type refund struct {
	ID       string   `json:"id"`
	Counter  int      `json:"counter"`
	Log      []string `json:"log"`
	Currency string   `json:"currency"`
}

const (
	yes flow.Label[flow.Feedback] = "approved"
	no  flow.Label[flow.Feedback] = "rejected"
)

// refunds is CrewAI's flow in Go: what was generated is reviewed; what is approved is paid,
// and the payment confirmed by a person in its turn. fail is asked before a payment.
func refunds(t *testing.T, fail func(run *flow.Run[refund]) error) *flow.Definition[refund] {
	t.Helper()
	b := flow.New[refund]("refunds")
	b.Initial(func() refund { return refund{Counter: 41, Currency: "EUR"} })
	did := func(run *flow.Run[refund], what string) (string, error) {
		return what, run.State().Update(func(s *refund) error { s.Log = append(s.Log, what); s.Counter++; return nil })
	}
	generate := flow.Start(b, "generate", func(_ context.Context, run *flow.Run[refund]) (string, error) {
		return did(run, "generate")
	})
	review := flow.Listen(b, "review", func(_ context.Context, _ *flow.Run[refund], draft string) (map[string]string, error) {
		return map[string]string{"draft": draft}, nil
	}, generate, flow.Review{Message: "Pay?", Outcomes: []flow.Label[flow.Feedback]{yes, no}, Default: no})
	flow.Listen(b, "audit", func(_ context.Context, run *flow.Run[refund], reviewed map[string]string) (string, error) {
		return did(run, "audit "+reviewed["draft"])
	}, review)
	pay := flow.Listen(b, "pay", func(_ context.Context, run *flow.Run[refund], fb flow.Feedback) (string, error) {
		if fail != nil {
			if err := fail(run); err != nil {
				return "", err
			}
		}
		return did(run, "pay: "+fb.Text+" "+string(fb.Output))
	}, yes)
	flow.Listen(b, "refuse", func(_ context.Context, run *flow.Run[refund], fb flow.Feedback) (string, error) {
		return did(run, "refuse: "+fb.Text+" as "+fb.Outcome)
	}, no)
	confirm := flow.Listen(b, "confirm", func(_ context.Context, _ *flow.Run[refund], paid string) (string, error) {
		return paid, nil
	}, pay, flow.Review{Message: "Arrived?"})
	flow.Listen(b, "close", func(_ context.Context, run *flow.Run[refund], fb flow.Feedback) (string, error) {
		return did(run, "close: "+fb.Text)
	}, flow.Reviewed(confirm))
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// theRequest returns the one open request of flow u.
func theRequest(t *testing.T, s core.FlowPersistence) flow.Request {
	t.Helper()
	open, err := flow.Pending(t.Context(), s, "u")
	if err != nil || len(open) != 1 {
		t.Fatalf("open are %+v, %v", open, err)
	}
	return open[0]
}

// blocking runs the flow from its start to the end, with people who answer at once.
func blocking(t *testing.T, replies map[string]flow.Reply) *flow.Result[refund] {
	t.Helper()
	ask := flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) { return replies[r.Method], nil })
	res, err := refunds(t, nil).Kickoff(t.Context(), flow.Inputs{"id": "u"}, flow.WithStore(persistence.New(inmem.New(inmem.Config{}))), flow.Persist(), flow.WithProvider(ask))
	if err != nil || !res.Finished {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

// names lists what was asked and answered, without ids and times.
func names(feedback []flow.Feedback) string {
	var out []string
	for _, f := range feedback {
		out = append(out, f.Method+" "+f.Outcome+" "+f.Text+" "+string(f.Output))
	}
	return strings.Join(out, ", ")
}

func TestPythonPendingFlowIsListed(t *testing.T) {
	f := newCrewFile(t)
	f.saves(t, "generate", `{"id": "u", "counter": 41}`)
	s := f.open(t)
	if open, err := flow.Pending(t.Context(), s, "u"); err != nil || len(open) != 0 {
		t.Errorf("before the pause: %+v, %v", open, err)
	}
	if _, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer("x", flow.Reply{})); !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("an answer to a flow that asks nothing: %v", err)
	}
	if _, err := refunds(t, nil).Resume(t.Context(), "v", flow.WithStore(s), flow.Answer("x", flow.Reply{})); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an answer to a flow that is not there: %v", err)
	}
	f.pauses(t, "review", `{"draft": "generate"}`)
	got := theRequest(t, s)
	at := got.At.Format("2006-01-02T15:04:05.999999")
	want := flow.Request{
		ID: got.ID, ActivationID: got.ActivationID, At: got.At, Flow: "shop.Refunds", FlowID: "u", Method: "review", Message: "Pay?", Outcomes: []string{"approved", "rejected"},
		Default: "rejected", Output: json.RawMessage(`{"draft": "generate"}`), Metadata: map[string]string{"team": "billing"},
	}
	if !reflect.DeepEqual(got, want) || at != "2026-01-02T03:04:05.000678" || got.ID == "" || got.ActivationID == "" {
		t.Errorf("listed as %+v", got)
	}
	if again := theRequest(t, f.open(t)); again.ID != got.ID {
		t.Errorf("another process knows it as %q, not %q", again.ID, got.ID)
	}
	res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s)) // without an answer
	if err != nil || !res.Paused || len(res.Pending) != 1 || res.Pending[0].ID != got.ID || res.State.Counter != 42 || res.State.Currency != "EUR" {
		t.Errorf("resumed without an answer: %+v, %v", res, err)
	}
	if states, requests := f.rows(t); states != 2 || requests != 1 {
		t.Errorf("looking has written: %d rows of state, %d of requests", states, requests)
	}
}

func TestPythonPendingFlowIsResumed(t *testing.T) {
	for name, c := range map[string]struct{ given, meant flow.Reply }{
		"outcome":         {flow.Reply{Text: "go on", Outcome: "approved"}, flow.Reply{Text: "go on", Outcome: "approved"}},
		"text":            {flow.Reply{Text: "Rejected"}, flow.Reply{Text: "Rejected", Outcome: "rejected"}},
		"default outcome": {flow.Reply{Text: "  "}, flow.Reply{Text: "  ", Outcome: "rejected"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCrewFile(t)
			f.pauses(t, "review", `{"draft":"generate"}`)
			s := f.open(t)
			id := theRequest(t, s).ID
			arrived := flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Text: "arrived"}, nil })
			res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.WithProvider(arrived), flow.Answer(id, c.given))
			if err != nil || !res.Finished {
				t.Fatalf("%+v, %v", res, err)
			}
			want := blocking(t, map[string]flow.Reply{"review": c.meant, "confirm": {Text: "arrived"}})
			if !reflect.DeepEqual(res.State, want.State) || string(res.Output) != string(want.Output) || names(res.Feedback) != names(want.Feedback) {
				t.Errorf("state    %+v\n    want %+v\noutput   %s\n    want %s\nfeedback %s\n    want %s",
					res.State, want.State, res.Output, want.Output, names(res.Feedback), names(want.Feedback))
			}
			delete(want.Completed, "generate")
			if !reflect.DeepEqual(res.Completed, want.Completed) {
				t.Errorf("completed %v, want %v", res.Completed, want.Completed)
			}
			if _, requests := f.rows(t); requests != 0 {
				t.Error("CrewAI still finds its request")
			}
			// The end is stored, whichever options the resume had.
			var end refund
			if snap, err := f.open(t).LoadState(t.Context(), "u"); err != nil || json.Unmarshal(snap.State, &end) != nil || !reflect.DeepEqual(end, res.State) {
				t.Errorf("the stored state is %s, %v", snap.State, err)
			}
			again, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(f.open(t)))
			if err != nil || !again.Finished || !reflect.DeepEqual(again.State, res.State) {
				t.Errorf("stored is %+v, %v", again, err)
			}
			if _, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(id, c.given)); !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) {
				t.Errorf("a second answer: %v", err)
			}
			if open, err := flow.Pending(t.Context(), s, "u"); err != nil || len(open) != 0 {
				t.Errorf("still open: %+v, %v", open, err)
			}
		})
	}
}

func TestPythonPendingFlowRefusals(t *testing.T) {
	f := newCrewFile(t)
	s := f.open(t)
	refused := func(why, method, says string, want func(error) bool, replies ...flow.Reply) {
		t.Helper()
		f.pauses(t, method, `{"draft":"generate"}`)
		open := theRequest(t, s)
		before, _ := f.rows(t)
		for _, r := range replies {
			res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(open.ID, r))
			if res != nil || err == nil || !want(err) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %+v: %+v, %v", why, r, res, err)
			}
		}
		if now, requests := f.rows(t); now != before || requests != 1 || theRequest(t, s).ID != open.ID {
			t.Errorf("%s: something was written", why)
		}
	}
	unclear := func(err error) bool { var e *flow.OutcomeError; return errors.As(err, &e) }
	unsupported := func(err error) bool { return errors.Is(err, core.ErrUnsupported) }
	refused("no outcome of the definition", "review", "approved", unclear, flow.Reply{Text: "maybe"}, flow.Reply{Outcome: "later"})
	refused("no such method", "vanished%s", `"vanished%s"`, unsupported, flow.Reply{Outcome: "approved"})
	refused("a method without review", "pay", `"pay"`, unsupported, flow.Reply{Outcome: "approved"})
	refused("a method that asks for text only", "confirm", "approved", unclear, flow.Reply{Outcome: "approved"})
	f.pauses(t, "review", `{}`)
	if _, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer("another", flow.Reply{Outcome: "approved"})); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an answer to another request: %v", err)
	}
	f.exec(t, `UPDATE pending_feedback SET state_json = '{"id": "u", "counter": "many"}'`)
	open := theRequest(t, s)
	if _, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(open.ID, flow.Reply{Outcome: "approved"})); err == nil || !strings.Contains(err.Error(), "counter") {
		t.Errorf("a state that does not fit: %v", err)
	}
	f.exec(t, `UPDATE pending_feedback SET context_json = '{"method_name": "review"}'`)
	if _, err := flow.Pending(t.Context(), s, "u"); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("a damaged request is listed as %v", err)
	}
	if _, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(open.ID, flow.Reply{})); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("a damaged request is answered: %v", err)
	}
}

// The state that counts is the one the flow was paused with, as in CrewAI.
func TestPythonPendingFlowGoesOnWithThePausedState(t *testing.T) {
	f := newCrewFile(t)
	f.pauses(t, "review", `{"draft":"generate"}`)
	f.saves(t, "other", `{"id": "u", "counter": 1000, "log": ["of another run"]}`)
	s := f.open(t)
	res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(theRequest(t, s).ID, flow.Reply{Outcome: "rejected"}))
	if err != nil || strings.Join(res.State.Log, ", ") != "generate, audit generate, refuse:  as rejected" || res.State.Counter != 44 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestPythonPendingFlowIsClaimedOnce(t *testing.T) {
	f := newCrewFile(t)
	f.pauses(t, "review", `{"draft":"generate"}`)
	stores := make([]*persistence.Store, 6)
	for i := range stores {
		stores[i] = f.open(t)
	}
	id := theRequest(t, stores[0]).ID
	var wg sync.WaitGroup
	errs := make([]error, len(stores))
	ran := make([]string, len(stores)) // what each has run
	for i, s := range stores {
		wg.Go(func() {
			_, errs[i] = refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(id, flow.Reply{Text: fmt.Sprint(i), Outcome: "rejected"}),
				flow.WithObserver(func(_ context.Context, e flow.Event) {
					if m, ok := e.(flow.MethodStarted); ok {
						ran[i] += m.Method + " "
					}
				}))
		})
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) || ran[i] != "":
			t.Errorf("process %d has run %q and is told %v", i, ran[i], err)
		}
	}
	res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(f.open(t)))
	want := fmt.Sprintf("generate, audit generate, refuse: %d as rejected", winner)
	if winner < 0 || err != nil || strings.Join(res.State.Log, ", ") != want {
		t.Errorf("process %d won; %+v, %v", winner, res, err)
	}
}

// between is a store that lets something happen before its next save.
type between struct {
	*persistence.Store
	happens func()
}

func (b *between) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if b.happens != nil {
		b.happens()
		b.happens = nil
	}
	return b.Store.SaveState(ctx, snap, opts...)
}

// CrewAI removes its request before it runs anything, and need not have saved a state.
func TestPythonPendingFlowThatPythonResumes(t *testing.T) {
	f := newCrewFile(t)
	clear := func() { f.exec(t, `DELETE FROM pending_feedback WHERE flow_uuid = 'u'`) }
	for name, c := range map[string]struct {
		happens func()
		want    error
	}{
		"without a save":              {clear, flow.ErrAnswered},
		"with a save":                 {func() { f.saves(t, "review", crewPaused); clear() }, flow.ErrAnswered},
		"and asks again":              {func() { f.pauses(t, "review", `{"draft":"second"}`) }, core.ErrNotFound},
		"no, it is only another save": {func() { f.saves(t, "other", crewPaused) }, nil},
	} {
		f.pauses(t, "review", `{"draft":"generate"}`)
		s := &between{Store: f.open(t)}
		open := theRequest(t, s)
		s.happens = c.happens
		res, err := refunds(t, nil).Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(open.ID, flow.Reply{Outcome: "rejected"}))
		if !errors.Is(err, c.want) || (err != nil) == (res != nil) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// What follows from the answer fails, and is resumed; the next pause is Weir's own.
func TestPythonPendingFlowPausesAgain(t *testing.T) {
	f := newCrewFile(t)
	f.pauses(t, "review", `{"draft":"generate"}`)
	s := f.open(t)
	var calls []string
	def := refunds(t, func(run *flow.Run[refund]) error {
		if calls = append(calls, run.ActivationID()); len(calls) == 1 {
			return errors.New("killed")
		}
		return nil
	})
	first := theRequest(t, s).ID
	if _, err := def.Resume(t.Context(), "u", flow.WithStore(s), flow.Answer(first, flow.Reply{Outcome: "approved"})); err == nil {
		t.Fatal("it did not fail")
	}
	res, err := def.Resume(t.Context(), "u", flow.WithStore(f.open(t)))
	if err != nil || !res.Paused || len(calls) != 2 || calls[0] != calls[1] || strings.Contains(strings.Join(res.State.Log, ","), "close") {
		t.Fatalf("calls %q; %+v, %v", calls, res, err)
	}
	second := theRequest(t, f.open(t))
	if second.Method != "confirm" || second.Message != "Arrived?" || second.ID == first {
		t.Errorf("the second request is %+v", second)
	}
	if _, requests := f.rows(t); requests != 0 {
		t.Error("there is a request for CrewAI")
	}
	res, err = def.Resume(t.Context(), "u", flow.WithStore(f.open(t)), flow.Answer(second.ID, flow.Reply{Text: "yes"}))
	want := `generate, audit generate, pay:  {"draft":"generate"}, close: yes`
	if err != nil || !res.Finished || strings.Join(res.State.Log, ", ") != want || len(res.Feedback) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A flow whose last method asks has the feedback as its output.
func TestPythonPendingFlowThatEndsWithFeedback(t *testing.T) {
	f := newCrewFile(t)
	f.pauses(t, "only", `"generated content"`)
	s := f.open(t)
	b := flow.New[refund]("terminal")
	flow.Start(b, "only", func(context.Context, *flow.Run[refund]) (string, error) { return "again", nil }, flow.Review{Message: "Well?"})
	flow.Start(b, "other", func(context.Context, *flow.Run[refund]) (string, error) { return "", errors.New("not to be run") })
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	res, err := def.Resume(t.Context(), "u", flow.WithStore(s), flow.KeepOutputs(), flow.Answer(theRequest(t, s).ID, flow.Reply{Text: "looks good!"}))
	if err != nil || !res.Finished || len(res.Outputs) != 1 || string(res.Outputs[0].Output) != string(res.Output) {
		t.Fatalf("%+v, %v", res, err)
	}
	var fb flow.Feedback
	if err := json.Unmarshal(res.Output, &fb); err != nil || fb.Text != "looks good!" || fb.Outcome != "" || string(fb.Output) != `"generated content"` || fb.Metadata["team"] != "billing" {
		t.Errorf("the output is %s, %v", res.Output, err)
	}
}

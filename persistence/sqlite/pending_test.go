package sqlite

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// crewPauses is what CrewAI does in one transaction when a flow pauses.
func crewPauses(t testing.TB, db *sql.DB, id, method, request, state string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(t.Context(), crewSave, id, method, crewTime, state)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), crewPending, id, request, state, crewTime)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

const crewClear = `DELETE FROM pending_feedback WHERE flow_uuid = ?`

// fullRequest is a context with all that CrewAI writes.
const fullRequest = `{"flow_id": "u1", "flow_class": "shop.Refunds", "method_name": "review", "method_output": {"data": "t\u00e9st", "n": 9007199254740993},
 "message": "Pay?", "emit": ["approved", "rejected"], "default_outcome": "rejected",
 "metadata": {"team": "a \"b\"", "level": 3, "tags": ["x",  1], "none": null}, "llm": {"model": "openai/gpt-4o-mini"},
 "requested_at": "2026-01-02T04:04:05.000678", "execution_uuid": "e-1"}`

const pausedState = `{"id": "u1", "counter": 10, "items": ["a", "b"]}`

func mustLoadRequest(t testing.TB, s *persistence.Store, id string) core.ForeignRequest {
	t.Helper()
	r, err := s.LoadForeignRequest(t.Context(), id)
	if err != nil {
		t.Fatalf("LoadForeignRequest(%q): %v", id, err)
	}
	return r
}

func TestPythonPendingRowsAreRead(t *testing.T) {
	path, db := newCrewFile(t)
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	crewPauses(t, db, "old", "review", `{"flow_id": "old", "flow_class": "m.F", "method_name": "review", "method_output": null, "emit": null, "default_outcome": null}`, `{"id": "old"}`)
	s := persistence.New(openTest(t, Config{Path: path}))
	snap, err := s.LoadState(t.Context(), "u1") // the pause is in the history of states, too
	if err != nil || string(snap.State) != pausedState || snap.Method != "review" {
		t.Fatalf("LoadState: %+v, %v", snap, err)
	}
	got := mustLoadRequest(t, s, "u1")
	want := core.ForeignRequest{
		FlowID: "u1", Flow: "shop.Refunds", Method: "review", Message: "Pay?", Outcomes: []string{"approved", "rejected"}, Default: "rejected",
		Output:   json.RawMessage(`{"data": "t\u00e9st", "n": 9007199254740993}`),
		Metadata: map[string]string{"team": `a "b"`, "level": "3", "tags": `["x",1]`, "none": "null"},
		At:       time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC), State: json.RawMessage(pausedState),
		ID: got.ID, Revision: snap.Revision,
	}
	if !reflect.DeepEqual(got, want) || got.ID == "" {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if again := mustLoadRequest(t, s, "u1"); !reflect.DeepEqual(again, got) {
		t.Errorf("the next time it is %+v", again)
	}
	old := mustLoadRequest(t, s, "old")
	if old.Message != "" || old.Outcomes != nil || old.Default != "" || len(old.Metadata) != 0 || old.Method != "review" || old.ID == got.ID {
		t.Errorf("a row of an older version reads as %+v", old)
	}
	// What is asked anew, also to the letter, is another request.
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	if again := mustLoadRequest(t, s, "u1"); again.ID == got.ID || again.Revision == got.Revision {
		t.Errorf("asked anew it has the same id or revision: %+v", again)
	}
}

func TestPythonPendingRowsThatDoNotRead(t *testing.T) {
	path, db := newCrewFile(t)
	const good = `{"flow_id": "u", "flow_class": "m.F", "method_name": "m"}`
	s := persistence.New(openTest(t, Config{Path: path}))
	for name, c := range map[string]struct{ request, state, says string }{
		"broken JSON":      {`{"flow_id": "u", `, `{}`, "context_json"},
		"empty":            {``, `{}`, "context_json"},
		"no flow_id":       {`{"flow_class": "m.F", "method_name": "m"}`, `{}`, "no flow_id"},
		"another flow":     {`{"flow_id": "u%s%n", "method_name": "m"}`, `{}`, `"u%s%n"`},
		"no method":        {`{"flow_id": "u", "flow_class": "m.F"}`, `{}`, "no method_name"},
		"no object":        {`["u"]`, `{}`, "context_json"},
		"odd emit":         {`{"flow_id": "u", "method_name": "m", "emit": {"a": 1}}`, `{}`, "context_json"},
		"not a number":     {`{"flow_id": "u", "method_name": "m", "method_output": NaN}`, `{}`, "context_json"},
		"broken state":     {good, `{"n": `, "state"},
		"state no object":  {good, `[1]`, "state"},
		"state with a NaN": {good, `{"n": NaN}`, "state"},
	} {
		mustExec(t, db, crewSave, "u", "m", crewTime, `{"id": "u"}`)
		mustExec(t, db, crewPending, "u", c.request, c.state, crewTime)
		r, err := s.LoadForeignRequest(t.Context(), "u")
		if !errors.Is(err, core.ErrCorrupt) || errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), c.says) || !reflect.DeepEqual(r, core.ForeignRequest{}) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	mustExec(t, db, crewPending, "u", good, `{}`, "yesterday")
	if r := mustLoadRequest(t, s, "u"); !r.At.IsZero() || r.Method != "m" {
		t.Errorf("a time that cannot be read: %+v", r)
	}
}

func TestPythonPendingRowsThatAreNot(t *testing.T) {
	path, db := newCrewFile(t)
	mustExec(t, db, crewSave, "running", "m", crewTime, `{"id": "running"}`)
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	mustExec(t, db, crewPending, "stateless", fullRequest, pausedState, crewTime)
	d := openTest(t, Config{Path: path})
	s := persistence.New(d)
	absent := func(why string, s *persistence.Store, id string) {
		t.Helper()
		if r, err := s.LoadForeignRequest(t.Context(), id); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s: %+v, %v", why, r, err)
		}
	}
	for _, id := range []string{"nobody", "running", "stateless", "u%", "U1"} {
		absent("never paused", s, id)
	}
	if _, err := s.LoadForeignRequest(t.Context(), ""); !errors.Is(err, core.ErrInvalidID) {
		t.Errorf("without an id: %v", err)
	}
	// A file that is only read needs neither Weir's columns nor CrewAI's table of requests.
	ro := openTest(t, Config{Path: path, ReadOnly: true})
	if r := mustLoadRequest(t, persistence.New(ro), "u1"); r.Method != "review" {
		t.Errorf("read-only: %+v", r)
	}
	bare := openSQL(t, path+".bare")
	for _, stmt := range crewInit[:3] {
		mustExec(t, bare, stmt)
	}
	mustExec(t, bare, crewSave, "u1", "m", crewTime, `{}`)
	absent("no such table", persistence.New(openTest(t, Config{Path: path + ".bare", ReadOnly: true})), "u1")

	// A sweep gives the head an epoch and leaves the pause what it is; a save of Weir ends it.
	before := mustLoadRequest(t, s, "u1")
	mustPut(t, d, driver.Partition("u1").Sibling("seg/left/behind/000000"), driver.Record{Data: []byte("x")}, driver.Condition{})
	if n, err := s.Sweep(t.Context(), "u1"); err != nil || n != 1 || mustGet(t, d, driver.Partition("u1").Head()).Data == nil {
		t.Fatalf("the sweep removed %d records, %v; it must have fenced", n, err)
	}
	if r := mustLoadRequest(t, s, "u1"); !reflect.DeepEqual(r, before) {
		t.Errorf("after a sweep %+v", r)
	}
	if _, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "u1", State: json.RawMessage(`{"id":"u1"}`)}); err != nil {
		t.Fatal(err)
	}
	absent("saved by Weir since", s, "u1")
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback WHERE flow_uuid = 'u1'`); n != 1 {
		t.Error("a save that answers nothing has taken the row away")
	}
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	mustLoadRequest(t, s, "u1")
}

func TestPythonPendingRowsAreTakenOnce(t *testing.T) {
	path, db := newCrewFile(t)
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	crewPauses(t, db, "u2", "review", strings.ReplaceAll(fullRequest, "u1", "u2"), `{"id": "u2"}`)
	open := func() *persistence.Store { return persistence.New(openTest(t, Config{Path: path})) }
	s := open()
	r := mustLoadRequest(t, s, "u1")
	answer := func(s *persistence.Store, r core.ForeignRequest, n string) error {
		snap := core.Snapshot{FlowID: r.FlowID, Method: r.Method, State: r.State, Progress: json.RawMessage(n)}
		_, err := s.SaveState(t.Context(), snap, core.IfRevision(r.Revision), core.Answering(r.ID))
		return err
	}
	wrong := r
	wrong.ID += "0"
	wantErr(t, "an answer to another request", answer(s, wrong, `0`), core.ErrConflict)
	stale := r
	stale.Revision.Tag += "0"
	wantErr(t, "an answer on another revision", answer(s, stale, `0`), core.ErrConflict)
	if again := mustLoadRequest(t, s, "u1"); again.ID != r.ID || again.Revision != r.Revision {
		t.Errorf("the refused answers have changed it: %+v", again)
	}

	stores := []*persistence.Store{open(), open(), open(), open()}
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() { errs[i] = answer(s, r, string(rune('1'+i))) })
	}
	wg.Wait()
	won := ""
	for i, err := range errs {
		switch {
		case err == nil:
			won += string(rune('1' + i))
		case !errors.Is(err, core.ErrConflict) || core.OutcomeUnknown(err):
			t.Errorf("answer %d: %v", i+1, err)
		}
	}
	snap, err := s.LoadState(t.Context(), "u1")
	if len(won) != 1 || err != nil || string(snap.Progress) != won || string(snap.State) != pausedState {
		t.Errorf("%q won, stored is %+v, %v", won, snap, err)
	}
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback WHERE flow_uuid = 'u1'`); n != 0 {
		t.Error("the row is still there for CrewAI")
	}
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback`); n != 1 {
		t.Error("another flow's row is gone, too")
	}

	// CrewAI takes the answer itself and saves nothing: the head is the same, the request gone.
	r = mustLoadRequest(t, s, "u2")
	mustExec(t, db, crewClear, "u2")
	wantErr(t, "an answer to what CrewAI answered", answer(s, r, `9`), core.ErrConflict)
	if snap, err := s.LoadState(t.Context(), "u2"); err != nil || snap.Progress != nil || snap.Revision != r.Revision {
		t.Errorf("stored is %+v, %v", snap, err)
	}
}

// An answer whose payload is too large for the row needs siblings, and those an epoch first.
func TestPythonPendingRowsAreTakenByALargeSave(t *testing.T) {
	path, db := newCrewFile(t)
	crewPauses(t, db, "u1", "review", fullRequest, pausedState)
	s := persistence.New(openTest(t, Config{Path: path}), persistence.WithLimits(driver.Limits{Record: 1 << 10, Inline: 512}), persistence.WithHistory(2))
	r := mustLoadRequest(t, s, "u1")
	var text strings.Builder // that no compression makes small
	for text.Len() < 20<<10 {
		text.WriteString(rand.Text())
	}
	noise, err := json.Marshal(text.String())
	if err != nil {
		t.Fatal(err)
	}
	saved, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "u1", State: r.State, Progress: noise}, core.IfRevision(r.Revision), core.Answering(r.ID))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.LoadState(t.Context(), "u1")
	if err != nil || string(snap.Progress) != string(noise) || snap.Revision != saved.Revision || saved.Revision.N != 2 {
		t.Errorf("revision %v, %d bytes, %v", snap.Revision, len(snap.Progress), err)
	}
	if n := queryInt(t, db, `SELECT count(*) FROM pending_feedback`); n != 0 {
		t.Error("the row is still there")
	}
}

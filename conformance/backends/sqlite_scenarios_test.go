package backends_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/sqlite"
)

// sqliteScenarios are those of the module conformance that need a file, or rows as Python
// writes them.
var sqliteScenarios = []struct {
	id  string
	run func(t *testing.T)
}{
	{"FP-01", savesAppendRows},
	{"FP-02", newestRowByItsNumber},
	{"FP-03", unknownIsNotFound},
	{"FP-04", twoHandlesOnOneFile},
	{"FP-05", rowsThatAreNoState},
	{"FP-24", manyWritersOfManyFlows},
	{"FP-25", foldersAreMade},
	{"FP-26", rowsAreRetained},
	{"FP-27", listedAndDeleted},
	{"FP-29", pauseIsARow},
	{"KH-08", storedStateWithoutID},
	{"CP-07", checkpointsInAFile},
}

func TestScenariosOnSQLite(t *testing.T) {
	for _, s := range sqliteScenarios {
		t.Run(s.id, s.run)
	}
}

// stateFile is a database file that Weir and Python share.
type stateFile struct {
	t    *testing.T
	path string
}

func newStateFile(t *testing.T) stateFile {
	t.Helper()
	return stateFile{t, filepath.Join(t.TempDir(), "flow_states.db")}
}

// open returns another handle, closed with the test.
func (f stateFile) open(cfg sqlite.Config, opts ...persistence.Option) *persistence.Store {
	f.t.Helper()
	cfg.Path, cfg.Synchronous = f.path, sqlite.Off
	drv, err := sqlite.Open(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	store := persistence.New(drv, opts...)
	f.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return store
}

// python runs one statement on a connection of its own, as Python does, and returns the rows
// of its first column.
func (f stateFile) python(stmt string, args ...any) []string {
	f.t.Helper()
	db, err := sql.Open("sqlite", f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(f.t.Context(), stmt, args...)
	if err != nil {
		f.t.Fatalf("%s: %v", stmt, err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			f.t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		f.t.Fatalf("%s: %v", stmt, err)
	}
	return out
}

// pythonSaves inserts a row as Python's save_state does.
func (f stateFile) pythonSaves(id, method, timestamp, state string) {
	f.t.Helper()
	f.python(`INSERT INTO flow_states (flow_uuid, method_name, timestamp, state_json) VALUES (?, ?, ?, ?)`, id, method, timestamp, state)
}

// rows returns the methods of a flow's rows in their order.
func (f stateFile) rows(id string) string {
	f.t.Helper()
	return strings.Join(f.python(`SELECT method_name FROM flow_states WHERE flow_uuid = ? ORDER BY id`, id), " ")
}

// save stores {"id":…,"n":…} with a method named after n.
func (f stateFile) save(store *persistence.Store, id string, n int) {
	f.t.Helper()
	_, err := store.SaveState(f.t.Context(), core.Snapshot{FlowID: id, Method: fmt.Sprint("m", n), State: numbered(id, n)})
	if err != nil {
		f.t.Errorf("saving %q: %v", id, err)
	}
}

func numbered(id string, n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":%q,"n":%d}`, id, n))
}

// wantState demands what LoadState returns.
func (f stateFile) wantState(store *persistence.Store, id, want string) {
	f.t.Helper()
	snap, err := store.LoadState(f.t.Context(), id)
	if err != nil || string(snap.State) != want {
		f.t.Errorf("the state of %q is %s, want %s (%v)", id, snap.State, want, err)
	}
}

// wantRows demands the methods of a flow's rows.
func (f stateFile) wantRows(id, want string) {
	f.t.Helper()
	if got := f.rows(id); got != want {
		f.t.Errorf("the rows of %q are %q, want %q", id, got, want)
	}
}

func savesAppendRows(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{History: 10})
	f.save(store, "u1", 1)
	f.save(store, "u1", 2)
	f.wantState(store, "u1", `{"id":"u1","n":2}`)
	f.wantRows("u1", "m1 m2")
}

func newestRowByItsNumber(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{History: 10})
	f.save(store, "u1", 1)
	f.save(store, "u1", 2)
	f.pythonSaves("u1", "m3", "2001-01-01T00:00:00+00:00", `{"id": "u1", "n": 3}`)
	f.wantState(store, "u1", `{"id": "u1", "n": 3}`)
	f.wantRows("u1", "m1 m2 m3")
}

func unknownIsNotFound(t *testing.T) {
	store := newStateFile(t).open(sqlite.Config{})
	if _, err := store.LoadState(t.Context(), "nope"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func twoHandlesOnOneFile(t *testing.T) {
	f := newStateFile(t)
	first := f.open(sqlite.Config{})
	f.save(first, "u1", 1)
	second := f.open(sqlite.Config{})
	f.wantState(second, "u1", `{"id":"u1","n":1}`)
	f.save(first, "u1", 2)
	f.wantState(second, "u1", `{"id":"u1","n":2}`)
	f.save(second, "u1", 3)
	f.wantState(first, "u1", `{"id":"u1","n":3}`)
}

func rowsThatAreNoState(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{})
	for state, want := range map[string]error{`[1]`: core.ErrNotFound, `{oops`: core.ErrCorrupt} {
		f.pythonSaves(state, "m", "2026-01-01T00:00:00+00:00", state)
		if snap, err := store.LoadState(t.Context(), state); !errors.Is(err, want) {
			t.Errorf("%s is loaded as %s, %v", state, snap.State, err)
		}
	}
}

func manyWritersOfManyFlows(t *testing.T) {
	const writers, saves = 8, 50
	f := newStateFile(t)
	store := f.open(sqlite.Config{History: saves})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range saves {
				f.save(store, fmt.Sprint("u", w), n+1)
			}
		})
	}
	wg.Wait()
	for w := range writers {
		id := fmt.Sprint("u", w)
		f.wantState(store, id, string(numbered(id, saves)))
	}
	if n := f.python(`SELECT count(*) FROM flow_states`)[0]; n != fmt.Sprint(writers*saves) {
		t.Errorf("%s rows, want %d", n, writers*saves)
	}
}

func foldersAreMade(t *testing.T) {
	f := stateFile{t, filepath.Join(t.TempDir(), "x", "not", "there", "f.db")}
	store := f.open(sqlite.Config{})
	f.save(store, "u1", 1)
	f.wantState(store, "u1", `{"id":"u1","n":1}`)
	if _, err := os.Stat(f.path); err != nil {
		t.Error(err)
	}
}

// Rows are kept for other programs that read the file, snapshots for Store.History.
func rowsAreRetained(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{History: 3})
	snapshots := f.open(sqlite.Config{}, persistence.WithHistory(3))
	f.pythonSaves("u1", "theirs", "2026-01-01T00:00:00+00:00", `{"id": "u1", "n": 0}`)
	for n := range 10 {
		f.save(store, "u1", n+1)
		f.save(snapshots, "u2", n+1)
	}
	f.save(store, "u3", 1)
	f.wantRows("u1", "theirs m8 m9 m10")
	f.wantRows("u3", "m1")
	f.wantState(store, "u1", `{"id":"u1","n":10}`)
	var kept []string
	for _, snap := range collect(t, snapshots.History(t.Context(), "u2")) {
		kept = append(kept, snap.Method)
	}
	if got := strings.Join(kept, " "); got != "m10 m9 m8" {
		t.Errorf("the history is %q", got)
	}
	f.wantRows("u2", "m10")
}

// A listing tells the id, the last method and when; how many saves there were is in the
// revision of each flow.
func listedAndDeleted(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{})
	f.save(store, "u1", 1)
	f.save(store, "u1", 2)
	f.save(store, "u2", 1)
	f.pythonSaves("u3", "theirs", "2026-01-01T00:00:00+00:00", `{"id": "u3"}`)
	f.wantListed(store, map[string]string{"u1": "m2", "u2": "m1", "u3": "theirs"})
	if snap, err := store.LoadState(t.Context(), "u1"); err != nil || snap.Revision.N != 2 {
		t.Errorf("u1 is at revision %v (%v), want 2", snap.Revision, err)
	}
	if err := store.Delete(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.LoadState(t.Context(), "u1"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("u1 after its deletion: %v", err)
	}
	f.wantRows("u1", "")
	f.wantListed(store, map[string]string{"u2": "m1", "u3": "theirs"})
	f.wantState(store, "u2", `{"id":"u2","n":1}`)
}

// wantListed demands the flows that are listed, each with its last method.
func (f stateFile) wantListed(store *persistence.Store, want map[string]string) {
	f.t.Helper()
	for _, info := range collect(f.t, store.Flows(f.t.Context(), driver.ListOptions{})) {
		if method, ok := want[info.FlowID]; !ok || method != info.Method || info.SavedAt.IsZero() || info.Headless {
			f.t.Errorf("listed is %+v", info)
		}
		delete(want, info.FlowID)
	}
	if len(want) > 0 {
		f.t.Errorf("not listed are %v", want)
	}
}

// collect returns all that an iterator yields.
func collect[T any](t *testing.T, all iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

type mapRun = flow.Run[map[string]any]

// pauseIsARow pauses a flow of which nothing was saved before: Python, too, finds its state.
func pauseIsARow(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{})
	b := flow.New[map[string]any]("review")
	flow.Start(b, "review", func(_ context.Context, run *mapRun) (string, error) {
		return "draft", run.State().Update(func(s *map[string]any) error { (*s)["counter"] = 42; return nil })
	}, flow.Review{Message: "Fine?"})
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "u1"}, flow.WithStore(store))
	if err != nil || !res.Paused {
		t.Fatalf("it does not pause: %+v, %v", res, err)
	}
	const want = `{"counter":42,"id":"u1"}`
	f.wantState(f.open(sqlite.Config{}), "u1", want)
	f.wantRows("u1", "review")
	if got := f.python(`SELECT state_json FROM flow_states WHERE flow_uuid = 'u1' ORDER BY id DESC LIMIT 1`); len(got) != 1 || got[0] != want {
		t.Errorf("Python loads %q", got)
	}
}

func storedStateWithoutID(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{})
	f.pythonSaves("u", "m", "2026-01-01T00:00:00+00:00", `{"a": 1}`)
	b := flow.New[map[string]any]("any")
	flow.Start(b, "a", func(context.Context, *mapRun) (any, error) {
		t.Error("a method ran")
		return nil, nil
	})
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = def.Kickoff(t.Context(), flow.Inputs{"id": "u"}, flow.WithStore(store), flow.Persist())
	if !errors.Is(err, core.ErrInvalidState) || !strings.Contains(err.Error(), "stored state must have an 'id' field") {
		t.Errorf("got %v", err)
	}
	f.wantState(store, "u", `{"a": 1}`)
}

func checkpointsInAFile(t *testing.T) {
	f := newStateFile(t)
	store := f.open(sqlite.Config{})
	keep := func(branch, parent string) core.CheckpointInfo {
		t.Helper()
		info, err := store.SaveCheckpoint(t.Context(), core.Checkpoint{
			CheckpointInfo: core.CheckpointInfo{FlowID: "u1", Branch: branch, Parent: parent}, State: numbered("u1", 1),
		})
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := keep(core.MainBranch, "")
	onBranch := keep("exp", first.ID)
	newest := keep(core.MainBranch, first.ID)
	other := f.open(sqlite.Config{})
	got, err := other.LoadCheckpoint(t.Context(), "u1", onBranch.ID)
	if err != nil || got.Parent != first.ID || got.Branch != "exp" || string(got.State) != `{"id":"u1","n":1}` {
		t.Errorf("it comes back as %+v, %v", got, err)
	}
	if _, err := other.LoadCheckpoint(t.Context(), "u1", "zzz"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	if n, err := other.PruneCheckpoints(t.Context(), "u1", core.MainBranch, 1); err != nil || n != 1 {
		t.Errorf("pruning the branch removed %d, %v", n, err)
	}
	var left []string
	for _, info := range collect(t, store.Checkpoints(t.Context(), "u1")) {
		left = append(left, info.ID)
	}
	if want := []string{newest.ID, onBranch.ID}; strings.Join(left, " ") != strings.Join(want, " ") {
		t.Errorf("left are %q, want %q", left, want)
	}
}

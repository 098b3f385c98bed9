package conformance_test

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// ledger is the state of most scenarios.
type ledger struct {
	ID      string   `json:"id"`
	Counter int      `json:"counter"`
	Message string   `json:"message,omitempty"`
	Log     []string `json:"log,omitempty"`
}

type ledgerRun = flow.Run[ledger]

// stage is where the flows of a scenario play: it sees which methods ran, whatever became of
// them, and can stop one, as a kill would.
type stage struct {
	opts   map[string][]flow.MethodOption // by method
	before map[string]func() error        // by method; its error is the method's

	mu  sync.Mutex
	ran []string // in the order in which they began
}

// enter notes that a method was called.
func (s *stage) enter(method string) error {
	s.mu.Lock()
	s.ran = append(s.ran, method)
	s.mu.Unlock()
	if f := s.before[method]; f != nil {
		return f()
	}
	return nil
}

// takeRan returns which methods ran since it was last called.
func (s *stage) takeRan() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran := s.ran
	s.ran = nil
	return strings.Join(ran, " ")
}

// note is what most methods do: count, and write something down.
func (s *stage) note(run *ledgerRun, text string) (string, error) {
	if err := s.enter(run.Method()); err != nil {
		return "", err
	}
	return text, run.State().Update(func(l *ledger) error {
		l.Counter++
		l.Log = append(l.Log, text)
		return nil
	})
}

func (s *stage) start(_ context.Context, run *ledgerRun) (string, error) {
	return s.note(run, run.Method())
}

func (s *stage) listen(_ context.Context, run *ledgerRun, _ any) (string, error) {
	return s.note(run, run.Method())
}

// hear writes down what a person said.
func (s *stage) hear(_ context.Context, run *ledgerRun, fb flow.Feedback) (string, error) {
	return s.note(run, run.Method()+": "+fb.Text)
}

// choose is a router's function that chooses by how often it was called, from 1.
func (s *stage) choose(by func(call int) flow.Label[any]) func(context.Context, *ledgerRun, any) (flow.Route, error) {
	return func(_ context.Context, run *ledgerRun, _ any) (flow.Route, error) {
		_, err := s.note(run, run.Method())
		return flow.To(by(run.Call()), any(nil)), err
	}
}

// always is a choice that does not change.
func always(l flow.Label[any]) func(int) flow.Label[any] {
	return func(int) flow.Label[any] { return l }
}

// chain is a flow whose methods run one after another.
func (s *stage) chain(t *testing.T, names ...string) *flow.Definition[ledger] {
	t.Helper()
	b := flow.New[ledger]("chain")
	last := flow.Start(b, names[0], s.start, s.opts[names[0]]...)
	for _, name := range names[1:] {
		last = flow.Listen(b, name, s.listen, flow.Any(last), s.opts[name]...)
	}
	return build(t, b)
}

func build[S any](t *testing.T, b *flow.Builder[S]) *flow.Definition[S] {
	t.Helper()
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// recorded is a Store that notes what is saved, and can refuse it.
type recorded struct {
	*persistence.Store

	drv    driver.Driver
	refuse func(core.Snapshot) error

	mu    sync.Mutex
	saves []core.Snapshot
}

func newStore(t *testing.T, opts ...persistence.Option) *recorded {
	t.Helper()
	drv := inmem.New(inmem.Config{})
	return &recorded{Store: persistence.New(drv, opts...), drv: drv}
}

func (r *recorded) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if r.refuse != nil {
		if err := r.refuse(snap); err != nil {
			return core.Saved{}, err
		}
	}
	saved, err := r.Store.SaveState(ctx, snap, opts...)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.saves = append(r.saves, snap)
	}
	return saved, err
}

// elsewhere is the store as another process has it: a handle that knows nothing.
func (r *recorded) elsewhere() *recorded {
	return &recorded{Store: persistence.New(r.drv), drv: r.drv}
}

// takeSaves returns the methods of the saves since it was last called.
func (r *recorded) takeSaves() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var methods []string
	for _, s := range r.saves {
		methods = append(methods, s.Method)
	}
	r.saves = nil
	return strings.Join(methods, " ")
}

// events notes what observers are told.
type events struct{ all []flow.Event }

func (e *events) option() flow.RunOption {
	return flow.WithObserver(func(_ context.Context, ev flow.Event) { e.all = append(e.all, ev) })
}

// String names the events in order, saves left out, with the method where there is one.
func (e *events) String() string {
	var names []string
	for _, ev := range e.all {
		v := reflect.ValueOf(ev)
		name := v.Type().Name()
		if name == "StateSaved" {
			continue
		}
		if m := v.FieldByName("Method"); m.IsValid() {
			name += ":" + m.String()
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// later is a provider whose answers come to another process.
var later = flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Later: true}, nil })

func kickoff[S any](t *testing.T, def *flow.Definition[S], in flow.Inputs, opts ...flow.RunOption) *flow.Result[S] {
	t.Helper()
	res, err := def.Kickoff(t.Context(), in, opts...)
	if err != nil {
		t.Fatalf("Kickoff with %v: %v", in, err)
	}
	return res
}

// stops is a Kickoff that must fail, as a process that is killed does.
func stops[S any](t *testing.T, def *flow.Definition[S], in flow.Inputs, opts ...flow.RunOption) {
	t.Helper()
	if res, err := def.Kickoff(t.Context(), in, opts...); err == nil {
		t.Fatalf("the run was not stopped: %+v", res)
	}
}

func resume[S any](t *testing.T, def *flow.Definition[S], flowID string, opts ...flow.RunOption) *flow.Result[S] {
	t.Helper()
	res, err := def.Resume(t.Context(), flowID, opts...)
	if err != nil {
		t.Fatalf("Resume of %q: %v", flowID, err)
	}
	return res
}

// stateOf decodes what is stored.
func stateOf[S any](t *testing.T, store core.FlowPersistence, flowID string) (state S) {
	t.Helper()
	snap, err := store.LoadState(t.Context(), flowID)
	if err != nil {
		t.Fatalf("LoadState of %q: %v", flowID, err)
	}
	if err := json.Unmarshal(snap.State, &state); err != nil {
		t.Fatalf("the state of %q: %v", flowID, err)
	}
	return state
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

// logOf returns the log of a flow.
func logOf(t *testing.T, store *recorded, flowID string) []flow.LogEntry {
	t.Helper()
	return collect(t, flow.Log(t.Context(), store, flowID))
}

// checkpointsOf returns the checkpoints of a flow, the newest first.
func checkpointsOf(t *testing.T, store core.CheckpointProvider, flowID string) []core.CheckpointInfo {
	t.Helper()
	return collect(t, store.Checkpoints(t.Context(), flowID))
}

// pendingOf returns the open requests of a flow.
func pendingOf(t *testing.T, store core.FlowPersistence, flowID string) []flow.Request {
	t.Helper()
	open, err := flow.Pending(t.Context(), store, flowID)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// want compares and names what differs.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantList is want for lists.
func wantList[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

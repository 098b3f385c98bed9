package flow_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// The law of resume: a run that is cut at any point, and continued by another process from
// what is stored, ends in the same state, outputs and order as one that was never cut.
//
// Random graphs check it. Their methods update the state before and after a wait in ways that
// do not commute, choose labels by the state they see, and several run at a time; a gate
// decides who goes on by the identity of the calls, so that the order is a property of the
// graph and not of the machine.
//
// WEIR_SEEDS=from-to runs other seeds; a failing one is named in the output.
func TestARunThatIsCutEndsLikeOneThatIsNot(t *testing.T) {
	from, to := uint64(0), uint64(150)
	if v := os.Getenv("WEIR_SEEDS"); v != "" {
		if _, err := fmt.Sscanf(v, "%d-%d", &from, &to); err != nil {
			t.Fatalf("WEIR_SEEDS=%q: %v", v, err)
		}
	}
	cuts := 0
	for seed := from; seed < to; seed++ {
		synctest.Test(t, func(t *testing.T) {
			whole := newSubject(seed, never)
			whole.toTheEnd(t)
			for _, when := range []cutting{afterEachSave, beforeEachSave, once, atEachQuestion} {
				cut := newSubject(seed, when)
				cut.toTheEnd(t)
				cuts += cut.cuts
				if diff := whole.differs(cut); diff != "" {
					t.Errorf("seed %d, cut %s: %s\nreplay: WEIR_SEEDS=%d-%d go test ./flow -run %s", seed, when, diff, seed, seed+1, t.Name())
				}
				cut.check(t)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds, %d cuts and resumes", to-from, cuts)
}

// cutting says when a process dies.
type cutting string

const (
	never          cutting = "never"
	afterEachSave  cutting = "after each save"
	beforeEachSave cutting = "before each save" // once for each; the method runs again
	once           cutting = "once"
	atEachQuestion cutting = "at each question" // every answer comes later, to another process
)

// world is the state of a random flow.
type world struct {
	ID  string   `json:"id"`
	Acc int      `json:"acc"`
	Log []string `json:"log"`
}

// subject is one flow under test, over as many processes as it takes.
type subject struct {
	seed  uint64
	when  cutting
	at    int // the save at which a run that is cut once is cut
	store *coretest.Store
	cuts  int
	saves int // attempts
	die   context.CancelFunc
	tried map[int]bool // beforeEachSave: the saves that were prevented once

	res *flow.Result[world]
	err error

	mu     sync.Mutex
	gate   map[uint64]chan struct{}
	asked  []string // requests in the order in which they were first told
	unsaid map[string]chan struct{}
	begun  map[string]int // begins by activation
	stored map[string]bool
	wrong  []string
}

func newSubject(seed uint64, when cutting) *subject {
	return &subject{
		seed: seed, when: when, at: int(seed % 7), store: coretest.New(), tried: map[int]bool{},
		gate: map[uint64]chan struct{}{}, unsaid: map[string]chan struct{}{}, begun: map[string]int{}, stored: map[string]bool{},
	}
}

// SaveState is the store that the process dies at.
func (s *subject) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if s.when == beforeEachSave && !s.tried[s.saves] {
		s.tried[s.saves] = true
		s.cuts++
		s.die()
		return core.Saved{}, ctx.Err()
	}
	saved, err := s.store.SaveState(ctx, snap, opts...)
	if err != nil {
		return saved, err
	}
	s.saves++
	if s.when == afterEachSave || s.when == once && s.saves == s.at {
		s.cuts++
		s.die()
	}
	return saved, nil
}

func (s *subject) LoadState(ctx context.Context, id string) (core.Snapshot, error) {
	return s.store.LoadState(ctx, id)
}

// toTheEnd runs the flow, process after process, until it ends by itself.
func (s *subject) toTheEnd(t *testing.T) {
	for range 1000 {
		if s.process(t) {
			return
		}
	}
	t.Fatalf("seed %d: no end after 1000 processes", s.seed)
}

// process is one process: it builds the definition anew and kicks off or resumes. It reports
// whether the flow came to its end.
func (s *subject) process(t *testing.T) bool {
	def, err := randomFlow(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(context.Background())
	defer die()
	s.die = die
	over := make(chan struct{})
	go s.openGates(over)
	opts := []flow.RunOption{
		flow.WithProvider(s), flow.WithStore(s), flow.KeepOutputs(), flow.MethodBudget(6),
		flow.WithObserver(func(_ context.Context, e flow.Event) {
			if f, ok := e.(flow.MethodFinished); ok {
				s.stored[f.ActivationID] = true
			}
		}),
	}
	if _, missing := s.store.LoadState(ctx, "flow"); missing != nil {
		s.res, s.err = def.Kickoff(ctx, flow.Inputs{"id": "flow"}, append(opts, flow.Persist())...)
	} else {
		if open, err := flow.Pending(ctx, s.store, "flow"); err == nil && s.when == atEachQuestion && len(open) > 0 {
			opts = append(opts, flow.Answer(open[0].ID, s.opinion(open[0])))
			s.cuts++
		}
		s.res, s.err = def.Resume(ctx, "flow", opts...)
	}
	over <- struct{}{}
	clear(s.gate)
	clear(s.unsaid)
	if s.err == nil && s.res.Paused {
		return false
	}
	return ctx.Err() == nil || s.err == nil
}

// openGates lets one waiting call go on whenever nothing else happens: the one whose
// identity comes first in an order that the seed shuffles.
func (s *subject) openGates(over chan struct{}) {
	for {
		synctest.Wait()
		select {
		case <-over:
			return
		default:
		}
		s.mu.Lock()
		var first uint64
		for seq := range s.gate {
			if first == 0 || hash(s.seed, seq) < hash(s.seed, first) {
				first = seq
			}
		}
		if first != 0 {
			close(s.gate[first])
			delete(s.gate, first)
		}
		spoke := first == 0 && s.speak()
		s.mu.Unlock()
		if first == 0 && !spoke {
			<-over
			return
		}
	}
}

// wait is what a method does between its two updates.
func (s *subject) wait(ctx context.Context, activation string) error {
	seq, _ := strconv.ParseUint(activation[strings.LastIndexByte(activation, '-')+1:], 10, 64)
	s.mu.Lock()
	if s.stored[activation] {
		s.wrong = append(s.wrong, activation+" ran again after it was stored")
	}
	s.begun[activation]++
	open := make(chan struct{})
	s.gate[seq] = open
	s.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// speak lets the oldest question be answered, when no method can go on.
func (s *subject) speak() bool {
	for _, id := range s.asked {
		if open, waits := s.unsaid[id]; waits {
			close(open)
			delete(s.unsaid, id)
			return true
		}
	}
	return false
}

// Request makes the subject the one who is asked.
func (s *subject) Request(ctx context.Context, r flow.Request) (flow.Reply, error) {
	if s.when == atEachQuestion {
		return flow.Reply{Later: true}, nil
	}
	s.mu.Lock()
	if !slices.Contains(s.asked, r.ID) {
		s.asked = append(s.asked, r.ID)
	}
	open := make(chan struct{})
	s.unsaid[r.ID] = open
	s.mu.Unlock()
	select {
	case <-open:
		return s.opinion(r), nil
	case <-ctx.Done():
		return flow.Reply{}, ctx.Err()
	}
}

// opinion is what people think of a request, wherever and whenever they are asked.
func (s *subject) opinion(r flow.Request) flow.Reply {
	n := hash(s.seed, r.Method, r.Message, string(r.Output))
	if len(r.Outcomes) == 0 {
		return flow.Reply{Text: strconv.FormatUint(n%100, 10)}
	}
	return flow.Reply{Text: r.Outcomes[n%uint64(len(r.Outcomes))]}
}

// check looks at the runs of the methods.
func (s *subject) check(t *testing.T) {
	for _, w := range s.wrong {
		t.Errorf("seed %d, cut %s: %s", s.seed, s.when, w)
	}
}

func (s *subject) differs(other *subject) string {
	switch {
	case !reflect.DeepEqual(s.res.State, other.res.State):
		return fmt.Sprintf("the state is\n%+v, uncut it is\n%+v", other.res.State, s.res.State)
	case !reflect.DeepEqual(s.res.Outputs, other.res.Outputs):
		return fmt.Sprintf("the outputs are %s, uncut they are %s", other.res.Outputs, s.res.Outputs)
	case !reflect.DeepEqual(s.res.Completed, other.res.Completed) || string(s.res.Output) != string(other.res.Output):
		return fmt.Sprintf("%v %s completed, uncut %v %s", other.res.Completed, other.res.Output, s.res.Completed, s.res.Output)
	}
	var a, b *flow.BudgetError
	if errors.As(s.err, &a) != errors.As(other.err, &b) || a != nil && *a != *b {
		return fmt.Sprintf("the error is %v, uncut it is %v", other.err, s.err)
	}
	return ""
}

func hash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}

// randomFlow builds the graph that the seed stands for.
func randomFlow(s *subject) (*flow.Definition[world], error) {
	r := rand.New(rand.NewPCG(s.seed, 7))
	b := flow.New[world]("random")
	n := 3 + r.IntN(7)
	names := make([]string, n)
	for i := range names {
		names[i] = "m" + strconv.Itoa(i)
	}
	roles := make([]int, n) // 0: start, 1 and 2: router, else listener
	for i := range roles[1:] {
		roles[i+1] = r.IntN(6)
	}
	racers := racersOf(names, roles)
	for i, name := range names {
		on := randomCondition(r, names, name, 2)
		if two := slices.DeleteFunc(slices.Clone(racers), func(n string) bool { return n == name }); len(two) > 1 && r.IntN(3) == 0 {
			on = flow.Or[any](flow.FirstOf(flow.On[any](two[0]), flow.On[any](two[1])), on)
			racers = slices.DeleteFunc(racers, func(n string) bool { return n == two[0] || n == two[1] })
		}
		var opts []flow.MethodOption
		role := roles[i]
		if role == 0 && i > 0 {
			opts = append(opts, flow.When(on))
		}
		switch role {
		case 0:
			flow.Start(b, name, func(ctx context.Context, run *flow.Run[world]) (int, error) { return s.method(ctx, run, nil) }, opts...)
		case 1, 2:
			flow.Router(b, name, func(ctx context.Context, run *flow.Run[world], in any) (flow.Route, error) {
				acc, err := s.method(ctx, run, in)
				label := []flow.Label[any]{"", "x", "y", "z"}[hash(s.seed, name, acc)%4]
				return flow.To(label, any(acc)), err
			}, on)
		default:
			if role == 3 {
				opts = append(opts, randomReview(r))
			}
			flow.Listen(b, name, func(ctx context.Context, run *flow.Run[world], in any) (int, error) { return s.method(ctx, run, in) }, on, opts...)
		}
	}
	return b.Build()
}

// racersOf returns the listeners, in the order in which they are paired to race.
func racersOf(names []string, roles []int) []string {
	var out []string
	for i, name := range names {
		if roles[i] > 3 {
			out = append(out, name)
		}
	}
	return out
}

// randomReview has outcomes or none.
func randomReview(r *rand.Rand) flow.Review {
	if r.IntN(2) == 0 {
		return flow.Review{Message: "what of it?"}
	}
	return flow.Review{Message: "which one?", Outcomes: []flow.Label[flow.Feedback]{"u", "v"}}
}

func randomCondition(r *rand.Rand, names []string, self string, depth int) flow.Trigger[any] {
	if depth > 0 && r.IntN(2) == 0 {
		x, y := randomCondition(r, names, self, depth-1), randomCondition(r, names, self, depth-1)
		if r.IntN(2) == 0 {
			return flow.And(x, y)
		}
		return flow.Or(x, y)
	}
	if r.IntN(6) == 0 {
		return flow.Any(flow.Label[flow.Feedback]([]string{"u", "v"}[r.IntN(2)]))
	}
	if r.IntN(3) == 0 {
		return flow.Label[any]([]string{"x", "y", "z"}[r.IntN(3)])
	}
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == self })
	return flow.On[any](others[r.IntN(len(others))])
}

// method is the body of every method: an append, a wait, a read-modify-write.
func (s *subject) method(ctx context.Context, run *flow.Run[world], in any) (int, error) {
	err := run.State().Update(func(w *world) error {
		w.Log = append(w.Log, fmt.Sprintf("%s/%d", run.Method(), run.Call()))
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := s.wait(ctx, run.ActivationID()); err != nil {
		return 0, err
	}
	acc := 0
	err = run.State().Update(func(w *world) error {
		w.Acc = (w.Acc*31 + int(hash(run.Method(), run.Call(), in)%997)) % 1_000_003
		acc = w.Acc
		return nil
	})
	return acc, err
}

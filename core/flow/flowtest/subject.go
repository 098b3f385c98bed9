package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// subject is one flow under test, over as many processes as it takes.
type subject struct {
	law   *law
	seed  uint64
	when  cutting
	at    int // the save at which a run that is cut once is cut
	id    string
	calls *outside
	plans map[string]plan

	store   core.FlowPersistence // of the process
	cuts    int
	saves   int
	refused int // second answers
	die     context.CancelFunc
	tried   map[int]bool // beforeEachSave: the saves that were prevented once
	history history

	res *flow.Result[world]
	err error

	mu       sync.Mutex
	gate     map[uint64]chan struct{}
	asked    []string // requests in the order in which they were first told
	unsaid   map[string]chan struct{}
	silenced map[string]bool // whileAsked: the requests of which a process died once
	attempts map[string]int  // of calls, in this process
	wrong    []string
}

func (l *law) newSubject(seed uint64, when cutting, calls *outside) *subject {
	return &subject{
		law: l, seed: seed, when: when, id: fmt.Sprintf("%s/%d/%s", l.ids, seed, when), calls: calls,
		plans: map[string]plan{}, tried: map[int]bool{}, history: newHistory(),
		gate: map[uint64]chan struct{}{}, unsaid: map[string]chan struct{}{}, silenced: map[string]bool{}, attempts: map[string]int{},
	}
}

// SaveState is the store that the process dies at.
func (s *subject) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if s.when == beforeEachSave && !s.tried[s.saves] {
		s.tried[s.saves] = true
		s.cut()
		return core.Saved{}, ctx.Err()
	}
	saved, err := s.save(ctx, snap, opts...)
	if err != nil {
		return saved, err
	}
	s.saves++
	switch {
	case s.when == unheardEachSave:
		s.cut()
		s.history.unheard()
		return core.Saved{}, ctx.Err()
	case s.when == afterEachSave, s.when == once && s.saves == s.at:
		s.cut()
	}
	return saved, nil
}

// LoadState is of the same store.
func (s *subject) LoadState(ctx context.Context, id string) (core.Snapshot, error) {
	return s.load(ctx, id)
}

func (s *subject) cut() {
	s.cuts++
	s.die()
}

func (s *subject) save(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (saved core.Saved, err error) {
	if ctx.Err() != nil {
		return core.Saved{}, ctx.Err()
	}
	s.calls.do(func(ctx context.Context) { saved, err = s.store.SaveState(ctx, snap, opts...) })
	return saved, err
}

func (s *subject) load(ctx context.Context, id string) (snap core.Snapshot, err error) {
	if ctx.Err() != nil {
		return core.Snapshot{}, ctx.Err()
	}
	s.calls.do(func(ctx context.Context) { snap, err = s.store.LoadState(ctx, id) })
	return snap, err
}

// mostProcesses is more than any flow needs.
const mostProcesses = 1000

// toTheEnd runs the flow, process after process, until it ends by itself.
func (s *subject) toTheEnd(t *testing.T) {
	t.Helper()
	for range mostProcesses {
		if s.process(t) {
			return
		}
	}
	t.Fatalf("seed %d, cut %s: no end after %d processes", s.seed, s.when, mostProcesses)
}

// process is one process: it opens the store, builds the definition anew and kicks off or
// resumes. It reports whether the flow came to its end.
func (s *subject) process(t *testing.T) bool {
	t.Helper()
	s.openStore(t)
	def, err := randomFlow(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(t.Context())
	defer die()
	s.die = die
	s.history.processBegins()
	clear(s.attempts)
	over := make(chan struct{})
	go s.openGates(over)
	before, missing := s.load(ctx, s.id)
	switch {
	case errors.Is(missing, core.ErrNotFound):
		s.res, s.err = def.Kickoff(ctx, flow.Inputs{"id": s.id}, append(s.options(), flow.Persist())...)
	case missing != nil:
		t.Fatalf("seed %d, cut %s: %v", s.seed, s.when, missing)
	default:
		s.resume(ctx, def, before)
	}
	over <- struct{}{}
	clear(s.gate)
	clear(s.unsaid)
	if s.res == nil && ctx.Err() == nil {
		t.Fatalf("seed %d, cut %s: %v", s.seed, s.when, s.err)
	}
	if s.err == nil && s.res.Paused {
		return false
	}
	return ctx.Err() == nil || s.err == nil
}

func (s *subject) openStore(t *testing.T) {
	t.Helper()
	var err error
	s.calls.do(func(context.Context) { s.store, err = s.law.open() })
	if err != nil {
		t.Fatal(err)
	}
}

func (s *subject) options() []flow.RunOption {
	opts := []flow.RunOption{
		flow.WithProvider(s), flow.WithStore(s), flow.KeepOutputs(), flow.MethodBudget(6), flow.WithObserver(s.observe),
	}
	if kindOf(s.seed) != asks {
		opts = append(opts, flow.Concurrency(int(hash(s.seed, "concurrency")%4)))
	}
	return opts
}

func (s *subject) observe(_ context.Context, e flow.Event) {
	if wrong := s.history.note(e, s.plans); wrong != "" {
		s.accusef("%s", wrong)
	}
}

// resume goes on from a snapshot, with an answer if there is to be one. Another process that
// read the same snapshot then answers otherwise, and must be refused.
func (s *subject) resume(ctx context.Context, def *flow.Definition[world], before core.Snapshot) {
	opts := s.options()
	var rival flow.RunOption
	if s.when == atEachQuestion {
		open, err := flow.Pending(ctx, s, s.id)
		if err != nil {
			s.accusef("listing the requests: %v", err)
		}
		if len(open) > 0 {
			reply := s.opinion(open[0])
			opts = append(opts, flow.Answer(open[0].ID, reply))
			if len(open[0].Outcomes) == 0 {
				reply.Text += ", or rather not"
			}
			rival = flow.Answer(open[0].ID, reply)
			s.cuts++
		}
	}
	s.res, s.err = def.Resume(ctx, s.id, opts...)
	if rival != nil {
		s.answerAgain(def, before, rival)
	}
}

// answerAgain is the process that comes second.
func (s *subject) answerAgain(def *flow.Definition[world], before core.Snapshot, rival flow.RunOption) {
	ctx, die := context.WithCancel(context.Background())
	defer die()
	_, err := def.Resume(ctx, s.id, flow.WithStore(&late{subject: s, before: &before, die: die}), rival)
	if !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) {
		s.accusef("a second answer to a request ends with %v", err)
	}
	s.refused++
}

// late is the store of a process that read before another one answered.
type late struct {
	*subject

	before *core.Snapshot // nil once it was read
	die    context.CancelFunc
}

func (l *late) LoadState(ctx context.Context, id string) (core.Snapshot, error) {
	if b := l.before; b != nil {
		l.before = nil
		return *b, nil
	}
	return l.load(ctx, id)
}

func (l *late) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	saved, err := l.save(ctx, snap, opts...)
	if err == nil {
		l.accusef("a second answer was stored")
		l.die()
	}
	return saved, err
}

func (s *subject) accusef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// openGates lets one waiting call go on whenever nothing else happens: the one whose
// identity comes first in an order that the seed shuffles.
func (s *subject) openGates(over chan struct{}) {
	for {
		time.Sleep(time.Second) // of the bubble: until nothing happens, the waits of retries included
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

// seqOf is the number of a call in its run, which is the same in the cut and in the uncut run.
func seqOf(activation string) uint64 {
	seq, _ := strconv.ParseUint(activation[strings.LastIndexByte(activation, '-')+1:], 10, 64)
	return seq
}

// wait is what a method does between its updates.
func (s *subject) wait(ctx context.Context, activation string) error {
	seq := seqOf(activation)
	s.mu.Lock()
	open := make(chan struct{})
	s.gate[seq] = open
	s.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.gate, seq)
		return ctx.Err()
	}
}

// attempt counts the attempts at a call in this process.
func (s *subject) attempt(activation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history.stored[seqOf(activation)] {
		s.wrong = append(s.wrong, activation+" ran again after it was stored")
	}
	s.attempts[activation]++
	return s.attempts[activation]
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
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.unsaid, r.ID)
		return flow.Reply{}, ctx.Err()
	}
	if s.when == whileAsked && s.silence(r.ID) {
		s.cut()
		return flow.Reply{}, ctx.Err()
	}
	return s.opinion(r), nil
}

// silence reports whether the process is to die instead of hearing the answer.
func (s *subject) silence(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := s.silenced[id]
	s.silenced[id] = true
	return !said
}

// opinion is what people think of a request, wherever and whenever they are asked.
func (s *subject) opinion(r flow.Request) flow.Reply {
	n := hash(s.seed, r.Method, r.Message, string(r.Output))
	if len(r.Outcomes) == 0 {
		return flow.Reply{Text: strconv.FormatUint(n%100, 10)}
	}
	return flow.Reply{Text: r.Outcomes[n%uint64(len(r.Outcomes))]}
}

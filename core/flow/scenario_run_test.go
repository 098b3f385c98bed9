package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// valueError is what a method of a scenario fails with: Python's ValueError.
type valueError string

func (e valueError) Error() string { return string(e) }

// player performs one scenario.
type player struct {
	sc        *scenario
	def       *flow.Definition[doc]
	store     *failingStore
	instances map[string]*instance

	mu       sync.Mutex
	calls    map[string]int // how often each body ran, over all steps
	received map[string][]any
	seed     *seeding
	answered string // the request that was answered last
}

// instance is a flow object of the reference, which keeps its state from run to run.
type instance struct {
	state     doc
	id        string
	completed map[string]int
	before    map[string]int // completed before it was resumed
	outputs   int            // how many there were
}

// outcome is what one step came to.
type outcome struct {
	res    *flow.Result[doc]
	err    error
	log    []flow.Event
	events []string // as the reference names them, without those that are suppressed

	resuming bool
	resumed  int // outputs there were before
}

// failingStore refuses saves while broken.
type failingStore struct {
	core.FlowPersistence
	broken string
}

func (s *failingStore) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if s.broken != "" {
		return core.Saved{}, errors.New(s.broken)
	}
	return s.FlowPersistence.SaveState(ctx, snap, opts...)
}

// run plays the scenario inside a bubble of virtual time and returns what was not as
// expected.
func (sc *scenario) run() []string {
	if sc.missing != "" {
		return []string{sc.missing}
	}
	p := &player{
		sc: sc, store: &failingStore{FlowPersistence: coretest.New()},
		instances: map[string]*instance{}, calls: map[string]int{},
	}
	def, err := sc.build(p.body)
	if want, ok := sc.flow["build_error"].(string); ok || sc.expect == nil && len(sc.steps) > 0 {
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			return []string{fmt.Sprintf("build: %v; an error that says %q was expected", err, want)}
		}
		return nil
	}
	p.def = def
	var problems []string
	for i, op := range sc.steps {
		out := &outcome{err: err} // what cannot be built fails where it would run
		if err == nil {
			out = p.play(op)
		}
		in := p.instances[instanceOf(op)]
		if in == nil {
			in = &instance{}
		}
		for _, problem := range p.compare(sc.expect[i], out, in) {
			problems = append(problems, fmt.Sprintf("step %d: %s", i+1, problem))
		}
	}
	return problems
}

func instanceOf(op map[string]any) string {
	if name, ok := op["instance"].(string); ok {
		return name
	}
	return "main"
}

// play performs one step.
func (p *player) play(op map[string]any) *outcome {
	name := instanceOf(op)
	in := p.instances[name]
	if fresh, _ := op["new"].(bool); in == nil || fresh {
		in = &instance{completed: map[string]int{}}
		p.instances[name] = in
	}
	p.received = map[string][]any{}
	p.store.broken = ""
	switch broken := op["fail_saves"].(type) {
	case string:
		p.store.broken = broken
	case bool:
		if broken {
			p.store.broken = "the disk is full"
		}
	case nil:
	default:
		return &outcome{err: fmt.Errorf("fail_saves: %v is not supported", broken)}
	}
	out := &outcome{}
	if op["resume"] != nil {
		out.resuming = true
		p.resume(in, op, out)
		if out.res != nil {
			in.state, in.id, in.outputs = out.res.State, out.res.FlowID, len(out.res.Outputs)
		}
		return out
	}
	if restore, ok := op["checkpoint_restore"].(map[string]any); ok {
		p.restoreCheckpoint(in, restore, out)
		return out
	}
	kick, _ := op["kickoff"].(map[string]any)
	if err := onlyKeys(kick, "inputs", "seed_completed", "seed_outputs", "fork_source"); err != nil {
		out.err = err
		return out
	}
	p.kickoff(in, kick, out)
	if out.res == nil {
		return out
	}
	in.state, in.id, in.outputs = out.res.State, out.res.FlowID, len(out.res.Outputs)
	for m, n := range out.res.Completed {
		in.completed[m] += n
	}
	return out
}

// kickoff starts a run on an instance: its own state comes before the inputs, unless the
// step names another flow.
func (p *player) kickoff(in *instance, kick map[string]any, out *outcome) {
	inputs := flow.Inputs{}
	given, _ := kick["inputs"].(map[string]any)
	id, _ := given["id"].(string)
	if ref, ok := strings.CutPrefix(id, "$id:"); ok {
		id = p.instances[ref].id
	}
	opts := p.options(out)
	source, fork := kick["fork_source"].(string)
	if fork {
		if from := p.instances[source]; from != nil && from.id != "" {
			source = from.id
		}
		opts = append(opts, flow.RestoreFrom(source))
	} else if id == "" || id == in.id {
		maps.Copy(inputs, in.state)
	}
	maps.Copy(inputs, given)
	if id != "" {
		inputs["id"] = id
	}
	if kick["seed_completed"] != nil || kick["seed_outputs"] != nil {
		if flowID := p.plant(kick, inputs); flowID != "" {
			out.res, out.err = p.def.Resume(context.Background(), flowID, opts...)
			return
		}
	}
	out.res, out.err = p.def.Kickoff(context.Background(), inputs, opts...)
}

func (p *player) options(out *outcome) []flow.RunOption {
	config, _ := p.sc.flow["config"].(map[string]any)
	quiet, _ := config["suppress_flow_events"].(bool)
	opts := []flow.RunOption{flow.KeepOutputs(), flow.WithProvider(p), flow.WithObserver(func(_ context.Context, e flow.Event) {
		out.log = append(out.log, e)
		if name := out.python(e); name != "" && (!quiet || strings.HasPrefix(name, "flow_")) {
			out.events = append(out.events, name)
		}
	})}
	if n := number(config["max_method_calls"]); n > 0 {
		opts = append(opts, flow.MethodBudget(n))
	}
	backend, _ := p.sc.flow["backend"].(bool)
	saving := slices.ContainsFunc(p.sc.methods, func(m *step) bool { return m.persist })
	if backend || saving || p.sc.pauses() || p.sc.flow["persist"] != nil {
		opts = append(opts, flow.WithStore(p.store))
	}
	if p.sc.flow["persist"] == "flow" {
		opts = append(opts, flow.Persist())
	}
	if p.sc.restores() {
		opts = append(opts, flow.WithCheckpoints(p.checkpoints()))
	}
	return opts
}

// body is what a method of a scenario does.
func (p *player) body(m *step, run *flow.Run[doc], ctx context.Context, payload any) (any, error) {
	if p.seed != nil {
		return p.seed.body(m, ctx, payload)
	}
	p.mu.Lock()
	p.calls[m.name]++
	call := p.calls[m.name]
	if m.param {
		p.received[m.name] = append(p.received[m.name], payload)
	}
	p.mu.Unlock()
	if err := change(run, m.effects); err != nil {
		return nil, err
	}
	if err := m.ask(ctx, run); err != nil {
		return nil, err
	}
	if err := work(ctx, m, run.ActivationID()); err != nil {
		return nil, err
	}
	if err := change(run, m.effectsAfter); err != nil {
		return nil, err
	}
	if m.failing && (m.failsOn == nil || slices.Contains(m.failsOn, call)) {
		return nil, valueError(m.fails)
	}
	var out any
	err := run.State().View(func(s *doc) error {
		out = m.result(*s, payload, call)
		return nil
	})
	return out, err
}

func (m *step) result(s doc, payload any, call int) any {
	switch {
	case m.returnsByCall != nil:
		return m.returnsByCall[min(call, len(m.returnsByCall))-1]
	case m.returnsFmt != "":
		return format(m.returnsFmt, s, payload, call)
	case m.returnsPayload:
		return payload
	}
	return m.returns
}

func change(run *flow.Run[doc], effects []any) error {
	if effects == nil {
		return nil
	}
	return run.State().Update(func(s *doc) error { return apply(*s, effects) })
}

// work takes the method's virtual time, and a few nanoseconds by which those that would end
// at the same moment end in the order in which they began.
func work(ctx context.Context, m *step, activation string) error {
	var tie time.Duration
	_, _ = fmt.Sscan(activation[strings.LastIndexByte(activation, '-')+1:], &tie)
	if m.blocks {
		time.Sleep(m.delay + tie)
		return nil
	}
	t := time.NewTimer(m.delay + tie)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seeding is a run that completes given methods, in their order and with given outputs, and
// dies in any other.
type seeding struct {
	began   time.Time
	mu      sync.Mutex
	places  map[string][]int // by method: the places in the order that are left to it
	outputs map[string][]any
}

// plant leaves the store as a process would that died after the seeded methods completed,
// and returns the flow's id; "" if none of them was reached.
func (p *player) plant(kick map[string]any, inputs flow.Inputs) string {
	s := &seeding{began: time.Now(), places: map[string][]int{}, outputs: map[string][]any{}}
	for i, m := range items(kick["seed_completed"]) {
		s.places[m.(string)] = append(s.places[m.(string)], i)
	}
	for _, o := range items(kick["seed_outputs"]) {
		entry := o.(map[string]any)
		name := entry["method"].(string)
		s.outputs[name] = append(s.outputs[name], entry["output"])
	}
	p.seed = s
	defer func() { p.seed = nil }()
	ctx, die := context.WithCancel(context.Background())
	defer die()
	death := time.AfterFunc(time.Hour, die) // when nothing but that is left to wait for
	defer death.Stop()
	var discard outcome
	opts := append(p.options(&discard), flow.WithStore(p.store), flow.Persist())
	res, err := p.def.Kickoff(ctx, inputs, opts...)
	if err == nil || res.Revision.IsZero() {
		return ""
	}
	return res.FlowID
}

func (s *seeding) body(m *step, ctx context.Context, payload any) (any, error) {
	s.mu.Lock()
	place, seeded := 0, len(s.places[m.name]) > 0
	if seeded {
		place, s.places[m.name] = s.places[m.name][0], s.places[m.name][1:]
	}
	var out any
	if list := s.outputs[m.name]; len(list) > 0 {
		out, s.outputs[m.name] = list[0], list[1:]
	} else {
		out = m.result(doc{}, payload, 1)
	}
	s.mu.Unlock()
	if !seeded {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(time.Until(s.began.Add(time.Duration(place) * time.Millisecond)))
	return out, nil
}

package flow

import (
	"context"
	"encoding/json"
	"reflect"
)

// A Builder collects the methods of a flow. The order in which they are defined is the order
// in which one event triggers them. A Builder is for one goroutine; the Definition that
// Build makes from it is for any number.
//
// Methods are added by the package functions Start, StartRouter, Listen and Router, since a
// method of a Go type cannot have type parameters of its own. They never fail: Build reports
// everything that is wrong, at once.
type Builder[S any] struct {
	name    string
	initial func() S
	prepare func(*S) error
	methods []*methodSpec[S]
}

// New returns a Builder for a flow called name whose state is an S. S must encode to a JSON
// object: a struct, or a map with string keys.
func New[S any](name string) *Builder[S] {
	return &Builder[S]{name: name}
}

// Initial sets the state a flow begins with; the zero S without it. A stored state is laid
// over it, key by key at the top level, so that a field added after the state was stored has
// its default here. The function is called for each run and must return a value of its own.
func (b *Builder[S]) Initial(state func() S) { b.initial = state }

// Prepare sets a function that sees each state after it was restored and the inputs were
// merged, before the first method runs: to migrate an old state, to fill in, to validate. An
// error from it fails Kickoff with an InputError before anything has started. Resume does not
// call it, but for a flow that another program paused.
func (b *Builder[S]) Prepare(check func(*S) error) { b.prepare = check }

// method kinds.
type kind int

const (
	startKind kind = iota
	listenKind
	routerKind
	startRouterKind
)

func (k kind) isStart() bool  { return k == startKind || k == startRouterKind }
func (k kind) isRouter() bool { return k == routerKind || k == startRouterKind }

// methodSpec is one method as it was declared.
type methodSpec[S any] struct {
	name  string
	kind  kind
	on    *node
	in    reflect.Type // nil for a start, which gets no payload
	out   reflect.Type
	call  func(ctx context.Context, run *Run[S], payload json.RawMessage) (result, error)
	nilFn bool
	methodConfig
}

// result is what one call of a method comes back with: its output as JSON and, from a router,
// a label.
type result struct {
	output json.RawMessage
	label  string
}

// Start adds a method that runs when the flow is kicked off, or, with the option When, each
// time its condition is satisfied. All starts of a flow run at the same time. A flow whose
// starts all have conditions runs every one of them at kickoff. A start has no payload.
func Start[S, O any](b *Builder[S], name string, fn func(ctx context.Context, run *Run[S]) (O, error), opts ...MethodOption) Handle[O] {
	m := &methodSpec[S]{name: name, kind: startKind, out: reflect.TypeFor[O](), nilFn: fn == nil}
	m.call = func(ctx context.Context, run *Run[S], _ json.RawMessage) (result, error) {
		out, err := fn(ctx, run)
		return outcome(out, err)
	}
	b.add(m, opts)
	return Handle[O]{name: name, owner: b}
}

// Listen adds a method that runs each time on is satisfied, with the payload of the event
// that satisfied it. Listeners that one event triggers run at the same time. A nil trigger is
// allowed and never satisfied.
func Listen[S, I, O any](b *Builder[S], name string, fn func(ctx context.Context, run *Run[S], in I) (O, error), on Trigger[I], opts ...MethodOption) Handle[O] {
	m := &methodSpec[S]{name: name, kind: listenKind, in: reflect.TypeFor[I](), out: reflect.TypeFor[O](), nilFn: fn == nil}
	if on != nil {
		m.on = on.condition()
	}
	m.call = func(ctx context.Context, run *Run[S], payload json.RawMessage) (result, error) {
		in, err := decodePayload[I](payload)
		if err != nil {
			return result{}, err
		}
		out, err := fn(ctx, run, in)
		return outcome(out, err)
	}
	b.add(m, opts)
	return Handle[O]{name: name, owner: b}
}

// Router adds a method that chooses a branch: its Route names a label, whose listeners run
// next. Emits declares the labels it may choose.
//
// The routers that an event triggers run one after another, before the event's listeners.
// A router may listen to the label of another one; all routers of such a chain decide about
// the same thing, so each of them receives the payload of the event that the chain began
// with. Then the listeners of the event run, and after all their work those of each label in
// turn.
func Router[S, I any](b *Builder[S], name string, fn func(ctx context.Context, run *Run[S], in I) (Route, error), on Trigger[I], opts ...MethodOption) Handle[any] {
	m := &methodSpec[S]{name: name, kind: routerKind, in: reflect.TypeFor[I](), out: reflect.TypeFor[any](), nilFn: fn == nil}
	if on != nil {
		m.on = on.condition()
	}
	m.call = func(ctx context.Context, run *Run[S], payload json.RawMessage) (result, error) {
		in, err := decodePayload[I](payload)
		if err != nil {
			return result{}, err
		}
		route, err := fn(ctx, run, in)
		return route.outcome(m.emits, err)
	}
	b.add(m, opts)
	return Handle[any]{name: name, owner: b}
}

// StartRouter adds a start that is also a router: first the listeners of its name run, then
// those of the label it chose.
func StartRouter[S any](b *Builder[S], name string, fn func(ctx context.Context, run *Run[S]) (Route, error), opts ...MethodOption) Handle[any] {
	m := &methodSpec[S]{name: name, kind: startRouterKind, out: reflect.TypeFor[any](), nilFn: fn == nil}
	m.call = func(ctx context.Context, run *Run[S], _ json.RawMessage) (result, error) {
		route, err := fn(ctx, run)
		return route.outcome(m.emits, err)
	}
	b.add(m, opts)
	return Handle[any]{name: name, owner: b}
}

func (b *Builder[S]) add(m *methodSpec[S], opts []MethodOption) {
	for _, o := range opts {
		o.applyMethod(&m.methodConfig)
	}
	if m.review != nil {
		m.misplaced = m.kind.isRouter()
		if len(m.review.Outcomes) > 0 {
			m.kind = map[kind]kind{startKind: startRouterKind, listenKind: routerKind, routerKind: routerKind, startRouterKind: startRouterKind}[m.kind]
		}
	}
	b.methods = append(b.methods, m)
}

// A Route is a router's choice. The zero Route chooses nothing: no label is announced.
type Route struct {
	label   string
	payload any
	chosen  bool
}

// To chooses the branch label, whose listeners receive payload. The empty label is never
// delivered; its payload is still the router's output.
func To[P any](label Label[P], payload P) Route {
	return Route{label: string(label), payload: payload, chosen: true}
}

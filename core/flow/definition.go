package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// A Definition is a built flow. It is immutable and safe for any number of concurrent runs.
type Definition[S any] struct {
	name        string
	graph       *scheduler.Graph
	methods     []method
	warnings    []Diagnostic
	output      string // the method declared with Output, or ""
	initial     func() S
	prepare     func(*S) error
	fingerprint fingerprint
	mermaid     string
}

// method is what the engine needs to know of a method. It does not depend on the type of the
// state, so that there is one engine and not one for each flow.
type method struct {
	name    string
	persist persistMode
	budget  int
	emits   []labelSpec
	timeout time.Duration
	retry   Retry
	review  *Review
	call    func(ctx context.Context, a *activation) (result, committer, error)
}

// Build checks everything that was declared and returns the Definition, or a *BuildError
// that lists all errors. What is legal but probably not meant is in Definition.Lint. The
// Builder can be used on; the Definition does not change with it.
func (b *Builder[S]) Build() (*Definition[S], error) {
	decls := make([]declared, len(b.methods))
	for i, m := range b.methods {
		decls[i] = declared{name: m.name, kind: m.kind, on: m.on, in: m.in, out: m.out, nilFn: m.nilFn, methodConfig: &m.methodConfig}
	}
	found := validate(b.name, b, decls)
	def := &Definition[S]{name: b.name, initial: b.initial, prepare: b.prepare}
	if def.initial == nil {
		def.initial = func() (zero S) { return zero }
	}
	if _, err := encodeState(def.initial()); err != nil {
		found = append(found, Diagnostic{Severity: Error, Code: StateNoObject, Text: err.Error()})
	}
	if slices.ContainsFunc(found, func(d Diagnostic) bool { return d.Severity == Error }) {
		return nil, &BuildError{Flow: b.name, Diagnostics: found}
	}
	nodes := make([]scheduler.Method, len(decls))
	for i := range decls {
		nodes[i] = decls[i].node()
		def.methods = append(def.methods, bind(b.methods[i]))
		if decls[i].isOutput {
			def.output = decls[i].name
		}
	}
	def.graph = scheduler.NewGraph(nodes)
	def.warnings = lint(def.graph, decls)
	def.fingerprint = newFingerprint(b.name, nodes)
	def.mermaid = mermaid(nodes)
	return def, nil
}

// node is the method as the scheduler sees it.
func (d *declared) node() scheduler.Method {
	m := scheduler.Method{Name: d.name, On: compileCondition(d.condition())}
	switch d.kind {
	case startKind:
		m.Role = scheduler.Start
	case listenKind:
		m.Role = scheduler.Listener
	case routerKind:
		m.Role = scheduler.Router
	case startRouterKind:
		m.Role = scheduler.StartRouter
	}
	m.Dynamic = d.kind.isRouter() && len(d.emits) == 0
	for _, l := range d.emits {
		m.Emits = append(m.Emits, l.name)
	}
	if m.On == nil && !d.kind.isStart() {
		m.On = &scheduler.Cond{Op: scheduler.Or} // never
	}
	return m
}

func compileCondition(n *node) *scheduler.Cond {
	if n == nil {
		return nil
	}
	c := &scheduler.Cond{Op: n.op, Name: n.name}
	for _, child := range n.children {
		c.Children = append(c.Children, compileCondition(child))
	}
	return c
}

// bind joins a method with the state type it was declared for.
func bind[S any](spec *methodSpec[S]) method {
	m := *spec // a later change of the builder does not reach it
	return method{
		name: m.name, persist: m.persist, budget: m.budget, emits: m.emits, timeout: m.timeout, retry: m.retry, review: m.review,
		call: func(ctx context.Context, a *activation) (result, committer, error) {
			run := &Run[S]{call: a}
			run.state.call = a
			res, err := m.call(ctx, run, a.payload)
			if sealed := run.state.seal(); err == nil {
				err = sealed
			}
			return res, &run.state, err
		},
	}
}

// Name returns the flow's name.
func (d *Definition[S]) Name() string { return d.name }

// Methods returns the names of the methods in order of declaration.
func (d *Definition[S]) Methods() []string {
	names := make([]string, len(d.methods))
	for i := range d.methods {
		names[i] = d.methods[i].name
	}
	return names
}

// Lint returns what is legal in the graph and probably not meant, such as a method that no
// run can come to. All findings are warnings.
func (d *Definition[S]) Lint() []Diagnostic { return slices.Clone(d.warnings) }

// Fingerprint identifies the graph: the name of the flow, and each method with its role, its
// condition and its labels. Functions and types are no part of it.
func (d *Definition[S]) Fingerprint() string { return d.fingerprint.sum }

// Mermaid returns the graph as a Mermaid flowchart: starts are rounded, routers are
// diamonds, a dotted edge is a label, and the inputs of a join of all are marked "and".
func (d *Definition[S]) Mermaid() string { return d.mermaid }

// decodePayload turns an event's payload into a method's parameter. An absent payload is the
// zero value.
func decodePayload[I any](payload json.RawMessage) (in I, err error) {
	if payload == nil {
		return in, nil
	}
	if err := decodeJSON(payload, &in); err != nil {
		return in, fmt.Errorf("its payload does not fit %T: %w", in, err)
	}
	return in, nil
}

// outcome turns what a method returned into a result.
func outcome(output any, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	raw, err := encodeJSON(output)
	if err != nil {
		return result{}, fmt.Errorf("its output cannot be encoded: %w", err)
	}
	return result{output: raw}, nil
}

// outcome turns a router's choice into a result.
func (r Route) outcome(declared []labelSpec, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	if err := checkLabel(r.label, declared); err != nil {
		return result{}, err
	}
	res, err := outcome(r.payload, nil)
	res.label = r.label
	return res, err
}

// checkLabel refuses a label that is not among those declared, if any are.
func checkLabel(label string, declared []labelSpec) error {
	if label == "" || len(declared) == 0 {
		return nil
	}
	names := make([]string, len(declared))
	for i, l := range declared {
		names[i] = l.name
	}
	if slices.Contains(names, label) {
		return nil
	}
	return &UndeclaredLabelError{Label: label, Declared: names}
}

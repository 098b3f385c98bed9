package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirflow/weir/core/flow"
)

func start(context.Context, *tallyRun) (string, error)       { return "", nil }
func listen(context.Context, *tallyRun, any) (string, error) { return "", nil }
func listenInt(context.Context, *tallyRun, int) (int, error) { return 0, nil }
func route(context.Context, *tallyRun, any) (flow.Route, error) {
	return flow.Route{}, nil
}
func routeInt(context.Context, *tallyRun, int) (flow.Route, error) { return flow.Route{}, nil }

// Build reports each mistake by its code, all of them at once.
func TestBuildRefuses(t *testing.T) {
	type builder = flow.Builder[tally]
	for _, c := range []struct {
		code flow.Code
		make func(*builder)
	}{
		{flow.EmptyName, func(b *builder) { flow.Start(b, "", start) }},
		{flow.EmptyName, func(b *builder) { flow.Router(b, "r", route, nil, flow.Emits(flow.Label[int](""))) }},
		{flow.DuplicateMethod, func(b *builder) { flow.Start(b, "a", start); flow.Start(b, "a", start) }},
		{flow.NilFunction, func(b *builder) { flow.Start[tally, int](b, "a", nil) }},
		{flow.NilCondition, func(b *builder) { flow.Listen(b, "a", listen, flow.And(flow.Label[int]("x"), nil)) }},
		{flow.NilCondition, func(b *builder) { flow.Listen(b, "a", listen, flow.Or[any](nil)) }},
		{flow.NilCondition, func(b *builder) { flow.Start(b, "a", start, flow.When(nil)) }},
		{flow.EmptyCondition, func(b *builder) { flow.Listen(b, "a", listen, flow.And()) }},
		{flow.SelfListen, func(b *builder) { flow.Listen(b, "a", listen, flow.Or(flow.On[any]("x"), flow.On[any]("a"))) }},
		{flow.SelfListen, func(b *builder) { flow.Start(b, "a", start, flow.When(flow.On[any]("a"))) }},
		{flow.LabelClash, func(b *builder) {
			flow.Router(b, "r", route, flow.Any(flow.Start(b, "a", start)), flow.Emits(flow.Label[int]("a")))
		}},
		{flow.LabelClash, func(b *builder) { flow.Start(b, "a", start); flow.Listen(b, "b", listenInt, flow.Label[int]("a")) }},
		{flow.LabelTypes, func(b *builder) {
			flow.StartRouter(b, "r", func(context.Context, *tallyRun) (flow.Route, error) { return flow.Route{}, nil }, flow.Emits(flow.Label[string]("x")))
			flow.Listen(b, "b", listenInt, flow.Label[int]("x"))
		}},
		{flow.PayloadType, func(b *builder) { flow.Start(b, "a", start); flow.Listen(b, "b", listenInt, flow.On[int]("a")) }},
		{flow.PayloadType, func(b *builder) { // the routers of a chain receive the same payload: here text
			a := flow.Start(b, "a", start)
			flow.Router(b, "r", func(context.Context, *tallyRun, string) (flow.Route, error) { return flow.Route{}, nil }, a, flow.Emits(flow.Label[int]("x")))
			flow.Router(b, "q", routeInt, flow.Label[int]("x"))
		}},
		{flow.ForeignHandle, func(b *builder) {
			flow.Listen(b, "b", listen, flow.Any(flow.Start(flow.New[tally]("other"), "a", start)))
		}},
		{flow.MisplacedOption, func(b *builder) { flow.Start(b, "a", start, flow.Emits(flow.Label[int]("x"))) }},
		{flow.MisplacedOption, func(b *builder) { flow.Listen(b, "a", listen, nil, flow.When(flow.Label[int]("x"))) }},
		{flow.MisplacedOption, func(b *builder) { flow.Router(b, "r", route, nil, flow.Emits(flow.On[int]("x"))) }},
		{flow.ManyOutputs, func(b *builder) { flow.Start(b, "a", start, flow.Output()); flow.Start(b, "b", start, flow.Output()) }},
	} {
		b := flow.New[tally]("f")
		c.make(b)
		_, err := b.Build()
		if !hasError(err, c.code) || !strings.Contains(err.Error(), string(c.code)) {
			t.Errorf("%s: got %v", c.code, err)
		}
	}
	if _, err := flow.New[tally]("").Build(); !hasError(err, flow.EmptyName) {
		t.Errorf("a flow without a name: %v", err)
	}
	if _, err := flow.New[[]int]("f").Build(); err != nil {
		t.Errorf("a nil slice is no state yet, but encodes to null: %v", err)
	}
	if _, err := flow.New[int]("f").Build(); !hasError(err, flow.StateNoObject) {
		t.Errorf("a state that is a number: %v", err)
	}
	b := flow.New[tally]("f")
	flow.Start(b, "a", start, flow.When(nil), flow.Emits(flow.Label[int]("x")))
	if _, err := b.Build(); !hasError(err, flow.NilCondition) || !hasError(err, flow.MisplacedOption) {
		t.Errorf("not everything is reported: %v", err)
	}
}

func hasError(err error, code flow.Code) bool {
	var e *flow.BuildError
	if !errors.As(err, &e) {
		return false
	}
	for _, d := range e.Diagnostics {
		if d.Code == code && d.Severity == flow.Error {
			return true
		}
	}
	return false
}

func TestLint(t *testing.T) {
	b := flow.New[tally]("f")
	again, done := flow.Label[any]("again"), flow.Label[any]("done")
	s := flow.Start(b, "s", start)
	flow.Router(b, "r", route, flow.Or(flow.Any(s), again), flow.Emits(again, done))
	flow.Router(b, "dynamic", route, flow.Any(s))
	flow.Listen(b, "typo", listen, flow.On[any]("ss"))
	flow.Listen(b, "x", listen, flow.Or(flow.Any(s), flow.On[any]("y")))
	flow.Listen(b, "y", listen, flow.On[any]("x"))
	flow.Listen(b, "anything", listen, flow.Label[any]("unknown")) // dynamic may choose it
	var got []string
	for _, d := range mustBuild(t, b).Lint() {
		got = append(got, fmt.Sprintf("%s %s %s", d.Method, d.Code, d.Event))
	}
	want := []string{
		"r unheard label done", "dynamic dynamic router ", "typo unknown trigger ss", "x endless loop ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}

	b = flow.New[tally]("f")
	s = flow.Start(b, "s", start)
	flow.Listen(b, "typo", listen, flow.On[any]("ss"))
	flow.Listen(b, "behind", listen, flow.And(s, flow.On[any]("typo")))
	flow.Listen(b, "beside", listen, flow.Or(flow.Any(s), flow.On[any]("typo")))
	flow.Listen(b, "never", listen, nil)
	var unreachable []string
	for _, d := range mustBuild(t, b).Lint() {
		if d.Code == flow.Unreachable {
			unreachable = append(unreachable, d.Method)
		}
	}
	if strings.Join(unreachable, " ") != "typo behind never" {
		t.Errorf("unreachable: %v", unreachable)
	}

	b = flow.New[tally]("f")
	flow.Start(b, "s", start, flow.When(flow.Label[any]("x")))
	lint := mustBuild(t, b).Lint()
	if len(lint) != 2 || lint[0].Code != flow.UnknownTrigger || lint[1].Code != flow.NoPlainStart || !strings.HasPrefix(lint[0].String(), `warning: method "s": `) {
		t.Errorf("got %v", lint)
	}
}

func TestTheFingerprintIsOfTheGraph(t *testing.T) {
	build := func(name, first string, on flow.Trigger[any], labels ...flow.Condition) string {
		b := flow.New[tally](name)
		flow.Start(b, first, start)
		flow.Router(b, "r", route, on, flow.Emits(labels...))
		return mustBuild(t, b).Fingerprint()
	}
	x, y := flow.Label[int]("x"), flow.Label[int]("y")
	base := build("f", "a", flow.On[any]("a"), x, y)
	if again := build("f", "a", flow.On[any]("a"), y, x); again != base {
		t.Error("the order of the labels counts")
	}
	for what, other := range map[string]string{
		"the name of the flow": build("g", "a", flow.On[any]("a"), x, y),
		"the name of a method": build("f", "b", flow.On[any]("a"), x, y),
		"a condition":          build("f", "a", flow.Or(flow.On[any]("a"), flow.On[any]("z")), x, y),
		"the kind of a node":   build("f", "a", flow.And(flow.On[any]("a"), flow.On[any]("z")), x, y),
		"the labels":           build("f", "a", flow.On[any]("a"), x),
	} {
		if other == base {
			t.Errorf("%s does not count", what)
		}
	}
}

func TestMermaid(t *testing.T) {
	b := flow.New[tally]("f")
	yes := flow.Label[any](`say "yes"`)
	s := flow.Start(b, "s", start)
	flow.Router(b, "r", route, flow.Any(s), flow.Emits(yes))
	flow.Listen(b, "a[b]", listen, flow.And(s, yes, flow.On[any]("nobody")))
	want := `flowchart TD
    m0(["s"])
    m1{"r"}
    m2["a#91;b#93;"]
    m0 --> m1
    m0 -->|and| m2
    m1 -.->|"and say #34;yes#34;"| m2
`
	if got := mustBuild(t, b).Mermaid(); got != want {
		t.Errorf("got\n%s", got)
	}
}

// A definition does not change with the builder it came from.
func TestADefinitionIsImmutable(t *testing.T) {
	b := flow.New[tally]("f")
	flow.Start(b, "a", start)
	def := mustBuild(t, b)
	flow.Start(b, "b", start)
	if methods := def.Methods(); len(methods) != 1 || def.Name() != "f" {
		t.Errorf("methods %v", methods)
	}
	res, err := def.Kickoff(t.Context(), nil)
	if err != nil || len(res.Completed) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirflow/weir/core/flow"
)

// doc is the state of every scenario: free-form, with exact numbers.
type doc = map[string]any

// errGrammar is returned for a condition that cannot be written with this package's types.
var errGrammar = errors.New("the condition grammar has no such form")

// build makes the definition; body is what each method does.
func (sc *scenario) build(body func(*step, *flow.Run[doc], context.Context, any) (any, error)) (*flow.Definition[doc], error) {
	name := "F"
	if n, ok := sc.flow["name"].(string); ok {
		name = n
	}
	b := flow.New[doc](name)
	if err := sc.state(b); err != nil {
		return nil, err
	}
	for _, m := range sc.methods {
		if err := sc.add(b, m, body); err != nil {
			return nil, err
		}
	}
	return b.Build()
}

func (sc *scenario) add(b *flow.Builder[doc], m *step, body func(*step, *flow.Run[doc], context.Context, any) (any, error)) error {
	var opts []flow.MethodOption
	if m.persistGiven {
		opts = append(opts, map[bool]flow.MethodOption{true: flow.Persist(), false: flow.NoPersist()}[m.persist])
	}
	if m.feedback != nil {
		opts = append(opts, m.review(sc))
	}
	if m.router && m.feedback == nil && len(m.labels()) > 0 {
		labels := make([]flow.Condition, 0, len(m.labels()))
		for _, l := range m.labels() {
			labels = append(labels, sc.label(l))
		}
		opts = append(opts, flow.Emits(labels...))
	}
	isStart := m.starts()
	on := m.listen
	if isStart {
		on = m.start
	}
	var trigger flow.Trigger[any]
	if on != nil && on != true {
		t, err := sc.condition(on)
		if racers := sc.racers(m); len(racers) > 1 {
			t, err = sc.race(m, racers)
		}
		if err != nil {
			return fmt.Errorf("method %q: %w", m.name, err)
		}
		trigger = t
	}
	if isStart && trigger != nil {
		opts = append(opts, flow.When(trigger))
	}
	value := func(ctx context.Context, run *flow.Run[doc], in any) (any, error) { return body(m, run, ctx, in) }
	route := func(ctx context.Context, run *flow.Run[doc], in any) (flow.Route, error) {
		out, err := value(ctx, run, in)
		if out == nil || err != nil {
			return flow.Route{}, err
		}
		return flow.To(flow.Label[any](pythonText(out)), out), nil
	}
	switch {
	case isStart && m.router && m.feedback == nil:
		flow.StartRouter(b, m.name, func(ctx context.Context, run *flow.Run[doc]) (flow.Route, error) { return route(ctx, run, nil) }, opts...)
	case isStart:
		flow.Start(b, m.name, func(ctx context.Context, run *flow.Run[doc]) (any, error) { return value(ctx, run, nil) }, opts...)
	case m.router && m.feedback == nil:
		flow.Router(b, m.name, route, trigger, opts...)
	default:
		flow.Listen(b, m.name, value, trigger, opts...)
	}
	return nil
}

// label is an event that is no method, with its payload's type if it is an outcome.
func (sc *scenario) label(name string) flow.Trigger[any] {
	for _, m := range sc.methods {
		if slices.Contains(items(m.feedback["emit"]), any(name)) {
			return flow.Any(flow.Label[flow.Feedback](name))
		}
	}
	return flow.Label[any](name)
}

// condition turns a COND of the file into one of this package.
func (sc *scenario) condition(v any) (flow.Trigger[any], error) {
	if name, ok := v.(string); ok {
		if slices.ContainsFunc(sc.methods, func(m *step) bool { return m.name == name }) {
			return flow.On[any](name), nil
		}
		return sc.label(name), nil
	}
	m, _ := v.(map[string]any)
	and, isAnd := m["and"].([]any)
	or, isOr := m["or"].([]any)
	if len(m) != 1 || !isAnd && !isOr {
		return nil, fmt.Errorf("%w: %v", errGrammar, v)
	}
	kids := make([]flow.Trigger[any], 0, len(and)+len(or))
	for _, kid := range append(slices.Clone(and), or...) {
		t, err := sc.condition(kid)
		if err != nil {
			return nil, err
		}
		kids = append(kids, t)
	}
	if isAnd {
		all := make([]flow.Condition, len(kids))
		for i, k := range kids {
			all[i] = k
		}
		return flow.And(all...), nil
	}
	if len(kids) == 0 {
		return nil, fmt.Errorf("%w: an or of nothing", errGrammar)
	}
	return flow.Or(kids[0], kids[1:]...), nil
}

// state declares the scenario's state: its defaults and, for a model, what it accepts.
func (sc *scenario) state(b *flow.Builder[doc]) error {
	decl, _ := sc.flow["state"].(map[string]any)
	if decl == nil {
		return nil
	}
	switch decl["type"] {
	case "dict":
		defaults, _ := decl["default"].(map[string]any)
		b.Initial(func() doc { return maps.Clone(defaults) })
	case "model":
		fields, _ := decl["fields"].(map[string]any)
		b.Initial(func() doc {
			s := doc{}
			for name, f := range fields {
				if d, ok := f.(map[string]any)["default"]; ok {
					s[name] = d
				}
			}
			return s
		})
		b.Prepare(func(s *doc) error { return checkModel(*s, fields) })
	default:
		return fmt.Errorf("state type %v is not supported", decl["type"])
	}
	return nil
}

// checkModel does what a model of the reference does with a state: it drops the keys it does
// not know, and refuses what is missing or of the wrong type.
func checkModel(s doc, fields map[string]any) error {
	maps.DeleteFunc(s, func(k string, _ any) bool { _, known := fields[k]; return !known && k != "id" })
	for name, f := range fields {
		v, given := s[name]
		if !given {
			return fmt.Errorf("field %q is required", name)
		}
		var ok bool
		switch typ := f.(map[string]any)["type"]; typ {
		case "int":
			text := pythonText(v)
			_, err := strconv.ParseInt(text, 10, 64)
			if ok = err == nil; ok {
				s[name] = json.Number(text)
			}
		case "str":
			_, ok = v.(string)
		case "bool":
			_, ok = v.(bool)
		case "list":
			_, ok = v.([]any)
		case "dict":
			_, ok = v.(map[string]any)
		default:
			return fmt.Errorf("field type %v is not supported", typ)
		}
		if !ok {
			return fmt.Errorf("field %q: %v has the wrong type", name, v)
		}
	}
	return nil
}

// apply performs effects on a state.
func apply(s doc, effects []any) error {
	for _, e := range effects {
		for op, args := range e.(map[string]any) {
			for k, v := range args.(map[string]any) {
				switch op {
				case "set":
					s[k] = v
				case "add":
					have, _ := s[k].(json.Number)
					s[k] = json.Number(strconv.Itoa(number(have) + number(v)))
				case "append":
					s[k] = append(slices.Clone(items(s[k])), v)
				default:
					return fmt.Errorf("effect %q is not supported", op)
				}
			}
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// format fills in returns_fmt.
func format(text string, s doc, payload any, call int) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		switch key := strings.Trim(p, "{}"); {
		case key == "payload":
			return pythonText(payload)
		case key == "call":
			return strconv.Itoa(call)
		case strings.HasPrefix(key, "state."):
			return pythonText(s[strings.TrimPrefix(key, "state.")])
		}
		return p
	})
}

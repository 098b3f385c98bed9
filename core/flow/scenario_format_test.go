package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// scenario is one entry of a scenario file; testdata/flow_scenarios.yaml documents the format
// in its head.
type scenario struct {
	id, area, verdict string
	flow              map[string]any
	methods           []*step
	steps             []map[string]any
	expect            []map[string]any // by step, verdict applied; nil: Build must refuse
	missing           string           // the feature it needs that does not exist yet
}

// step is one method of a scenario.
type step struct {
	name                  string
	start, listen         any // true, a condition, or nil
	router, param, blocks bool
	delay                 time.Duration
	effects, effectsAfter []any
	returns               any
	returnsByCall         []any
	returnsFmt            string
	returnsPayload        bool
	emit                  []string
	fails                 string
	failing               bool
	failsOn               []int
	persist, persistGiven bool
	feedback              map[string]any
	asks                  string
	speaks                bool
}

// locate finds a file whose name is relative to the directory that the tests were started
// from: the test runs in its package's directory, somewhere below.
func locate(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	for dir := "."; ; dir = filepath.Join("..", dir) {
		if name := filepath.Join(dir, file); exists(name) {
			return name
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == filepath.Dir(abs) {
			return file
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func readScenarios(t *testing.T, file string) []*scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := parseYAML(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	top, _ := doc.(map[string]any)
	list, _ := top["scenarios"].([]any)
	if len(list) == 0 {
		t.Fatalf("%s: no scenarios", file)
	}
	out := make([]*scenario, len(list))
	for i, v := range list {
		sc, err := newScenario(v)
		if err != nil {
			t.Fatalf("%s: scenario %d: %v", file, i+1, err)
		}
		out[i] = sc
	}
	return out
}

func newScenario(v any) (*scenario, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is not a map: %v", v)
	}
	if err := onlyKeys(m, "id", "title", "area", "origin", "verdict", "status", "go", "flow", "steps", "go_expect"); err != nil {
		return nil, err
	}
	sc := &scenario{}
	sc.id, _ = m["id"].(string)
	sc.area, _ = m["area"].(string)
	sc.verdict, _ = m["verdict"].(string)
	sc.flow, _ = m["flow"].(map[string]any)
	if sc.id == "" || sc.area == "" || !slices.Contains([]string{"adopt", "note", "fix"}, sc.verdict) {
		return nil, fmt.Errorf("%v: id, area or verdict is missing", m["id"])
	}
	err := onlyKeys(sc.flow, "name", "config", "state", "persist", "backend", "chat", "ask_replies", "collapse_outcomes", "declaration", "build_error", "methods")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sc.id, err)
	}
	for _, raw := range items(sc.flow["methods"]) {
		st, err := newStep(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.id, err)
		}
		sc.methods = append(sc.methods, st)
	}
	for _, raw := range items(m["steps"]) {
		op, _ := raw.(map[string]any)
		err := onlyKeys(op, "kickoff", "resume", "turn", "end_session", "checkpoint_restore", "instance", "new", "fail_saves", "settle_ms", "expect")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.id, err)
		}
		sc.steps = append(sc.steps, op)
		expect, _ := op["expect"].(map[string]any)
		sc.expect = append(sc.expect, expect)
	}
	sc.judge(items(m["go_expect"]))
	sc.missing = sc.lacks()
	return sc, nil
}

// judge replaces the expectations of a scenario that the reference gets wrong.
func (sc *scenario) judge(fixed []any) {
	if sc.verdict != "fix" {
		return
	}
	if fixed == nil {
		sc.expect = rules[sc.id]
		return
	}
	for i, v := range fixed {
		if m, _ := v.(map[string]any); i < len(sc.expect) && len(m) > 0 {
			sc.expect[i] = m
		}
	}
}

// lacks names the feature a scenario needs that is not built yet.
func (sc *scenario) lacks() string {
	if sc.flow["declaration"] != nil {
		return declarations
	}
	if sc.flow["chat"] != nil {
		return chat
	}
	for _, m := range sc.methods {
		if m.speaks {
			return chat
		}
	}
	for _, op := range sc.steps {
		switch {
		case op["turn"] != nil, op["end_session"] != nil:
			return chat
		}
	}
	return ""
}

func newStep(v any) (*step, error) {
	m, _ := v.(map[string]any)
	err := onlyKeys(m, "name", "start", "listen", "router", "param", "sync", "delay_ms", "effects", "effects_after", "returns", "returns_by_call",
		"returns_fmt", "returns_payload", "fails", "fails_on_call", "persist", "feedback", "asks", "says", "emit", "doc")
	if err != nil {
		return nil, err
	}
	s := &step{start: m["start"], listen: m["listen"], returns: m["returns"]}
	s.name, _ = m["name"].(string)
	if s.name == "" {
		return nil, fmt.Errorf("a method has no name: %v", m)
	}
	s.router, _ = m["router"].(bool)
	s.param, _ = m["param"].(bool)
	s.blocks, _ = m["sync"].(bool)
	s.returnsPayload, _ = m["returns_payload"].(bool)
	s.returnsFmt, _ = m["returns_fmt"].(string)
	s.fails, s.failing = m["fails"].(string)
	s.persist, s.persistGiven = m["persist"].(bool)
	s.delay = time.Duration(number(m["delay_ms"])) * time.Millisecond
	s.effects, s.effectsAfter, s.returnsByCall = items(m["effects"]), items(m["effects_after"]), items(m["returns_by_call"])
	for _, n := range items(m["fails_on_call"]) {
		s.failsOn = append(s.failsOn, number(n))
	}
	for _, l := range items(m["emit"]) {
		s.emit = append(s.emit, pythonText(l))
	}
	s.feedback, _ = m["feedback"].(map[string]any)
	s.asks, _ = m["asks"].(string)
	s.speaks = m["says"] != nil
	return s, nil
}

func (s *step) starts() bool { return s.start != nil && s.start != false && s.start != "" }

// routes reports whether the result of the method is a label.
func (s *step) routes() bool { return s.router || len(items(s.feedback["emit"])) > 0 }

// labels are the labels a router is known to emit: those it declares, else its literal
// results. Nil means that nothing is known.
func (s *step) labels() []string {
	if s.emit != nil {
		return s.emit
	}
	if s.returnsFmt != "" || s.returnsPayload {
		return nil
	}
	var out []string
	for _, v := range append(slices.Clone(s.returnsByCall), s.returns) {
		if v != nil && pythonText(v) != "" && !slices.Contains(out, pythonText(v)) {
			out = append(out, pythonText(v))
		}
	}
	return out
}

// pythonText is a scalar as the reference turns it into text.
func pythonText(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return v
	case json.Number:
		return v.String()
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

func onlyKeys(m map[string]any, keys ...string) error {
	for k := range m {
		if !slices.Contains(keys, k) {
			return fmt.Errorf("unknown key %q", k)
		}
	}
	return nil
}

func items(v any) []any {
	list, _ := v.([]any)
	return list
}

func number(v any) int {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return int(i)
}

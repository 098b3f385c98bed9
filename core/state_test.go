package core_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
)

// Law 7 of the design: what cannot come back exactly is refused with its path.
func TestStateIsRefusedWithItsPath(t *testing.T) {
	deep := strings.Repeat("[", core.MaxStateDepth+1) + strings.Repeat("]", core.MaxStateDepth+1)
	for name, c := range map[string]struct{ state, path, reason string }{
		"empty":                 {``, "", "empty"},
		"array":                 {`[1]`, "", "not a JSON object"},
		"number":                {`7`, "", "not a JSON object"},
		"NaN":                   {`{"a":{"x":NaN}}`, "/a/x", "not a JSON value"},
		"Infinity":              {`{"a":[1,-Infinity]}`, "/a/1", "not a JSON number"},
		"duplicate key":         {`{"a":{"b":1,"b":2}}`, "/a/b", "twice"},
		"duplicate, escaped":    {`{"a":1,"\u0061":2}`, "/a", "twice"},
		"duplicate of many":     {`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"2":0}`, "/2", "twice"},
		"lone high surrogate":   {`{"m":["ok","\ud83d"]}`, "/m/1", "lone surrogate"},
		"lone low surrogate":    {`{"m":"\ude00x"}`, "/m", "lone surrogate"},
		"surrogates turned":     {`{"m":"\ude00\ud83d"}`, "/m", "lone surrogate"},
		"invalid UTF-8":         {"{\"m\":\"a\xffb\"}", "/m", "UTF-8"},
		"invalid UTF-8 in key":  {"{\"a\xff\":1}", "", "UTF-8"},
		"control character":     {"{\"m\":\"a\nb\"}", "/m", "control character"},
		"text after the object": {`{} {}`, "", "more text"},
		"cut off":               {`{"a":[1,2`, "/a/1", "expected"},
		"trailing comma":        {`{"a":1,}`, "", "key in quotes"},
		"leading zero":          {`{"a":01}`, "", "expected"},
		"bare point":            {`{"a":1.}`, "/a", "digit"},
		"bare exponent":         {`{"a":1e}`, "/a", "digit"},
		"unknown escape":        {`{"a":"\x"}`, "/a", "escape"},
		"short unicode escape":  {`{"a":"\u12"}`, "/a", "hexadecimal"},
		"signed unicode escape": {`{"a":"\u+123"}`, "/a", "hexadecimal"},
		"key with slash, tilde": {`{"a/b~c":nope}`, "/a~1b~0c", "not a JSON value"},
		"too deep":              {`{"a":` + deep + `}`, "", "nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			err := core.ValidateState([]byte(c.state))
			var refused *core.StateError
			if !errors.As(err, &refused) || !errors.Is(err, core.ErrInvalidState) {
				t.Fatalf("got %v, want a StateError", err)
			}
			if name != "too deep" && refused.Path != c.path {
				t.Errorf("path %q, want %q", refused.Path, c.path)
			}
			if !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("reason %q lacks %q", refused.Reason, c.reason)
			}
		})
	}
}

func TestStateOfEveryShapeIsAccepted(t *testing.T) {
	for _, state := range []string{
		`{}`, " \t\r\n{ } ", `{"":""}`, `{"a":null,"b":[],"c":{},"d":[[],[[]]]}`,
		`{"big":9007199254740993,"huge":1e400,"tiny":-0.0,"same":1.0}`,
		`{"nul":"\u0000","emoji":"😀","pair":"\ud83d\ude00","rtl":"שלום"}`,
		`{"__x__":1,"a.b":2,"$c":3,"_persistence_meta":{}}`,
		`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		if err := core.ValidateState([]byte(state)); err != nil {
			t.Errorf("%.60s: %v", state, err)
		}
	}
}

func TestScanFindsOneTopLevelField(t *testing.T) {
	for name, c := range map[string]struct {
		state, field, value string
		elements            int
	}{
		"array":           {`{"a":1,"messages": [ {"x":[1,2]} , 2 ] }`, "messages", `[ {"x":[1,2]} , 2 ]`, 2},
		"empty array":     {`{"messages":[ ]}`, "messages", `[ ]`, 0},
		"object":          {`{"messages":{"a":[1]}}`, "messages", `{"a":[1]}`, -1},
		"escaped key":     {`{"mess\u0061ges":[1]}`, "messages", `[1]`, 1},
		"only top level":  {`{"a":{"messages":[1]}}`, "messages", ``, -1},
		"absent":          {`{"a":1}`, "messages", ``, -1},
		"null is a value": {`{"messages":null}`, "messages", `null`, -1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := core.ScanState([]byte(c.state), c.field)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Value) != c.value || got.Elements != c.elements {
				t.Fatalf("got %q with %d elements, want %q with %d", got.Value, got.Elements, c.value, c.elements)
			}
			if c.value != "" && !strings.HasPrefix(c.state[got.Start:], c.value) {
				t.Errorf("the value does not begin at %d", got.Start)
			}
		})
	}
}

// FuzzValidateState holds the scanner against encoding/json: what is accepted must be valid
// JSON there, and what encoding/json refuses must be refused.
func FuzzValidateState(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2.5e3,"x\u00e9",{"b":null}]}`, `{"a":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `{"a":-}`, "{\"\xff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		err := core.ValidateState(state)
		if err == nil && !json.Valid(state) {
			t.Fatalf("accepted %q, which is not JSON", state)
		}
		var object map[string]json.RawMessage
		if err == nil && json.Unmarshal(state, &object) != nil {
			t.Fatalf("accepted %q, which is no object", state)
		}
	})
}

func BenchmarkValidateState(b *testing.B) {
	message := `{"role":"assistant","content":"` + strings.Repeat("All is well with booking 4711. ", 10) + `"},`
	state := []byte(`{"id":"c-1","messages":[` + strings.TrimSuffix(strings.Repeat(message, 3000), ",") + `]}`)
	b.Run("ValidateState", func(b *testing.B) {
		b.SetBytes(int64(len(state)))
		b.ReportAllocs()
		for b.Loop() {
			if err := core.ValidateState(state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(state)))
		for b.Loop() {
			if !json.Valid(state) {
				b.Fatal("not valid")
			}
		}
	})
}

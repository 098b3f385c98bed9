package reducer

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var scanSeeds = []string{
	`[]`, `[{}]`, ` [ 1 , -0.5e+3 ,true,false,null,"a\u00e9\ud83d\ude00\n"] `, `{"a":{"b":[[],{}]}}`, `[1,]`, `["\u12"]`, `"\ud800x"`, `[-]`, `[01]`,
	`["` + strings.Repeat("x", 40) + "\x01" + `"]`, `["` + strings.Repeat("é", 9) + `\"` + `"]`, "[\"\x7f\xff\"]", `[1e5 ]x`, `nul`, `{"a" 1}`, `[[[[`, `"\\"`, `"a\\\""`,
}

// FuzzScannerAgreesWithJSON: the scanner takes and refuses what json.Valid
// does, and reads strings as json.Unmarshal does.
func FuzzScannerAgreesWithJSON(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanner{b: b}
		s.space()
		from := s.i
		err := s.value(0)
		to := s.i
		s.space()
		valid := err == nil && s.i == len(b)
		if valid != json.Valid(b) {
			t.Fatalf("%q: scanner says %v (%v), json.Valid %v", b, valid, err, json.Valid(b))
		}
		if !valid {
			if err != nil && !errors.Is(err, ErrInput) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again := scanner{b: b, i: from, checked: true}
		if err := again.value(0); err != nil || again.i != to {
			t.Fatalf("%q: scanned again it ends at %d (%v), not %d", b, again.i, err, to)
		}
		checkString(t, b[from:to])
	})
}

func TestNestingEndsWhereJSONs(t *testing.T) {
	for _, n := range []int{maxDepth - 1, maxDepth, maxDepth + 1} {
		b := []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
		s := scanner{b: b}
		if err := s.value(0); (err == nil) != json.Valid(b) {
			t.Errorf("%d levels: %v, json.Valid %v", n, err, json.Valid(b))
		}
	}
}

func checkString(t *testing.T, raw []byte) {
	t.Helper()
	got, ok := text(raw)
	if !ok {
		return
	}
	var want string
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if strings.ToValidUTF8(string(got), "\uFFFD") != strings.ToValidUTF8(want, "\uFFFD") && json.Valid(raw) && !strings.Contains(want, "\uFFFD") {
		t.Fatalf("%q: read as %q, json reads %q", raw, got, want)
	}
}

func TestTruthIsPythons(t *testing.T) {
	for raw, want := range map[string]bool{
		``: false, `null`: false, `false`: false, `0`: false, `0.0`: false, `-0`: false, `0e5`: false, `""`: false, `[]`: false, `{ }`: false, `[ ]`: false,
		`true`: true, `1`: true, `0.01`: true, `-3`: true, `"0"`: true, `[0]`: true, `{"a":null}`: true,
	} {
		if got := truthy([]byte(raw)); got != want {
			t.Errorf("truthy(%s) is %v", raw, got)
		}
	}
}

// TestPythonEquality: two ids are one in Python just if their keys are equal.
func TestPythonEquality(t *testing.T) {
	classes := [][]string{
		{`7`, `7.0`, `70e-1`}, {`"7"`, `"\u0037"`}, {`1`, `true`, `1.0`}, {`0`, `false`, `-0`, `-0.0`}, {`"1"`}, {`0.5`, `5e-1`},
		{`[1,"a"]`, `[ true, "a" ]`}, {`{"a":1,"b":2}`, `{"b":2.0,"a":1}`}, {`""`}, {`12345678901234567890123`}, {`12345678901234567890124`},
	}
	for i, class := range classes {
		for _, a := range class {
			for j, other := range classes {
				for _, b := range other {
					if (pythonKey([]byte(a)) == pythonKey([]byte(b))) != (i == j) {
						t.Errorf("%s and %s: keys %q and %q", a, b, pythonKey([]byte(a)), pythonKey([]byte(b)))
					}
				}
			}
		}
	}
}

// TestPythonText: the lengths are those that Python prints; the texts beside
// them were printed by CPython 3.11.
func TestPythonText(t *testing.T) {
	for raw, printed := range map[string]string{
		`[{"type":"text","text":"hi"}]`:  `[{'type': 'text', 'text': 'hi'}]`,
		`["it's"]`:                       `["it's"]`,
		`["it's \"x\""]`:                 `['it\'s "x"']`,
		`["a\nb\\\t\u0000\u007f\u00e9"]`: `['a\nb\\\t\x00\x7fé']`,
		`["\u200b\ue000😀"]`:              `['\u200b\ue000😀']`,
		`[1.0,1e16,1e15,0.0001,0.00001]`: `[1.0, 1e+16, 1000000000000000.0, 0.0001, 1e-05]`,
		`[true,false,null,-0,-0.0,{}]`:   `[True, False, None, 0, -0.0, {}]`,
		`[1e999,123]`:                    `[inf, 123]`,
	} {
		if got, want := reprLen([]byte(raw), 0), len([]rune(printed)); got != want {
			t.Errorf("%s: %d characters, Python prints %d: %s", raw, got, want, printed)
		}
	}
}

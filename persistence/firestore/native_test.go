package firestore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
)

// back is a state after a round through fields, in the order of keys.
func back(t *testing.T, state string) (string, bool) {
	t.Helper()
	n, ok := native([]byte(state), 64, true)
	if !ok {
		return "", false
	}
	sizes, ok := native([]byte(state), 64, false)
	if !ok || sizes.size != n.size || sizes.largest != n.largest || sizes.fields != nil {
		t.Errorf("%s: sizes alone are %+v, with fields %+v", state, sizes, n)
	}
	text, err := appendJSON(nil, n.fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), true
}

func TestNativeFieldsGiveTheStateBack(t *testing.T) {
	for state, want := range map[string]string{
		`{}`: `{}`, `{ "a" : [ ] , "b":{ } }`: `{"a":[],"b":{}}`,
		`{"n":1,"f":1.0,"e":1e2,"big":9223372036854775807,"small":-9223372036854775808}`: `{"big":9223372036854775807,"e":100.0,"f":1.0,"n":1,"small":-9223372036854775808}`,
		`{"a":0.1,"b":5e-324,"c":1.7976931348623157e308,"d":-2.5}`:                       `{"a":0.1,"b":5e-324,"c":1.7976931348623157e+308,"d":-2.5}`,
		`{"t":true,"f":false,"n":null,"s":"","x":[1,"1",null,{"y":[]}]}`:                 `{"f":false,"n":null,"s":"","t":true,"x":[1,"1",null,{"y":[]}]}`,
		`{"s":"\u0000\"\\\n😀\ud83d\ude00"}`:                                              `{"s":"\u0000\"\\\n😀😀"}`,
		`{"a.b":1,"a":{"b":2},"_x__":3,"__x":4,"` + "`" + `":5}`:                         `{"__x":4,"_x__":3,"` + "`" + `":5,"a":{"b":2},"a.b":1}`,
		`{"_method_name":"m"}`: `{"_method_name":"m"}`,
	} {
		if got, ok := back(t, state); !ok || got != want {
			t.Errorf("%s: %s, native: %t\nwant %s", state, got, ok, want)
		}
	}
}

func TestNativeFieldsRefuseWhatTheyWouldChange(t *testing.T) {
	for _, state := range []string{
		`{"a":[[1]]}`, `{"a":{"b":[1,[2]]}}`, `{"__x__":1}`, `{"a":[{"____":1}]}`, `{"":1}`, `{"a":{"":1}}`, `{"_persistence_meta":{}}`,
		`{"` + strings.Repeat("k", 1501) + `":1}`, nested(maxDepth + 2), `{"a":` + nested(maxDepth+1) + `}`,
		`{"n":9223372036854775808}`, `{"n":-0}`, `{"n":-0.0}`, `{"n":1e400}`, `{"n":1e-400}`, `{"n":0.30000000000000000001}`, `{"n":12345678901234567.8}`,
		`{"n":1e999999999999}`, `[1]`, `1`, `{"a":1,"a":2}`, `{"s":"\ud800"}`, `{`, ``,
	} {
		if got, ok := back(t, state); ok {
			t.Errorf("%.60s is kept as fields, and comes back as %.60s", state, got)
		}
	}
	if _, ok := back(t, nested(maxDepth)); !ok {
		t.Errorf("%d levels are not kept as fields", maxDepth)
	}
}

func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
}

// TestNativeFieldsStayWithinTheIndex counts 2 entries a field and 1 an element of an array.
func TestNativeFieldsStayWithinTheIndex(t *testing.T) {
	list := func(n int, element string) string {
		return `{"a":[` + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + `]}`
	}
	if _, ok := back(t, list(maxEntries-2, "1")); !ok {
		t.Error("a list within the number of index entries is not kept as fields")
	}
	if _, ok := back(t, list(maxEntries-1, "1")); ok {
		t.Error("a list over the number of index entries is kept as fields")
	}
	long := `"` + strings.Repeat("x", 5000) + `"`
	if _, ok := back(t, list(maxEntryBytes/1700, long)); !ok {
		t.Error("a list within the size of all index entries is not kept as fields")
	}
	if _, ok := back(t, list(maxEntryBytes/1500, long)); ok {
		t.Error("a list over the size of all index entries is kept as fields")
	}
	// An element of an array has no index of its own fields.
	if _, ok := back(t, list(3000, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}`)); !ok {
		t.Error("fields inside of an array are counted")
	}
}

func TestNativeSizeIsThatOfTheDocumentation(t *testing.T) {
	for state, want := range map[string]int{
		`{}`: 0, `{"done":true}`: 6, `{"type":"Personal","done":false,"priority":1,"description":"Learn Cloud Firestore"}`: 14 + 6 + 17 + 34,
		`{"s":"漢字"}`: 2 + 7, `{"s":"😀"}`: 2 + 5, `{"s":"\u0000"}`: 2 + 2, `{"m":{"a":1}}`: 2 + 32 + 10, `{"l":[1,"x",null]}`: 2 + 8 + 2 + 1,
	} {
		if n, ok := native([]byte(state), 0, false); !ok || n.size != want {
			t.Errorf("%s: %d bytes, native: %t; want %d", state, n.size, ok, want)
		}
	}
}

func TestTimesOfPython(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900, time.UTC)
	for _, c := range []struct {
		given time.Time
		text  string
	}{
		{at, "2026-01-02T03:04:05.000678+00:00"},
		{at.Truncate(time.Second), "2026-01-02T03:04:05+00:00"},
		{at.In(time.FixedZone("", 7200)), "2026-01-02T03:04:05.000678+00:00"},
		{time.Time{}, "0001-01-01T00:00:00+00:00"},
	} {
		if got := formatTime(c.given); got != c.text || !parseTime(got).Equal(c.given.Truncate(time.Microsecond)) {
			t.Errorf("%v is %s, want %s; read back as %v", c.given, got, c.text, parseTime(got))
		}
	}
	for _, text := range []string{"2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02 03:04:05", "2026-01-02T05:04:05+02:00"} {
		if got := parseTime(text); !got.Equal(at.Truncate(time.Second)) {
			t.Errorf("%s is read as %v", text, got)
		}
	}
	if got := parseTime("yesterday"); !got.IsZero() {
		t.Errorf("no time is read as %v", got)
	}
}

func TestTags(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	for _, expire := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(-7), at.Add(time.Hour)} {
		updated, got, ok := parseTag(makeTag(at, expire))
		if !ok || !updated.Equal(at) || expire.IsZero() != got.IsZero() || !expire.IsZero() && got.UnixMilli() != expire.UnixMilli() {
			t.Errorf("a tag of %v and %v is read as %v, %v, %t", at, expire, updated, got, ok)
		}
	}
	for _, tag := range []string{"", "0", "1", "x", "1000x", "-1000", "+1000", "01000", "1000 ", "row-1", "\x00", "1000x1x1", fmt.Sprint(uint64(1)<<63, "000")} {
		if _, _, ok := parseTag(coreTag(tag)); ok {
			t.Errorf("%q is taken for a tag", tag)
		}
	}
}

func TestErrorsOfTimesAndNames(t *testing.T) {
	for _, r := range badRecords() {
		if err := checkRecord(r); !isUnsupported(err) {
			t.Errorf("%+v: %v, want %v", r, err, core.ErrUnsupported)
		}
	}
}

package conformance

import (
	"testing"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

// The judge itself: what it must take for equal, and what it must not.
func TestSameNumber(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1", true}, {"1", "2", false}, {"1", "1.0", false}, {"1.0", "1.00", true}, {"1e2", "100.0", true}, {"1e2", "100", false}, {"1E+2", "1e2", true},
		{"-0.0", "0.0", false}, {"-0.0", "-0.00", true}, {"0.0", "0e9", true}, {"-0", "0", false}, {"0.1", "0.10", true}, {"0.1", "1e-1", true},
		{"9007199254740993", "9007199254740992", false}, {"1e400", "1e401", false}, {"1e400", "10e399", true}, {"1e999999999", "1e999999999", true}, {"1e999999999", "1e999999998", false},
		{"12.50", "125e-1", true}, {"120", "12e1", false},
	} {
		if got := sameNumber(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: same is %t, want %t", c.a, c.b, got, c.same)
		}
	}
}

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{`{"a":1,"b":[1,"x",null]}`, `{ "b":[1,"\u0078",null],"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false}, {`{"a":1,"b":null}`, `{"a":1}`, false}, {`{"a":[]}`, `{"a":{}}`, false}, {`{"a":[]}`, `{"a":null}`, false}, {`{"a":""}`, `{"a":null}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false}, {`{"a":[1]}`, `{"a":[1,1]}`, false}, {`{"a":true}`, `{"a":"true"}`, false}, {`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":"é"}`, `{"a":"e\u0301"}`, false}, {`{"a":"\u0000"}`, `{"a":""}`, false}, {`{"a.b":1}`, `{"a":{"b":1}}`, false}, {`{"A":1}`, `{"a":1}`, false}, {`{"a":1`, `{"a":1}`, false}, {`{"a":1}x`, `{"a":1}`, false}, {``, `{}`, false},
	} {
		if err := sameJSON([]byte(c.got), []byte(c.want)); (err == nil) != c.same {
			t.Errorf("%s and %s: %v, want same %t", c.got, c.want, err, c.same)
		}
	}
}

func TestSameTime(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	for name, c := range map[string]struct {
		got, want time.Time
		same      bool
	}{
		"equal":                {base, base, true},
		"another zone":         {base.In(time.FixedZone("x", 3600)), base, true},
		"rounded down":         {base, base.Add(999_999), true},
		"rounded up":           {base.Add(time.Millisecond), base.Add(999_999), true},
		"needlessly off":       {base.Add(1), base, false},
		"a millisecond off":    {base.Add(time.Millisecond), base, false},
		"a second lost":        {base.Truncate(time.Second), base, false},
		"never became a time":  {time.Unix(0, 0), time.Time{}, false},
		"a time became never":  {time.Time{}, base, false},
		"never stays never":    {time.Time{}, time.Time{}, true},
		"wall clock, not time": {time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("x", 3600)), base, false},
	} {
		if err := sameTime(c.got, c.want, time.Millisecond); (err == nil) != c.same {
			t.Errorf("%s: %v, want same %t", name, err, c.same)
		}
	}
}

func TestSameRecordTellsNilApart(t *testing.T) {
	for name, c := range map[string]struct{ got, want driver.Record }{
		"state":           {driver.Record{State: []byte{}}, driver.Record{}},
		"empty for nil":   {driver.Record{State: []byte(`{}`)}, driver.Record{}},
		"nil for empty":   {driver.Record{}, driver.Record{State: []byte(`{}`)}},
		"data of foreign": {driver.Record{Data: []byte{}}, driver.Record{}},
		"sort":            {driver.Record{Sort: "x"}, driver.Record{}},
	} {
		if err := sameRecord("", c.got, c.want); err == nil {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

func values() law {
	return law{
		layer: driverLayer, name: "law07_values",
		text: "Bytes in, equal bytes out; a State comes back equal as JSON, numbers exactly; nothing is aliased.",
		cases: []testCase{
			{"numbers", func(c *caseRun) { statesComeBack(c, numberStates()) }},
			{"strings", func(c *caseRun) { statesComeBack(c, stringStates()) }},
			{"keys", func(c *caseRun) { statesComeBack(c, keyStates()) }},
			{"empties_and_nesting", func(c *caseRun) { statesComeBack(c, shapeStates()) }},
			{"markers_and_attacks", func(c *caseRun) { statesComeBack(c, markerStates()) }},
			{"large_states", largeStates},
			{"a_state_and_none", stateAndNone},
			{"data_is_bytes", dataIsBytes},
			{"methods", methodsComeBack},
			{"times", timesComeBack},
			{"given_bytes_are_copied", givenBytesAreCopied},
			{"returned_bytes_are_copies", returnedBytesAreCopies},
		},
	}
}

// statesComeBack writes each state, and each over the one before, and reads it on every path.
func statesComeBack(c *caseRun, states []string) {
	c.Helper()
	d := c.open()
	same := c.id("same").Head()
	for i, s := range states {
		r := driver.Record{State: []byte(s), Method: "m", Data: []byte("data")}
		own := c.id(fmt.Sprint("own", i)).Head()
		c.want(d, own, c.put(d, own, r, driver.IfAbsent()), r)
		tag := c.put(d, same, r, driver.Condition{})
		c.want(d, same, tag, r)
		_, err := d.Put(c.ctx, same, aHead(1), driver.IfAbsent())
		c.wantConflict(err, "Put on \"must not exist\"", same, &r)
	}
}

func numberStates() []string {
	var states []string
	for _, n := range []string{
		"0", "1", "-1", "1.0", "-0.0", "-0", "0.0", "1e0", "1E+2", "100", "1e-7", "0.1", "0.30000000000000004", "3.14159265358979323846264338327950288",
		"2147483648", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
		"123456789012345678901234567890123456789012345678901234567890", "1e308", "1.7976931348623157e308", "1e309", "1e400", "-1e400", "5e-324", "1e-400", "1.0e10", "12345678901234567.0",
		"1e999999999",
	} {
		states = append(states, fmt.Sprintf(`{"n":%s}`, n), fmt.Sprintf(`{"deep":{"list":[%s,[%s]]}}`, n, n))
	}
	return append(states, `{"a":1,"b":1.0,"c":-0.0,"d":9007199254740993,"e":1e400}`)
}

func stringStates() []string {
	var states []string
	for _, s := range []string{
		``, ` `, `a`, `null`, `true`, `1`, `{}`, `[]`, `\u0000`, `a\u0000b`, `\u0001\u001f`, `\u007f`, `\n\r\t\b\f`, `\"\\\/`, `\u2028\u2029`, `<script>&amp;`, `\u003c`,
		`😀`, `\ud83d\ude00`, `👩‍👩‍👧`, `e\u0301`, `é`, `Å`, `\ufeffx`, `x\ufeff`, `\ufffd`, `\ufffe\uffff`, `مرحبا`, `\u202eabc`, `漢字`, `  spaces  `, `ends in space `,
		`2026-01-02T03:04:05Z`, `NaN`, `Infinity`, `-0`, `0x1F`, `' OR 1=1 --`, `$2a`, `{{x}}`, `%s%n`, `\\u0000`,
	} {
		states = append(states, `{"s":"`+s+`"}`, `{"list":["`+s+`","`+s+`"]}`)
	}
	return append(states, `{"s":"`+strings.Repeat("é", 2000)+`"}`, `{"s":"`+strings.Repeat("x", 1501)+`"}`)
}

func keyStates() []string {
	var states []string
	for _, k := range []string{
		``, ` `, `a.b`, `.`, `..`, `a..b`, `$k`, `$`, `__x__`, `__name__`, `__`, `a/b`, `a~b`, `~0`, `a[0]`, `*`, "`", "a`b", `a\"b`, `a\\b`, `\u0000`, `a\nb`, `é`, `e\u0301`, `😀`, `1a`, `0`, `-1`,
		`_persistence_meta`, `ttl`, `data`, `tag`, `id`, `flow_uuid`, `method_name`, `saved_at`, `_method_name`, `_saved_at`, `PK`, `SK`, `pk`, `sk`, `state`, `State`, `STATE`, `rev`, `expire_at`,
		`_id`, `__type__`, `_weir`, `weir`, `progress`, `revision`, `null`, `true`, `constructor`, `__proto__`, `toString`,
	} {
		states = append(states, `{"`+k+`":1}`, `{"`+k+`":{"`+k+`":["x"]},"other":2}`)
	}
	return append(states, `{"`+strings.Repeat("k", 1501)+`":1}`, `{"a":1,"A":2,"a ":3," a":4}`, `{"a.b":1,"a":{"b":2}}`, `{"é":1,"e\u0301":2}`)
}

func shapeStates() []string {
	return []string{
		`{}`, `{"a":null}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`, `{"a":[null]}`, `{"a":[{}]}`, `{"a":[[]]}`, `{"a":[[[]],[]]}`, `{"a":{"b":{}}}`,
		`{"a":[[1,2],[3]]}`, `{"a":[[[1]],{"b":[[2]]}]}`, `{"a":[1,"1",1.0,true,null,{},[]]}`, `{"a":false,"b":0,"c":"","d":null,"e":[]}`, `{"x":[[1,2],[3]],"a.b":1,"$k":2,"__name__":3}`,
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat("}", 100),
		"{ \"a\" :\t[ 1 ,\n2 ] }\r\n",
	}
}

// markerStates hold what others' serializers gave a meaning to.
func markerStates() []string {
	return []string{
		`{"lc":2,"type":"constructor","id":["os","system"],"kwargs":{}}`, `{"__send__":true,"node":"x","arg":1}`, `{"__pickled__":"gASV","__type__":"x"}`,
		`{"$ne":null}`, `{"$eq' OR '1'='1":1}`, `{"x') = 1 OR 1=1 --":1}`, `{"S":"x"}`, `{"N":"1"}`, `{"M":{"a":{"S":"x"}}}`, `{"NULL":true}`, `{"stringValue":"x"}`, `{"nullValue":null}`,
		`{"_persistence_meta":{"method_name":"evil","saved_at":"never"}}`, `{"data":"{\"id\":1}","ttl":1}`, `{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"1","content":""}]}`,
	}
}

func largeStates(c *caseRun) {
	var keys, list, long bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&keys, `%s"key %d":%d`, comma(i), i, i)
		fmt.Fprintf(&list, `%s{"role":"user","n":%d,"x":[%d.0]}`, comma(i), i, i)
		fmt.Fprintf(&long, `0123456789abcdef 漢字 😀 `)
	}
	limits := c.open().Limits()
	states := []string{`{` + keys.String() + `}`, `{"messages":[` + list.String() + `]}`, `{"text":"` + long.String() + `"}`}
	for _, s := range states {
		if len(s) > limits.Inline*3/4 { // room for what a store adds
			c.Skipf("%sstates of %d bytes, the limits are %+v", unsupportedPrefix, len(s), limits)
		}
	}
	statesComeBack(c, states)
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func stateAndNone(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	for n, r := range []driver.Record{
		{State: []byte(`{}`), Data: []byte("x")},
		{State: nil, Data: []byte("x")},
		{State: []byte(`{}`), Data: nil},
		{State: nil, Data: []byte{0}},
		{State: []byte(`{"a":null}`), Data: []byte("null")},
		{State: []byte(`{"a":1}`), Data: []byte(`{"a":2}`)},
	} {
		c.want(d, k, c.put(d, k, r, driver.Condition{}), r)
		own := c.id(fmt.Sprint("own", n)).Head()
		c.want(d, own, c.put(d, own, r, driver.IfAbsent()), r)
	}
}

func dataIsBytes(c *caseRun) {
	d := c.open()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	noise := make([]byte, min(64<<10, d.Limits().Inline/2))
	for i := range noise {
		noise[i] = byte(c.rng.Uint32())
	}
	for n, data := range [][]byte{
		every, noise, {}, nil, {0}, {0, 0, 0}, []byte("\x00tail"), []byte("head\x00"), []byte("\xff\xfe"), []byte("\xed\xa0\x80"), []byte("\n"), []byte(" x "), []byte("a\r\nb"),
		[]byte("null"), []byte("1.0"), []byte(`{"a":1.0}`), bytes.Repeat([]byte{0}, 1000), {0x28, 0xb5, 0x2f, 0xfd}, {0x1f, 0x8b, 8},
	} {
		p := c.id(fmt.Sprint("f", n))
		head, sibling := driver.Record{State: []byte(`{}`), Data: data}, driver.Record{Data: data}
		c.want(d, p.Head(), c.put(d, p.Head(), head, driver.Condition{}), head)
		c.want(d, p.Sibling("s"), c.put(d, p.Sibling("s"), sibling, driver.Condition{}), sibling)
		if rs := c.siblings(d, p, driver.RangeOptions{}); len(rs) != 1 || !bytes.Equal(rs[0].Data, data) {
			c.Errorf("Range does not yield the bytes that were put: %s", clip(data))
		}
	}
}

func methodsComeBack(c *caseRun) {
	d := c.open()
	for n, m := range []string{"", " ", "answer", "ns.answer", "a/b:c#d", "' OR 1=1", "%s", "é", "e\u0301", "😀", "a\x00b", "line\nline", "null", strings.Repeat("m", 500)} {
		p := c.id(fmt.Sprint("f", n))
		r := aHead(n)
		r.Method = m
		c.want(d, p.Head(), c.put(d, p.Head(), r, driver.Condition{}), r)
		if e := c.list(d)[p]; e.Method != m {
			c.Errorf("Partitions has the method %q, was %q", e.Method, m)
		}
	}
}

func timesComeBack(c *caseRun) {
	d := c.open()
	for name, at := range map[string]time.Time{
		"none":         {},
		"microseconds": time.Date(2026, 3, 4, 5, 6, 7, 123_456_000, time.UTC),
		"one":          time.Date(2026, 3, 4, 5, 6, 7, 1000, time.UTC),
		"whole":        time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC),
		"nanoseconds":  time.Date(2026, 3, 4, 5, 6, 7, 123_456_789, time.UTC),
		"zone":         time.Date(2026, 3, 4, 5, 6, 7, 999_999_000, time.FixedZone("x", 5*3600+1800)),
		"epoch":        time.Unix(0, 0),
		"before":       time.Date(1955, 11, 5, 6, 0, 0, 1000, time.UTC),
		"far":          time.Date(2399, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	} {
		p := c.id(name)
		r := aHead(1)
		r.SavedAt = at
		c.put(d, p.Head(), r, driver.Condition{})
		if err := sameTime(c.get(d, p.Head()).SavedAt, at, time.Microsecond); err != nil {
			c.Errorf("%s: from Get SavedAt %v", name, err)
		}
		if err := sameTime(c.list(d)[p].SavedAt, at, time.Microsecond); err != nil {
			c.Errorf("%s: from Partitions SavedAt %v", name, err)
		}
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i] = 'J'
	}
}

func givenBytesAreCopied(c *caseRun) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		r := aRecord(k, 1)
		c.put(d, k, r, driver.Condition{})
		spoil(r.State)
		spoil(r.Data)
		c.want(d, k, "", aRecord(k, 1))
	}
	batch, ok := d.(driver.BatchPutter)
	if !ok {
		return
	}
	r := aSibling(2)
	r.Sort = "batch"
	rs := []driver.Record{r}
	if err := batch.PutSiblings(c.ctx, c.id("f"), rs); err != nil {
		c.Fatalf("PutSiblings failed: %v", err)
	}
	spoil(rs[0].Data)
	rs[0].Sort = "other"
	c.want(d, c.id("f").Sibling("batch"), "", aSibling(2))
}

func returnedBytesAreCopies(c *caseRun) {
	d := c.open()
	p := c.id("f")
	for _, k := range []driver.Key{p.Head(), p.Sibling("s")} {
		c.put(d, k, aRecord(k, 1), driver.Condition{})
		for range 2 {
			r := c.get(d, k)
			spoil(r.State)
			spoil(r.Data)
		}
		c.want(d, k, "", aRecord(k, 1))
		_, err := d.Put(c.ctx, k, aRecord(k, 2), driver.IfAbsent())
		var conflict *driver.ConflictError
		if errors.As(err, &conflict) && conflict.Current != nil {
			spoil(conflict.Current.State)
			spoil(conflict.Current.Data)
		}
		c.want(d, k, "", aRecord(k, 1))
	}
	for _, r := range c.siblings(d, p, driver.RangeOptions{}) {
		spoil(r.Data)
		spoil(r.State)
	}
	c.want(d, p.Sibling("s"), "", aSibling(1))
}

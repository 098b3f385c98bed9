package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// parseYAML reads the part of YAML 1.1 that scenario files are written in: block and flow
// collections, plain and quoted scalars, folded and literal blocks, comments. It refuses
// whatever else it meets (anchors, tags, several documents, complex keys, odd numbers), so
// that a file is never half understood. Numbers come out as json.Number.
func parseYAML(text string) (v any, err error) {
	p := &yamlReader{lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	defer func() {
		if e := recover(); e != nil {
			y, ours := e.(yamlError)
			if !ours {
				panic(e)
			}
			v, err = nil, y
		}
	}()
	v = p.block(-1)
	if p.skip(); p.at < len(p.lines) {
		p.failf("text after the document")
	}
	return v, nil
}

type yamlError struct {
	line int
	text string
}

func (e yamlError) Error() string { return fmt.Sprintf("yaml line %d: %s", e.line, e.text) }

type yamlReader struct {
	lines []string
	at    int // current line
}

func (p *yamlReader) failf(format string, args ...any) {
	panic(yamlError{p.at + 1, fmt.Sprintf(format, args...)})
}

// skip moves to the next line that is neither blank nor a comment.
func (p *yamlReader) skip() {
	for p.at < len(p.lines) {
		line := strings.TrimSpace(p.lines[p.at])
		if line != "" && !strings.HasPrefix(line, "#") {
			if strings.HasPrefix(strings.TrimLeft(p.lines[p.at], " "), "\t") {
				p.failf("a tab in the indentation")
			}
			return
		}
		p.at++
	}
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// block reads the node whose lines are indented by more than parent.
func (p *yamlReader) block(parent int) any {
	p.skip()
	if p.at >= len(p.lines) || indentOf(p.lines[p.at]) <= parent {
		return nil
	}
	indent := indentOf(p.lines[p.at])
	text := p.lines[p.at][indent:]
	switch {
	case strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...") || strings.HasPrefix(text, "%") || strings.HasPrefix(text, "? "):
		p.failf("%q is not supported", text)
	case isItem(text):
		return p.sequence(indent)
	case blockKey.MatchString(text):
		return p.mapping(indent)
	}
	return p.inline(indent, parent)
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

// blockKey is a key of a block mapping: plain or quoted, then a colon.
var blockKey = regexp.MustCompile(`^(?:"((?:[^"\\])*)"|'([^']*)'|([^\s\[\]{},"'&*!|>%@` + "`" + `#?:-][^#:{}\[\],]*|\$[\w$]+))\s*:(?:\s|$)`)

func (p *yamlReader) sequence(indent int) any {
	out := []any{}
	for p.skip(); p.at < len(p.lines) && indentOf(p.lines[p.at]) == indent && isItem(p.lines[p.at][indent:]); p.skip() {
		// The item is a node of its own: blank out the dash and read what is left.
		line := p.lines[p.at]
		p.lines[p.at] = line[:indent] + " " + line[indent+1:]
		if rest := strings.TrimSpace(line[indent+1:]); rest == "" || strings.HasPrefix(rest, "#") {
			p.at++
		}
		out = append(out, p.block(indent))
	}
	p.dedented(indent)
	return out
}

func (p *yamlReader) mapping(indent int) any {
	out := map[string]any{}
	for p.skip(); p.at < len(p.lines) && indentOf(p.lines[p.at]) == indent; p.skip() {
		text := p.lines[p.at][indent:]
		m := blockKey.FindStringSubmatch(text)
		if m == nil {
			if isItem(text) {
				break
			}
			p.failf("a key was expected, found %q", text)
		}
		key := strings.TrimSpace(m[1] + m[2] + m[3])
		if _, dup := out[key]; dup {
			p.failf("the key %q occurs twice", key)
		}
		out[key] = p.value(indent, indent+len(m[0]))
	}
	p.dedented(indent)
	return out
}

func (p *yamlReader) dedented(indent int) {
	if p.at < len(p.lines) && indentOf(p.lines[p.at]) > indent {
		p.failf("unexpected indentation")
	}
}

// value reads what follows a key that ends before column.
func (p *yamlReader) value(indent, column int) any {
	rest := ""
	if column < len(p.lines[p.at]) {
		rest = strings.TrimSpace(p.lines[p.at][column:])
	}
	if rest == "" || strings.HasPrefix(rest, "#") {
		p.at++
		p.skip()
		if p.at < len(p.lines) && indentOf(p.lines[p.at]) == indent && isItem(p.lines[p.at][indent:]) {
			return p.sequence(indent)
		}
		return p.block(indent)
	}
	return p.inline(len(p.lines[p.at])-len(strings.TrimLeft(p.lines[p.at][column:], " ")), indent)
}

// inline reads a scalar or flow collection that begins at column of the current line and
// belongs to a node indented by parent.
func (p *yamlReader) inline(column, parent int) any {
	switch c := p.lines[p.at][column]; c {
	case '|', '>':
		return p.literal(p.lines[p.at][column:], parent)
	case '[', '{', '"', '\'':
		f := &yamlFlow{p: p, line: p.at, col: column, parent: parent}
		v := f.node()
		p.at = f.line
		if rest := strings.TrimSpace(p.lines[f.line][f.col:]); rest != "" && !strings.HasPrefix(rest, "#") {
			p.failf("unexpected %q", rest)
		}
		p.at++
		return v
	}
	text := uncomment(p.lines[p.at][column:])
	p.at++
	for p.at < len(p.lines) && (strings.TrimSpace(p.lines[p.at]) == "" || indentOf(p.lines[p.at]) > parent) {
		more := strings.TrimSpace(p.lines[p.at])
		if more == "" {
			p.skip()
			if p.at < len(p.lines) && indentOf(p.lines[p.at]) > parent {
				p.failf("a blank line inside a plain scalar")
			}
			break
		}
		if strings.HasPrefix(more, "#") {
			p.skip()
			break
		}
		text += " " + uncomment(more)
		p.at++
	}
	return p.plain(text)
}

func uncomment(text string) string {
	if i := strings.Index(text, " #"); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}

// literal reads a block scalar.
func (p *yamlReader) literal(header string, parent int) any {
	header = uncomment(header)
	if header != ">-" && header != "|" && header != "|-" && header != ">" {
		p.failf("the block header %q is not supported", header)
	}
	p.at++
	var lines []string
	indent := -1
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.TrimSpace(line) == "" {
			lines = append(lines, "")
			continue
		}
		if indent < 0 {
			indent = indentOf(line)
		}
		if indentOf(line) <= parent {
			break
		}
		if indentOf(line) != indent && header[0] == '>' || indentOf(line) < indent {
			p.failf("uneven indentation in a block scalar")
		}
		lines = append(lines, line[indent:])
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	text := strings.Join(lines, "\n")
	if header[0] == '>' {
		text = fold(lines)
	}
	if !strings.HasSuffix(header, "-") && len(lines) > 0 {
		text += "\n"
	}
	return text
}

// fold joins lines by spaces; an empty line is a line break.
func fold(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		switch {
		case l == "":
			b.WriteByte('\n')
		case i > 0 && lines[i-1] != "":
			b.WriteString(" " + l)
		default:
			b.WriteString(l)
		}
	}
	return b.String()
}

// yamlFlow reads flow style, character by character, over line ends.
type yamlFlow struct {
	p         *yamlReader
	line, col int
	parent    int
}

func (f *yamlFlow) failf(format string, args ...any) { f.p.at = f.line; f.p.failf(format, args...) }

// peek returns the next character that is not space or comment.
func (f *yamlFlow) peek() byte {
	for {
		line := f.p.lines[f.line]
		for f.col < len(line) && (line[f.col] == ' ' || line[f.col] == '\t') {
			f.col++
		}
		if f.col < len(line) && (line[f.col] != '#' || f.col > 0 && line[f.col-1] != ' ') {
			return line[f.col]
		}
		if f.line+1 >= len(f.p.lines) {
			f.failf("the text ends inside a flow collection")
		}
		f.line, f.col = f.line+1, 0
	}
}

func (f *yamlFlow) node() any {
	switch f.peek() {
	case '[':
		return f.list()
	case '{':
		return f.object()
	case '"', '\'':
		return f.quoted()
	}
	return f.p.plain(f.plainText())
}

func (f *yamlFlow) list() any {
	out := []any{}
	for f.col++; f.peek() != ']'; {
		out = append(out, f.node())
		f.comma(']')
	}
	f.col++
	return out
}

func (f *yamlFlow) object() any {
	out := map[string]any{}
	for f.col++; f.peek() != '}'; {
		var key string
		if c := f.peek(); c == '"' || c == '\'' {
			key = f.quoted()
		} else {
			key = f.plainText()
		}
		if _, dup := out[key]; dup {
			f.failf("the key %q occurs twice", key)
		}
		if f.peek() != ':' {
			f.failf("a colon was expected after %q", key)
		}
		f.col++
		out[key] = nil
		if c := f.peek(); c != ',' && c != '}' {
			out[key] = f.node()
		}
		f.comma('}')
	}
	f.col++
	return out
}

func (f *yamlFlow) comma(end byte) {
	switch c := f.peek(); c {
	case ',':
		f.col++
	case end:
	default:
		f.failf("a comma or %q was expected, found %q", end, c)
	}
}

// plainText reads an unquoted scalar of one line.
func (f *yamlFlow) plainText() string {
	line, start := f.p.lines[f.line], f.col
	for f.col < len(line) {
		c := line[f.col]
		if strings.IndexByte(",[]{}", c) >= 0 || c == '#' && line[f.col-1] == ' ' ||
			c == ':' && (f.col+1 == len(line) || strings.IndexByte(" ,[]{}", line[f.col+1]) >= 0) {
			break
		}
		f.col++
	}
	text := strings.TrimSpace(line[start:f.col])
	if text == "" {
		f.failf("a value was expected, found %q", line[start:])
	}
	if c := f.peek(); strings.IndexByte(",]}:", c) < 0 {
		f.failf("a plain scalar over several lines: %q", text)
	}
	return text
}

var doubleQuoted = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"`)

// quoted reads a quoted scalar of one line.
func (f *yamlFlow) quoted() string {
	rest := f.p.lines[f.line][f.col:]
	if rest[0] == '\'' {
		for i := 1; i < len(rest); i++ {
			if rest[i] != '\'' {
				continue
			}
			if i+1 < len(rest) && rest[i+1] == '\'' {
				i++
				continue
			}
			f.col += i + 1
			return strings.ReplaceAll(rest[1:i], "''", "'")
		}
		f.failf("a quoted scalar over several lines")
	}
	m := doubleQuoted.FindString(rest)
	if m == "" {
		f.failf("a quoted scalar over several lines")
	}
	var text string
	if json.Unmarshal([]byte(m), &text) != nil {
		f.failf("escapes beyond those of JSON: %s", m)
	}
	f.col += len(m)
	return text
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	yamlFloat = regexp.MustCompile(`^[-+]?[0-9]+\.[0-9]*([eE][-+][0-9]+)?$`)
	yamlOdd   = regexp.MustCompile(`^[-+]?(0[0-7_]+|0[xXbBoO].*|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|\.[0-9]+.*|[0-9][0-9_]*_[0-9_]*|\.(inf|Inf|INF|nan|NaN|NAN)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)$`)
)

// plain resolves an unquoted scalar as YAML 1.1 does.
func (p *yamlReader) plain(text string) any {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON":
		return true
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return false
	}
	switch {
	case strings.ContainsAny(text[:1], "&*!|>%@`,]}") || text == "=" || text == "<<":
		p.failf("%q is not supported", text)
	case strings.Contains(text, ": ") || strings.HasSuffix(text, ":"):
		p.failf("a colon in a plain scalar: %q", text)
	case yamlOdd.MatchString(text):
		p.failf("%q would be a number or date of an unusual form; quote it", text)
	case yamlInt.MatchString(text):
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.failf("%v", err)
		}
		return json.Number(strconv.FormatInt(n, 10))
	case yamlFloat.MatchString(text):
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.failf("%v", err)
		}
		raw, _ := json.Marshal(x)
		return json.Number(raw)
	}
	return text
}

func TestYAMLReaderReadsItsSubset(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: 1\nb: [x, 'it''s', \"q\\\"\"]\n", `{"a":1,"b":["x","it's","q\""]}`},
		{"- {name: a, listen: {or: [b, {and: [c, d]}]}} # note\n- x\n", `[{"listen":{"or":["b",{"and":["c","d"]}]},"name":"a"},"x"]`},
		{"k:\n- 1\n- two: 2\n  three: ~\n", `{"k":[1,{"three":null,"two":2}]}`},
		{"go: >-\n  one\n  two\n\n  three\nx: |\n  a\n   b\n", `{"go":"one two\nthree","x":"a\n b\n"}`},
		{"k: {a: [1,\n  2], # two\n  b: }\n", `{"k":{"a":[1,2],"b":null}}`},
		{"a: plain text with 'quotes'\n  goes on\nb: on\nc: 0\nd: -1.5\n", `{"a":"plain text with 'quotes' goes on","b":true,"c":0,"d":-1.5}`},
		{"a:\n  b:\n    c: {}\n  d: []\n", `{"a":{"b":{"c":{}},"d":[]}}`},
	} {
		v, err := parseYAML(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got, _ := json.Marshal(v); string(got) != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestYAMLReaderRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		"a: &x 1\n", "a: *x\n", "a: !!str 1\n", "--- \na: 1\n", "a: 1\na: 2\n", "{a: 1, a: 2}\n", "a: 0x10\n", "a: 010\n",
		"a: 12:30\n", "a: 2026-01-01\n", "a: b: c\n", "[a, b\n", "a: \"x\n  y\"\n", "\ta: 1\n", "a: 1\n   b: 2\n", "a: .inf\n", "a: |2\n  x\n", "[a\n b]\n",
	} {
		if v, err := parseYAML(text); err == nil {
			t.Errorf("%q was read as %v", text, v)
		}
	}
}

// TestYAMLReaderAgreesWithPython compares with PyYAML where that is installed.
func TestYAMLReaderAgreesWithPython(t *testing.T) {
	for _, file := range []string{givenScenarios, ownScenarios, os.Getenv("WEIR_SCENARIOS")} {
		if file == "" {
			continue
		}
		file = locate(file)
		out, err := exec.Command("python3", "-c", "import yaml,json,sys; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)", file).Output()
		if err != nil {
			t.Skip("python3 with PyYAML is not available: ", err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseYAML(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		raw, _ := json.Marshal(got)
		if json.Unmarshal(raw, &a) != nil || json.Unmarshal(out, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the two readers disagree", file)
		}
	}
}

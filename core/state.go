package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxStateDepth is how deeply arrays and objects of a state may be nested.
const MaxStateDepth = 10000

// ValidateState returns nil if state is a JSON object that every store can give back
// exactly, else a *StateError with the path. Refused are: anything but an object, text that
// is not JSON (NaN and Infinity included), invalid UTF-8, lone surrogate escapes, duplicate
// keys, and nesting over MaxStateDepth. Numbers of any size are accepted and kept as text.
func ValidateState(state []byte) error {
	_, err := ScanState(state, "")
	return err
}

// Field is the value of one top-level key of a state.
type Field struct {
	Value    []byte // the value's bytes inside the scanned state; nil if the key is absent
	Start    int    // where Value begins in the state
	Elements int    // number of elements if the value is an array, else -1
}

// ScanState validates state as ValidateState does and, in the same pass, finds the
// top-level key field, so that a caller that needs both reads the bytes once.
func ScanState(state []byte, field string) (Field, error) {
	s := scanner{data: state, field: field, found: Field{Elements: -1}}
	s.space()
	if s.pos >= len(s.data) {
		return Field{}, s.fail("it is empty; a JSON object is needed")
	}
	if s.data[s.pos] != '{' {
		return Field{}, s.fail("it is not a JSON object")
	}
	if err := s.value(1); err != nil {
		return Field{}, err
	}
	s.space()
	if s.pos != len(s.data) {
		return Field{}, s.fail("there is more text after the object")
	}
	return s.found, nil
}

// scanner walks JSON text once. It exists because encoding/json accepts what stores do not
// keep alike: duplicate keys, lone surrogates and invalid UTF-8.
type scanner struct {
	data  []byte
	pos   int
	path  []step
	field string
	found Field
}

// step is one level of the path: an object key (still escaped) or an array index.
type step struct {
	key   []byte
	index int
}

func (s *scanner) fail(format string, args ...any) error {
	return &StateError{Path: s.pointer(), Reason: fmt.Sprintf(format, args...)}
}

// pointer renders the current path as a JSON Pointer.
func (s *scanner) pointer() string {
	var b bytes.Buffer
	for _, st := range s.path {
		b.WriteByte('/')
		if st.key == nil {
			b.WriteString(strconv.Itoa(st.index))
			continue
		}
		key := bytes.ReplaceAll([]byte(unescape(st.key)), []byte("~"), []byte("~0"))
		b.Write(bytes.ReplaceAll(key, []byte("/"), []byte("~1")))
	}
	return string(bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD")))
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value consumes one value; depth counts the containers open around it, itself included.
func (s *scanner) value(depth int) error {
	if depth > MaxStateDepth {
		return s.fail("nested deeper than %d levels", MaxStateDepth)
	}
	if s.pos >= len(s.data) {
		return s.fail("the text ends inside a value")
	}
	switch c := s.data[s.pos]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		_, err := s.array(depth)
		return err
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return s.fail("not a JSON value: %q", s.excerpt())
}

// excerpt is a few bytes at the current place, for messages.
func (s *scanner) excerpt() []byte {
	return s.data[s.pos:min(s.pos+12, len(s.data))]
}

func (s *scanner) object(depth int) error {
	s.pos++ // {
	var keys keySet
	for first := true; ; first = false {
		s.space()
		if s.peek('}') && first {
			s.pos++
			return nil
		}
		if !s.peek('"') {
			return s.fail("an object key in quotes was expected, found %q", s.excerpt())
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		s.path = append(s.path, step{key: key})
		if !keys.add(key) {
			return s.fail("the key occurs twice in one object")
		}
		if err := s.member(depth); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
		more, err := s.next('}')
		if err != nil || !more {
			return err
		}
	}
}

// member consumes the colon and the value after a key, and notes the wanted field.
func (s *scanner) member(depth int) error {
	s.space()
	if !s.peek(':') {
		return s.fail("a colon was expected, found %q", s.excerpt())
	}
	s.pos++
	s.space()
	start := s.pos
	if depth != 1 || s.field == "" || unescape(s.path[0].key) != s.field {
		return s.value(depth + 1)
	}
	n := -1
	var err error
	if s.peek('[') {
		n, err = s.array(depth + 1)
	} else {
		err = s.value(depth + 1)
	}
	s.found = Field{Value: s.data[start:s.pos], Start: start, Elements: n}
	return err
}

// next consumes a comma (more follows) or the closing byte.
func (s *scanner) next(closing byte) (more bool, err error) {
	s.space()
	switch {
	case s.peek(','):
		s.pos++
		return true, nil
	case s.peek(closing):
		s.pos++
		return false, nil
	}
	return false, s.fail("a comma or %q was expected, found %q", string(closing), s.excerpt())
}

func (s *scanner) peek(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) array(depth int) (elements int, err error) {
	if depth > MaxStateDepth {
		return 0, s.fail("nested deeper than %d levels", MaxStateDepth)
	}
	s.pos++ // [
	s.space()
	if s.peek(']') {
		s.pos++
		return 0, nil
	}
	s.path = append(s.path, step{})
	for i := 0; ; i++ {
		s.path[len(s.path)-1].index = i
		s.space()
		if err := s.value(depth + 1); err != nil {
			return 0, err
		}
		more, err := s.next(']')
		if err != nil {
			return 0, err
		}
		if !more {
			s.path = s.path[:len(s.path)-1]
			return i + 1, nil
		}
	}
}

// number consumes a number of the JSON grammar; its size does not matter.
func (s *scanner) number() error {
	start := s.pos
	if s.peek('-') {
		s.pos++
	}
	if s.peek('0') {
		s.pos++
	} else if !s.digits() {
		s.pos = start
		return s.fail("not a JSON number: %q", s.excerpt())
	}
	if s.peek('.') {
		s.pos++
		if !s.digits() {
			return s.fail("a digit must follow the decimal point")
		}
	}
	if s.peek('e') || s.peek('E') {
		s.pos++
		if s.peek('+') || s.peek('-') {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a digit must follow the exponent")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// str consumes a string and returns its bytes between the quotes, still escaped.
func (s *scanner) str() ([]byte, error) {
	s.pos++ // opening quote
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			body := s.data[start:s.pos]
			s.pos++
			return body, nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.fail("a control character inside a string must be escaped")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return nil, s.fail("a string is not valid UTF-8")
			}
			s.pos += n
		}
	}
	return nil, s.fail("the text ends inside a string")
}

// escape consumes one escape sequence, a surrogate pair being one.
func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		return s.fail("the text ends inside a string")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		r, ok := hex4(s.data[s.pos+2:])
		if !ok {
			return s.fail("four hexadecimal digits must follow \\u")
		}
		s.pos += 6
		if !utf16.IsSurrogate(r) {
			return nil
		}
		if bytes.HasPrefix(s.data[s.pos:], []byte(`\u`)) {
			if low, ok := hex4(s.data[s.pos+2:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				s.pos += 6
				return nil
			}
		}
		return s.fail("a string holds the lone surrogate \\u%04x, which is no character", r)
	}
	return s.fail("unknown escape %q in a string", s.excerpt())
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil && b[0] != '+' && b[0] != '-' && b[0] != '_'
}

// keySet finds duplicate keys. Small objects, the usual case, are compared in place; the map
// is for large ones.
type keySet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

// add returns false if the key, read as text, is there already.
func (k *keySet) add(escaped []byte) bool {
	if bytes.IndexByte(escaped, '\\') >= 0 {
		escaped = []byte(unescape(escaped))
	}
	if k.many == nil && k.n < len(k.few) {
		for _, have := range k.few[:k.n] {
			if bytes.Equal(have, escaped) {
				return false
			}
		}
		k.few[k.n] = escaped
		k.n++
		return true
	}
	if k.many == nil {
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, have := range k.few {
			k.many[string(have)] = struct{}{}
		}
	}
	if _, dup := k.many[string(escaped)]; dup {
		return false
	}
	k.many[string(escaped)] = struct{}{}
	return true
}

// unescape returns the text of a valid JSON string body.
func unescape(body []byte) string {
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	quoted := make([]byte, 0, len(body)+2)
	quoted = append(append(append(quoted, '"'), body...), '"')
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return string(body)
	}
	return text
}

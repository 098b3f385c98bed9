package reducer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the nesting at which encoding/json stops, too: what the one
// refuses the other refuses.
const maxDepth = 10000

// A scanner walks JSON text without building values. It accepts exactly what
// json.Valid accepts (a fuzz target compares the two) and is faster, because
// it looks at the inside of a string only for the three kinds of byte that
// matter there.
type scanner struct {
	b       []byte
	i       int
	checked bool // the text was scanned before: only ends of strings are looked for
}

// special marks the bytes that end a run of plain bytes inside a string.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

func (s *scanner) fail(want string) error {
	if s.i >= len(s.b) {
		return fmt.Errorf("%w: JSON ends at byte %d, want %s", ErrInput, s.i, want)
	}
	return fmt.Errorf("%w: byte %d is %q, want %s", ErrInput, s.i, s.b[s.i], want)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the byte at the cursor, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value moves over one value. The cursor is on its first byte.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); c {
	case '"':
		return s.str()
	case '{':
		return s.object(depth, nil)
	case '[':
		return s.array(depth, nil)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return s.fail("a value")
	}
}

func (s *scanner) literal(word string) error {
	for k := range len(word) {
		if s.peek() != word[k] {
			return s.fail(word)
		}
		s.i++
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > from
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("a digit")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	return nil
}

func (s *scanner) str() error {
	if s.checked {
		return s.checkedString()
	}
	b, i := s.b, s.i+1
	for {
		for i+8 <= len(b) && plain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		for i < len(b) && !special[b[i]] {
			i++
		}
		s.i = i
		if i >= len(b) {
			return s.fail("the end of a string")
		}
		switch b[i] {
		case '"':
			s.i++
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
			i = s.i
		default:
			return s.fail("an escaped control character")
		}
	}
}

func (s *scanner) checkedString() error {
	for i := s.i + 1; ; {
		n := bytes.IndexByte(s.b[i:], '"')
		if n < 0 {
			s.i = len(s.b)
			return s.fail("the end of a string")
		}
		i += n + 1
		slashes := 0
		for s.b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.i = i
			return nil
		}
	}
}

const ones = 0x0101010101010101

// plain reports whether none of eight bytes is special. It looks at all at
// once: a byte smaller than n is one whose top bit only becomes set when n is
// subtracted. A borrow may make it say no wrongly, never yes.
func plain(x uint64) bool {
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((x-ones*0x20)&^x|(quote-ones)&^quote|(slash-ones)&^slash)&(ones<<7) == 0
}

func (s *scanner) escape() error {
	s.i++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		s.i++
		for range 4 {
			if c := s.peek(); !isHex(c) {
				return s.fail("a hexadecimal digit")
			}
			s.i++
		}
		return nil
	}
	return s.fail("an escape")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// object moves over an object and, if each is not nil, shows it every field:
// the key with its quotes and the value, both as they are written.
func (s *scanner) object(depth int, each func(key, val []byte)) error {
	if depth >= maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrInput, maxDepth)
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		from := s.i
		if s.peek() != '"' {
			return s.fail("a key")
		}
		if err := s.str(); err != nil {
			return err
		}
		key := s.b[from:s.i]
		s.space()
		if s.peek() != ':' {
			return s.fail("a colon")
		}
		s.i++
		s.space()
		from = s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if each != nil {
			each(key, s.b[from:s.i:s.i])
		}
		if done, err := s.next('}'); done || err != nil {
			return err
		}
	}
}

// array moves over an array and, if each is not nil, shows it every element.
func (s *scanner) array(depth int, each func(val []byte)) error {
	if depth >= maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrInput, maxDepth)
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		from := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if each != nil {
			each(s.b[from:s.i:s.i])
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next moves over the comma before the next element, or over the closing byte.
func (s *scanner) next(closing byte) (done bool, err error) {
	s.space()
	switch s.peek() {
	case closing:
		s.i++
		return true, nil
	case ',':
		s.i++
		s.space()
		return false, nil
	}
	return false, s.fail("a comma or " + string(rune(closing)))
}

// eachMessage checks the whole text and shows each the elements of the array
// that it must be.
func eachMessage(text []byte, each func(raw []byte)) error {
	s := scanner{b: text}
	s.space()
	if s.peek() != '[' {
		return s.fail("an array of messages")
	}
	if err := s.array(0, each); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.fail("nothing after the array")
	}
	return nil
}

// eachField shows the fields of raw, which was checked before; if raw is no
// object there are none.
func eachField(raw []byte, each func(key, val []byte)) {
	if len(raw) > 0 && raw[0] == '{' {
		s := scanner{b: raw, checked: true}
		_ = s.object(0, func(key, val []byte) { each(unquote(key), val) })
	}
}

// eachElement shows the elements of raw, which was checked before; if raw is
// no array there are none.
func eachElement(raw []byte, each func(val []byte)) {
	if len(raw) > 0 && raw[0] == '[' {
		s := scanner{b: raw, checked: true}
		_ = s.array(0, each)
	}
}

// field returns the last value that raw has under key, nil if there is none.
func field(raw []byte, key string) (found []byte) {
	eachField(raw, func(k, v []byte) {
		if string(k) == key {
			found = v
		}
	})
	return found
}

// text returns what the JSON string raw stands for. Anything else is nil, false.
func text(raw []byte) ([]byte, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, false
	}
	return unquote(raw), true
}

// unquote decodes a checked JSON string; it allocates only if there are escapes.
func unquote(raw []byte) []byte {
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' {
			out = append(out, in[i])
			continue
		}
		i++
		switch c := in[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(in[i+1:])
			i += 4
			if utf16.IsSurrogate(r) && i+6 < len(in) && in[i+1] == '\\' && in[i+2] == 'u' {
				if both := utf16.DecodeRune(r, hex4(in[i+3:])); both != utf8.RuneError {
					r, i = both, i+6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	return out
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// truthy tells whether a checked JSON value is true in the sense of Python:
// not absent, null, false, zero or empty.
func truthy(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case 'n', 'f':
		return false
	case '"':
		return len(raw) > 2
	case '{', '[':
		s := scanner{b: raw, i: 1}
		s.space()
		return s.peek() != '}' && s.peek() != ']'
	case 't':
		return true
	}
	for _, c := range raw {
		if c == 'e' || c == 'E' {
			break
		}
		if c >= '1' && c <= '9' {
			return true
		}
	}
	return false
}

// quote writes s as a JSON string.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		return []byte(`""`)
	}
	return b
}

package reducer

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file holds what mode Compat needs to know of Python: which values are
// equal, which raise, and how long their printed form is.

// pythonRole returns the role of a message as the package normalizes it. Where
// Python would raise it is an error.
func pythonRole(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return "unknown", nil
	}
	var role, typ []byte
	eachField(raw, func(k, v []byte) {
		switch string(k) {
		case "role":
			role = v
		case "type":
			typ = v
		}
	})
	if !truthy(role) {
		role = typ
	}
	if !truthy(role) {
		return "", nil
	}
	s, ok := text(role)
	if !ok {
		return "", fmt.Errorf("%w: role is %.40s, not a string", ErrCompat, role)
	}
	switch string(s) { // without a copy
	case "user", "human":
		return "human", nil
	case "assistant", "ai":
		return "ai", nil
	case "tool":
		return "tool", nil
	case "system":
		return "system", nil
	}
	switch low := strings.ToLower(string(s)); low {
	case "user":
		return "human", nil
	case "assistant", "agent":
		return "ai", nil
	default:
		return low, nil
	}
}

// pythonKey returns a text that two JSON values have in common just if Python
// says that they are equal: 7 equals 7.0 and true equals 1, but not "1".
func pythonKey(raw []byte) string { return keyAt(raw, 0) }

// deepest is how deep Python's own parser goes, nearly.
const deepest = 900

func keyAt(raw []byte, depth int) string {
	if depth > deepest {
		return string(raw)
	}
	switch raw[0] {
	case '"':
		return strconv.Quote(string(unquote(raw)))
	case 't':
		return "1"
	case 'f':
		return "0"
	case 'n':
		return "null"
	case '[':
		var b strings.Builder
		eachElement(raw, func(v []byte) { b.WriteString(keyAt(v, depth+1) + ",") })
		return "[" + b.String() + "]"
	case '{':
		last := map[string]string{}
		eachField(raw, func(k, v []byte) { last[string(k)] = keyAt(v, depth+1) })
		var out []string
		for k, v := range last {
			out = append(out, strconv.Quote(k)+":"+v)
		}
		slices.Sort(out)
		return "{" + strings.Join(out, ",") + "}"
	}
	return numberKey(string(raw))
}

func numberKey(s string) string {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil { // Python reads 1e999 as infinity
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		exact, acc := big.NewFloat(f).Int(nil)
		if acc != big.Exact {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return exact.String()
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// fresh returns those of the messages whose id was not delivered before, and
// notes their ids, oldest out first.
func (m *memory) fresh(raws [][]byte, pruned []int, window int) (batch []int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.delivered == nil {
		m.delivered = map[string]bool{}
	}
	for _, i := range pruned {
		id := field(raws[i], "id")
		if id == nil || string(id) == "null" {
			batch = append(batch, i)
			continue
		}
		if id[0] == '[' || id[0] == '{' {
			return nil, fmt.Errorf("message %d: %w: id is %.40s, which cannot be hashed", i, ErrCompat, id)
		}
		name := pythonKey(id)
		if m.delivered[name] {
			continue
		}
		m.delivered[name] = true
		m.ids = append(m.ids, name)
		batch = append(batch, i)
	}
	if over := len(m.ids) - max(0, window); over > 0 {
		for _, name := range m.ids[:over] {
			delete(m.delivered, name)
		}
		m.ids = slices.Delete(m.ids, 0, over)
	}
	return batch, nil
}

// pythonTokens is the package's own estimate: 4 for a message and a token for
// four characters of its content as Python prints it.
func pythonTokens(message []byte) int {
	content := field(message, "content")
	if !truthy(content) {
		return messageTokens
	}
	var n int
	if s, ok := text(content); ok {
		n = utf8.RuneCount(s)
	} else {
		n = reprLen(content, 0)
	}
	return messageTokens + max(1, n/4)
}

// reprLen returns how many characters Python prints for a JSON value.
func reprLen(raw []byte, depth int) int {
	if depth > deepest {
		return utf8.RuneCount(raw)
	}
	switch raw[0] {
	case '"':
		return stringReprLen(string(unquote(raw)))
	case 't', 'n':
		return len("True")
	case 'f':
		return len("False")
	case '[':
		n, sep := 2, 0
		eachElement(raw, func(v []byte) {
			n += sep + reprLen(v, depth+1)
			sep = len(", ")
		})
		return n
	case '{':
		last := map[string]int{}
		eachField(raw, func(k, v []byte) { last[string(k)] = reprLen(v, depth+1) })
		n := 2 + max(0, len(last)-1)*len(", ")
		for k, v := range last {
			n += stringReprLen(k) + len(": ") + v
		}
		return n
	}
	return numberReprLen(string(raw))
}

func numberReprLen(s string) int {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return 1
		}
		return len(s)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return len(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(sci[strings.IndexByte(sci, 'e')+1:])
	if f != 0 && (exp < -4 || exp >= 16) {
		return len(sci)
	}
	fixed := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(fixed, ".") {
		return len(fixed) + len(".0")
	}
	return len(fixed)
}

func stringReprLen(s string) int {
	n := len("''")
	both := strings.Contains(s, "'") && strings.Contains(s, `"`)
	for _, r := range s {
		switch {
		case r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\'' && both:
			n += 2
		case unicode.IsPrint(r):
			n++
		case r < 0x100:
			n += len(`\xNN`)
		case r < 0x10000:
			n += len(`\uNNNN`)
		default:
			n += len(`\UNNNNNNNN`)
		}
	}
	return n
}

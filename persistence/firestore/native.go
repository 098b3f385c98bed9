package firestore

import (
	"encoding/json"
	"strings"

	"github.com/weirflow/weir/core"
)

// What native fields can hold (https://firebase.google.com/docs/firestore/quotas). Depth and
// index entries leave some room: the page says little about how they are counted.
const (
	maxDepth      = 19 // maps and arrays inside each other, of 20
	maxFieldPath  = 1500
	maxEntries    = 39_900          // of 40,000 index entries
	maxEntryBytes = 8<<20 - 128<<10 // of 8 MiB, the sum of all index entries
	maxIndexed    = 1500            // bytes of a value that an index holds
	entryOverhead = 48              // of an index entry, beside the names and the value
	mapOverhead   = 32              // of a document and of each map in it
	nullSize      = 1
	scalarSize    = 8 // of a number or timestamp
)

// nativeState is a state as fields of a document.
type nativeState struct {
	fields  map[string]any // nil if only the sizes were asked for
	size    int            // of all fields, as Firestore counts
	largest int            // of the values of the top-level fields
}

// native turns a state into fields, or reports false if they could not give it back exactly.
// nameSize is the size of the document's name, which every index entry repeats. Without build
// only sizes are computed.
func native(state []byte, nameSize int, build bool) (nativeState, bool) {
	if core.ValidateState(state) != nil {
		return nativeState{}, false
	}
	c := converter{data: state, build: build, entryBase: nameSize + entryOverhead}
	c.space()
	fields, size, ok := c.object(0, 0, true)
	size -= mapOverhead // the document's own is counted with its name
	return nativeState{fields: fields, size: size, largest: c.largest}, ok && c.fits()
}

// converter walks valid JSON once.
type converter struct {
	data      []byte
	pos       int
	build     bool
	largest   int
	entryBase int
	entries   int // index entries
	bytes     int // of them
}

func (c *converter) fits() bool { return c.entries <= maxEntries && c.bytes <= maxEntryBytes }

// index counts n index entries of a field whose path and value have these sizes.
func (c *converter) index(n, path, value int) {
	c.entries += n
	c.bytes += n * (c.entryBase + path + min(value, maxIndexed))
}

func (c *converter) space() {
	for c.pos < len(c.data) && c.data[c.pos] <= ' ' {
		c.pos++
	}
}

// next skips spaces and one byte.
func (c *converter) next() byte {
	c.space()
	c.pos++
	return c.data[c.pos-1]
}

// value converts one value. depth counts the containers around it, the state itself not; path
// is the length of its field path, and indexed whether it is a field: what is in arrays has no
// index of its own.
func (c *converter) value(depth, path int, indexed bool) (v any, size int, ok bool) {
	c.space()
	switch c.data[c.pos] {
	case '{':
		m, size, ok := c.object(depth, path, indexed)
		return m, size, ok
	case '[':
		return c.array(depth, path, indexed)
	case '"':
		s := c.str()
		return s, len(s) + 1, true
	case 't':
		c.pos += len("true")
		return true, nullSize, true
	case 'f':
		c.pos += len("false")
		return false, nullSize, true
	case 'n':
		c.pos += len("null")
		return nil, nullSize, true
	}
	start := c.pos
	for c.pos < len(c.data) && strings.IndexByte("+-.0123456789eE", c.data[c.pos]) >= 0 {
		c.pos++
	}
	v, ok = nativeNumber(string(c.data[start:c.pos]))
	return v, scalarSize, ok
}

func (c *converter) object(depth, path int, indexed bool) (m map[string]any, size int, ok bool) {
	if depth > maxDepth {
		return nil, 0, false
	}
	if c.build {
		m = map[string]any{}
	}
	size = mapOverhead
	c.pos++ // {
	for {
		c.space()
		if c.data[c.pos] == '}' {
			c.pos++
			return m, size, true
		}
		key := c.str()
		c.next() // :
		at := path + pathSize(key)
		if !isNativeField(key) || at > maxFieldPath || depth == 0 && key == metaField {
			return nil, 0, false
		}
		v, n, ok := c.value(depth+1, at, indexed)
		if !ok {
			return nil, 0, false
		}
		size += len(key) + 1 + n
		if depth == 0 {
			c.largest = max(c.largest, n)
		}
		if indexed {
			c.index(2, at, n) // ascending and descending
		}
		if c.build {
			m[key] = v
		}
		if c.next() == '}' {
			return m, size, true
		}
	}
}

func (c *converter) array(depth, path int, indexed bool) (_ any, size int, ok bool) {
	if depth > maxDepth {
		return nil, 0, false
	}
	var list []any
	if c.build {
		list = []any{}
	}
	c.pos++ // [
	for {
		c.space()
		switch c.data[c.pos] {
		case ']':
			c.pos++
			return list, size, true
		case '[':
			return nil, 0, false // an array in an array
		}
		v, n, ok := c.value(depth+1, path, false)
		if !ok {
			return nil, 0, false
		}
		size += n
		if indexed {
			c.index(1, path, n) // array-contains
		}
		if c.build {
			list = append(list, v)
		}
		if c.next() == ']' {
			return list, size, true
		}
	}
}

// str reads a string.
func (c *converter) str() string {
	start := c.pos
	c.pos++
	escaped := false
	for c.data[c.pos] != '"' {
		if c.data[c.pos] == '\\' {
			escaped = true
			c.pos++
		}
		c.pos++
	}
	c.pos++
	quoted := c.data[start:c.pos]
	if !escaped {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // was validated
	return s
}

// isNativeField reports whether Firestore takes a name for a field.
func isNativeField(name string) bool {
	return name != "" && len(name) <= maxNameBytes && !isReserved(name)
}

// pathSize is at least what a name adds to a field path, in which odd names are quoted.
func pathSize(name string) int {
	size := len(name) + len(".``")
	return size + strings.Count(name, "`") + strings.Count(name, `\`)
}

// topNames returns the names of the fields of a document.
func topNames(fields map[string]any) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	return names
}

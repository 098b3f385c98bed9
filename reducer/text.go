package reducer

import (
	"bytes"
	"encoding/json"
	"strings"
)

// describe returns message raw as summarizers and hooks see it.
func (h *history) describe(i int) Message {
	it := &h.items[i]
	f := readMessage(it.raw)
	m := Message{Role: it.role, Raw: json.RawMessage(bytes.Clone(it.raw)), Text: contentText(&f)}
	if f.class == nil {
		m.ID = readable(idOf(f.id))
	} else {
		m.ID = readable(idOf(f.inner))
	}
	m.Calls = names(h.callsOf(i))
	m.Results = names(h.resultsOf(i))
	m.Summary = it.has(marked)
	m.Reasoning = it.has(reasons | reasonItem)
	return m
}

// names returns what the calls or results are known by.
func names(keys []key) (out []string) {
	for _, k := range keys {
		switch {
		case k.class == provided || k.class == reference:
		case len(k.id) > 0:
			out = append(out, readable(k.id))
		default:
			out = append(out, string(k.name))
		}
	}
	return out
}

// readable returns an id as people write it: see idOf.
func readable(id []byte) string {
	if len(id) > 0 && id[0] == 0 {
		id = id[1:]
	}
	return string(id)
}

// contentText returns the text of a message's content, parts or output, of
// tool results, too; parts are joined by newlines.
func contentText(f *fields) string {
	var out []string
	for _, v := range [][]byte{f.content, f.parts, f.output} {
		out = gather(out, v, 0)
	}
	return strings.Join(out, "\n")
}

// gather adds the texts of a content value. Results nest content, so it goes
// down, but not for ever.
func gather(out []string, v []byte, depth int) []string {
	if s, ok := text(v); ok {
		if len(s) > 0 {
			out = append(out, string(s))
		}
		return out
	}
	if depth > 8 {
		return out
	}
	eachElement(v, func(e []byte) {
		if _, ok := text(e); ok {
			out = gather(out, e, depth)
			return
		}
		eachField(e, func(k, v []byte) {
			switch string(k) {
			case "text", "content", "output":
				out = gather(out, v, depth+1)
			case "toolResult":
				out = gather(out, field(v, "content"), depth+1)
			case "functionResponse", "function_response":
				if r := field(v, "response"); r != nil {
					out = append(out, string(r))
				}
			}
		})
	})
	return out
}

package reducer

import "encoding/binary"

// What the estimate adds for each message, and for each picture whatever its
// size: providers scale pictures down to about this much.
const (
	messageTokens = 4
	imageTokens   = 1000
)

// EstimateTokens estimates what a message, given as JSON, costs: all of its
// text, the names and arguments of its calls, a fixed 1000 for a picture or a
// file and 4 for the message. Four ASCII characters, two of other alphabets
// and one of East Asian scripts count as a token. It errs on the high side by
// design, within about a third for English; reducer/tokens counts exactly. Ids,
// roles and types cost nothing. Text that is no JSON counts as plain text.
func EstimateTokens(message []byte) int {
	var q quarters
	m := meter{text: q.add}
	m.message(message)
	return m.fixed + q.tokens()
}

// estimateChecked is EstimateTokens for what is known to be JSON.
func estimateChecked(message []byte) int {
	var q quarters
	m := meter{text: q.add, fixed: messageTokens}
	m.value(message)
	return m.fixed + q.tokens()
}

// TokensBy returns a counter that counts what [EstimateTokens] does, but the
// text by count: it is given each piece of text that the model sees, decoded,
// and returns its tokens. The counter may be used by as many goroutines at once
// as count.
func TokensBy(count func(text string) int) TokenCounter {
	return func(message []byte) int {
		sum := 0
		m := meter{text: func(raw []byte) {
			if s, ok := text(raw); ok {
				raw = s
			}
			sum += count(string(raw))
		}}
		m.message(message)
		return m.fixed + sum
	}
}

// A meter finds what a message costs: a fixed part, and pieces of text as they
// are written, strings with their quotes.
type meter struct {
	text  func(raw []byte)
	fixed int
	depth int
}

// maxMeasured is how deep a meter looks. No dialect nests deeper, and each
// level is scanned once more than the one around it.
const maxMeasured = 16

// message measures what may be no JSON: then it is text.
func (m *meter) message(b []byte) {
	m.fixed += messageTokens
	s := scanner{b: b}
	s.space()
	from := s.i
	if s.value(0) != nil {
		m.text(b)
		return
	}
	m.value(b[from:s.i])
}

func (m *meter) value(v []byte) {
	if len(v) == 0 {
		return
	}
	m.depth++
	defer func() { m.depth-- }()
	switch c := v[0]; {
	case m.depth > maxMeasured:
		m.text(v)
	case c == '{':
		m.object(v)
	case c == '[':
		eachElement(v, m.value)
	case c == 'n':
	default:
		m.text(v)
	}
}

// object counts an object's fields. Keys count as text only where they are
// data: in arguments that are an object.
func (m *meter) object(v []byte) {
	if isPicture(v) {
		m.fixed += imageTokens
		return
	}
	eachField(v, func(k, v []byte) {
		switch string(k) {
		case "id", "role", "type", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "call_id", "lc",
			"thoughtSignature", "thought_signature", "signature", "encrypted_content", "cache_control", "usage_metadata", "response_metadata":
		case "args", "input", "arguments", "response", "json":
			m.data(v)
		default:
			m.value(v)
		}
	})
}

// data measures arguments, of which every byte is shown to the model.
func (m *meter) data(v []byte) {
	if len(v) > 0 && (v[0] == '{' || v[0] == '[') {
		m.text(v)
		return
	}
	m.value(v)
}

// isPicture reports whether an object is a block that holds a picture, a sound
// or a file: its bytes are not text.
func isPicture(v []byte) (yes bool) {
	eachField(v, func(k, v []byte) {
		switch string(k) {
		case "type":
			t, _ := text(v)
			switch string(t) {
			case "image", "image_url", "input_image", "input_file", "input_audio", "file", "document", "audio", "video":
				yes = true
			}
		case "inlineData", "inline_data", "fileData", "file_data", "image", "document", "video":
			yes = yes || len(v) > 0 && v[0] == '{'
		}
	})
	return yes
}

// quarters are quarters of a token.
type quarters int

func (q *quarters) tokens() int { return (int(*q) + 3) / 4 }

// add counts the bytes of a text. Quotes cost nothing; an escape counts as what
// it is written as, nearly.
func (q *quarters) add(s []byte) {
	if len(s) >= 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	for len(s) > 0 {
		n := min(8, len(s))
		if n == 8 && binary.LittleEndian.Uint64(s)&(ones<<7) == 0 {
			*q += 8
			s = s[n:]
			continue
		}
		for _, c := range s[:n] {
			switch {
			case c < 0x80:
				*q++
			case c < 0xC0: // the rest of a character
			case c < 0xE0: // two bytes: Greek, Cyrillic, Arabic …
				*q += 2
			default:
				*q += 4
			}
		}
		s = s[n:]
	}
}

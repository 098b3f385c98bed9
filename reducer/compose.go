package reducer

import (
	"bytes"
	"encoding/json"
)

// A frame is how one dialect wraps a message.
type frame uint8

const (
	plainFrame       frame = iota // {"role":"user",…}
	typeFrame                     // {"type":"human",…}
	dataFrame                     // {"type":"human","data":{…}}
	constructorFrame              // {"lc":1,"type":"constructor","id":[…],"kwargs":{…}}
)

func frameOf(raw []byte) frame {
	var f fields
	f.read(raw)
	typ, _ := text(f.typ)
	switch {
	case truthy(f.role) || len(typ) == 0 || roleOf(typ) == Other && string(typ) != "constructor" && f.data == nil:
		return plainFrame
	case string(typ) == "constructor":
		return constructorFrame
	case len(f.data) > 0 && f.data[0] == '{':
		return dataFrame
	}
	return typeFrame
}

// longNames are what LangChain calls the roles in its types.
var longNames = map[Role][2]string{
	User:      {"human", "HumanMessage"},
	Assistant: {"ai", "AIMessage"},
	Tool:      {"tool", "ToolMessage"},
}

// A member is one field of a JSON object that is written.
type member struct {
	name  string
	value []byte
}

func object(members ...member) []byte {
	out := []byte{'{'}
	for k, m := range members {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(m.name)...), ':'), m.value...)
	}
	return append(out, '}')
}

func array(elements ...[]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte{','})...), ']')
}

// wrap writes a message of role into frame f; body are its other fields.
func wrap(f frame, role Role, name string, body ...member) []byte {
	long := longNames[role]
	switch f {
	case typeFrame:
		return object(append([]member{{"type", quote(long[0])}}, body...)...)
	case dataFrame:
		return object(member{"type", quote(long[0])}, member{"data", object(append(body, member{"type", quote(long[0])})...)})
	case constructorFrame:
		return object(member{"lc", []byte("1")}, member{"type", quote("constructor")},
			member{"id", array(quote("langchain"), quote("schema"), quote("messages"), quote(long[1]))},
			member{"kwargs", object(append(body, member{"type", quote(long[0])})...)})
	}
	return object(append([]member{{"role", quote(name)}}, body...)...)
}

// writeText writes a message of the user or the assistant in the dialect of like.
func writeText(like []byte, role Role, s string) []byte {
	f := readMessage(like)
	name := map[Role]string{User: "user", Assistant: "assistant"}[role]
	word, _ := text(f.role)
	switch string(bytes.ToLower(word)) {
	case "human", "ai":
		name = longNames[role][0]
	}
	part := array(object(member{"text", quote(s)}))
	switch {
	case f.parts != nil:
		if role == Assistant {
			name = "model"
		}
		return wrap(frameOf(like), role, name, member{"parts", part})
	case untypedBlocks(f.content):
		return wrap(plainFrame, role, name, member{"content", part})
	}
	return wrap(frameOf(like), role, name, member{"content", quote(s)})
}

// untypedBlocks reports whether content is a list as Bedrock has it, whose
// blocks are told apart by their one field instead of a type.
func untypedBlocks(content []byte) bool {
	found := false
	eachElement(content, func(b []byte) {
		if b[0] == '{' && field(b, "type") == nil {
			found = true
		}
	})
	return found
}

// writeAnswers writes results for calls in the dialect of the message that
// made them: one message, where results are blocks, else one for each.
func writeAnswers(call []byte, calls []key, s string) (out [][]byte) {
	f := readMessage(call)
	typ, _ := text(f.typ)
	switch {
	case !truthy(f.role) && bytes.HasSuffix(typ, []byte("_call")):
		for _, k := range calls {
			out = append(out, object(member{"type", quote(string(typ) + "_output")},
				member{"call_id", idValue(k)}, member{"output", quote(s)}))
		}
		return out
	case f.parts != nil || blockCalls(f.content) != noBlocks && !truthy(f.toolCalls):
		return [][]byte{writeBlockAnswers(&f, calls, s)}
	}
	for _, k := range calls {
		switch k.class {
		case legacy:
			name := field(f.functionCall, "name")
			if name == nil {
				name = quote("")
			}
			out = append(out, object(member{"role", quote("function")}, member{"name", name}, member{"content", quote(s)}))
		case byName:
			out = append(out, wrap(frameOf(call), Tool, "tool", member{"name", quote(string(k.name))}, member{"content", quote(s)}))
		default:
			out = append(out, wrap(frameOf(call), Tool, "tool", member{"tool_call_id", idValue(k)}, member{"content", quote(s)}))
		}
	}
	return out
}

// blockStyle is how a dialect writes calls among the content.
type blockStyle uint8

const (
	noBlocks blockStyle = iota
	anthropic
	bedrock
	vercel
)

func blockCalls(content []byte) (style blockStyle) {
	eachElement(content, func(b []byte) {
		typ, _ := text(field(b, "type"))
		switch {
		case string(typ) == "tool_use":
			style = anthropic
		case string(typ) == "tool-call":
			style = vercel
		case field(b, "toolUse") != nil:
			style = bedrock
		}
	})
	return style
}

func writeBlockAnswers(f *fields, calls []key, s string) []byte {
	style := blockCalls(f.content)
	blocks := make([][]byte, 0, len(calls))
	for _, k := range calls {
		id, msg := idValue(k), quote(s)
		var b []byte
		switch {
		case f.parts != nil:
			r := []member{{"name", quote(string(k.name))}, {"response", object(member{"error", msg})}}
			if len(k.id) > 0 {
				r = append([]member{{"id", id}}, r...)
			}
			b = object(member{"functionResponse", object(r...)})
		case style == bedrock:
			b = object(member{"toolResult", object(member{"toolUseId", id}, member{"status", quote("error")},
				member{"content", array(object(member{"text", msg}))})})
		case style == vercel:
			b = object(member{"type", quote("tool-result")}, member{"toolCallId", id}, member{"toolName", quote(string(k.name))},
				member{"output", object(member{"type", quote("error-text")}, member{"value", msg})})
		default:
			b = object(member{"type", quote("tool_result")}, member{"tool_use_id", id},
				member{"is_error", []byte("true")}, member{"content", msg})
		}
		blocks = append(blocks, b)
	}
	switch {
	case f.parts != nil:
		return object(member{"role", quote("user")}, member{"parts", array(blocks...)})
	case style == vercel:
		return object(member{"role", quote("tool")}, member{"content", array(blocks...)})
	}
	return object(member{"role", quote("user")}, member{"content", array(blocks...)})
}

// idValue writes an id as it was.
func idValue(k key) []byte {
	if len(k.id) > 0 && k.id[0] == 0 && json.Valid(k.id[1:]) {
		return k.id[1:]
	}
	return quote(string(k.id))
}

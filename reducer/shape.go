package reducer

import "slices"

// This file recognizes the dialects. A message is looked at once, and nothing
// of it is decoded that the decision does not need.

// A class says how a call and its result find each other.
type class uint8

const (
	byID      class = iota // by the call's id
	byName                 // by id where both have one, else by the tool's name (Gemini, Ollama)
	legacy                 // by position only: function_call and role function
	approval               // by the id of an approval request
	provided               // not to be answered, but others refer to it: a call that runs at the provider
	reference              // refers to a provided call
)

// A key is one end of the bond between a call and its result.
type key struct {
	class    class
	id, name []byte
}

// answers reports whether a result with key k belongs to a call with key call.
func (k key) answers(call key) bool {
	if k.class == byName || call.class == byName {
		if len(k.id) > 0 && len(call.id) > 0 {
			return string(k.id) == string(call.id)
		}
		return len(k.name) == 0 || len(call.name) == 0 || string(k.name) == string(call.name)
	}
	return k.class == call.class && (k.class == legacy || string(k.id) == string(call.id))
}

// A span is a range of keys in a history.
type span struct{ from, to int32 }

func (s span) empty() bool { return s.from == s.to }

// traits are what else matters of a message.
type traits uint16

const (
	authored   traits = 1 << iota // has content that its role wrote, not only tool results
	reasons                       // has reasoning inside that its calls must not lose
	bareItem                      // an OpenAI Responses item that is no message
	reasonItem                    // such an item of type reasoning
	blank                         // has no content and makes no call
	blankText                     // has an empty text block
	lateResult                    // has other content before a tool result
	interim                       // has a result after which others for the same call follow
	shapeless                     // is no JSON object
	marked                        // is a summary
	reply                         // is what the reducer writes after a summary
)

// An item is one message as the algorithms see it.
type item struct {
	raw            []byte
	role           Role
	traits         traits
	wireUser       bool // the role is written as that of the user, whatever it holds
	calls, results span
	tokens         int
}

func (it *item) has(t traits) bool { return it.traits&t != 0 }

// A history is a list of messages and the keys of them all.
type history struct {
	items []item
	keys  []key
}

func (h *history) callsOf(i int) []key {
	s := h.items[i].calls
	return h.keys[s.from:s.to]
}

func (h *history) resultsOf(i int) []key {
	s := h.items[i].results
	return h.keys[s.from:s.to]
}

// parse returns the history of checked messages.
func parse(raws [][]byte) *history {
	h := &history{items: make([]item, len(raws))}
	var p parser
	for i, raw := range raws {
		p.calls, p.results = p.calls[:0], p.results[:0]
		p.item, p.seen = item{raw: raw}, nil
		p.message(raw)
		h.put(i, p.item, p.calls, p.results)
	}
	return h
}

func (h *history) put(i int, it item, calls, results []key) {
	from := int32(len(h.keys))
	h.keys = append(h.keys, calls...)
	mid := int32(len(h.keys))
	h.keys = append(h.keys, results...)
	it.calls, it.results = span{from, mid}, span{mid, int32(len(h.keys))}
	h.items[i] = it
}

// A parser reads one message after the other into the same memory.
type parser struct {
	item           item
	calls, results []key
	content        bool            // something was said
	seen           map[string]bool // ids of calls, if there are many
}

// fields are the fields of a message that any dialect uses, as written.
type fields struct {
	role, typ, content, parts, data, kwargs, class, id  []byte
	toolCalls, invalidCalls, extra, functionCall        []byte
	toolCallID, callID, name, approvalOf, output, inner []byte
}

func (f *fields) read(raw []byte) {
	eachField(raw, func(k, v []byte) {
		switch string(k) {
		case "role":
			f.role = v
		case "type":
			f.typ = v
		case "content":
			f.content = v
		case "parts":
			f.parts = v
		case "data":
			f.data = v
		case "kwargs":
			f.kwargs = v
		case "id":
			f.id = v
		case "tool_calls", "toolCalls":
			f.toolCalls = v
		case "invalid_tool_calls":
			f.invalidCalls = v
		case "additional_kwargs":
			f.extra = v
		case "function_call":
			f.functionCall = v
		case "tool_call_id", "toolCallId":
			f.toolCallID = v
		case "call_id":
			f.callID = v
		case "name", "tool_name":
			f.name = v
		case "approval_request_id":
			f.approvalOf = v
		case "output":
			f.output = v
		}
	})
}

// readMessage reads a message's fields through LangChain's two envelopes:
// {"type":"human","data":{…}} and {"lc":1,"type":"constructor","kwargs":{…}}.
func readMessage(raw []byte) (f fields) {
	f.read(raw)
	if truthy(f.role) {
		return f
	}
	typ, _ := text(f.typ)
	switch {
	case len(f.data) > 0 && f.data[0] == '{' && len(typ) > 0:
		var in fields
		in.read(f.data)
		if string(typ) != "chat" || !truthy(in.role) {
			in.role = f.typ
		}
		return in
	case len(f.kwargs) > 0 && f.kwargs[0] == '{' && string(typ) == "constructor":
		var in fields
		in.read(f.kwargs)
		in.class, in.inner = f.id, in.id
		eachElement(f.id, func(v []byte) {
			if name, _ := text(v); string(name) != "ChatMessage" || !truthy(in.role) {
				in.role = v
			}
		})
		return in
	}
	return f
}

// roleOf maps every name that the dialects give to a role.
func roleOf(name []byte) Role {
	var low [24]byte
	if len(name) > len(low) {
		return Other
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	switch string(low[:len(name)]) {
	case "user", "human", "humanmessage", "humanmessagechunk":
		return User
	case "assistant", "ai", "agent", "model", "aimessage", "aimessagechunk":
		return Assistant
	case "system", "developer", "systemmessage", "systemmessagechunk":
		return System
	case "tool", "function", "toolmessage", "toolmessagechunk", "functionmessage", "functionmessagechunk":
		return Tool
	}
	return Other
}

func (p *parser) message(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		p.item.traits |= shapeless
		return
	}
	f := readMessage(raw)
	name := f.role
	if !truthy(name) {
		name = f.typ
	}
	role, _ := text(name)
	p.item.role = roleOf(role)
	p.content = false
	if p.item.role == Other && !truthy(f.role) && p.responsesItem(&f) {
		return
	}
	p.item.wireUser = p.item.role == User
	p.body(&f)
	switch p.item.role {
	case Assistant:
		p.callFields(&f)
		if len(p.calls) == 0 && !p.content && !p.item.has(reasons) {
			p.item.traits |= blank
		}
		if len(p.calls) == 0 && isReply(&f, raw) {
			p.item.traits |= reply
		}
	case Tool:
		p.resultFields(&f, role)
	case User:
		p.userMessage(raw, &f)
	default:
		p.calls, p.results = p.calls[:0], p.results[:0]
	}
	if p.content {
		p.item.traits |= authored
	}
}

// userMessage tells a message of the user from one that carries tool results.
func (p *parser) userMessage(raw []byte, f *fields) {
	p.calls = p.calls[:0]
	if len(p.results) > 0 {
		if !p.content {
			p.item.role = Tool
		}
		return
	}
	if !p.content {
		p.item.traits |= blank
	}
	p.content = true // an empty message is the user's all the same
	if isMarked(f, raw) {
		p.item.traits |= marked
	}
}

// callFields reads the calls that stand beside the content.
func (p *parser) callFields(f *fields) {
	p.toolCalls(f.toolCalls)
	p.toolCalls(f.invalidCalls)
	functionCall := f.functionCall
	eachField(f.extra, func(k, v []byte) {
		switch string(k) {
		case "tool_calls":
			p.toolCalls(v)
		case "function_call":
			functionCall = v
		}
	})
	if truthy(functionCall) && len(p.calls) == 0 {
		p.calls = append(p.calls, key{class: legacy})
	}
}

func (p *parser) toolCalls(list []byte) {
	eachElement(list, func(call []byte) {
		if call[0] != '{' {
			return
		}
		var k key
		eachField(call, func(name, v []byte) {
			switch string(name) {
			case "id":
				k.id = idOf(v)
			case "name":
				k.name, _ = text(v)
			case "function":
				if n, ok := text(field(v, "name")); ok {
					k.name = n
				}
			}
		})
		if len(k.id) == 0 {
			k.class = byName
		}
		p.call(k)
	})
}

// call adds a call, unless it is another copy of one: LangChain writes a call
// up to three times into one message.
func (p *parser) call(k key) {
	if k.class == byID && p.repeated(k.id) {
		return
	}
	p.calls = append(p.calls, k)
}

// linear is up to how many calls of one message are compared one by one.
const linear = 16

func (p *parser) repeated(id []byte) bool {
	if len(p.calls) < linear {
		return slices.ContainsFunc(p.calls, func(k key) bool { return k.class == byID && string(k.id) == string(id) })
	}
	if len(p.calls) == linear && len(p.seen) == 0 {
		p.seen = map[string]bool{}
		for _, k := range p.calls {
			if k.class == byID {
				p.seen[string(k.id)] = true
			}
		}
	}
	if p.seen[string(id)] {
		return true
	}
	p.seen[string(id)] = true
	return false
}

// resultFields reads which call a tool or function message answers.
func (p *parser) resultFields(f *fields, role []byte) {
	p.calls = p.calls[:0]
	if len(p.results) > 0 {
		p.content = false
		return
	}
	p.content = false
	k := key{id: idOf(f.toolCallID)}
	if len(k.id) == 0 {
		k.class = byName
		k.name, _ = text(f.name)
		if roleName := role; len(roleName) > 0 && (roleName[0] == 'f' || roleName[0] == 'F') {
			k = key{class: legacy}
		}
	}
	p.results = append(p.results, k)
}

// idOf returns what makes an id equal to another one: the text of a string,
// and any other value as it is written, which no string's text may equal.
func idOf(v []byte) []byte {
	if s, ok := text(v); ok {
		return s
	}
	if len(v) == 0 || string(v) == "null" {
		return nil
	}
	return append([]byte{0}, v...)
}

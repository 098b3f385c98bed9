package reducer

import "bytes"

// body reads what a message says: a string, a list of content blocks
// (OpenAI, Anthropic, Bedrock, LangChain, Vercel), or Gemini's parts.
func (p *parser) body(f *fields) {
	for _, v := range [2][]byte{f.content, f.parts} {
		switch {
		case len(v) == 0 || string(v) == "null":
		case v[0] == '"':
			if len(v) > 2 {
				p.content = true
			}
		case v[0] == '[':
			eachElement(v, p.block)
		default:
			p.content = true
		}
	}
}

// A block is one element of a message's content. Only one of the groups of
// fields is set, depending on the dialect.
type block struct {
	typ, text                               []byte
	id, callID, useID, caller               []byte
	approvalID, executed                    []byte
	toolUse, toolResult, reasoningContent   []byte // Bedrock
	functionCall, functionResponse, thought []byte // Gemini
}

func (b *block) read(raw []byte) {
	eachField(raw, func(k, v []byte) {
		switch string(k) {
		case "type":
			b.typ, _ = text(v)
		case "text":
			b.text = v
		case "id":
			b.id = v
		case "toolCallId", "call_id":
			b.callID = v
		case "tool_use_id":
			b.useID = v
		case "caller":
			b.caller = v
		case "approvalId":
			b.approvalID = v
		case "providerExecuted":
			b.executed = v
		case "toolUse":
			b.toolUse = v
		case "toolResult":
			b.toolResult = v
		case "reasoningContent":
			b.reasoningContent = v
		case "functionCall", "function_call":
			b.functionCall = v
		case "functionResponse", "function_response":
			b.functionResponse = v
		case "thought":
			b.thought = v
		}
	})
}

func (p *parser) block(raw []byte) {
	if raw[0] != '{' {
		p.content = p.content || truthy(raw)
		return
	}
	var b block
	b.read(raw)
	switch {
	case b.toolUse != nil:
		p.call(key{id: idOf(field(b.toolUse, "toolUseId"))})
	case b.toolResult != nil:
		p.result(key{id: idOf(field(b.toolResult, "toolUseId"))})
	case b.reasoningContent != nil:
		p.item.traits |= reasons
	case b.functionCall != nil:
		p.call(named(b.functionCall))
	case b.functionResponse != nil:
		p.result(named(b.functionResponse))
		if truthy(field(b.functionResponse, "willContinue")) {
			p.item.traits |= interim
		}
	case truthy(b.thought):
		p.item.traits |= reasons
	case p.typedBlock(&b):
	case b.text != nil && !truthy(b.text):
		p.item.traits |= blankText
	default:
		p.content = true
	}
}

// typedBlock reads the blocks that have a type of their own for calls,
// results and reasoning.
func (p *parser) typedBlock(b *block) bool {
	switch string(b.typ) {
	case "tool_use", "tool_call", "function_call", "tool-call":
		id := firstOf(b.callID, b.id)
		if truthy(b.executed) {
			p.call(key{class: provided, id: id})
			return true
		}
		p.call(key{id: id})
		if ref := idOf(field(b.caller, "tool_id")); len(ref) > 0 {
			p.calls = append(p.calls, key{class: reference, id: ref})
		}
	case "server_tool_use", "mcp_tool_use":
		p.call(key{class: provided, id: idOf(b.id)})
	case "tool_result", "tool-result":
		k := key{id: firstOf(b.useID, b.callID)}
		if p.item.role == Assistant { // it ran at the provider
			p.calls = append(p.calls, key{class: reference, id: k.id})
			return true
		}
		p.result(k)
	case "tool-approval-request":
		p.call(key{class: approval, id: idOf(b.approvalID)})
	case "tool-approval-response":
		p.result(key{class: approval, id: idOf(b.approvalID)})
	case "thinking", "redacted_thinking", "reasoning":
		p.item.traits |= reasons
	default:
		if bytes.HasSuffix(b.typ, []byte("_tool_result")) && p.item.role == Assistant {
			p.calls = append(p.calls, key{class: reference, id: idOf(b.useID)})
			return true
		}
		return false
	}
	return true
}

func firstOf(a, b []byte) []byte {
	if a != nil {
		return idOf(a)
	}
	return idOf(b)
}

// named returns the key of a Gemini call or response.
func named(raw []byte) key {
	k := key{class: byName, id: idOf(field(raw, "id"))}
	k.name, _ = text(field(raw, "name"))
	return k
}

func (p *parser) result(k key) {
	if p.content {
		p.item.traits |= lateResult
	}
	p.results = append(p.results, k)
}

// responsesItem reads an item of the OpenAI Responses API that is no message.
func (p *parser) responsesItem(f *fields) bool {
	typ, _ := text(f.typ)
	switch {
	case string(typ) == "reasoning":
		p.item.role, p.item.traits = Assistant, p.item.traits|bareItem|reasonItem
	case string(typ) == "mcp_approval_request":
		p.item.role, p.item.traits = Assistant, p.item.traits|bareItem
		p.calls = append(p.calls, key{class: approval, id: idOf(f.id)})
	case string(typ) == "mcp_approval_response":
		p.item.role, p.item.traits = Tool, p.item.traits|bareItem
		p.results = append(p.results, key{class: approval, id: idOf(f.approvalOf)})
	case bytes.HasSuffix(typ, []byte("_call_output")):
		p.item.role, p.item.traits = Tool, p.item.traits|bareItem
		p.results = append(p.results, key{id: firstOf(f.callID, f.id)})
	case string(typ) == "function_call" || bytes.HasSuffix(typ, []byte("_call")):
		p.item.role, p.item.traits = Assistant, p.item.traits|bareItem
		if f.callID != nil || string(typ) == "local_shell_call" {
			p.calls = append(p.calls, key{id: firstOf(f.callID, f.id)})
		}
	case string(typ) == "mcp_list_tools" || string(typ) == "compaction":
		p.item.role, p.item.traits = Assistant, p.item.traits|bareItem
	default:
		return false
	}
	return true
}

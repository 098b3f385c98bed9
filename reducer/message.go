package reducer

import "encoding/json"

// A Role is who a message comes from, whatever its dialect calls it.
type Role uint8

// The roles. A role that no dialect knows is Other: such a message is kept and
// removed together with the turn it stands in.
const (
	Other     Role = iota
	System         // system, developer
	User           // user, human
	Assistant      // assistant, ai, agent, model, and the call and reasoning items of OpenAI Responses
	Tool           // tool, function, and a user message that holds only tool results
)

var roleNames = [...]string{"other", "system", "user", "assistant", "tool"}

// String returns the role in lower case.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "role out of range"
}

// A Message is what the reducer knows of one message. A [Summarizer] and a
// [Hook] are given Messages; the typed entrance [Reduce] asks for them.
type Message struct {
	Role    Role
	ID      string   // the message's own id, "" if it has none
	Text    string   // its text parts, joined by newlines
	Calls   []string // ids of the tool calls it makes
	Results []string // ids of the tool calls it answers
	Summary bool     // it is a summary that a reducer wrote

	// Reasoning: it holds reasoning without which the provider refuses the calls
	// of this message and of those that follow in the same turn.
	Reasoning bool

	// Raw is the message's JSON, byte for byte; the caller may keep and change
	// it. It is nil for messages of the typed entrance.
	Raw json.RawMessage
}

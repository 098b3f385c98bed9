package reducer

// A Provider is one whose rules a history can be held against.
type Provider uint8

// The providers. Mistral also stands for the many chat templates of local
// models that insist on user and assistant taking turns.
const (
	OpenAI Provider = iota
	Anthropic
	Gemini
	Bedrock
	Mistral
)

var providerNames = [...]string{"OpenAI", "Anthropic", "Gemini", "Bedrock", "Mistral"}

// String returns the provider's name.
func (p Provider) String() string {
	if int(p) < len(providerNames) {
		return providerNames[p]
	}
	return "provider out of range"
}

// A Rule names a rule that histories have to keep.
type Rule string

// The rules. Who enforces which was taken from the providers' documentation
// and from reports of what they refused.
const (
	NotJSON           Rule = "not-json"            // all: the text is no JSON array
	NotAnObject       Rule = "not-an-object"       // all: a message is no JSON object
	UnknownRole       Rule = "unknown-role"        // all: a role or item type that no dialect knows
	OrphanResult      Rule = "orphan-result"       // all: a tool result that answers no call of the call message before it
	DuplicateResult   Rule = "duplicate-result"    // all: a second result for the same call
	UnansweredCall    Rule = "unanswered-call"     // all: the conversation went on without a call's result
	PendingCall       Rule = "pending-call"        // all: the history ends before a call's result
	FirstNotUser      Rule = "first-not-user"      // all but OpenAI: the first message after the system's is not the user's
	NoUserMessage     Rule = "no-user-message"     // all but OpenAI: there is nothing but system messages
	EndsWithAssistant Rule = "ends-with-assistant" // Gemini, Bedrock, Mistral: the last message is the assistant's
	SystemNotLeading  Rule = "system-not-leading"  // all but OpenAI: a system message after the first other one
	SameRoleTwice     Rule = "same-role-twice"     // Bedrock, Mistral: two messages of the same role in a row
	UserAfterResult   Rule = "user-after-result"   // Mistral: a user message directly after a tool result
	EmptyContent      Rule = "empty-content"       // Anthropic, Gemini, Bedrock: a message or text block that says nothing
	ResultNotFirst    Rule = "result-not-first"    // Anthropic: other content before a tool result in one message
)

// A Violation is one message that breaks one rule.
type Violation struct {
	Index int // of the message; -1 for the whole history
	Rule  Rule

	// Pending: the history is good to keep, and what is missing can still come:
	// the result of a call, the user's next message. Only sending it as it is
	// would fail.
	Pending bool
}

// Validate returns every violation of the provider's rules in a JSON array of
// messages, ordered by index. A dialect that is not the provider's own is
// judged as if a client library had translated it message by message, as
// they do: so a leading system message counts as the system field, and results
// next to each other as one message. Nil means that the provider accepts it.
func Validate(messages []byte, provider Provider) []Violation {
	var raws [][]byte
	if err := eachMessage(messages, func(raw []byte) { raws = append(raws, raw) }); err != nil {
		return []Violation{{Index: -1, Rule: NotJSON}}
	}
	v := validation{h: parse(raws), provider: provider}
	v.pairing()
	for i := range v.h.items {
		v.message(i)
	}
	v.ends()
	v.sort()
	return v.found
}

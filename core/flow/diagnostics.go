package flow

import (
	"fmt"
	"strings"
)

// Severity says whether a Diagnostic keeps a flow from being built.
type Severity int

// The severities.
const (
	Warning Severity = iota // legal, and probably not meant
	Error                   // Build fails
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Code names what a Diagnostic found.
type Code string

// The errors that Build reports.
const (
	EmptyName       Code = "empty name"         // a flow, method or label without a name
	DuplicateMethod Code = "duplicate method"   // two methods of one name
	NilFunction     Code = "nil function"       // a method without a function
	NilCondition    Code = "nil condition"      // a nil inside Or, And, Any or When
	EmptyCondition  Code = "empty condition"    // an And of nothing
	SelfListen      Code = "self-listen"        // a method that waits for itself
	LabelClash      Code = "label clash"        // a declared label that is the name of a method
	LabelTypes      Code = "label types"        // one label with two types of payload
	PayloadType     Code = "payload type"       // a parameter that its event cannot fill
	ForeignHandle   Code = "foreign handle"     // a handle of another builder
	MisplacedOption Code = "misplaced option"   // an option that the method's role does not know
	ManyOutputs     Code = "several outputs"    // more than one method with the option Output
	Racers          Code = "racers"             // a FirstOf of what cannot race
	StateNoObject   Code = "state is no object" // a state that does not encode to a JSON object
)

// The warnings that Definition.Lint reports.
const (
	UnknownTrigger Code = "unknown trigger" // an event that no method announces
	Unreachable    Code = "unreachable"     // a method that no run can come to
	UnheardLabel   Code = "unheard label"   // a declared label that nothing waits for
	EndlessLoop    Code = "endless loop"    // a loop without a router that could leave it
	DynamicRouter  Code = "dynamic router"  // a router without Emits
	NoPlainStart   Code = "no plain start"  // only conditional starts: all of them run at kickoff
)

// Diagnostic is one finding about a graph.
type Diagnostic struct {
	Severity Severity
	Code     Code
	Method   string // the method it is about; empty for the flow as a whole
	Event    string // the event or label it is about, if any
	Text     string // a sentence for people
}

// String returns the finding as one line.
func (d Diagnostic) String() string {
	if d.Method == "" {
		return fmt.Sprintf("%v: %s: %s", d.Severity, d.Code, d.Text)
	}
	return fmt.Sprintf("%v: method %q: %s: %s", d.Severity, d.Method, d.Code, d.Text)
}

// BuildError says why a flow cannot be built: everything at once.
type BuildError struct {
	Flow        string
	Diagnostics []Diagnostic // at least one of them is an Error
}

func (e *BuildError) Error() string {
	lines := make([]string, 0, len(e.Diagnostics))
	for _, d := range e.Diagnostics {
		if d.Severity == Error {
			lines = append(lines, d.String())
		}
	}
	return fmt.Sprintf("flow %q cannot be built: %s", e.Flow, strings.Join(lines, "; "))
}

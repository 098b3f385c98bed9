package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Review makes a person's feedback part of a method, as an option of a Start or Listen: when
// the method's function has returned, a Provider is asked, and the method completes with the
// answer. What the function did to the state is committed, and stored together with the open
// request, before anyone is asked; it does not run again.
//
// With Outcomes the answer chooses one of them, and the method is a router: its label is the
// outcome, whose listeners get the Feedback, while the method's own output stays what it was.
// Without them the Feedback is the method's output: listen to it with Reviewed.
type Review struct {
	Message  string            // what the person is asked
	Outcomes []Label[Feedback] // what the answer decides between
	Default  Label[Feedback]   // the outcome of blank feedback, one of Outcomes; "" makes that an OutcomeError
	Classify Classifier        // nil: the text must be the name of an outcome, in any case
	Metadata map[string]string // for the provider; kept in the request and the feedback
}

// A Classifier says which of the outcomes a text means. It is called on a goroutine of the
// run or by Resume, never for blank text, and possibly again for the same text. What it
// returns must be one of outcomes, else the answer is refused with an OutcomeError; its own
// error refuses the answer, too.
type Classifier func(ctx context.Context, text string, outcomes []string) (string, error)

func (r Review) applyMethod(m *methodConfig) {
	m.review = &r
	for _, o := range r.Outcomes {
		m.emits = append(m.emits, labelSpec{name: string(o), payload: feedbackType})
	}
}

var feedbackType = reflect.TypeFor[Feedback]()

// Feedback is an answered request.
type Feedback struct {
	Request  string            `json:"request"`           // its id
	Method   string            `json:"method"`            // the one that was reviewed
	Output   json.RawMessage   `json:"output,omitempty"`  // what was reviewed
	Text     string            `json:"feedback"`          // as it was given
	Outcome  string            `json:"outcome,omitempty"` // one of the declared ones; "" if there are none
	Metadata map[string]string `json:"metadata,omitempty"`
	At       time.Time         `json:"at"` // when it was taken, UTC
}

// Reviewed is the completion of a method with a Review that has no outcomes.
func Reviewed[O any](h Handle[O]) Trigger[Feedback] {
	n := h.condition()
	n.payload = feedbackType
	return trigger[Feedback]{n}
}

// Reply is an answer to a request.
type Reply struct {
	Text    string // of the person
	Outcome string // what it means, if that is known (a button was pressed): no classifier is asked
	Later   bool   // from a Provider: there is no answer yet, it will come through Resume
}

// A Provider takes requests to people. It is called for each request after that is stored (if
// the run has a store), possibly by several calls at once and, if a process dies meanwhile,
// again by the one that resumes the flow: Request.ID says that it is the same one. It either
// waits for the answer, heeding ctx, or replies Later; then the run pauses when nothing else
// is left to do, and Resume with an Answer goes on. Its error is the method's.
type Provider interface {
	Request(ctx context.Context, r Request) (Reply, error)
}

// WithProvider sets who is asked for feedback. Without it every answer comes later.
func WithProvider(p Provider) RunOption {
	return runOption(func(c *runConfig) { c.provider = p })
}

// ProviderFunc is a function as a Provider.
type ProviderFunc func(ctx context.Context, r Request) (Reply, error)

// Request calls f.
func (f ProviderFunc) Request(ctx context.Context, r Request) (Reply, error) { return f(ctx, r) }

// OutcomeError says that feedback cannot be taken because it is not clear which of the
// declared outcomes it means. Its request stays open.
type OutcomeError struct {
	Request  string
	Text     string
	Outcome  string // what it was taken for, if anything
	Declared []string
}

func (e *OutcomeError) Error() string {
	switch {
	case e.Outcome != "":
		return fmt.Sprintf("request %q: %q is not one of the outcomes %q", e.Request, e.Outcome, e.Declared)
	case strings.TrimSpace(e.Text) == "":
		return fmt.Sprintf("request %q: blank feedback, and there is no default among the outcomes %q", e.Request, e.Declared)
	}
	return fmt.Sprintf("request %q: %q is not one of the outcomes %q; a classifier could tell what it means", e.Request, e.Text, e.Declared)
}

// judge makes feedback of a reply to a request of a method with the review r, if it still has
// one.
func judge(ctx context.Context, r *Review, q *Request, reply Reply) (Feedback, error) {
	fb := Feedback{Request: q.ID, Method: q.Method, Output: q.Output, Text: reply.Text, Metadata: maps.Clone(q.Metadata), At: time.Now().UTC()}
	if r == nil || len(r.Outcomes) == 0 && reply.Outcome == "" {
		return fb, nil
	}
	names := r.names()
	bad := &OutcomeError{Request: q.ID, Text: reply.Text, Outcome: reply.Outcome, Declared: names}
	var err error
	switch blank := strings.TrimSpace(reply.Text) == ""; {
	case reply.Outcome != "":
		fb.Outcome = reply.Outcome
	case blank:
		fb.Outcome = string(r.Default)
	case r.Classify != nil:
		if fb.Outcome, err = r.Classify(ctx, reply.Text, slices.Clone(names)); err != nil {
			return fb, fmt.Errorf("request %q: its classifier: %w", q.ID, err)
		}
		bad.Outcome = fb.Outcome
	default:
		i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, strings.TrimSpace(reply.Text)) })
		if i >= 0 {
			fb.Outcome = names[i]
		}
	}
	if !slices.Contains(names, fb.Outcome) {
		return fb, bad
	}
	return fb, nil
}

func (r Review) names() []string {
	names := make([]string, len(r.Outcomes))
	for i, o := range r.Outcomes {
		names[i] = string(o)
	}
	return names
}

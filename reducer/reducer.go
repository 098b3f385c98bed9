package reducer

import (
	"context"
	"encoding/json"
)

// A Reducer reduces histories by one configuration. It is made by [New], never
// changes, and may be used by any number of goroutines at once. The zero
// Reducer reduces nothing.
type Reducer struct {
	cfg       Config
	namespace string
	memory    *memory
}

// New returns a Reducer for cfg, or an error that wraps [ErrConfig] and says
// which field to change.
func New(cfg Config) (*Reducer, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	return &Reducer{cfg: cfg, memory: newMemory()}, nil
}

// Scoped returns a Reducer that differs from r in the namespace that its hooks
// see and that is part of each delivery key, for example a flow or user id. It
// shares r's memory of summaries and costs next to nothing.
func (r *Reducer) Scoped(namespace string) *Reducer {
	s := *r
	s.namespace = namespace
	return &s
}

// Idle reports whether a history of that many messages certainly needs no
// work, so that a caller who has already checked and counted it need not call
// ReduceJSON. It is false whenever only the messages themselves can tell: with
// a token limit or a repair.
func (r *Reducer) Idle(messages int) bool {
	if r.cfg.Mode == Compat {
		return r.cfg.Compat.idle(messages)
	}
	return r.cfg.MaxTokens == 0 && r.cfg.Repair == RepairOff && (r.cfg.MaxMessages == 0 || messages <= r.cfg.MaxMessages)
}

// A Trigger says why a history was reduced. The values can be combined.
type Trigger uint8

// The triggers.
const (
	TooManyMessages Trigger = 1 << iota
	TooManyTokens
	NeededRepair
)

// A Fix is one thing that a repair did.
type Fix struct {
	Index int  // of the message in the input
	Rule  Rule // what it broke
	Added bool // an answer was added after it; else it was removed
}

// A Report says what a reduction saw and did.
type Report struct {
	Trigger Trigger // 0: there was nothing to do

	MessagesBefore, MessagesAfter int
	TokensBefore, TokensAfter     int // 0 without a token limit

	// OverBudget: the result is still over a limit. AboveGoal: a limit was
	// exceeded and the goal was not reached. Either way, all that is left is
	// pinned, or was kept because of HookErr or SummaryErr.
	OverBudget, AboveGoal bool

	Fixes []Fix // what a repair did, in order

	Summary    string // the text that Summarize returned for this reduction, or that was remembered
	Summarized bool   // there is such a text
	SummaryErr error  // Summarize failed; Config.OnSummaryError says what that meant
	HookErr    error  // a hook failed, and nothing was removed
}

// A Result is a reduced history.
type Result struct {
	// Messages is the new history, a JSON array. When nothing changed it is the
	// very slice that came in, else it shares no memory with it. Messages that
	// survive are written as they were, byte for byte.
	Messages json.RawMessage

	// Pruned is what was removed, in the order it had; copies.
	Pruned []json.RawMessage

	Changed bool
	Report
}

// ReduceJSON reduces a JSON array of messages of any dialect that the package
// knows. It never changes messages. An error (of a context that ended; of text
// that is no JSON array, which wraps [ErrInput]; in Compat, of what the Python
// package raises on, which wraps [ErrCompat]) means that nothing happened. A
// failed hook or summary is no error: it is in the report.
func (r *Reducer) ReduceJSON(ctx context.Context, messages []byte) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	var raws [][]byte
	if err := eachMessage(messages, func(raw []byte) { raws = append(raws, raw) }); err != nil {
		return Result{}, err
	}
	if n := len(raws); r.Idle(n) {
		return unchanged(messages, Report{MessagesBefore: n, MessagesAfter: n}), nil
	}
	if r.cfg.Mode == Compat {
		return r.compatJSON(ctx, messages, raws)
	}
	return r.strictJSON(ctx, messages, raws)
}

func unchanged(messages []byte, rep Report) Result {
	return Result{Messages: messages, Report: rep}
}

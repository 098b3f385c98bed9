package reducer

import (
	"context"
	"fmt"
	"slices"
)

// An Accessor tells the reducer about messages that are Go values.
type Accessor[T any] struct {
	// Describe returns what the reducer has to know of a message. Summary and
	// Raw need not be set. It is called a few times for each message.
	Describe func(T) Message

	// Tokens returns what a message costs; nil estimates it from the Text of
	// Describe as EstimateTokens would. Config.CountTokens is for JSON only.
	Tokens func(T) int

	// Compose makes a message of its Role, Text and Results, for summaries and for
	// the answers of RepairAnswer; it may be nil where there are none. Describe has to
	// return that Text unchanged, or the summary will not be known again.
	Compose func(Message) T
}

// Reduced is a reduced history of Go values. Messages and Pruned are new
// slices, Messages also when nothing changed.
type Reduced[T any] struct {
	Messages, Pruned []T
	Changed          bool
	Report
}

// Reduce is [Reducer.ReduceJSON] for messages that are Go values. It does not
// support mode Compat, and never changes messages.
func Reduce[T any](ctx context.Context, r *Reducer, messages []T, a Accessor[T]) (Reduced[T], error) {
	switch {
	case a.Describe == nil:
		return Reduced[T]{}, fmt.Errorf("%w: Accessor.Describe is nil: set it", ErrConfig)
	case r.cfg.Mode == Compat:
		return Reduced[T]{}, fmt.Errorf("%w: mode Compat reads JSON: use ReduceJSON or set Mode to Strict", ErrConfig)
	case a.Compose == nil && (r.cfg.Summarize != nil || r.cfg.Repair == RepairAnswer):
		return Reduced[T]{}, fmt.Errorf("%w: Accessor.Compose is nil: set it, or do without Summarize and RepairAnswer", ErrConfig)
	case ctx.Err() != nil:
		return Reduced[T]{}, ctx.Err()
	}
	src := &typedSource[T]{a: a, n: len(messages), values: slices.Clone(messages), count: r.cfg.MaxTokens > 0}
	if r.Idle(len(messages)) {
		return Reduced[T]{Messages: src.values, Report: Report{MessagesBefore: src.n, MessagesAfter: src.n}}, nil
	}
	src.h.items = make([]item, src.n)
	for i, v := range messages {
		src.put(i, v, src.count)
	}
	out, err := r.strict(ctx, src)
	if err != nil {
		return Reduced[T]{}, err
	}
	if !out.changed {
		return Reduced[T]{Messages: src.values[:src.n:src.n], Report: out.Report}, nil
	}
	return Reduced[T]{Messages: src.pick(out.kept), Pruned: src.pick(out.pruned), Changed: true, Report: out.Report}, nil
}

// A typedSource is a job's messages as Go values.
type typedSource[T any] struct {
	a      Accessor[T]
	n      int // of the input
	values []T
	h      history
	count  bool
}

func (s *typedSource[T]) history() *history { return &s.h }
func (s *typedSource[T]) inputs() int       { return s.n }

func (s *typedSource[T]) describe(i int) Message {
	m := s.a.Describe(s.values[i])
	m.Summary = s.h.items[i].has(marked)
	m.Raw = nil
	return m
}

func (s *typedSource[T]) pick(seq []int) []T {
	out := make([]T, len(seq))
	for k, i := range seq {
		out[k] = s.values[i]
	}
	return out
}

// put reads a value as message i.
func (s *typedSource[T]) put(i int, v T, count bool) {
	m := s.a.Describe(v)
	it := item{role: m.Role}
	var calls, results []key
	for _, id := range m.Results {
		results = append(results, key{id: []byte(id)})
	}
	switch m.Role {
	case Assistant:
		for _, id := range m.Calls {
			calls = append(calls, key{id: []byte(id)})
		}
		results = nil
		if m.Reasoning {
			it.traits |= reasons
		}
		if len(calls) == 0 && m.Text == replyText {
			it.traits |= reply
		}
	case User:
		it.wireUser = true
		it.traits |= authored
		if len(results) > 0 && m.Text == "" {
			it.role = Tool
		}
		if _, ok := unmark(m.Text); ok && len(results) == 0 {
			it.traits |= marked
		}
	case Tool:
		if len(results) == 0 {
			results = []key{{class: byName}}
		}
	default:
		results = nil
	}
	if count {
		it.tokens = s.cost(v, m)
	}
	s.h.put(i, it, calls, results)
}

func (s *typedSource[T]) cost(v T, m Message) int {
	if s.a.Tokens != nil {
		return max(0, s.a.Tokens(v))
	}
	var q quarters
	q.add(quote(m.Text))
	return messageTokens + q.tokens()
}

func (s *typedSource[T]) add(a addition) (added []int) {
	list := []Message{{Role: a.role, Text: a.text}}
	if a.role == Tool {
		list = nil
		for _, k := range a.calls {
			list = append(list, Message{Role: Tool, Text: a.text, Results: names([]key{k})})
		}
	}
	for _, m := range list {
		v := s.a.Compose(m)
		i := len(s.values)
		s.values = append(s.values, v)
		s.h.items = append(s.h.items, item{})
		s.put(i, v, true)
		added = append(added, i)
	}
	return added
}

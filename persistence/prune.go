package persistence

import (
	"context"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/reducer"
)

// prune validates the state and, if the Store has a reducer and the history needs it, returns
// the state with the reduced history in place and what the reducer did; nil if nothing
// changed. Validation and the decision share one scan.
func (s *Store) prune(ctx context.Context, state []byte) ([]byte, *reducer.Result, error) {
	if s.reducer == nil {
		return nil, nil, core.ValidateState(state)
	}
	field, err := core.ScanState(state, s.messagesKey)
	if err != nil {
		return nil, nil, err
	}
	if field.Value == nil || string(field.Value) == "null" {
		return nil, nil, nil
	}
	if field.Elements < 0 {
		return nil, nil, &core.StateError{Path: "/" + s.messagesKey, Reason: "the messages to prune must be an array"}
	}
	if s.reducer.Idle(field.Elements) {
		return nil, nil, nil
	}
	result, err := s.reducer.ReduceJSON(ctx, field.Value)
	if err != nil {
		return nil, nil, fmt.Errorf("prune %q: %w", s.messagesKey, err)
	}
	if !result.Changed {
		return nil, nil, nil
	}
	reduced := splice(state, field, result.Messages)
	if err := core.ValidateState(reduced); err != nil {
		return nil, nil, fmt.Errorf("the reducer returned messages that cannot be stored: %w", err)
	}
	return reduced, &result, nil
}

// splice returns state with one field's value replaced.
func splice(state []byte, f core.Field, replacement []byte) []byte {
	out := make([]byte, 0, len(state)-len(f.Value)+len(replacement))
	out = append(append(out, state[:f.Start]...), replacement...)
	return append(out, state[f.Start+len(f.Value):]...)
}

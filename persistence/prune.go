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
func (s *Store) prune(ctx context.Context, flowID string, state []byte) ([]byte, *reducer.Result, error) {
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
	result, err := s.reducerOf(flowID).ReduceJSON(ctx, field.Value)
	if err != nil {
		return nil, nil, fmt.Errorf("prune %q: %w", s.messagesKey, err)
	}
	s.reportPruning(ctx, flowID, result.Report)
	if !result.Changed {
		return nil, nil, nil
	}
	reduced := splice(state, field, result.Messages)
	if err := core.ValidateState(reduced); err != nil {
		return nil, nil, fmt.Errorf("the reducer returned messages that cannot be stored: %w", err)
	}
	return reduced, &result, nil
}

// reducerOf returns the reducer with the flow as the namespace of its hooks, where it has
// namespaces: what is handed over for one flow must not count as handed over for another.
func (s *Store) reducerOf(flowID string) MessageReducer {
	if r, ok := s.reducer.(interface {
		Scoped(namespace string) *reducer.Reducer
	}); ok {
		return r.Scoped(flowID)
	}
	return s.reducer
}

// reportPruning logs what a reduction could not do; none of it fails a save.
func (s *Store) reportPruning(ctx context.Context, flowID string, r reducer.Report) {
	if r.HookErr != nil {
		s.log.WarnContext(ctx, "weir: a prune hook failed, the messages are kept and handed over again", "flow", flowID, "error", r.HookErr)
	}
	if r.SummaryErr != nil {
		s.log.WarnContext(ctx, "weir: the summary of pruned messages failed", "flow", flowID, "error", r.SummaryErr)
	}
	if r.OverBudget {
		s.log.WarnContext(ctx, "weir: the history is over its limit although only what must stay is left", "flow", flowID,
			"messages", r.MessagesAfter, "tokens", r.TokensAfter)
	}
}

// splice returns state with one field's value replaced.
func splice(state []byte, f core.Field, replacement []byte) []byte {
	out := make([]byte, 0, len(state)-len(f.Value)+len(replacement))
	out = append(append(out, state[:f.Start]...), replacement...)
	return append(out, state[f.Start+len(f.Value):]...)
}

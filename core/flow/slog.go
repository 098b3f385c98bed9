package flow

import (
	"context"
	"log/slog"
)

// LogEvents returns an observer that writes each event to l: failures as errors, a save that
// is tried again as a warning, the course of the flow as info, and methods and saves as
// debug. Neither state nor payloads are logged.
func LogEvents(l *slog.Logger) Observer {
	return func(ctx context.Context, e Event) {
		level, msg, attrs := describe(e)
		if !l.Enabled(ctx, level) {
			return
		}
		o := e.Origin()
		attrs = append([]slog.Attr{slog.String("flow", o.Flow), slog.String("flow_id", o.FlowID)}, attrs...)
		l.LogAttrs(ctx, level, msg, attrs...)
	}
}

func describe(e Event) (slog.Level, string, []slog.Attr) {
	method := func(name, activation string) []slog.Attr {
		return []slog.Attr{slog.String("method", name), slog.String("activation", activation)}
	}
	switch e := e.(type) {
	case FlowStarted:
		return slog.LevelInfo, "flow started", []slog.Attr{slog.Bool("resumed", e.Resumed), slog.String("restored_from", e.RestoredFrom)}
	case FlowFinished:
		return slog.LevelInfo, "flow finished", nil
	case FlowFailed:
		return slog.LevelError, "flow failed", []slog.Attr{slog.Any("error", e.Err)}
	case MethodStarted:
		return slog.LevelDebug, "method started", append(method(e.Method, e.ActivationID), slog.Int("call", e.Call))
	case MethodFinished:
		return slog.LevelDebug, "method finished", append(method(e.Method, e.ActivationID), slog.String("label", e.Label))
	case MethodFailed:
		level := slog.LevelError
		if e.Canceled {
			level = slog.LevelDebug
		}
		return level, "method failed", append(method(e.Method, e.ActivationID), slog.Bool("canceled", e.Canceled), slog.Any("error", e.Err))
	case RequestOpened:
		return slog.LevelInfo, "request opened", append(method(e.Request.Method, e.Request.ActivationID), slog.String("request", e.Request.ID))
	case RequestAnswered:
		return slog.LevelInfo, "request answered", []slog.Attr{slog.String("method", e.Method), slog.String("request", e.Feedback.Request), slog.String("outcome", e.Feedback.Outcome)}
	case MethodPaused:
		return slog.LevelDebug, "method paused", append(method(e.Request.Method, e.Request.ActivationID), slog.String("request", e.Request.ID))
	case FlowPaused:
		return slog.LevelInfo, "flow paused", []slog.Attr{slog.Int("requests", len(e.Requests))}
	case MethodRetrying:
		return slog.LevelWarn, "method retrying", append(method(e.Method, e.ActivationID), slog.Int("attempt", e.Attempt), slog.Any("error", e.Err))
	case StateSaved:
		return slog.LevelDebug, "state saved", []slog.Attr{slog.String("method", e.Method), slog.String("revision", e.Revision.String()), slog.Int("bytes", e.Bytes)}
	case SaveFailed:
		level := slog.LevelError
		if e.Retrying {
			level = slog.LevelWarn
		}
		return level, "save failed", []slog.Attr{slog.String("method", e.Method), slog.Int("attempt", e.Attempt), slog.Any("error", e.Err)}
	case MessagesPruned:
		return slog.LevelInfo, "messages pruned", []slog.Attr{slog.String("method", e.Method), slog.Int("count", len(e.Pruned))}
	default:
		return slog.LevelDebug, "event", nil
	}
}

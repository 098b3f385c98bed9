package persistence

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/reducer"
)

// Option configures a Store.
type Option func(*settings)

type settings struct {
	ttl         time.Duration
	history     int
	now         func() time.Time
	log         *slog.Logger
	reducer     MessageReducer
	messagesKey string
	maxPayload  int
	limits      driver.Limits // zero fields: the driver's
}

// defaultMaxPayload bounds a state, and what decompression may produce, to what a process
// can reasonably hold a few times over.
const defaultMaxPayload = 256 << 20

func newSettings(opts []Option) settings {
	s := settings{
		now:         time.Now,
		log:         slog.New(slog.DiscardHandler),
		messagesKey: "messages",
		maxPayload:  defaultMaxPayload,
	}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// WithTTL lets a flow expire d after its last save. Zero or less, the default, keeps flows
// for ever. What is kept beside the head expires at least a day later.
func WithTTL(d time.Duration) Option {
	return func(s *settings) { s.ttl = d }
}

// WithHistory keeps the newest n snapshots of each flow, the current one included, for
// Store.History. Zero, the default, keeps none beside the current one. It makes each save
// cost one more Put and, once n is reached, a Range and a Delete.
func WithHistory(n int) Option {
	return func(s *settings) { s.history = n }
}

// WithClock sets the clock for SavedAt and for the start of a TTL; nil is time.Now. Whether
// a record has expired is judged by the driver.
func WithClock(now func() time.Time) Option {
	return func(s *settings) {
		if now != nil {
			s.now = now
		}
	}
}

// WithLogger sets where the Store reports what it could not do but need not fail for, such
// as segments left for Sweep. The default discards it. States are never logged.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.log = l
		}
	}
}

// WithMaxState bounds the size of a state in bytes, before compression; a larger one is
// core.ErrTooLarge. The default is 256 MiB. The same bound protects loading from a small
// record that decompresses to a huge one.
func WithMaxState(bytes int) Option {
	return func(s *settings) {
		if bytes > 0 {
			s.maxPayload = bytes
		}
	}
}

// WithLimits lowers the sizes the Store plans with below those of the driver, for example to
// keep every record small enough for a replica, or to see segments at work. A zero field, and
// one that is larger than the driver's, leaves the driver's in force.
func WithLimits(l driver.Limits) Option {
	return func(s *settings) { s.limits = l }
}

// lower returns the limits in force over a driver.
func lower(want, have driver.Limits) driver.Limits {
	if want.Record <= 0 || want.Record > have.Record {
		want.Record = have.Record
	}
	if want.Inline <= 0 || want.Inline > have.Inline {
		want.Inline = have.Inline
	}
	want.Inline = min(want.Inline, want.Record)
	return want
}

// MessageReducer shortens a message history. *reducer.Reducer is one.
type MessageReducer interface {
	// ReduceJSON reduces a JSON array of messages.
	ReduceJSON(ctx context.Context, messages []byte) (reducer.Result, error)
	// Idle reports that a history of that many messages certainly needs no work, so that
	// the Store, which counts them while it validates the state, need not look again.
	Idle(messages int) bool
}

// PruneOption changes what WithReducer prunes.
type PruneOption func(*settings)

// MessagesKey names the top-level key of the state that holds the message history; the
// default is "messages". Nothing else of a state is ever touched.
func MessagesKey(key string) PruneOption {
	return func(s *settings) { s.messagesKey = key }
}

// WithReducer prunes the message history inside every save. What was removed, and the state
// as it was stored, come back in core.Saved.
func WithReducer(r MessageReducer, opts ...PruneOption) Option {
	return func(s *settings) {
		s.reducer = r
		for _, o := range opts {
			o(s)
		}
	}
}

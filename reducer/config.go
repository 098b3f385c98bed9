package reducer

import (
	"context"
	"errors"
	"fmt"
)

// A Mode chooses between correct and compatible.
type Mode uint8

const (
	// Strict never yields a history that a provider would reject if it accepted
	// the input, and never loses the live turn. It is the zero value.
	Strict Mode = iota

	// Compat does what the Python package agentstate-reducer 0.5.0 does,
	// including what is wrong there. See [CompatConfig].
	Compat
)

// A Repair says what Strict does with a history that was broken before it came.
type Repair uint8

const (
	// RepairOff leaves broken messages alone and never removes an unanswered
	// call: its result may still come. It is the zero value.
	RepairOff Repair = iota

	// RepairDrop removes results without a call, second results, calls that the
	// conversation went on without, and what stands before the first user message.
	// Only the user's last words are never removed, even if they share a message
	// with a result that has no call.
	RepairDrop

	// RepairAnswer is RepairDrop, but gives a call that the conversation went on
	// without a result that says it failed, in the history's own dialect.
	RepairAnswer
)

// A SummaryPolicy says what happens to messages whose summary failed.
type SummaryPolicy uint8

const (
	// KeepMessages keeps them, to be tried again next time. It is the zero value.
	KeepMessages SummaryPolicy = iota

	// PruneMessages removes them without a summary.
	PruneMessages
)

// A TokenCounter returns what one message, given as JSON, costs. It is called
// once a message and reduction, from any goroutine, and must not keep or change
// its argument. A negative result is taken as 0 in Strict.
type TokenCounter func(message []byte) int

// A Summarizer returns a summary of messages that are about to be removed. If
// the first has Summary set, it is the previous summary and has to be worked
// into the new one. An empty string means that there is nothing to say. What
// is longer than Config.SummaryTokens is cut.
type Summarizer func(ctx context.Context, messages []Message) (string, error)

// Config says when a history is reduced, and how far. At least one limit or a
// repair must be set; the two kinds of limit can be combined.
type Config struct {
	Mode Mode

	// MaxMessages is how many messages a history may have before it is reduced;
	// 0 is no limit. MinMessages is the goal of a reduction, pinned and summary
	// messages included; 0 is half of MaxMessages, rounded up. The distance
	// between the two is what keeps a provider's prompt cache useful.
	MaxMessages, MinMessages int

	// MaxTokens and TargetTokens are the same in tokens as CountTokens counts
	// them; a TargetTokens of 0 is half of MaxTokens, rounded up.
	MaxTokens, TargetTokens int

	// CountTokens is EstimateTokens if nil. The module reducer/tokens has a real
	// tokenizer.
	CountTokens TokenCounter

	// Repair says what to do with histories that are broken on input.
	Repair Repair

	// PinSystem keeps every system and developer message. Without it only those
	// that open the history are pinned, and others go with their turn.
	PinSystem bool

	// Summarize, if set, is asked for a summary of what a limit removes. The
	// summary stands after the leading system messages, as a user message and a
	// short reply to it, and replaces the previous one. SummaryTokens bounds the
	// user message, in tokens; 0 is an eighth of the token goal, or 1024 if there is
	// no token limit. OnSummaryError says what happens if Summarize fails.
	Summarize      Summarizer
	SummaryTokens  int
	OnSummaryError SummaryPolicy

	// Hooks are given what is about to be removed, in this order.
	Hooks []Hook

	// Compat is for Mode Compat only, where it takes the place of the four limits
	// if it is set.
	Compat *CompatConfig
}

// Errors to be tested for with errors.Is.
var (
	// ErrConfig is wrapped by every error of New.
	ErrConfig = errors.New("reducer: configuration")

	// ErrInput says that the messages are not a JSON array.
	ErrInput = errors.New("reducer: messages")

	// ErrCompat says that the Python package would have raised an exception.
	ErrCompat = errors.New("reducer: compat")
)

const (
	defaultSummaryTokens = 1024
	minSummaryTokens     = 32
)

// check returns cfg with its defaults filled in.
func (c Config) check() (Config, error) {
	switch {
	case c.Mode > Compat:
		return c, fmt.Errorf("%w: Mode %d: set Strict or Compat", ErrConfig, c.Mode)
	case c.Repair > RepairAnswer:
		return c, fmt.Errorf("%w: Repair %d: set RepairOff, RepairDrop or RepairAnswer", ErrConfig, c.Repair)
	case c.OnSummaryError > PruneMessages:
		return c, fmt.Errorf("%w: OnSummaryError %d: set KeepMessages or PruneMessages", ErrConfig, c.OnSummaryError)
	case c.Compat != nil && c.Mode != Compat:
		return c, fmt.Errorf("%w: Compat is set in mode Strict: set Mode to Compat or Compat to nil", ErrConfig)
	}
	for i, h := range c.Hooks {
		if h == nil {
			return c, fmt.Errorf("%w: Hooks[%d] is nil: remove it", ErrConfig, i)
		}
	}
	if c.Mode == Compat {
		return c.checkCompat()
	}
	var err error
	if c.MinMessages, err = goal("Messages", "Min", c.MaxMessages, c.MinMessages); err != nil {
		return c, err
	}
	if c.TargetTokens, err = goal("Tokens", "Target", c.MaxTokens, c.TargetTokens); err != nil {
		return c, err
	}
	if c.MaxMessages == 0 && c.MaxTokens == 0 && c.Repair == RepairOff {
		return c, fmt.Errorf("%w: nothing to do: set MaxMessages, MaxTokens or Repair", ErrConfig)
	}
	if c.CountTokens == nil {
		c.CountTokens = estimateChecked
	}
	return c.checkSummary()
}

func (c Config) checkSummary() (Config, error) {
	switch {
	case c.SummaryTokens < 0:
		return c, fmt.Errorf("%w: SummaryTokens is %d: set a positive number, or 0 for the default", ErrConfig, c.SummaryTokens)
	case c.Summarize == nil && c.SummaryTokens > 0:
		return c, fmt.Errorf("%w: SummaryTokens is set without Summarize: set both or neither", ErrConfig)
	case c.Summarize == nil:
		return c, nil
	case c.SummaryTokens > 0 && c.SummaryTokens < minSummaryTokens:
		return c, fmt.Errorf("%w: SummaryTokens %d is less than a summary's first line and a few words: set at least %d",
			ErrConfig, c.SummaryTokens, minSummaryTokens)
	case c.SummaryTokens == 0 && c.MaxTokens > 0:
		c.SummaryTokens = max(c.TargetTokens/8, minSummaryTokens)
	case c.SummaryTokens == 0:
		c.SummaryTokens = defaultSummaryTokens
	}
	if c.MaxTokens > 0 && c.SummaryTokens >= c.TargetTokens {
		return c, fmt.Errorf("%w: a token goal of %d leaves no room for a summary of %d: lower SummaryTokens or raise TargetTokens",
			ErrConfig, c.TargetTokens, c.SummaryTokens)
	}
	return c, nil
}

// goal checks one pair of limits and returns the lower one with its default.
func goal(unit, low string, limit, target int) (int, error) {
	switch {
	case limit < 0:
		return 0, fmt.Errorf("%w: Max%s is %d: set a positive number, or 0 for no limit", ErrConfig, unit, limit)
	case target < 0:
		return 0, fmt.Errorf("%w: %s%s is %d: set a positive number, or 0 for half of Max%s", ErrConfig, low, unit, target, unit)
	case limit == 0 && target > 0:
		return 0, fmt.Errorf("%w: %s%s is %d without a limit: set Max%s too", ErrConfig, low, unit, target, unit)
	case target > limit:
		return 0, fmt.Errorf("%w: %s%s %d is above Max%s %d: lower the one or raise the other",
			ErrConfig, low, unit, target, unit, limit)
	case target == 0:
		return (limit + 1) / 2, nil
	}
	return target, nil
}

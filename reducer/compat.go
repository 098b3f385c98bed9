package reducer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// CompatConfig is the configuration of Mode [Compat]: that of the Python
// package agentstate-reducer 0.5.0, whose result is copied message for message,
// also where it is wrong: a limit may be 0 or negative, MinMessages may exceed
// MaxMessages, the user's last message may be removed and the result need not
// be a history that a provider accepts. Recorded runs of the package are the
// test. Config's Summarize, Hooks and CountTokens apply; without the last the
// package's own estimate is used, and Config's Repair and PinSystem must not be
// set. The typed entrance does not support this mode.
type CompatConfig struct {
	MinMessages int  // how many messages at the end are not looked at
	MaxMessages *int // nil: no limit

	MaxTokens    *int // if set, MaxMessages means nothing
	TargetTokens int  // 0: as MaxTokens

	PruneFirst      bool // the first message is not pinned
	KeepToolResults bool // a call's results stay when the call is removed

	// InjectSummary puts what Summarize returns into the history.
	// SummaryMessages writes the messages for it, given how many were removed;
	// nil is the package's pair. Its error is the reduction's.
	InjectSummary   bool
	SummaryMessages func(summary string, removed int) ([]json.RawMessage, error)

	// AlwaysDeliver gives hooks what they were given before. Else a message
	// whose id is among the last DedupeWindow delivered ones, whatever their
	// namespace, is left out; 0 is 10000, negative is none. A hook's error is
	// ignored. All hooks share one Delivery, and if AlwaysDeliver is set, what
	// they do to its Messages is done to Result.Pruned.
	AlwaysDeliver bool
	DedupeWindow  int
}

const defaultDedupeWindow = 10000

func (c Config) checkCompat() (Config, error) {
	if c.Repair != RepairOff || c.PinSystem || c.SummaryTokens != 0 || c.OnSummaryError != KeepMessages {
		return c, fmt.Errorf("%w: mode Compat has no Repair, PinSystem, SummaryTokens and OnSummaryError: leave them out or set Mode to Strict",
			ErrConfig)
	}
	if c.Compat == nil {
		if c.MaxMessages == 0 && c.MaxTokens == 0 {
			return c, fmt.Errorf("%w: nothing to do: set MaxMessages, MaxTokens or Compat", ErrConfig)
		}
		cc := &CompatConfig{MinMessages: c.MinMessages, TargetTokens: c.TargetTokens}
		if c.MaxMessages != 0 {
			cc.MaxMessages = &c.MaxMessages
		}
		if c.MaxTokens != 0 {
			cc.MaxTokens = &c.MaxTokens
		}
		c.Compat = cc
	} else if c.MaxMessages != 0 || c.MinMessages != 0 || c.MaxTokens != 0 || c.TargetTokens != 0 {
		return c, fmt.Errorf("%w: limits are set twice: set those of Config or those of Compat", ErrConfig)
	}
	own := *c.Compat
	if own.DedupeWindow == 0 {
		own.DedupeWindow = defaultDedupeWindow
	}
	c.Compat = &own
	if c.CountTokens == nil {
		c.CountTokens = pythonTokens
	}
	return c, nil
}

// idle reports whether so many messages exceed no limit.
func (c *CompatConfig) idle(messages int) bool {
	return c.MaxTokens == nil && (c.MaxMessages == nil || messages <= *c.MaxMessages)
}

// A compatRun is one reduction as the Python package does it.
type compatRun struct {
	cfg    *CompatConfig
	count  TokenCounter
	raws   [][]byte
	tokens []int
	total  int
	marked []bool // to be removed
	calls  map[string]int
}

func (r *Reducer) compatJSON(ctx context.Context, messages []byte, raws [][]byte) (Result, error) {
	c := &compatRun{cfg: r.cfg.Compat, count: r.cfg.CountTokens, raws: raws, marked: make([]bool, len(raws))}
	rep := Report{MessagesBefore: len(raws), MessagesAfter: len(raws)}
	end, trig := c.window()
	rep.TokensBefore, rep.TokensAfter = c.total, c.total
	rep.Trigger = trig
	if trig == 0 {
		return unchanged(messages, rep), nil
	}
	if err := c.mark(end); err != nil {
		return Result{}, err
	}
	src := &rawSource{n: len(raws), raws: raws}
	first, kept, pruned := c.split()
	if len(pruned) == 0 {
		rep.OverBudget = c.over(len(raws), rep.TokensAfter)
		return unchanged(messages, rep), nil
	}
	if r.cfg.Summarize != nil || len(r.cfg.Hooks) > 0 {
		src.h = parse(raws)
	}
	var block []json.RawMessage
	if r.cfg.Summarize != nil {
		var err error
		if block, err = r.compatSummary(ctx, src, pruned, &rep); err != nil {
			return Result{}, err
		}
	}
	res := Result{Pruned: src.copies(pruned), Changed: true}
	if len(r.cfg.Hooks) > 0 {
		if err := r.compatHooks(ctx, src, pruned, &res); err != nil {
			return Result{}, err
		}
	}
	rep.MessagesAfter = len(kept) + len(block)
	for _, i := range pruned {
		rep.TokensAfter -= c.cost(i)
	}
	for k, raw := range block {
		if c.tokens != nil {
			rep.TokensAfter += c.count(raw)
		}
		src.raws = append(src.raws[:len(raws)+k:len(raws)+k], raw)
		kept = append(kept[:first+k], append([]int{len(raws) + k}, kept[first+k:]...)...)
	}
	rep.OverBudget = c.over(rep.MessagesAfter, rep.TokensAfter)
	res.Messages, res.Report = src.write(kept), rep
	return res, nil
}

func (c *compatRun) over(messages, tokens int) bool {
	if c.cfg.MaxTokens != nil {
		return tokens > *c.cfg.MaxTokens
	}
	return messages > *c.cfg.MaxMessages
}

func (c *compatRun) start() int {
	if c.cfg.PruneFirst {
		return 0
	}
	return 1
}

func (c *compatRun) cost(i int) int {
	if c.tokens == nil {
		return 0
	}
	return c.tokens[i]
}

// window returns the end of the range in which messages are removed.
func (c *compatRun) window() (end int, trig Trigger) {
	n := len(c.raws)
	if c.cfg.MaxTokens != nil {
		return c.tokenWindow()
	}
	if c.cfg.MaxMessages == nil || n <= *c.cfg.MaxMessages {
		return 0, 0
	}
	end = n - c.cfg.MinMessages
	if end < 0 { // Python counts a negative bound from the end
		end = max(0, n+end)
	}
	return min(end, n), TooManyMessages
}

func (c *compatRun) tokenWindow() (end int, trig Trigger) {
	n := len(c.raws)
	c.tokens = make([]int, n)
	for i, raw := range c.raws {
		c.tokens[i] = c.count(raw)
		c.total += c.tokens[i]
	}
	if n == 0 || c.total <= *c.cfg.MaxTokens {
		return 0, 0
	}
	budget := c.cfg.TargetTokens
	if budget == 0 {
		budget = *c.cfg.MaxTokens
	}
	if !c.cfg.PruneFirst {
		budget -= c.tokens[0]
	}
	end = n
	for sum := 0; end > c.start(); end-- {
		if sum += c.tokens[end-1]; sum > budget {
			break
		}
	}
	return end, TooManyTokens
}

// mark marks the messages to be removed: those of the user and the assistant
// in the window, and the results of the calls among them wherever they are.
func (c *compatRun) mark(end int) error {
	firstCall := -1
	for i := c.start(); i < end; i++ {
		role, err := pythonRole(c.raws[i])
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		c.marked[i] = role == "human" || role == "ai"
	}
	if c.cfg.KeepToolResults {
		return nil
	}
	c.calls = map[string]int{}
	for i := c.start(); i < end; i++ {
		if role, _ := pythonRole(c.raws[i]); role != "ai" {
			continue
		}
		found, err := c.callsIn(i)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if found && firstCall < 0 {
			firstCall = i
		}
	}
	if firstCall < 0 {
		return nil
	}
	return c.cascade(firstCall)
}

// callsIn notes the first message that makes each call.
func (c *compatRun) callsIn(i int) (found bool, err error) {
	list := field(c.raws[i], "tool_calls")
	switch {
	case list == nil:
		return false, nil
	case list[0] != '[' && list[0] != '{' && list[0] != '"':
		return false, fmt.Errorf("%w: tool_calls is %s, which cannot be iterated", ErrCompat, list)
	}
	eachElement(list, func(call []byte) {
		id := field(call, "id")
		if id == nil || string(id) == "null" {
			return
		}
		found = true
		name := pythonKey(id)
		if _, ok := c.calls[name]; !ok {
			c.calls[name] = i
		}
	})
	return found, nil
}

func (c *compatRun) cascade(firstCall int) error {
	for j := firstCall + 1; j < len(c.raws); j++ {
		role, err := pythonRole(c.raws[j])
		if err != nil {
			return fmt.Errorf("message %d: %w", j, err)
		}
		if role != "tool" {
			continue
		}
		id := field(c.raws[j], "tool_call_id")
		if id == nil || string(id) == "null" {
			continue
		}
		if i, ok := c.calls[pythonKey(id)]; ok && i < j {
			c.marked[j] = true
		}
	}
	return nil
}

// split returns the indexes of survivors and removed messages, and how many
// survivors stand before the first removed one.
func (c *compatRun) split() (first int, kept, pruned []int) {
	for i, gone := range c.marked {
		switch {
		case gone:
			pruned = append(pruned, i)
		default:
			if len(pruned) == 0 {
				first++
			}
			kept = append(kept, i)
		}
	}
	return first, kept, pruned
}

func (r *Reducer) compatSummary(ctx context.Context, src *rawSource, pruned []int, rep *Report) ([]json.RawMessage, error) {
	all := make([]Message, len(pruned))
	for k, i := range pruned {
		all[k] = src.describe(i)
	}
	s, err := r.cfg.Summarize(ctx, all)
	if err != nil {
		rep.SummaryErr = err
		return nil, ctx.Err()
	}
	rep.Summary, rep.Summarized = s, true
	switch {
	case !r.cfg.Compat.InjectSummary:
		return nil, nil
	case r.cfg.Compat.SummaryMessages == nil:
		n := fmt.Sprintf("Here is the summary of previous %d messages: ", len(pruned))
		return []json.RawMessage{
			object(member{"role", quote("human")}, member{"content", quote(n + s)}),
			object(member{"role", quote("ai")}, member{"content", quote("OK")}),
		}, nil
	}
	block, err := r.cfg.Compat.SummaryMessages(s, len(pruned))
	if err != nil {
		return nil, fmt.Errorf("%w: SummaryMessages: %w", ErrCompat, err)
	}
	for k, raw := range block {
		if !json.Valid(raw) {
			return nil, fmt.Errorf("%w: SummaryMessages: message %d is no JSON: %.40q", ErrCompat, k, raw)
		}
	}
	return block, nil
}

// compatHooks delivers as the package does: at most once for each id.
func (r *Reducer) compatHooks(ctx context.Context, src *rawSource, pruned []int, res *Result) error {
	d := &Delivery{Namespace: r.namespace}
	batch := pruned
	if !r.cfg.Compat.AlwaysDeliver {
		var err error
		if batch, err = r.memory.fresh(src.raws, pruned, r.cfg.Compat.DedupeWindow); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	for _, i := range batch {
		m := src.describe(i)
		d.Messages = append(d.Messages, Delivered{Key: r.key(src, i, m), Message: m})
	}
	var failed []string
	for n, hook := range r.cfg.Hooks {
		if err := hook(ctx, d); err != nil {
			failed = append(failed, fmt.Sprintf("hook %d: %v", n, err))
		}
	}
	if failed != nil {
		res.HookErr = fmt.Errorf("%w: %s", ErrCompat, strings.Join(failed, "; "))
	}
	if r.cfg.Compat.AlwaysDeliver {
		res.Pruned = res.Pruned[:0]
		for _, m := range d.Messages {
			res.Pruned = append(res.Pruned, m.Raw)
		}
	}
	return nil
}

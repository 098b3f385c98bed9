package reducer

import (
	"context"
	"slices"
)

// A source is where a job's messages come from: raw JSON or typed values.
// Indexes go on from the input's messages to those that were added.
type source interface {
	history() *history
	inputs() int // how many messages came in
	describe(i int) Message
	add(a addition) []int
}

// An addition is a message that the reducer writes: a summary, the reply to
// it, or answers to calls.
type addition struct {
	role  Role
	text  string
	like  int   // index of the message whose dialect it takes; -1: none
	calls []key // for role Tool: what it answers
}

// A job is one strict reduction.
type job struct {
	r    *Reducer
	src  source
	n    int    // messages of the input
	seq  []int  // indexes of what is left after the repair
	gone []bool // by index: removed
	d    *draft
	rep  Report
}

// An outcome is what a job decided, as indexes of its source.
type outcome struct {
	kept, pruned []int
	changed      bool
	Report
}

func (r *Reducer) strict(ctx context.Context, src source) (outcome, error) {
	n := len(src.history().items)
	j := &job{r: r, src: src, n: n, gone: make([]bool, n)}
	j.rep.MessagesBefore = n
	for i := range n {
		j.rep.TokensBefore += src.history().items[i].tokens
		j.seq = append(j.seq, i)
	}
	j.rep.MessagesAfter, j.rep.TokensAfter = n, j.rep.TokensBefore
	if r.cfg.Repair != RepairOff {
		j.repair()
	}
	j.begin()
	set := load{r.cfg.MaxMessages, r.cfg.MaxTokens}
	j.rep.Trigger |= trigger(j.d.left, set)
	if j.rep.Trigger == 0 {
		return j.unchanged(), nil
	}
	return j.finish(ctx, set)
}

// begin makes the draft of what the repair left.
func (j *job) begin() {
	h := j.src.history()
	if len(j.rep.Fixes) > 0 {
		h = h.pick(j.seq)
	}
	j.d, _ = newDraft(h, j.r.cfg.PinSystem)
}

func trigger(l, limit load) (t Trigger) {
	if limit.messages > 0 && l.messages > limit.messages {
		t |= TooManyMessages
	}
	if limit.tokens > 0 && l.tokens > limit.tokens {
		t |= TooManyTokens
	}
	return t
}

func (j *job) unchanged() outcome { return outcome{Report: j.rep} }

// finish reduces to the goal, asks for the summary and tells the hooks.
func (j *job) finish(ctx context.Context, set load) (outcome, error) {
	before := j.rep
	goal := load{j.r.cfg.MinMessages, j.r.cfg.TargetTokens}
	var sum summary
	if j.rep.Trigger&^NeededRepair != 0 {
		var err error
		if sum, err = j.summarized(ctx, goal, set); err != nil {
			return outcome{}, err
		}
	}
	kept := j.result(sum)
	pruned := j.pruned(sum)
	if len(pruned) > 0 {
		if err := j.r.deliver(ctx, j.src, pruned); err != nil {
			if ctx.Err() != nil {
				return outcome{}, ctx.Err()
			}
			before.HookErr, before.Fixes = err, nil
			before.measure(load{before.MessagesBefore, before.TokensBefore}, goal, set)
			return outcome{Report: before}, nil
		}
	}
	size := load{messages: len(kept)}
	for _, i := range kept {
		size.tokens += j.src.history().items[i].tokens
	}
	j.rep.measure(size, goal, set)
	changed := len(pruned) > 0 || len(kept) != j.n
	return outcome{kept: kept, pruned: pruned, changed: changed, Report: j.rep}, nil
}

// measure notes the size of the result.
func (rep *Report) measure(size, goal, set load) {
	rep.MessagesAfter, rep.TokensAfter = size.messages, size.tokens
	if set.tokens == 0 {
		rep.TokensAfter = 0
	}
	rep.OverBudget = trigger(size, set) != 0
	rep.AboveGoal = rep.Trigger&^NeededRepair != 0 && size.over(goal, set)
}

// result returns the indexes of the new history, in order.
func (j *job) result(sum summary) []int {
	kept := make([]int, 0, len(j.seq))
	kept = append(kept, j.seq[:j.d.head]...)
	if sum.replaces {
		kept = append(kept, sum.messages...)
	} else {
		kept = append(kept, j.seq[j.d.head:j.d.head+j.d.block]...)
	}
	for _, g := range j.d.groups {
		if !g.dropped {
			kept = append(kept, j.seq[g.from:g.to]...)
		}
	}
	return kept
}

// pruned returns the indexes of what was removed from the input, in order.
func (j *job) pruned(sum summary) []int {
	if sum.replaces {
		for _, i := range j.seq[j.d.head : j.d.head+j.d.block] {
			j.lose(i)
		}
	}
	for _, g := range j.d.groups {
		if g.dropped {
			for _, i := range j.seq[g.from:g.to] {
				j.lose(i)
			}
		}
	}
	var out []int
	for i, gone := range j.gone {
		if gone {
			out = append(out, i)
		}
	}
	return out
}

func (j *job) lose(i int) {
	if i < j.n {
		j.gone[i] = true
	}
}

// pick returns the history of some of h's messages.
func (h *history) pick(seq []int) *history {
	items := make([]item, len(seq))
	for k, i := range seq {
		items[k] = h.items[i]
	}
	return &history{items: items, keys: h.keys}
}

// restore undoes what the limits removed; the repair stays.
func (j *job) restore() {
	for k := range j.d.groups {
		j.d.groups[k].dropped = false
	}
}

// dropped returns the indexes of the messages that the limits remove.
func (j *job) dropped() (out []int) {
	for _, g := range j.d.groups {
		if g.dropped {
			out = slices.Grow(out, g.to-g.from)
			out = append(out, j.seq[g.from:g.to]...)
		}
	}
	return out
}

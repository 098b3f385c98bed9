package reducer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// A summary stands in the history as ordinary text, because providers refuse
// fields that they do not know. Its first line marks it: how many messages it
// stands for and a checksum of the rest, which makes the same summary the same
// message and keeps a user's own words from being taken for one.
const (
	markStart = "[Summary of earlier messages, "
	markEnd   = "]\n"
	markLen   = len(markStart) + sumLen + len(markEnd)
	sumLen    = 16
	replyText = "Understood."
)

func mark(text string) string {
	sum := sha256.Sum256([]byte(text))
	return markStart + hex.EncodeToString(sum[:sumLen/2]) + markEnd + text
}

// unmark returns the summary in a marked message's text.
func unmark(s string) (string, bool) {
	if len(s) < markLen || !strings.HasPrefix(s, markStart) || mark(s[markLen:]) != s {
		return "", false
	}
	return s[markLen:], true
}

// isMarked reports whether a user message is a summary. Almost no message
// contains the mark, so only the bytes are looked at first.
func isMarked(f *fields, raw []byte) bool {
	if !bytes.Contains(raw, []byte(markStart)) {
		return false
	}
	_, ok := unmark(contentText(f))
	return ok
}

// isReply reports whether an assistant's message is the reply to a summary.
func isReply(f *fields, raw []byte) bool {
	return bytes.Contains(raw, []byte(replyText)) && contentText(f) == replyText
}

// summaryAt returns how many messages the summary at index i has, 0 if there
// is none.
func (h *history) summaryAt(i int) int {
	if i >= len(h.items) || !h.items[i].has(marked) {
		return 0
	}
	if i+1 < len(h.items) && h.items[i+1].has(reply) {
		return 2
	}
	return 1
}

// A summary is what stands for removed messages.
type summary struct {
	messages []int // indexes of its messages
	replaces bool  // they take the place of the old ones
}

// summarized removes what the limits demand and returns the summary of it.
func (j *job) summarized(ctx context.Context, goal, set load) (summary, error) {
	cfg := &j.r.cfg
	if cfg.Summarize == nil {
		if j.dropBlock(goal, set) {
			return summary{replaces: true}, nil
		}
		return summary{}, nil
	}
	room := load{2, cfg.SummaryTokens + j.replyCost()}
	old := j.d.h.load(j.d.head, j.d.head+j.d.block)
	target := load{goal.messages - room.messages + old.messages, goal.tokens - room.tokens + old.tokens}
	j.d.reduce(target, set)
	gone := j.dropped()
	if len(gone) == 0 {
		return summary{}, nil
	}
	text, err := j.r.summarize(ctx, j.src, j.seq[j.d.head:j.d.head+j.d.block], gone)
	switch {
	case err != nil && ctx.Err() != nil:
		return summary{}, ctx.Err()
	case err != nil:
		j.rep.SummaryErr = fmt.Errorf("reducer: summarize %d messages: %w", len(gone), err)
		if cfg.OnSummaryError == KeepMessages {
			j.restore()
		}
		return summary{}, nil
	}
	j.rep.Summary, j.rep.Summarized = text, true
	if text == "" {
		return summary{}, nil
	}
	return summary{messages: j.compose(text), replaces: true}, nil
}

// dropBlock reduces where nobody writes summaries: an old one is the oldest
// of what can go.
func (j *job) dropBlock(goal, set load) bool {
	gone := j.d.block > 0 && j.d.left.over(goal, set)
	if gone {
		l := j.d.h.load(j.d.head, j.d.head+j.d.block)
		j.d.left.messages -= l.messages
		j.d.left.tokens -= l.tokens
	}
	j.d.reduce(goal, set)
	return gone
}

// like returns the index of a message whose dialect a summary takes.
func (j *job) like() int {
	h := j.src.history()
	best := -1
	for _, i := range j.seq {
		if it := &h.items[i]; it.wireUser && i < j.n {
			return i
		} else if best < 0 && it.role != Other && it.role != System && i < j.n {
			best = i
		}
	}
	return best
}

func (j *job) replyCost() int {
	if j.r.cfg.MaxTokens == 0 {
		return 0
	}
	i := j.src.add(addition{role: Assistant, text: replyText, like: j.like()})
	return j.src.history().items[i[0]].tokens
}

// compose adds the messages of a summary: what the user would have said, cut
// to its budget, and a reply where the next message is the user's, so that the
// roles go on taking turns.
func (j *job) compose(text string) []int {
	like := j.like()
	try := func(s string) (messages []int, fits bool) {
		messages = j.src.add(addition{role: User, text: mark(s), like: like})
		return messages, cost(j.src, messages) <= j.r.cfg.SummaryTokens
	}
	best, fits := try(text)
	if !fits {
		best, _ = try("")
		for low, high := 0, len(text); high-low > 1; {
			mid := (low + high) / 2
			if next, fits := try(cut(text, mid)); fits {
				low, best = mid, next
			} else {
				high = mid
			}
		}
	}
	if j.userFirst() {
		best = append(best, j.src.add(addition{role: Assistant, text: replyText, like: like})...)
	}
	return best
}

// cut returns the first n bytes of s, without a part of a character.
func cut(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// userFirst reports whether the first message after the summary is the user's,
// but for system messages.
func (j *job) userFirst() bool {
	for _, g := range j.d.groups {
		if !g.dropped && !g.system {
			return g.opens
		}
	}
	return false
}

func cost(src source, messages []int) (sum int) {
	for _, i := range messages {
		sum += src.history().items[i].tokens
	}
	return sum
}

// summarize asks for the summary of messages, or remembers it.
func (r *Reducer) summarize(ctx context.Context, src source, old, gone []int) (string, error) {
	hash := sha256.New()
	all := make([]Message, 0, len(gone)+1)
	if len(old) > 0 {
		gone = append([]int{old[0]}, gone...) // without the reply to it
	}
	for _, i := range gone {
		m := src.describe(i)
		if m.Summary {
			m.Text, _ = unmark(m.Text)
		}
		all = append(all, m)
		fingerprint(hash, m)
	}
	var id [sha256.Size]byte
	hash.Sum(id[:0])
	if s, ok := r.memory.get(id); ok {
		return s, nil
	}
	s, err := r.cfg.Summarize(ctx, all)
	if err != nil {
		return "", err
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	r.memory.put(id, s)
	return s, nil
}

// memory remembers the newest summaries by what they are of, so that a history
// that is submitted again, because its save failed, costs no second call.
type memory struct {
	mu    sync.Mutex
	texts map[[sha256.Size]byte]string
	order [][sha256.Size]byte

	delivered map[string]bool // ids that mode Compat delivered, and their order
	ids       []string
}

const remembered = 256

func newMemory() *memory { return &memory{texts: map[[sha256.Size]byte]string{}} }

func (m *memory) get(id [sha256.Size]byte) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.texts[id]
	return s, ok
}

func (m *memory) put(id [sha256.Size]byte, s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.texts[id]; ok {
		return
	}
	if len(m.order) == remembered {
		delete(m.texts, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	m.texts[id] = s
	m.order = append(m.order, id)
}

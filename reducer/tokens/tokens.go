/*
Package tokens counts the tokens of messages as OpenAI's models do, for
reducers that have a limit in tokens:

	count, err := tokens.ForModel("gpt-4o")
	r, err := reducer.New(reducer.Config{MaxTokens: 100_000, CountTokens: count})

The vocabularies are part of the program, nothing is downloaded. For other
providers' models the count is an estimate, usually within a fifth.

A message is counted once: counts are remembered by the message's content, so
that a history that grows by a message costs the counting of one. Text that
looks like one of the special tokens is counted as text, as the API does.
*/
package tokens

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/weirflow/weir/reducer"
)

// ErrUnknown says that there is no vocabulary of that name.
var ErrUnknown = errors.New("tokens: unknown")

// An Encoding names a vocabulary.
type Encoding string

// The encodings: O200k is that of gpt-4o and all newer models, CL100k that of
// gpt-4 and gpt-3.5.
const (
	O200k  Encoding = "o200k_base"
	CL100k Encoding = "cl100k_base"
)

// New returns a counter for an encoding, safe for concurrent use. The first
// use of an encoding in a program takes some tens of milliseconds.
func New(e Encoding) (reducer.TokenCounter, error) {
	if e != O200k && e != CL100k {
		return nil, fmt.Errorf("%w: encoding %q: set O200k or CL100k", ErrUnknown, e)
	}
	codec, err := tokenizer.Get(tokenizer.Encoding(e))
	if err != nil {
		return nil, fmt.Errorf("%w: encoding %q: %w", ErrUnknown, e, err)
	}
	return counter(codec), nil
}

// ForModel returns a counter for one of OpenAI's models, by the name that its
// API has for it.
func ForModel(model string) (reducer.TokenCounter, error) {
	codec, err := tokenizer.ForModel(tokenizer.Model(model))
	if err != nil {
		return nil, fmt.Errorf("%w: model %q: use New with the encoding of a similar one", ErrUnknown, model)
	}
	return counter(codec), nil
}

func counter(codec tokenizer.Codec) reducer.TokenCounter {
	c := &cache{count: reducer.TokensBy(func(text string) int {
		n, err := codec.Count(text)
		if err != nil { // the splitter gave up on this text
			return (len(text) + 2) / 3
		}
		return n
	})}
	return c.tokens
}

// generation is how many counts a cache's newer half holds.
const generation = 8192

// A cache remembers counts by a hash of the message. It has two halves: when
// the newer is full, the older is forgotten. What is used is always in the newer.
type cache struct {
	count reducer.TokenCounter

	mu         sync.Mutex
	newer, old map[[16]byte]int
}

func (c *cache) tokens(message []byte) int {
	hash := sha256.Sum256(message)
	id := [16]byte(hash[:])
	if n, ok := c.get(id); ok {
		return n
	}
	n := c.count(message)
	c.put(id, n)
	return n
}

func (c *cache) get(id [16]byte) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.newer[id]
	if !ok {
		if n, ok = c.old[id]; ok {
			c.keep(id, n)
		}
	}
	return n, ok
}

func (c *cache) put(id [16]byte, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(id, n)
}

func (c *cache) keep(id [16]byte, n int) {
	if c.newer == nil || len(c.newer) >= generation {
		c.old, c.newer = c.newer, make(map[[16]byte]int)
	}
	c.newer[id] = n
}

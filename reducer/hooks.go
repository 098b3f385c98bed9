package reducer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
)

// A Hook is given messages that are about to be removed, for example to put
// them into long-term memory. In Strict every hook sees each message at least
// once before it is gone: an error keeps all the messages of this reduction
// and they are delivered again, to every hook, next time; so they are when the
// reduced history could not be saved. A hook tells repeats by Delivered.Key.
// Summaries that the reducer wrote are not delivered.
//
// It runs in the goroutine that reduces, with its context, and may keep and
// change what it is given. The caller of ReduceJSON waits for it.
type Hook func(ctx context.Context, d *Delivery) error

// A Delivery is what one reduction removes.
type Delivery struct {
	Namespace string // as given to Reducer.Scoped
	Messages  []Delivered
}

// A Delivered message has a Key that stays the same however often it is
// delivered and whichever process does it: a hash of the namespace, the message
// and, if it has no id, the message after it. So the key also tells apart two
// equal messages without id, unless what follows them is equal, too.
type Delivered struct {
	Key string
	Message
}

// deliver gives the messages to the hooks, to each its own copy.
func (r *Reducer) deliver(ctx context.Context, src source, gone []int) error {
	for n, hook := range r.cfg.Hooks {
		d := &Delivery{Namespace: r.namespace}
		for _, i := range gone {
			m := src.describe(i)
			if m.Summary || src.history().items[i].has(reply) && i > 0 && src.history().items[i-1].has(marked) {
				continue
			}
			d.Messages = append(d.Messages, Delivered{Key: r.key(src, i, m), Message: m})
		}
		if len(d.Messages) == 0 {
			return nil
		}
		if err := hook(ctx, d); err != nil {
			return fmt.Errorf("reducer: hook %d, %d messages: %w", n, len(d.Messages), err)
		}
	}
	return nil
}

func (r *Reducer) key(src source, i int, m Message) string {
	h := sha256.New()
	write(h, r.namespace)
	fingerprint(h, m)
	if next := i + 1; m.ID == "" && next < src.inputs() {
		fingerprint(h, src.describe(next))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fingerprint hashes all that is known of m.
func fingerprint(h hash.Hash, m Message) {
	if m.Raw != nil {
		write(h, string(m.Raw))
		return
	}
	write(h, m.Role.String())
	write(h, m.ID)
	write(h, m.Text)
	for _, list := range [][]string{m.Calls, m.Results} {
		write(h, strconv.Itoa(len(list)))
		for _, s := range list {
			write(h, s)
		}
	}
}

// write hashes s with its length, so that no two lists of strings look equal.
func write(h hash.Hash, s string) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(s)))
	h.Write(size[:])
	h.Write([]byte(s))
}

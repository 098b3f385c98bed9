package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Driver keeps records on a Redis or Valkey server, a cluster of them or a group watched by
// sentinels. It implements driver.Driver, driver.BatchPutter and driver.BatchDeleter, and is
// safe for concurrent use; any number of Drivers, in any number of processes, may use the
// same server and prefix.
type Driver struct {
	client   goredis.UniversalClient
	prefix   string
	inHash   int
	limits   driver.Limits
	retryFor time.Duration

	closeOwn func() error // once; nil for a client of the caller
}

// Get returns the record, or core.ErrNotFound.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	const doing = "read a record"
	keys := d.keys(k.Partition)
	var missed driver.Tag
	for range maxRereads {
		s, found, err := d.readHash(ctx, doing, keys.record(k.Sort), k.Sort)
		switch {
		case err != nil:
			return driver.Record{}, err
		case !found:
			return driver.Record{}, core.ErrNotFound
		case s.where == "":
			return s.Record, nil
		case s.Tag == missed:
			return driver.Record{}, payloadGone()
		}
		err = d.readPayload(ctx, doing, keys, &s)
		if err == nil {
			return s.Record, nil
		}
		if !errors.Is(err, goredis.Nil) {
			return driver.Record{}, err
		}
		missed = s.Tag // replaced, deleted or expired in between: the hash tells
	}
	return driver.Record{}, overtaken()
}

// maxRereads bounds how often a read begins again because a writer replaced the record.
const maxRereads = 100

func payloadGone() error {
	return corrupt("the payload of a record is gone, without which it is incomplete; see maxmemory-policy in the package documentation")
}

func overtaken() error {
	return fmt.Errorf("%w: redis: writers replaced the record %d times while it was read; try again", core.ErrUnavailable, maxRereads)
}

func (d *Driver) readHash(ctx context.Context, doing, key, sort string) (s stored, found bool, err error) {
	err = d.read(ctx, doing, func() error {
		values, err := d.client.HMGet(ctx, key, fields...).Result()
		if err != nil {
			return err
		}
		s, found, err = decode(sort, values)
		return err
	})
	return s, found, err
}

// readPayload adds the payload; goredis.Nil says that there is none under this tag.
func (d *Driver) readPayload(ctx context.Context, doing string, keys flowKeys, s *stored) error {
	return d.read(ctx, doing, func() error {
		b, err := d.client.Get(ctx, keys.payload(s.Tag)).Bytes()
		if err != nil {
			return err
		}
		return s.take(b)
	})
}

// Put writes the record in one atomic step if cond holds.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := driver.CheckSize(d, k, r); err != nil {
		return "", err
	}
	q, tag := d.put(k, r, cond)
	a, err := d.do(ctx, "write a record", q)
	if err != nil {
		return "", err
	}
	if a.status == replyConflict {
		return "", conflict(k.Sort, a)
	}
	return tag, nil
}

// put is the request of a Put. It is repeatable on a condition: a second attempt finds either
// its own tag or that the condition no longer holds.
func (d *Driver) put(k driver.Key, r driver.Record, cond driver.Condition) (*request, driver.Tag) {
	keys := d.keys(k.Partition)
	e := encode(r, keys.id, d.inHash)
	q := &request{script: putScript, keys: []string{keys.record(k.Sort)}, payload: e.payload, repeatable: cond != (driver.Condition{})}
	letters := ""
	name := func(letter, key string) {
		letters += letter
		q.keys = append(q.keys, key)
	}
	if k.Sort != "" {
		name("i", keys.index())
	}
	if e.payload != nil {
		q.at = keys.payload(e.tag)
		name("p", q.at)
	}
	how, want := "any", driver.Tag("")
	if cond.Absent() {
		how = "absent"
	} else if tag, ok := cond.Tag(); ok {
		how, want = "tag", tag
		if hasPayload(tag) {
			name("o", keys.payload(tag))
		}
	}
	q.args = append(make([]any, 0, 8+len(e.pairs)+len(e.absent)),
		letters, how, string(want), string(e.tag), e.expire, k.Sort, keys.payloads(), len(e.pairs)/2)
	q.args = append(append(q.args, e.pairs...), e.absent...)
	return q, e.tag
}

// conflict reports what is there instead, if that came with the refusal.
func conflict(sort string, a answer) error {
	s, found, err := decode(sort, a.values)
	switch {
	case err != nil:
		return err
	case !found:
		return &driver.ConflictError{Known: true, Sure: !a.lost}
	case s.where != "":
		return &driver.ConflictError{Sure: !a.lost}
	}
	return &driver.ConflictError{Known: true, Current: &s.Record, Sure: !a.lost}
}

// Delete removes the record in one atomic step if cond holds.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := d.do(ctx, "delete a record", d.delete(k, cond))
	if err == nil && a.status == replyConflict {
		return conflict(k.Sort, a)
	}
	return err
}

func (d *Driver) delete(k driver.Key, cond driver.Condition) *request {
	keys := d.keys(k.Partition)
	q := &request{script: deleteScript, keys: []string{keys.record(k.Sort)}}
	letters, how := "", "any"
	if k.Sort != "" {
		letters += "i"
		q.keys = append(q.keys, keys.index())
	}
	want, ok := cond.Tag()
	if ok {
		how = "tag"
		if hasPayload(want) {
			letters += "o"
			q.keys = append(q.keys, keys.payload(want))
		}
	}
	q.args = []any{letters, how, string(want), k.Sort, keys.payloads()}
	return q
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.limits }

// Close closes the client if the driver made it, from a URL. A client of the caller stays
// open.
func (d *Driver) Close() error {
	if d.closeOwn == nil {
		return nil
	}
	return d.closeOwn()
}

// closeOnce makes closing a client again no error.
func closeOnce(c goredis.UniversalClient) func() error {
	return sync.OnceValue(c.Close)
}

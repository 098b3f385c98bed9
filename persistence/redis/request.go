package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
)

//go:embed put.lua
var putSource string

//go:embed delete.lua
var deleteSource string

//go:embed prune.lua
var pruneSource string

var (
	putScript    = goredis.NewScript(putSource)
	deleteScript = goredis.NewScript(deleteSource)
	pruneScript  = goredis.NewScript(pruneSource)
)

// payloadLife is how long a payload lives that no record names yet: far longer than a write
// goes on trying, and short enough for what a killed process leaves behind.
const payloadLife = 15 * time.Minute

// request is one run of a script, with the payload that must be there first. Script and
// payload travel together, in one round trip.
type request struct {
	script  *goredis.Script
	keys    []string
	args    []any
	payload [][]byte
	at      string // the key of the payload

	// repeatable: carrying it out twice is as good as once, whoever writes in between.
	repeatable bool
}

// What a script answers.
const (
	replyOK       = "ok"
	replyConflict = "conflict" // followed by the values of fields
	replyMissing  = "missing"  // the payload is not there
)

// errPayloadMissing is a flip that was carried out without the SET before it: the slot moved
// between the two, or the memory was full.
var errPayloadMissing = fmt.Errorf("%w: redis: the payload was not stored", core.ErrUnavailable)

// once is a command that the client never sends a second time by itself once it may have been
// carried out, whatever its own settings: Weir decides about that.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

// command makes the call of the script, by its hash or with its text.
func (q *request) command(ctx context.Context, text bool) once {
	args := make([]any, 0, 3+len(q.keys)+len(q.args))
	if text {
		args = append(args, "eval", q.source())
	} else {
		args = append(args, "evalsha", q.script.Hash())
	}
	args = append(args, len(q.keys))
	for _, k := range q.keys {
		args = append(args, k)
	}
	return once{goredis.NewCmd(ctx, append(args, q.args...)...)}
}

func (q *request) source() string {
	switch q.script {
	case putScript:
		return putSource
	case deleteScript:
		return deleteSource
	}
	return pruneSource
}

// set makes the SET of the payload.
func (q *request) set(ctx context.Context) once {
	value := q.payload[0]
	for _, more := range q.payload[1:] {
		value = append(slices.Clip(value), more...)
	}
	return once{goredis.NewCmd(ctx, "set", q.at, value, "px", payloadLife.Milliseconds())}
}

// answer is what became of a request.
type answer struct {
	status string
	values []any // of fields, with a conflict
	lost   bool  // an attempt before the one that was answered may have been carried out
}

// do carries a request out, again and again while that can help, and at most for as long as
// the config allows. An error is ready for the caller.
func (d *Driver) do(ctx context.Context, doing string, q *request) (answer, error) {
	var a answer
	giveUp := time.Now().Add(d.retryFor)
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return a, unknown(a.lost, err)
		}
		reply, err := d.attempt(ctx, q)
		if err == nil {
			a.status, a.values, err = readReply(reply)
		}
		if err == nil {
			return a, nil
		}
		f := fault{again: errors.Is(err, errPayloadMissing)}
		if !isTyped(err) {
			f = judge(err)
		}
		a.lost = a.lost || f.lost
		if !f.again || f.lost && !q.repeatable || endedBy(ctx, err) != nil || !pause(ctx, attempt, giveUp) {
			return a, unknown(a.lost, failure(ctx, doing, err))
		}
	}
}

func unknown(lost bool, err error) error {
	if lost {
		return core.WithOutcomeUnknown(err)
	}
	return err
}

// attempt sends a request once. A server that does not know the script gets its text.
func (d *Driver) attempt(ctx context.Context, q *request) (any, error) {
	if q.payload == nil {
		return d.run(ctx, q, false)
	}
	set, flip := q.set(ctx), q.command(ctx, false)
	pipe := d.client.Pipeline()
	_, _ = pipe.Process(ctx, set), pipe.Process(ctx, flip)
	_, execErr := pipe.Exec(ctx)
	switch err := flip.Err(); {
	case isNoScript(err) && set.Err() == nil:
		return d.run(ctx, q, true)
	case isMissing(flip) && set.Err() != nil:
		return nil, set.Err() // says why
	case err == nil && execErr != nil && flip.Val() == nil:
		return nil, execErr
	default:
		return flip.Val(), err
	}
}

// run sends only the script, with its text or at first by its hash.
func (d *Driver) run(ctx context.Context, q *request, text bool) (any, error) {
	cmd := q.command(ctx, text)
	_ = d.client.Process(ctx, cmd)
	if !text && isNoScript(cmd.Err()) {
		cmd = q.command(ctx, true)
		_ = d.client.Process(ctx, cmd)
	}
	return cmd.Val(), cmd.Err()
}

func isNoScript(err error) bool { return err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") }

func isMissing(cmd once) bool {
	status, _, err := readReply(cmd.Val())
	return status == replyMissing && errors.Is(err, errPayloadMissing)
}

// readReply takes the answer of a script apart.
func readReply(reply any) (status string, values []any, err error) {
	parts, _ := reply.([]any)
	if len(parts) > 0 {
		status, _ = parts[0].(string)
	}
	switch {
	case status == replyOK && len(parts) == 1:
		return status, nil, nil
	case status == replyMissing:
		return status, nil, errPayloadMissing
	case status == replyConflict && len(parts) == 2:
		if values, ok := parts[1].([]any); ok {
			return status, values, nil
		}
	}
	return status, nil, fmt.Errorf("%w: redis: the server answers a script with %v", core.ErrUnsupported, reply)
}

// pause waits before the next attempt, longer each time. It reports false when there shall be
// none.
func pause(ctx context.Context, attempt int, giveUp time.Time) bool {
	const shortest, longest = 2 * time.Millisecond, 250 * time.Millisecond
	wait := min(shortest<<min(attempt, 10), longest)
	wait = wait/2 + rand.N(wait/2) // apart from the others who wait
	if time.Now().Add(wait).After(giveUp) {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// read carries out reads, again and again while that can help. fn returns the error of the
// client. An error of read is ready for the caller.
func (d *Driver) read(ctx context.Context, doing string, fn func() error) error {
	giveUp := time.Now().Add(d.retryFor)
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn()
		if err == nil || errors.Is(err, goredis.Nil) {
			return err
		}
		if isTyped(err) || !judge(err).again || endedBy(ctx, err) != nil || !pause(ctx, attempt, giveUp) {
			return failure(ctx, doing, err)
		}
	}
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
)

// fault is what an error of the client means.
type fault struct {
	sentinel error
	advice   string
	again    bool // the same request may succeed a little later
	lost     bool // the request may have been carried out
}

// judge classifies an error. What the server answered it has not carried out: scripts check
// everything before their first write.
func judge(err error) fault {
	var answer goredis.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault{sentinel: core.ErrUnavailable, lost: !errors.As(err, &op) || op.Op != "dial"}
	case errors.As(err, &answer):
		return judgeAnswer(answer.Error())
	case errors.Is(err, goredis.ErrClosed):
		return fault{sentinel: core.ErrUnavailable, advice: "the client was closed"}
	case errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return fault{sentinel: core.ErrUnavailable, advice: "all connections of the pool are in use; raise pool_size", again: true}
	case errors.As(err, &op) && op.Op == "dial":
		return fault{sentinel: core.ErrUnavailable, again: true}
	}
	return fault{sentinel: core.ErrUnavailable, again: true, lost: true}
}

// answers maps what an error reply begins with to its meaning; the first match counts.
var answers = []struct {
	prefix string
	fault  fault
}{
	{"NOAUTH", fault{sentinel: core.ErrDenied, advice: "the server wants a password"}},
	{"WRONGPASS", fault{sentinel: core.ErrDenied}},
	{"NOPERM", fault{sentinel: core.ErrDenied, advice: "see the package documentation for the permissions that the user needs"}},
	{"ERR invalid password", fault{sentinel: core.ErrDenied}},
	{"ERR AUTH", fault{sentinel: core.ErrDenied, advice: "the server has no password"}},
	{"LOADING", fault{sentinel: core.ErrUnavailable, again: true, advice: "the server is starting"}},
	{"READONLY", fault{sentinel: core.ErrUnavailable, again: true, advice: "this server is a replica; name the primary, a cluster or its sentinels"}},
	{"CLUSTERDOWN", fault{sentinel: core.ErrUnavailable, again: true}},
	{"MASTERDOWN", fault{sentinel: core.ErrUnavailable, again: true}},
	{"TRYAGAIN", fault{sentinel: core.ErrUnavailable, again: true, advice: "the slot is being moved"}},
	{"MOVED", fault{sentinel: core.ErrUnavailable, again: true, advice: "the server belongs to a cluster; use redis+cluster://"}},
	{"ASK", fault{sentinel: core.ErrUnavailable, again: true, advice: "the slot is being moved"}},
	{"NOREPLICAS", fault{sentinel: core.ErrUnavailable, again: true, advice: "fewer replicas than min-replicas-to-write are connected"}},
	{"BUSY", fault{sentinel: core.ErrUnavailable, again: true, advice: "a script blocks the server"}},
	{"ERR max number of clients", fault{sentinel: core.ErrUnavailable, again: true, advice: "raise maxclients, or lower pool_size"}},
	{"OOM", fault{sentinel: core.ErrUnavailable, advice: "nothing was written; raise maxmemory, or delete or expire flows"}},
	{"MISCONF", fault{sentinel: core.ErrUnavailable, advice: "nothing was written; the server cannot save to its disk"}},
	{"NOSCRIPT", fault{sentinel: core.ErrUnavailable, again: true}},
	{"WRONGTYPE", fault{sentinel: core.ErrCorrupt, advice: "another program uses keys with this prefix"}},
	{"CROSSSLOT", fault{sentinel: core.ErrUnsupported, advice: "the server, or a proxy before it, does not know hash tags"}},
	{"ERR unknown command", fault{sentinel: core.ErrUnsupported, advice: "Weir needs Redis 6.2, or Valkey, with Lua scripts"}},
}

func judgeAnswer(text string) fault {
	for _, a := range answers {
		if strings.HasPrefix(text, a.prefix) {
			return a.fault
		}
	}
	return fault{sentinel: core.ErrUnavailable}
}

// failure turns an error of the client into one that wraps a sentinel of package core and
// says what was being done. A context's error stays what it is.
func failure(ctx context.Context, doing string, err error) error {
	if err == nil || isTyped(err) {
		return err
	}
	if ended := endedBy(ctx, err); ended != nil {
		return fmt.Errorf("redis: %s: %w", doing, ended)
	}
	f := judge(err)
	if f.advice != "" {
		return fmt.Errorf("%w: redis: %s: %w; %s", f.sentinel, doing, err, f.advice)
	}
	return fmt.Errorf("%w: redis: %s: %w", f.sentinel, doing, err)
}

// endedBy returns the context's error if err is its doing: the client's deadline on the
// connection can fire a moment before the context's own.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if deadline, ok := ctx.Deadline(); ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func isTyped(err error) bool {
	for _, typed := range [...]error{
		core.ErrNotFound, core.ErrConflict, core.ErrTooLarge, core.ErrCorrupt,
		core.ErrUnavailable, core.ErrDenied, core.ErrUnsupported,
	} {
		if errors.Is(err, typed) {
			return true
		}
	}
	return false
}

func unsupported(what string) error { return fmt.Errorf("%w: redis: %s", core.ErrUnsupported, what) }

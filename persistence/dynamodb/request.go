package dynamodb

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/weirflow/weir/core"
)

// request is one request with all its attempts, those that the SDK makes included.
type request struct {
	action string // as IAM names it
	table  string
	write  bool
	// once forbids another attempt after one that may have been carried out: without a
	// condition it could undo what another writer did in between.
	once bool

	sent     bool  // an attempt left this process
	doubtful bool  // an attempt may have been carried out and was not answered
	lost     error // of that attempt
}

// maxTries bounds the attempts that the driver makes where the SDK makes none.
const maxTries = 6

// send carries out q by call, which gives watch to the SDK's method. Errors are typed, but
// for what refusal and isMissing look for.
func (d *Driver) send(ctx context.Context, q *request, call func(context.Context, func(*dynamodb.Options)) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	for try := 0; ; try++ {
		err := call(bounded, q.watch)
		if err == nil {
			return nil
		}
		if refused, _ := refusal(err); refused || isMissing(err) {
			return err
		}
		if try+1 < maxTries && meetsOthers(err) && pause(bounded, try) == nil {
			continue
		}
		return q.unknown(failure(ctx, q, err))
	}
}

// unknown marks err if an attempt may have been carried out.
func (q *request) unknown(err error) error {
	if q.doubtful {
		return core.WithOutcomeUnknown(err)
	}
	return err
}

// watch has the SDK tell of each attempt. It is the innermost step before the network, so
// that what fails before, such as getting credentials, was not sent.
func (q *request) watch(o *dynamodb.Options) {
	step := func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		out middleware.FinalizeOutput, md middleware.Metadata, err error,
	) {
		if q.once && q.doubtful {
			return out, md, q.lost // the SDK would repeat it; so it is not sent again
		}
		q.sent = true
		out, md, err = next.HandleFinalize(ctx, in)
		if err != nil && q.write && mayHaveHappened(err) {
			q.doubtful, q.lost = true, err
		}
		return out, md, err
	}
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Finalize.Add(middleware.FinalizeMiddlewareFunc("WeirAttempt", step), middleware.After)
	})
}

// mayHaveHappened reports whether an attempt that failed with err can have been carried out:
// not if the store refused it, nor if there was no connection.
func mayHaveHappened(err error) bool {
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		if status := resp.HTTPStatusCode(); status != 0 { // 0: there was no reply
			return status < 400 || status >= 500
		}
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial"
}

// pause waits a little, more and more, and in a different way for each of several writers.
func pause(ctx context.Context, try int) error {
	const shortest, longest = 25 * time.Millisecond, 2 * time.Second
	timer := time.NewTimer(rand.N(min(longest, shortest<<min(try, 10))) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

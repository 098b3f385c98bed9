package firestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirflow/weir/core"
)

// maxTries bounds how often a request is made, on top of what the SDK repeats by itself.
const maxTries = 6

// do makes a request of the SDK with a deadline, again if Firestore says so. Its errors are
// typed, and what was a refusal keeps its gRPC code (see code).
func (d *Driver) do(ctx context.Context, doing string, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var last error
	for try := range maxTries {
		err := fn(limited)
		if err == nil {
			return nil
		}
		last = withLast(err, last)
		if !isRetryable(code(err)) || !pause(limited, try) {
			break
		}
	}
	return d.failure(ctx, doing, last)
}

// withLast keeps what a deadline interrupted: it says more than the deadline.
func withLast(err, last error) error {
	if c := code(err); last == nil || c != codes.DeadlineExceeded && c != codes.Canceled {
		return err
	}
	return fmt.Errorf("%w; before that: %v", err, last) //nolint:errorlint // the code of err counts
}

// pause waits a little, more and more, or reports false when the context ends before.
func pause(ctx context.Context, try int) bool {
	const first, longest = 20 * time.Millisecond, time.Second
	wait := min(longest, first<<min(try, 10))
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// code returns the gRPC code of an error, also of a wrapped one.
func code(err error) codes.Code {
	var s interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil:
		return codes.OK
	case errors.As(err, &s):
		return s.GRPCStatus().Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.Unknown
}

func isRetryable(c codes.Code) bool {
	return c == codes.Aborted || c == codes.Unavailable || c == codes.ResourceExhausted
}

// isRefusal reports whether a condition of a write did not hold, for all that the code tells.
func isRefusal(c codes.Code) bool {
	return c == codes.AlreadyExists || c == codes.FailedPrecondition || c == codes.NotFound
}

// mayBeRefusal is isRefusal for a condition on the time of a document's last change: what is
// later than the document itself can be an invalid argument.
func mayBeRefusal(c codes.Code) bool { return isRefusal(c) || c == codes.InvalidArgument }

// isCertain reports whether Firestore itself has said that it did not carry out a request.
// ABORTED is none of these: the SDK may have sent it before, and lost the answer.
func isCertain(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.OutOfRange:
		return true
	}
	return isRefusal(c)
}

// unknown marks the error of a write that may have been carried out all the same.
func unknown(err error) error {
	if err == nil || isCertain(code(err)) {
		return err
	}
	return core.WithOutcomeUnknown(err)
}

// failure turns an error of the SDK into one that wraps a sentinel of package core, or the
// error of a context that ended.
func (d *Driver) failure(ctx context.Context, doing string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("firestore: %s: %w (%w)", doing, cause, err)
	}
	c := code(err)
	if deadline, ok := ctx.Deadline(); ok && c == codes.DeadlineExceeded && time.Until(deadline) < d.cfg.Timeout/2 {
		// The server counts too, and can be a moment before the context.
		return fmt.Errorf("firestore: %s: %w (%w)", doing, context.DeadlineExceeded, err)
	}
	advice, sentinel := classify(c)
	return fmt.Errorf("%w: firestore: %s: %w%s", sentinel, doing, err, advice)
}

// classify maps gRPC codes to sentinels.
func classify(c codes.Code) (advice string, sentinel error) {
	switch c {
	case codes.PermissionDenied:
		return "; the account needs datastore.entities.get, list, create, update and delete (role datastore.user)", core.ErrDenied
	case codes.Unauthenticated:
		return "; the client has no valid credentials", core.ErrDenied
	case codes.NotFound:
		return "; check the project and the database of the client", core.ErrUnsupported
	case codes.FailedPrecondition:
		return "; the database must be in Native mode", core.ErrUnsupported
	case codes.InvalidArgument, codes.Unimplemented, codes.OutOfRange, codes.AlreadyExists:
		return "", core.ErrUnsupported
	case codes.DataLoss:
		return "", core.ErrCorrupt
	}
	return "", core.ErrUnavailable
}

package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/weirflow/weir/core"
)

// refusal reports whether the condition of a write did not hold, and the item that the store
// returned with it: nil where there is none, or the store does not return it.
func refusal(err error) (refused bool, old item) {
	e, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !refused || len(e.Item) == 0 {
		return refused, nil
	}
	return true, e.Item
}

// isMissing reports whether the table does not exist, or not yet.
func isMissing(err error) bool {
	_, missing := errors.AsType[*types.ResourceNotFoundException](err)
	return missing
}

// meetsOthers reports whether err is a collision with a transaction or with another region,
// which the SDK does not try again.
func meetsOthers(err error) bool {
	switch code(err) {
	case "TransactionConflictException", "ReplicatedWriteConflictException":
		return true
	}
	return false
}

// code returns the store's name for err, or "" if it did not answer.
func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// denial returns what is wrong with the credentials or their permissions, which no retry
// cures, or "" for an error of another kind.
func denial(name string) string {
	switch name {
	case "AccessDeniedException", "AccessDenied", "NotAuthorizedException":
		return "allow it in the policy of the role or user"
	case "UnrecognizedClientException", "InvalidClientTokenId":
		return "the access key or token is not valid"
	case "InvalidSignatureException", "SignatureDoesNotMatch":
		return "the secret key is wrong, or the clock is"
	case "IncompleteSignatureException", "IncompleteSignature", "MissingAuthenticationTokenException", "MissingAuthenticationToken":
		return "the request was not signed"
	case "ExpiredTokenException", "ExpiredToken":
		return "the session's credentials have expired"
	case "OptInRequired", "SubscriptionRequiredException":
		return "the account or region is not enabled"
	}
	if strings.HasPrefix(name, "KMS") || strings.Contains(name, "InaccessibleEncryption") {
		return "the key of the table's encryption cannot be used"
	}
	return ""
}

// failure turns an error of the SDK into one that wraps a sentinel of package core and names
// action and table. A context's error stays what it is.
func failure(ctx context.Context, q *request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dynamodb: %s on table %s: %w", q.action, q.table, ctx.Err())
	}
	advice, sentinel := judge(q, err)
	if advice != "" {
		advice = "; " + advice
	}
	return fmt.Errorf("%w: dynamodb:%s on table %s: %w%s", sentinel, q.action, q.table, hide(err), advice)
}

// judge maps an error to an advice and a sentinel.
func judge(q *request, err error) (advice string, sentinel error) {
	name := code(err)
	if advice := denial(name); advice != "" {
		return advice, core.ErrDenied
	}
	switch name {
	case "":
		if !q.sent && strings.Contains(err.Error(), "credentials") {
			return "no credentials could be had", core.ErrDenied
		}
	case "ValidationException":
		if strings.Contains(err.Error(), "Item size") {
			return "nothing was written; the store counts more than Config.Limits allows", core.ErrTooLarge
		}
		return "does the table have the key that the package documentation describes?", core.ErrUnsupported
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return "the table is throttled; raise its throughput, or spread the writes", core.ErrUnavailable
	case "UnknownOperationException", "SerializationException":
		return "", core.ErrUnsupported
	}
	return "", core.ErrUnavailable
}

// hidden keeps the text of an error and hides a context's error in it: that of the driver's
// own time limit is not the caller's.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

func hide(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return hidden{err}
	}
	return err
}

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
	var e *types.ConditionalCheckFailedException
	if !errors.As(err, &e) {
		return false, nil
	}
	if len(e.Item) == 0 {
		return true, nil
	}
	return true, e.Item
}

// isMissing reports whether the table does not exist, or not yet.
func isMissing(err error) bool {
	var e *types.ResourceNotFoundException
	return errors.As(err, &e)
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
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// denials are the names of errors that no retry cures: the credentials are wrong, or do not
// allow the action.
var denials = map[string]string{
	"AccessDeniedException":               "allow it in the policy of the role or user",
	"AccessDenied":                        "allow it in the policy of the role or user",
	"NotAuthorizedException":              "allow it in the policy of the role or user",
	"UnrecognizedClientException":         "the access key or token is not valid",
	"InvalidClientTokenId":                "the access key is not valid",
	"InvalidSignatureException":           "the secret key is wrong, or the clock is",
	"SignatureDoesNotMatch":               "the secret key is wrong",
	"IncompleteSignatureException":        "the request was not signed in full",
	"IncompleteSignature":                 "the request was not signed in full",
	"MissingAuthenticationTokenException": "the request was not signed",
	"MissingAuthenticationToken":          "the request was not signed",
	"ExpiredTokenException":               "the session's credentials have expired",
	"ExpiredToken":                        "the session's credentials have expired",
	"OptInRequired":                       "the account has not opted in to the region",
	"SubscriptionRequiredException":       "the account has no subscription",
}

// failure turns an error of the SDK into one that wraps a sentinel of package core and names
// action and table. A context's error stays what it is.
func failure(ctx context.Context, q *request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dynamodb: %s on table %s: %w", q.action, q.table, ctx.Err())
	}
	sentinel, advice := judge(q, err)
	if advice != "" {
		advice = "; " + advice
	}
	return fmt.Errorf("%w: dynamodb:%s on table %s: %w%s", sentinel, q.action, q.table, hide(err), advice)
}

// judge maps an error to a sentinel and an advice.
func judge(q *request, err error) (sentinel error, advice string) {
	name := code(err)
	if advice, ok := denials[name]; ok {
		return core.ErrDenied, advice
	}
	switch name {
	case "":
		if !q.sent && strings.Contains(err.Error(), "credentials") {
			return core.ErrDenied, "no credentials could be had"
		}
		return core.ErrUnavailable, ""
	case "ValidationException":
		if strings.Contains(err.Error(), "Item size") {
			return core.ErrTooLarge, "nothing was written; the store counts more than Config.Limits allows"
		}
		return core.ErrUnsupported, "does the table have the key that the package documentation describes?"
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return core.ErrUnavailable, "the table is throttled; raise its throughput, or spread the writes"
	case "UnknownOperationException", "SerializationException":
		return core.ErrUnsupported, ""
	}
	if strings.HasPrefix(name, "KMS") || strings.Contains(name, "InaccessibleEncryption") {
		return core.ErrDenied, "the key of the table's encryption cannot be used"
	}
	return core.ErrUnavailable, ""
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

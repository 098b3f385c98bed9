package driver

import (
	"context"
	"iter"
)

// Pages yields what next reads page by page, for the iterators of a Driver. next returns a
// page and whether there may be another; no page is read before the loop has come to its end.
// An error, of next or of ctx, is yielded once, as the last pair.
func Pages[T any](ctx context.Context, next func(ctx context.Context) (page []T, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for more := true; more; {
			var page []T
			var err error
			if page, more, err = next(ctx); err != nil {
				yield(none, err)
				return
			}
			for _, v := range page {
				if err := ctx.Err(); err != nil {
					yield(none, err)
					return
				}
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

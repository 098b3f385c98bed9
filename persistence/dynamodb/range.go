package dynamodb

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/persistence/driver"
)

// Range yields siblings by strongly consistent Queries, a page of at most 1 MiB at a time.
// Keys alone cost as many read units. Siblings that are created in the loop beyond what was
// there when the second page was asked for are not yielded.
func (d *Driver) Range(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(driver.Record{}, err)
			return
		}
		if o.To != "" && o.From >= o.To {
			return
		}
		w := walk{d: d, p: p, o: o}
		driver.Pages(ctx, w.next)(yield)
	}
}

// walk is where a loop over Range has come to.
type walk struct {
	d     *Driver
	p     driver.Partition
	o     driver.RangeOptions
	start item   // the key that the next page follows
	edge  string // the last sort of what was there at the beginning; "" is not asked yet
}

// next reads one page, and whether there may be more.
func (w *walk) next(ctx context.Context) (page []driver.Record, more bool, err error) {
	out, err := w.query(ctx, w.o.Reverse, w.start, 0)
	if err != nil || out == nil {
		return nil, false, err
	}
	for _, it := range out.Items {
		sort, _ := textOf(it, siblingLayout.sort)
		if w.beyond(sort) {
			return page, false, nil
		}
		r, found, err := w.d.decode(w.p.Sibling(sort), it)
		if err != nil {
			return nil, false, err
		}
		if found && (w.o.To == "" || sort < w.o.To) { // BETWEEN includes both ends
			page = append(page, r)
		}
	}
	if len(out.LastEvaluatedKey) == 0 {
		return page, false, nil
	}
	w.start = out.LastEvaluatedKey
	if w.edge == "" {
		err = w.findEdge(ctx)
	}
	return page, w.edge != "", err
}

// beyond reports whether sort was not there at the beginning, as far as the edge tells.
func (w *walk) beyond(sort string) bool {
	switch {
	case w.edge == "":
		return false
	case w.o.Reverse:
		return sort < w.edge
	}
	return sort > w.edge
}

// findEdge asks for the last sibling there is now, so that a loop that adds siblings ahead of
// itself comes to an end.
func (w *walk) findEdge(ctx context.Context) error {
	out, err := w.query(ctx, !w.o.Reverse, nil, 1)
	if err != nil || out == nil || len(out.Items) == 0 {
		return err
	}
	w.edge, _ = textOf(out.Items[0], siblingLayout.sort)
	return nil
}

// query asks for one page; nil says that there is no table.
func (w *walk) query(ctx context.Context, reverse bool, start item, limit int32) (out *dynamodb.QueryOutput, err error) {
	t := w.d.siblings
	in := &dynamodb.QueryInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(!reverse), ExclusiveStartKey: start,
		KeyConditionExpression:    aws.String("#p = :p"),
		ExpressionAttributeNames:  map[string]string{"#p": t.partition},
		ExpressionAttributeValues: item{":p": text(string(w.p))},
	}
	w.bound(in)
	if limit > 0 {
		in.Limit = &limit
	}
	if w.o.KeysOnly || limit > 0 {
		in.ProjectionExpression = aws.String("#s, #t, #e")
		in.ExpressionAttributeNames["#s"], in.ExpressionAttributeNames["#t"], in.ExpressionAttributeNames["#e"] = t.sort, t.tag, t.expire
	}
	err = w.d.send(ctx, &request{action: "Query", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		var err error
		out, err = w.d.client.Query(ctx, in, watch)
		return err
	})
	if isMissing(err) {
		return nil, nil
	}
	return out, err
}

// bound adds the bounds to the key condition, which takes one comparison of the sort key.
func (w *walk) bound(in *dynamodb.QueryInput) {
	var how string
	switch {
	case w.o.From != "" && w.o.To != "":
		how = "#s BETWEEN :from AND :to"
	case w.o.From != "":
		how = "#s >= :from"
	case w.o.To != "":
		how = "#s < :to"
	default:
		return
	}
	*in.KeyConditionExpression += " AND " + how
	in.ExpressionAttributeNames["#s"] = siblingLayout.sort
	if w.o.From != "" {
		in.ExpressionAttributeValues[":from"] = text(w.o.From)
	}
	if w.o.To != "" {
		in.ExpressionAttributeValues[":to"] = text(w.o.To)
	}
}

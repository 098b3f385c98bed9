package dynamodb

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Driver keeps records in two tables of DynamoDB. It implements driver.Driver, driver.Sizer,
// driver.BatchPutter and driver.BatchDeleter, and is safe for concurrent use; any number of
// Drivers, in any number of processes, may use the same tables.
type Driver struct {
	cfg      Config
	client   *dynamodb.Client
	heads    *table
	siblings *table
	closeOwn func() // nil for a client of the caller
}

// Open returns a driver on the tables of cfg. It makes no request: a table that is missing
// is made by [Driver.Setup] or by the first write.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Driver{
		cfg: cfg, client: cfg.Client,
		heads:    &table{name: cfg.Table, layout: headLayout},
		siblings: &table{name: cfg.Table + recordsSuffix, layout: siblingLayout},
	}, nil
}

func (d *Driver) table(k driver.Key) *table {
	if k.Sort == "" {
		return d.heads
	}
	return d.siblings
}

// Get returns the record by one strongly consistent GetItem, or core.ErrNotFound. Without a
// table there are no records.
func (d *Driver) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	it, err := d.getItem(ctx, k)
	if err != nil {
		return driver.Record{}, err
	}
	r, found, err := d.decode(k, it)
	switch {
	case err != nil:
		return driver.Record{}, err
	case !found:
		return driver.Record{}, core.ErrNotFound
	}
	return r, nil
}

// getItem returns nil for an item, or a table, that does not exist.
func (d *Driver) getItem(ctx context.Context, k driver.Key) (item, error) {
	t := d.table(k)
	in := &dynamodb.GetItemInput{TableName: &t.name, Key: t.key(k), ConsistentRead: aws.Bool(true)}
	var it item
	err := d.send(ctx, &request{action: "GetItem", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		out, err := d.client.GetItem(ctx, in, watch)
		if err == nil {
			it = out.Item
		}
		return err
	})
	if isMissing(err) {
		return nil, nil
	}
	return it, err
}

// Put writes the record by one conditional PutItem. A tag of an item that another program
// wrote costs a GetItem before it, see guard.
func (d *Driver) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (driver.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := check(d, k, r); err != nil {
		return "", err
	}
	g, err := d.guard(ctx, k, cond)
	if err != nil {
		return "", err
	}
	t, tag := d.table(k), newTag()
	in := &dynamodb.PutItemInput{TableName: &t.name, Item: encode(k, r, tag)}
	if !g.empty() {
		in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = &g.text, g.names, g.values
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, onTag := cond.Tag()
	err = d.putItem(ctx, t, k, tag, in, !onTag)
	if isMissing(err) && onTag {
		return "", &driver.ConflictError{Known: true, Sure: true}
	}
	if err != nil {
		return "", err
	}
	if !r.ExpireAt.IsZero() {
		d.ensureTTL(ctx, t)
	}
	return tag, nil
}

// putItem sends in, and makes the table if it is missing and may be made.
func (d *Driver) putItem(ctx context.Context, t *table, k driver.Key, tag driver.Tag, in *dynamodb.PutItemInput, create bool) error {
	q := &request{action: "PutItem", table: t.name, write: true, once: in.ConditionExpression == nil}
	for try := 0; ; try++ {
		err := d.send(ctx, q, func(ctx context.Context, watch func(*dynamodb.Options)) error {
			_, err := d.client.PutItem(ctx, in, watch)
			return err
		})
		if refused, old := refusal(err); refused {
			return d.settle(ctx, k, tag, q, old)
		}
		if !isMissing(err) || !create || try == maxTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		if err := d.createTable(ctx, t); err != nil {
			return err
		}
	}
}

// settle decides after a refused condition. An earlier attempt whose reply was lost may be
// what refused the later one: then the item has the tag of this very write.
func (d *Driver) settle(ctx context.Context, k driver.Key, tag driver.Tag, q *request, old item) error {
	if old == nil && q.doubtful {
		// The store does not return the item with its refusal, or there is none.
		it, err := d.getItem(ctx, k)
		if err != nil {
			return core.WithOutcomeUnknown(err)
		}
		if tag != "" && tagOf(d.table(k), it) == tag {
			return nil
		}
		return &driver.ConflictError{}
	}
	if tag != "" && tagOf(d.table(k), old) == tag {
		return nil
	}
	return d.conflict(k, old, !q.doubtful)
}

// conflict is what a refusal says. Without an item nothing is known: it may be missing, or
// the store does not return it.
func (d *Driver) conflict(k driver.Key, old item, sure bool) error {
	if old == nil {
		return &driver.ConflictError{Sure: sure}
	}
	r, found, err := d.decode(k, old)
	switch {
	case err != nil:
		return err
	case !found:
		return &driver.ConflictError{Known: true, Sure: sure}
	}
	return &driver.ConflictError{Known: true, Current: &r, Sure: sure}
}

// Delete removes the record by one DeleteItem.
func (d *Driver) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := d.guard(ctx, k, cond)
	if err != nil {
		return err
	}
	t := d.table(k)
	in := &dynamodb.DeleteItemInput{TableName: &t.name, Key: t.key(k)}
	if !g.empty() {
		in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = &g.text, g.names, g.values
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	q := &request{action: "DeleteItem", table: t.name, write: true, once: g.empty()}
	err = d.send(ctx, q, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		_, err := d.client.DeleteItem(ctx, in, watch)
		return err
	})
	if refused, old := refusal(err); refused {
		return d.settle(ctx, k, "", q, old)
	}
	if isMissing(err) {
		if _, onTag := cond.Tag(); onTag {
			return &driver.ConflictError{Known: true, Sure: true}
		}
		return nil
	}
	return err
}

// Limits returns the configured limits.
func (d *Driver) Limits() driver.Limits { return d.cfg.Limits }

// Close ends the idle connections of a client that the driver made, from a URL. A client of
// the caller stays as it is.
func (d *Driver) Close() error {
	if d.closeOwn != nil {
		d.closeOwn()
	}
	return nil
}

// newTag returns a tag that no write has had before.
func newTag() driver.Tag { return driver.Tag(ownTag + strings.ToLower(rand.Text())) }

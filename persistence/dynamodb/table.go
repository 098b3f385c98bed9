package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
)

// table is one of the driver's two.
type table struct {
	layout

	name string
	// ttl says that nothing more is to be done about TTL: it is enabled, or cannot be.
	ttl atomic.Bool
}

// How long a table may take to become active, and how often it is asked.
const (
	createTimeout  = 5 * time.Minute
	shortestLookup = 50 * time.Millisecond
	longestLookup  = 5 * time.Second
)

// Setup makes both tables where they are missing, with on-demand billing, waits until they
// can be used, and enables TTL on them, also where they existed. A table with another key is
// core.ErrUnsupported. It needs the permissions to create, describe and change tables, so that
// the programs that use the tables do not; several processes may call it at once. Where TTL
// cannot be enabled, a warning says so; expired records are absent all the same.
func (d *Driver) Setup(ctx context.Context) error {
	for _, t := range [...]*table{d.heads, d.siblings} {
		desc, err := d.describe(ctx, t)
		switch {
		case isMissing(err):
			if err := d.createTable(ctx, t); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if !t.hasKey(desc.KeySchema) {
			return unsupported(fmt.Sprintf("the table %s has another key; name a table with the key that the package documentation describes, or none", t.name))
		}
		if desc.TableStatus == types.TableStatusCreating {
			if err := d.waitActive(ctx, t); err != nil {
				return err
			}
		}
		d.ensureTTL(ctx, t)
	}
	return nil
}

func (d *Driver) describe(ctx context.Context, t *table) (desc *types.TableDescription, err error) {
	err = d.send(ctx, &request{action: "DescribeTable", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.name}, watch)
		if err == nil {
			desc = out.Table
		}
		return err
	})
	return desc, err
}

// createTable makes t, or waits for another process that is making it.
func (d *Driver) createTable(ctx context.Context, t *table) error {
	in := &dynamodb.CreateTableInput{TableName: &t.name, BillingMode: types.BillingModePayPerRequest, KeySchema: t.keySchema()}
	for _, k := range in.KeySchema {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: k.AttributeName, AttributeType: types.ScalarAttributeTypeS})
	}
	q := &request{action: "CreateTable", table: t.name}
	err := d.send(ctx, q, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		_, err := d.client.CreateTable(ctx, in, watch)
		if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
			return nil // another process was first, or an earlier attempt
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := d.waitActive(ctx, t); err != nil {
		return err
	}
	d.ensureTTL(ctx, t)
	return nil
}

func (d *Driver) waitActive(ctx context.Context, t *table) error {
	waiter := dynamodb.NewTableExistsWaiter(d.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = shortestLookup, longestLookup
	})
	q := &request{action: "DescribeTable", table: t.name}
	err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &t.name}, createTimeout, func(o *dynamodb.TableExistsWaiterOptions) {
		o.ClientOptions = append(o.ClientOptions, q.watch)
	})
	if err != nil {
		return failure(ctx, q, fmt.Errorf("wait for the table: %w", err))
	}
	return nil
}

func (l layout) keySchema() []types.KeySchemaElement {
	keys := []types.KeySchemaElement{{AttributeName: aws.String(l.partition), KeyType: types.KeyTypeHash}}
	if l.sort != "" {
		keys = append(keys, types.KeySchemaElement{AttributeName: aws.String(l.sort), KeyType: types.KeyTypeRange})
	}
	return keys
}

func (l layout) hasKey(got []types.KeySchemaElement) bool {
	return slices.EqualFunc(got, l.keySchema(), func(a, b types.KeySchemaElement) bool {
		return aws.ToString(a.AttributeName) == aws.ToString(b.AttributeName) && a.KeyType == b.KeyType
	})
}

// ensureTTL enables TTL on t, once. It never fails what was done before it: without TTL an
// expired item takes room, and nothing else.
func (d *Driver) ensureTTL(ctx context.Context, t *table) {
	if !t.ttl.CompareAndSwap(false, true) {
		return
	}
	err := d.enableTTL(ctx, t)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		t.ttl.Store(false)
	default:
		d.cfg.Logger.WarnContext(ctx, "weir: TTL is not known to be enabled; expired items may stay in the table",
			"table", t.name, "attribute", attrTTL, "error", err)
	}
}

func (d *Driver) enableTTL(ctx context.Context, t *table) error {
	enabled, err := d.hasTTL(ctx, t)
	if enabled || err != nil {
		return err
	}
	in := &dynamodb.UpdateTimeToLiveInput{
		TableName:               &t.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	}
	err = d.send(ctx, &request{action: "UpdateTimeToLive", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		_, err := d.client.UpdateTimeToLive(ctx, in, watch)
		return err
	})
	// Another process may have been first; the second look tells, and verifies one's own.
	enabled, again := d.hasTTL(ctx, t)
	switch {
	case enabled || err != nil && again == nil && strings.Contains(err.Error(), "already enabled"):
		return nil
	case err != nil:
		return err
	case again != nil:
		return again
	}
	return fmt.Errorf("%w: dynamodb: TTL was enabled on table %s and is not", core.ErrUnavailable, t.name)
}

// hasTTL reports whether TTL is enabled, or being enabled, on our attribute.
func (d *Driver) hasTTL(ctx context.Context, t *table) (enabled bool, err error) {
	var desc *types.TimeToLiveDescription
	err = d.send(ctx, &request{action: "DescribeTimeToLive", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		out, err := d.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.name}, watch)
		if err == nil {
			desc = out.TimeToLiveDescription
		}
		return err
	})
	if err != nil || desc == nil {
		return false, err
	}
	switch desc.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if name := aws.ToString(desc.AttributeName); name != attrTTL {
			return false, unsupported(fmt.Sprintf("TTL of table %s is enabled on the attribute %q", t.name, name))
		}
		return true, nil
	}
	return false, nil
}

package backends_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// knownDifferences is where the emulators are not like the service, as far as the driver is
// concerned: all of these hold on DynamoDB. Each row is tried, so that it is either true or
// gets removed.
var knownDifferences = []struct {
	what           string
	dynalite, moto bool
	holds          func(t *testing.T, w *dynamoWeather) bool
}{
	{"a refused write returns the item (ALL_OLD)", false, true, returnsAllOld},
	{"TTL can be enabled", false, true, enablesTTL},
	{"texts count in bytes of UTF-8", false, true, countsBytes},
	{"an item may have 400 KiB", true, false, takesLargest},
	{"consumed units follow the size", true, false, countsUnits},
	{"a Scan is not in the order of keys", true, false, scansByHash},
	{"a batch of 26 is refused", true, false, refusesLargeBatch},
}

func TestDynamoKnownDifferences(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		w.setup(t)
		for _, d := range knownDifferences {
			want := d.dynalite
			if strings.Contains(w.server.name, "moto") {
				want = d.moto
			}
			got := d.holds(t, w)
			if got != want {
				t.Errorf("%s: %t on %s, the table says %t", d.what, got, w.server.version, want)
			}
			t.Logf("%-45s %t", d.what, got)
		}
	})
}

func (w *dynamoWeather) rawPut(t *testing.T, it dynamoItem) error {
	t.Helper()
	_, err := w.raw.PutItem(t.Context(), &awsdynamodb.PutItemInput{TableName: &w.table, Item: it})
	return err
}

func returnsAllOld(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	it := dynamoItem{"flow_uuid": s("a")}
	w.pythonSaves(t, it)
	_, err := w.raw.PutItem(t.Context(), &awsdynamodb.PutItemInput{
		TableName: &w.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(flow_uuid)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		t.Errorf("a condition that does not hold: %v", err)
	}
	return ok && len(refused.Item) > 0
}

func enablesTTL(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	out, err := w.raw.DescribeTimeToLive(t.Context(), &awsdynamodb.DescribeTimeToLiveInput{TableName: &w.table})
	return err == nil && out.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusEnabled
}

func countsBytes(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	return w.rawPut(t, dynamoItem{"flow_uuid": s("b"), "data": s(strings.Repeat("漢", 200_000))}) != nil
}

func takesLargest(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	it := dynamoItem{"flow_uuid": s("c"), "data": s(strings.Repeat("x", 400<<10-len("flow_uuid")-1-len("data")))}
	return w.rawPut(t, it) == nil
}

func countsUnits(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	out, err := w.raw.PutItem(t.Context(), &awsdynamodb.PutItemInput{
		TableName: &w.table, Item: dynamoItem{"flow_uuid": s("d"), "data": s(strings.Repeat("x", 4000))},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	return err == nil && aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) == 4
}

func scansByHash(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	for i := range 30 {
		w.pythonSaves(t, dynamoItem{"flow_uuid": s(fmt.Sprint("scan", i))})
	}
	var scanned []string
	for _, it := range scanDynamo(t, w.raw, w.table) {
		if id := it["flow_uuid"].(*types.AttributeValueMemberS).Value; strings.HasPrefix(id, "scan") {
			scanned = append(scanned, id)
		}
	}
	return !slices.IsSorted(scanned)
}

func refusesLargeBatch(t *testing.T, w *dynamoWeather) bool {
	t.Helper()
	var writes []types.WriteRequest
	for i := range 26 {
		writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: dynamoItem{"flow_uuid": s(fmt.Sprint(i))}}})
	}
	_, err := w.raw.BatchWriteItem(t.Context(), &awsdynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{w.table: writes}})
	return err != nil
}

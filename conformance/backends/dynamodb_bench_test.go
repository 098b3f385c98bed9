package backends_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/persistence/dynamodb"
)

// BenchmarkSaveAndLoadDynamo is one save and one load on dynalite: by the SDK's client alone,
// with Python's item of the same bytes; by the driver; and through the Store. It reports the
// requests, the consumed units and the sizes that a wire sees, for one save and load.
func BenchmarkSaveAndLoadDynamo(b *testing.B) {
	w := newDynamoWeather(b, dynalite(b))
	w.setup(b)
	d := w.open(b, dynamodb.Config{Client: dynamoClient(w.server.endpoint, w.wire)})
	for _, size := range []int{1 << 10, 64 << 10, 256 << 10} {
		state := chatState(size)
		for _, goroutines := range []int{1, 16} {
			name := fmt.Sprintf("%dKiB/g%d", size>>10, goroutines)
			b.Run(name+"/client", func(b *testing.B) { benchClient(b, w, state, goroutines) })
			b.Run(name+"/raw", func(b *testing.B) { w.counted(b, func() { benchRaw(b, d, state, goroutines) }) })
			b.Run(name+"/store", func(b *testing.B) { w.counted(b, func() { benchStore(b, d, state, goroutines) }) })
		}
	}
}

// counted reports what the wire saw for each operation.
func (w *dynamoWeather) counted(b *testing.B, bench func()) {
	b.Helper()
	w.wire.set(nil)
	bench()
	w.wire.mu.Lock()
	defer w.wire.mu.Unlock()
	requests := 0
	for _, n := range w.wire.counts {
		requests += n
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
	b.ReportMetric(w.wire.units["PutItem"]/float64(b.N), "WCU/op")
	b.ReportMetric(w.wire.units["GetItem"]/float64(b.N), "RCU/op")
}

func benchClient(b *testing.B, w *dynamoWeather, state string, goroutines int) {
	b.Helper()
	client := dynamoClient(w.server.endpoint, w.wire)
	b.SetBytes(int64(len(state)))
	w.counted(b, func() {
		parallel(b, goroutines, func(ctx context.Context, id string, n uint64) error {
			it := pythonItem(id, fmt.Sprintf(state, n), pythonTime)
			if _, err := client.PutItem(ctx, &awsdynamodb.PutItemInput{TableName: &w.table, Item: it}); err != nil {
				return err
			}
			key := dynamoItem{"flow_uuid": it["flow_uuid"]}
			_, err := client.GetItem(ctx, &awsdynamodb.GetItemInput{TableName: &w.table, Key: key, ConsistentRead: aws.Bool(true)})
			return err
		})
	})
}

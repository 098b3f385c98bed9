package backends_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/dynamodb"
)

// In steps of one byte around 400 KiB the driver refuses exactly what dynalite would: with
// both numbers, and without a request.
func TestDynamoSizeByTheByte(t *testing.T) {
	w := newDynamoWeather(t, dynalite(t))
	w.setup(t)
	const limit = 400 << 10
	p := driver.Partition("f") // in ASCII: dynalite counts characters
	grow := map[string]func(k driver.Key, n int) driver.Record{
		"state": func(_ driver.Key, n int) driver.Record {
			return driver.Record{State: bytes.Repeat([]byte("s"), n), Method: "m", Data: []byte{}}
		},
		"data of a head": func(_ driver.Key, n int) driver.Record { return driver.Record{Data: make([]byte, n)} },
	}
	for name, record := range grow {
		k := p.Head()
		most := limit - driver.Size(w.direct, k, record(k, 0))
		for n := most - 3; n <= most+3; n++ {
			w.wire.set(nil)
			_, err := w.driver.Put(t.Context(), k, record(k, n), driver.Condition{})
			var size *core.SizeError
			switch {
			case n <= most && err != nil:
				t.Errorf("%s: %d bytes below the limit: %v", name, most-n, err)
			case n > most && (!errors.As(err, &size) || size.Limit != limit || size.Size != int64(limit+n-most)):
				t.Errorf("%s: %d bytes over the limit: %v", name, n-most, err)
			case n > most && w.wire.count() != "":
				t.Errorf("%s: what is too large was sent: %s", name, w.wire.count())
			}
		}
		// What is stored now has exactly the limit; one byte more is refused by the server too.
		it := w.rawItem(t, string(p))
		method := it["method_name"].(*types.AttributeValueMemberS).Value
		w.pythonSaves(t, it)
		_, err := w.raw.PutItem(t.Context(), &awsdynamodb.PutItemInput{TableName: &w.table, Item: with(it, "method_name", s(method+"x"))})
		var refused smithy.APIError
		if !errors.As(err, &refused) || !strings.Contains(refused.ErrorMessage(), "Item size") {
			t.Errorf("%s: the server takes more than the driver: %v", name, err)
		}
	}
	k := p.Sibling("seg/x")
	most := limit - driver.Size(w.direct, k, driver.Record{})
	for _, at := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if _, err := w.direct.Put(t.Context(), k, driver.Record{Data: make([]byte, most), ExpireAt: at}, driver.Condition{}); err != nil {
			t.Errorf("the largest sibling, expiring at %v: %v", at, err)
		}
	}
	_, err := w.direct.Put(t.Context(), k, driver.Record{Data: make([]byte, most+1)}, driver.Condition{})
	wantSentinel(t, "a sibling over the limit", err, core.ErrTooLarge)
}

// Texts count in bytes of UTF-8, whatever the emulators count.
func TestDynamoSizeInBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		k := driver.Partition("f").Head()
		for _, unit := range []string{"漢", "😀", "é"} {
			limit := w.direct.Limits().Record
			n := limit/len(unit) + 1
			_, err := w.direct.Put(t.Context(), k, driver.Record{State: []byte(`"` + strings.Repeat(unit, n) + `"`)}, driver.Condition{})
			wantSentinel(t, fmt.Sprintf("%d characters of %d bytes", n, len(unit)), err, core.ErrTooLarge)
			state := fmt.Appendf(nil, `{"x":"%s","y":%s}`, strings.Repeat(unit, n), noise(limit))
			if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: unit, State: state, SavedAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
			got, err := store.LoadState(t.Context(), unit)
			if err != nil || !bytes.Equal(got.State, state) {
				t.Errorf("a state of %d bytes with %q comes back changed: %v", len(state), unit, err)
			}
		}
	})
}

// What a save costs: one request, and the units of its size.
func TestDynamoCost(t *testing.T) {
	w := newDynamoWeather(t, dynalite(t))
	w.setup(t)
	store := persistence.New(w.driver)
	for _, size := range []int{100, 1 << 10, 10 << 10, 100 << 10, 300 << 10} {
		id := fmt.Sprint("f", size)
		if _, err := store.SaveState(t.Context(), chatSave(id, 1, size)); err != nil {
			t.Fatal(err)
		}
		w.wire.set(nil)
		if _, err := store.SaveState(t.Context(), chatSave(id, 2, size)); err != nil {
			t.Fatal(err)
		}
		w.wantCount(t, "a save", "PutItem 1")
		r := w.get(t, id)
		bytes := driver.Size(w.direct, driver.Partition(id).Head(), r)
		if got, want := w.wire.units["PutItem"], math.Ceil(float64(bytes)/1024); got != want {
			t.Errorf("a save of %d bytes consumed %v write units, want %v", bytes, got, want)
		}
		wcu := w.wire.units["PutItem"]
		w.wire.set(nil)
		if _, err := store.LoadState(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.wantCount(t, "a load", "GetItem 1")
		if got, want := w.wire.units["GetItem"], math.Ceil(float64(bytes)/4096); got != want {
			t.Errorf("a load of %d bytes consumed %v read units, want %v", bytes, got, want)
		}
		t.Logf("state %7d bytes, item %7d: a save PutItem 1, %v WCU; a load GetItem 1, %v RCU", size, bytes, wcu, w.wire.units["GetItem"])
	}
}

// A Query ends after 1 MiB: Range goes on with the next, in both directions.
func TestDynamoRangeFollowsPages(t *testing.T) {
	w := newDynamoWeather(t, dynalite(t))
	w.setup(t)
	p, data := driver.Partition("f"), bytes.Repeat([]byte("x"), 300<<10)
	var sorts []string
	for n := range 8 {
		sorts = append(sorts, fmt.Sprintf("seg/%02d", n))
		w.put(t, p.Sibling(sorts[n]), driver.Record{Data: data}, driver.IfAbsent())
	}
	for name, c := range map[string]struct {
		o    driver.RangeOptions
		want []string
	}{
		"all":        {driver.RangeOptions{}, sorts},
		"keys":       {driver.RangeOptions{KeysOnly: true}, sorts},
		"in between": {driver.RangeOptions{From: sorts[1], To: sorts[7]}, sorts[1:7]},
	} {
		for _, reverse := range []bool{false, true} {
			w.wire.set(nil)
			want := slices.Clone(c.want)
			if c.o.Reverse = reverse; reverse {
				slices.Reverse(want)
			}
			var got []string
			for r, err := range w.driver.Range(t.Context(), p, c.o) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, r.Sort); !c.o.KeysOnly && !bytes.Equal(r.Data, data) {
					t.Errorf("%s: %s came back with %d bytes", name, r.Sort, len(r.Data))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, reverse %t: %q, want %q", name, reverse, got, want)
			}
			if requests := w.wire.count(); requests == "Query 1" {
				t.Errorf("%s, reverse %t: there was one page; the test has shown nothing", name, reverse)
			}
		}
	}
}

func TestDynamoTTL(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		_, err := w.raw.CreateTable(t.Context(), &awsdynamodb.CreateTableInput{
			TableName: &w.table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("flow_uuid"), AttributeType: "S"}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("flow_uuid"), KeyType: "HASH"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		// An existing table, as Python leaves it, and one that is made: a save that expires,
		// with segments.
		store := persistence.New(w.driver, persistence.WithTTL(time.Hour))
		for range 2 {
			if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: noise(500_000), SavedAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		wantWarnings := 0
		if strings.Contains(w.server.name, "dynalite") {
			wantWarnings = 2 // it has no UpdateTimeToLive
		}
		if got := strings.Count(w.log.String(), "level=WARN"); got != wantWarnings {
			t.Errorf("%d warnings, want %d: %s", got, wantWarnings, w.log)
		}
		for _, table := range []string{w.table, w.table + "_records"} {
			out, err := w.raw.DescribeTimeToLive(t.Context(), &awsdynamodb.DescribeTimeToLiveInput{TableName: &table})
			if err != nil {
				t.Fatal(err)
			}
			if d := out.TimeToLiveDescription; wantWarnings == 0 && (d.TimeToLiveStatus != "ENABLED" || aws.ToString(d.AttributeName) != "ttl") {
				t.Errorf("TTL of %s is %s on %q", table, d.TimeToLiveStatus, aws.ToString(d.AttributeName))
			}
		}
		checkDynamoDump(t, w.raw)
		if err := w.direct.Setup(t.Context()); err != nil {
			t.Errorf("Setup of tables that are there: %v", err)
		}
		strange, err := dynamodb.Open(t.Context(), dynamodb.Config{Client: w.raw, Table: w.table + "_records", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		wantSentinel(t, "Setup of a table with another key", strange.Setup(t.Context()), core.ErrUnsupported)
		_, err = strange.Put(t.Context(), driver.Partition("f").Head(), head(1), driver.Condition{})
		wantSentinel(t, "Put to a table with another key", err, core.ErrUnsupported)
	})
}

// A flow that grows, shrinks and is deleted leaves nothing.
func TestDynamoLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		for n, size := range []int{10, 900_000, 2_000_000, 500_000, 10} {
			if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: noise(size + n), SavedAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		heads, siblings := scanDynamo(t, w.raw, w.table), scanDynamo(t, w.raw, w.table+"_records")
		if len(heads) != 1 || len(siblings) != 0 {
			t.Errorf("after growing and shrinking there are %d heads and %d siblings, want 1 and 0", len(heads), len(siblings))
		}
		if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: noise(900_000), SavedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
		heads, siblings = scanDynamo(t, w.raw, w.table), scanDynamo(t, w.raw, w.table+"_records")
		if len(heads)+len(siblings) != 0 {
			t.Errorf("after Delete there are %d heads and %d siblings", len(heads), len(siblings))
		}
	})
}

func scanDynamo(t testing.TB, raw *awsdynamodb.Client, table string) (items []dynamoItem) {
	t.Helper()
	pages := awsdynamodb.NewScanPaginator(raw, &awsdynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, page.Items...)
	}
	return items
}

// checkDynamoDump demands that all tables of the server hold documented attributes only.
func checkDynamoDump(t *testing.T, raw *awsdynamodb.Client) {
	t.Helper()
	pages, n := awsdynamodb.NewListTablesPaginator(raw, &awsdynamodb.ListTablesInput{}), 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range page.TableNames {
			for _, it := range scanDynamo(t, raw, table) {
				n++
				if err := wellFormed(it, strings.HasSuffix(table, "_records")); err != nil {
					t.Errorf("table %s: %v", table, err)
				}
			}
		}
	}
	if n == 0 {
		t.Error("the dump is empty; did the suite write anything?")
	}
	t.Logf("%d items", n)
}

func wellFormed(it dynamoItem, sibling bool) error {
	kinds := map[string]string{
		"flow_uuid": "S!", "method_name": "S!", "saved_at": "S!", "data": "S", "ttl": "N",
		"weir_tag": "S!", "weir_data": "B", "weir_expire_at": "N",
	}
	expire := "weir_expire_at"
	if sibling {
		kinds = map[string]string{"pk": "S!", "sk": "S!", "tag": "S!", "data": "B", "expire_at": "N", "ttl": "N"}
		expire = "expire_at"
	}
	for name, v := range it {
		if kind := strings.TrimPrefix(fmt.Sprintf("%T", v), "*types.AttributeValueMember"); strings.TrimSuffix(kinds[name], "!") != kind {
			return fmt.Errorf("the attribute %s of type %s is not documented", name, kind)
		}
	}
	var missing []string
	for name, kind := range kinds {
		if it[name] == nil && strings.HasSuffix(kind, "!") {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the attributes %q are missing", missing)
	}
	var ms, sec int64
	if v, ok := it[expire].(*types.AttributeValueMemberN); ok {
		_, _ = fmt.Sscan(v.Value, &ms)
		_, _ = fmt.Sscan(it["ttl"].(*types.AttributeValueMemberN).Value, &sec)
	}
	if sec*1000 < ms || sec*1000-ms >= 1000 {
		return fmt.Errorf("it expires at %d ms, and the store deletes it at %d s", ms, sec)
	}
	return nil
}

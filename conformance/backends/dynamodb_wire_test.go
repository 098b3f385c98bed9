package backends_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/dynamodb"
)

// What a plan can make of a request, besides an error of the service by its name.
const (
	passOn  = ""
	lost    = "lost"    // carried out, and the reply thrown away
	partial = "partial" // of a batch, half is carried out, the rest left unprocessed
	idle    = "idle"    // of a batch, nothing is carried out
	unsent  = "unsent"  // no connection could be made
)

// wire is the HTTP layer below the SDK: it counts requests, and does to them what a plan
// says, which sees the operation and how many of it there were before.
type wire struct {
	base http.RoundTripper

	mu     sync.Mutex
	plan   func(op string, n int) string
	counts map[string]int
	units  map[string]float64 // consumed, by operation
}

func newWire(t testing.TB) *wire {
	t.Helper()
	base := dynamoTransport()
	t.Cleanup(base.CloseIdleConnections)
	return &wire{base: base, counts: map[string]int{}, units: map[string]float64{}}
}

// set puts a new plan in place and forgets what was counted.
func (w *wire) set(plan func(op string, n int) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.counts, w.units = plan, map[string]int{}, map[string]float64{}
}

// only returns a plan for the first times requests of one operation.
func only(op string, times int, what string) func(string, int) string {
	return func(o string, n int) string {
		if o == op && n < times {
			return what
		}
		return passOn
	}
}

// count returns how many requests there were since set, as "GetItem 1, PutItem 2".
func (w *wire) count() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, op := range []string{
		"BatchGetItem", "BatchWriteItem", "CreateTable", "DeleteItem", "DescribeTable", "DescribeTimeToLive",
		"GetItem", "PutItem", "Query", "Scan", "UpdateTimeToLive",
	} {
		if n := w.counts[op]; n > 0 {
			out = append(out, fmt.Sprint(op, " ", n))
		}
	}
	return strings.Join(out, ", ")
}

func (w *wire) next(op string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.counts[op]
	w.counts[op]++
	if w.plan == nil {
		return passOn
	}
	return w.plan(op, n)
}

// RoundTrip carries out one request, or does not.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch what := w.next(op); what {
	case passOn:
		return w.pass(r, op)
	case lost:
		resp, err := w.base.RoundTrip(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	case unsent:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("injected")}
	case partial, idle:
		return w.half(r, op, what == partial)
	default:
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return answer(r, what)
	}
}

// pass also asks for the consumed units, and adds them up.
func (w *wire) pass(r *http.Request, op string) (*http.Response, error) {
	body := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	if strings.HasSuffix(op, "Item") || op == "Query" || op == "Scan" {
		body["ReturnConsumedCapacity"] = "TOTAL"
	}
	resp, err := w.base.RoundTrip(withBody(r, body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var consumed struct{ ConsumedCapacity json.RawMessage }
	if json.Unmarshal(text, &consumed) == nil && len(consumed.ConsumedCapacity) > 0 {
		var one struct{ CapacityUnits float64 }
		var many []struct{ CapacityUnits float64 }
		_, _ = json.Unmarshal(consumed.ConsumedCapacity, &one), json.Unmarshal(consumed.ConsumedCapacity, &many)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.units[op] += one.CapacityUnits
		for _, m := range many {
			w.units[op] += m.CapacityUnits
		}
	}
	return resp, err
}

func withBody(r *http.Request, body any) *http.Request {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it was JSON before
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return r
}

// half carries out half of a batch on one table and returns the rest as unprocessed.
func (w *wire) half(r *http.Request, op string, some bool) (*http.Response, error) {
	var body struct{ RequestItems map[string]json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	do, rest, field := map[string]any{}, map[string]any{}, "UnprocessedItems"
	for table, raw := range body.RequestItems {
		if op == "BatchWriteItem" {
			var items []any
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, err
			}
			do[table], rest[table] = items[:(len(items)+1)/2], items[(len(items)+1)/2:]
			continue
		}
		field = "UnprocessedKeys"
		first, second := map[string]any{}, map[string]any{}
		if err := errors.Join(json.Unmarshal(raw, &first), json.Unmarshal(raw, &second)); err != nil {
			return nil, err
		}
		keys := first["Keys"].([]any)
		first["Keys"], second["Keys"] = keys[:(len(keys)+1)/2], keys[(len(keys)+1)/2:]
		do[table], rest[table] = first, second
	}
	reply := map[string]any{}
	if some {
		resp, err := w.base.RoundTrip(withBody(r, map[string]any{"RequestItems": do}))
		if err != nil || resp.StatusCode != http.StatusOK {
			return resp, err
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
			return nil, err
		}
		reply[field] = rest
	} else {
		reply[field] = body.RequestItems
	}
	return respond(r, http.StatusOK, reply)
}

// answer is an error of the service by its name.
func answer(r *http.Request, name string) (*http.Response, error) {
	status := http.StatusBadRequest
	if name == "InternalServerError" || name == "ServiceUnavailable" {
		status = http.StatusInternalServerError
	}
	return respond(r, status, map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + name, "message": "injected " + name})
}

func respond(r *http.Request, status int, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{
			"Content-Type": {"application/x-amz-json-1.0"},
			"X-Amz-Crc32":  {strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10)}, // the SDK checks it
		},
		ContentLength: int64(len(text)), Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}

// dynamoWeather is an emulator, a wire to it that can be disturbed, and drivers at both ends.
type dynamoWeather struct {
	server dynamoServer
	table  string
	wire   *wire
	raw    *awsdynamodb.Client // undisturbed
	direct *dynamodb.Driver
	driver *dynamodb.Driver // over the wire
	log    *bytes.Buffer    // of driver
}

// onBoth runs a test on each emulator.
func onBoth(t *testing.T, f func(t *testing.T, w *dynamoWeather)) {
	t.Helper()
	for _, start := range []func(testing.TB) dynamoServer{dynalite, moto} {
		s := start(t)
		t.Run(strings.TrimPrefix(s.name, "dynamodb "), func(t *testing.T) { f(t, newDynamoWeather(t, s)) })
	}
}

func newDynamoWeather(t testing.TB, s dynamoServer) *dynamoWeather {
	t.Helper()
	w := &dynamoWeather{server: s, table: "weather", wire: newWire(t), log: &bytes.Buffer{}}
	straight := dynamoTransport()
	t.Cleanup(straight.CloseIdleConnections)
	w.raw = dynamoClient(s.endpoint, straight)
	w.direct = w.open(t, dynamodb.Config{Client: w.raw})
	w.driver = w.open(t, dynamodb.Config{Client: dynamoClient(s.endpoint, w.wire), Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	return w
}

// open opens a driver on the table of w.
func (w *dynamoWeather) open(t testing.TB, cfg dynamodb.Config) *dynamodb.Driver {
	t.Helper()
	cfg.Table, cfg.Limits = w.table, w.server.limits
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := dynamodb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// chatSave is a state of about size bytes, the n-th of a flow.
func chatSave(id string, n, size int) core.Snapshot {
	state := fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, strings.Repeat("x", size))
	return core.Snapshot{FlowID: id, Method: "answer", State: state, SavedAt: time.Now()}
}

func wantSentinel(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want an error that wraps %q", what, err, target)
	}
}

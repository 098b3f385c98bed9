package dynamodb

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// roundTrip is the network of a client in a test.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func client(credentials aws.CredentialsProviderFunc, network roundTrip) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), Credentials: credentials,
		HTTPClient: &http.Client{Transport: network}, RetryMaxAttempts: 1,
	})
}

func TestConfigRefused(t *testing.T) {
	c := client(nil, nil)
	for name, cfg := range map[string]Config{
		"no client":      {Table: "flows"},
		"no table":       {Client: c},
		"short table":    {Client: c, Table: "ab"},
		"long table":     {Client: c, Table: strings.Repeat("a", 248)},
		"odd table":      {Client: c, Table: "a/b/c"},
		"timeout":        {Client: c, Table: "flows", Timeout: -1},
		"record":         {Client: c, Table: "flows", Limits: driver.Limits{Record: maxItem + 1}},
		"inline":         {Client: c, Table: "flows", Limits: driver.Limits{Record: 1000, Inline: 1001}},
		"negative limit": {Client: c, Table: "flows", Limits: driver.Limits{Record: -1}},
	} {
		if _, err := Open(t.Context(), cfg); !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
	d, err := Open(t.Context(), Config{Client: c, Table: strings.Repeat("a", 247)})
	if err != nil || d.Limits() != (driver.Limits{Record: 409600, Inline: 409600}) {
		t.Errorf("Open: %v", err)
	}
}

// Without credentials nothing is sent, so nothing can have happened.
func TestNoCredentials(t *testing.T) {
	sent := false
	c := client(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no credentials in the test")
	}, func(*http.Request) (*http.Response, error) {
		sent = true
		return nil, errors.New("sent")
	})
	d, err := Open(t.Context(), Config{Client: c, Table: "flows"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Put(t.Context(), driver.Partition("f").Head(), driver.Record{}, driver.Condition{})
	if !errors.Is(err, core.ErrDenied) || core.OutcomeUnknown(err) || sent {
		t.Errorf("Put without credentials: %v (sent: %t)", err, sent)
	}
}

// What DynamoDB or a reader could not hold is refused before it is sent.
func TestRefusedBeforeSending(t *testing.T) {
	c := client(nil, func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, errors.New("sent")
	})
	d, err := Open(t.Context(), Config{Client: c, Table: "flows"})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]driver.Record{
		"state":  {State: []byte("\"\xff\"")},
		"method": {Method: "\xff"},
		"year":   {SavedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"size":   {Data: make([]byte, maxItem)},
	} {
		if _, err := d.Put(t.Context(), driver.Partition("f").Head(), r, driver.Condition{}); err == nil || core.OutcomeUnknown(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if _, err := d.Put(t.Context(), driver.Partition("f").Head(), driver.Record{State: []byte("\"\xff\"")}, driver.Condition{}); !errors.Is(err, core.ErrInvalidState) {
		t.Errorf("a state that is not UTF-8: %v", err)
	}
}

// Size is never below what DynamoDB counts for the encoded item, and exact without numbers.
func TestSizeOfEncoded(t *testing.T) {
	d, err := Open(t.Context(), Config{Client: client(nil, nil), Table: "flows"})
	if err != nil {
		t.Fatal(err)
	}
	p := driver.Partition("漢😀")
	for _, k := range []driver.Key{p.Head(), p.Sibling("seg/1")} {
		for _, at := range []time.Time{{}, time.UnixMilli(1), time.UnixMilli(-1001), time.UnixMilli(1_900_000_000_123), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			r := driver.Record{Data: []byte("1234"), ExpireAt: at}
			if k.Sort == "" {
				r.State, r.Method, r.SavedAt = []byte(`{"é":"漢"}`), "m😀", time.UnixMicro(1)
			}
			counted := 0
			for name, v := range encode(k, r, newTag()) {
				counted += len(name)
				switch v := v.(type) {
				case *types.AttributeValueMemberS:
					counted += len(v.Value)
				case *types.AttributeValueMemberB:
					counted += len(v.Value)
				case *types.AttributeValueMemberN:
					counted += 1 + (len(v.Value)+1)/2
				}
			}
			size := d.Size(k, r)
			if exact := k.Sort == "" && at.IsZero(); size < counted || exact && size != counted || size > counted+50 {
				t.Errorf("sort %q, expiry %v: Size is %d, the item has %d", k.Sort, at, size, counted)
			}
		}
	}
}

func TestWholeSecondsRoundUp(t *testing.T) {
	for ms, want := range map[int64]int64{0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, -1: 0, -1000: -1, -1001: -1, 1_900_000_000_001: 1_900_000_001} {
		if got := wholeSeconds(ms); got != want {
			t.Errorf("%d ms are %d s, want %d", ms, got, want)
		}
	}
}

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-09-01T10:20:30.123456+00:00": time.Date(2026, 9, 1, 10, 20, 30, 123456000, time.UTC),
		"2026-09-01T10:20:30+00:00":        time.Date(2026, 9, 1, 10, 20, 30, 0, time.UTC),
		"0001-01-01T00:00:00+00:00":        {},
	} {
		if got := formatTime(want); got != text {
			t.Errorf("%v is written as %q, want %q", want, got, text)
		}
		if got := parseTime(text); !got.Equal(want) {
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]time.Time{
		"2026-09-01T12:20:30.5+02:00": time.Date(2026, 9, 1, 10, 20, 30, 500000000, time.UTC),
		"2026-09-01T10:20:30.1234567": time.Date(2026, 9, 1, 10, 20, 30, 123456000, time.UTC),
		"yesterday":                   {}, "": {},
	} {
		if got := parseTime(text); !got.Equal(want) {
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	}
}

func TestCursorRefused(t *testing.T) {
	d, err := Open(t.Context(), Config{Client: client(nil, nil), Table: "flows"})
	if err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{"x", "h", "s", "sabc", "s\x00id", "ssort\x00", "é"} {
		for _, err := range d.Partitions(t.Context(), driver.ListOptions{Cursor: cursor}) {
			if !errors.Is(err, core.ErrUnsupported) {
				t.Errorf("cursor %s: %v, want ErrUnsupported", strconv.Quote(cursor), err)
			}
		}
	}
}

package backends_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/dynamodb"
)

const dynamoModule = "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// dynamoOffers is what the driver can do beyond the required.
var dynamoOffers = []conformance.Capability{
	conformance.InjectedClock, conformance.PretendedLimits, conformance.BatchPut, conformance.BatchDelete,
}

// dynamoServer is an emulator, or what WEIR_TEST_DYNAMODB names.
type dynamoServer struct {
	name, version string
	endpoint      string
	limits        driver.Limits     // zero: the service's own
	differs       map[string]string // cases that it cannot pass, and why
	only          string            // the layer whose laws it meets; "" is all
}

// dynalite and moto are what the suite runs on by itself. TestDynamoKnownDifferences has the
// table of what they do otherwise than the service. Besides, dynalite is kept alive when a
// client gives up, and moto from mixing two writes; see package servers.
func dynalite(t testing.TB) dynamoServer {
	t.Helper()
	return dynamoServer{name: "dynamodb dynalite", version: "dynalite 4.0.0", endpoint: startDynamo(t, servers.Dynalite)}
}

func moto(t testing.TB) dynamoServer {
	t.Helper()
	return dynamoServer{
		name: "dynamodb moto", version: "moto 5.2", endpoint: startDynamo(t, servers.Moto),
		// It counts binary as base64, and 405 000 bytes.
		limits: driver.Limits{Record: 300_000, Inline: 300_000},
		// It is slow. What is above the driver meets dynalite, and here flows are cut anywhere.
		only: "driver",
		differs: map[string]string{
			"driver/law08_iterators/partitions_always_end": "moto scans in the order of keys, so that what the case writes in the loop is always ahead; DynamoDB scans in the order of hashes, where most of it is not",
		},
	}
}

func startDynamo(t testing.TB, start func(context.Context) (*servers.Process, error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	p, err := start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, p) })
	return "http://" + p.Addr
}

func dynaliteProcess(ctx context.Context, t testing.TB) *servers.Process {
	t.Helper()
	p, err := servers.Dynalite(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, p) })
	return p
}

// TestDynamo runs the suite on the servers of WEIR_TEST_DYNAMODB, or on two of its own.
func TestDynamo(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_DYNAMODB")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) {
			dynamoSuite(t, dynamoServer{name: "dynamodb " + e.Name, version: "as given", endpoint: e.URL})
		})
	}
	if len(given) > 0 {
		return
	}
	t.Run("dynalite", func(t *testing.T) { dynamoSuite(t, dynalite(t)) })
	t.Run("moto", func(t *testing.T) { dynamoSuite(t, moto(t)) })
}

func dynamoSuite(t *testing.T, s dynamoServer) {
	t.Helper()
	name := s.name
	if s.only != "" {
		name += ", " + s.only + " laws"
	}
	report(t, name, s.version, dynamoModule)
	proxy, err := servers.Listen(strings.TrimPrefix(s.endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	h := dynamoHarness(s, s.endpoint)
	h.OptOut, h.Only = s.differs, s.only
	conformance.Run(t, h)
	t.Run("dump", func(t *testing.T) {
		transport := dynamoTransport()
		defer transport.CloseIdleConnections()
		checkDynamoDump(t, dynamoClient(s.endpoint, transport))
	})
	t.Run("outage", func(t *testing.T) {
		h := dynamoHarness(s, "http://"+proxy.Addr())
		h.Only = "driver/outage"
		h.Outage = func(conformance.T, conformance.Options) (end func()) {
			proxy.Set(servers.Faults{Refuse: true})
			proxy.Cut()
			return func() { proxy.Set(servers.Faults{}) }
		}
		conformance.Run(t, h)
	})
}

// dynamoHarness gives each namespace a table, and each handle a client.
func dynamoHarness(s dynamoServer, endpoint string) conformance.Harness {
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		limits := o.Limits
		if limits == (driver.Limits{}) {
			limits = s.limits
		}
		transport := dynamoTransport()
		d, err := dynamodb.Open(t.Context(), dynamodb.Config{
			Client: dynamoClient(endpoint, transport), Table: o.Namespace, Limits: limits, Now: o.Now,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		return ownedDynamo{d, transport}, nil
	}
	return conformance.Harness{New: open, Reopen: open, Capabilities: dynamoOffers}
}

// ownedDynamo also ends the connections of its client, which the SDK has no word for.
type ownedDynamo struct {
	*dynamodb.Driver

	transport *http.Transport
}

func (o ownedDynamo) Close() error {
	err := o.Driver.Close()
	o.transport.CloseIdleConnections()
	return err
}

func dynamoTransport() *http.Transport {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, MaxIdleConnsPerHost: 64}
}

// dynamoClient is a client as an application makes one, with credentials that no emulator
// looks at, and retries that do not wait long.
func dynamoClient(endpoint string, transport http.RoundTripper, opts ...func(*awsdynamodb.Options)) *awsdynamodb.Client {
	return awsdynamodb.New(awsdynamodb.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
		HTTPClient: &http.Client{Transport: transport},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = 4, 20*time.Millisecond
		}),
	}, opts...)
}

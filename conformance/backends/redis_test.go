package backends_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/redis"
)

const redisModule = "github.com/redis/go-redis/v9"

// redisOffers is what the driver can do beyond the required. Its clock is the server's.
var redisOffers = []conformance.Capability{
	conformance.PretendedLimits, conformance.BatchPut, conformance.BatchDelete,
}

// TestRedisServer runs the suite on the servers of WEIR_TEST_REDIS, or on one of its own with
// a proxy before it, which can also be out of reach.
func TestRedisServer(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_REDIS")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) {
			redisSuite(t, "redis "+e.Name, func() goredis.UniversalClient { return clientOf(t, e.URL) })
		})
	}
	if len(given) > 0 {
		return
	}
	proxy, err := servers.Listen(startRedis(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	outage := func(conformance.T, conformance.Options) (end func()) {
		proxy.Set(servers.Faults{Refuse: true})
		proxy.Cut()
		return func() { proxy.Set(servers.Faults{}) }
	}
	redisSuite(t, "redis server", func() goredis.UniversalClient { return clientOf(t, "redis://"+proxy.Addr()) })
	t.Run("outage", func(t *testing.T) {
		h := redisHarness(func() goredis.UniversalClient { return clientOf(t, "redis://"+proxy.Addr()) })
		h.Outage, h.Only = outage, "driver/outage"
		conformance.Run(t, h)
	})
}

// TestRedisCluster runs the suite on three primaries with a replica each.
func TestRedisCluster(t *testing.T) {
	cluster := startCluster(t)
	redisSuite(t, "redis cluster, 3 primaries + 3 replicas", func() goredis.UniversalClient { return clientOf(t, cluster.URL()) })
}

// TestRedisSentinel runs the driver's laws on a primary that clients find by asking sentinels:
// what is above the driver does not know how it was found.
func TestRedisSentinel(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	group, err := servers.StartSentinel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, group) })
	redisLaws(t, "redis sentinel, primary + replica, driver laws", "driver", func() goredis.UniversalClient { return clientOf(t, group.URL()) })
}

// startTime is how long a server may take to be ready on a busy machine.
const startTime = time.Minute

func startRedis(t testing.TB, args ...string) *servers.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	server, err := servers.Redis(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, server) })
	return server
}

func startCluster(t testing.TB, args ...string) *servers.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	cluster, err := servers.StartCluster(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, cluster) })
	return cluster
}

func closeServer(t testing.TB, s interface{ Close() error }) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing a server: %v", err)
	}
}

// quietClient keeps go-redis from printing each sentinel and each connection that it loses.
var quietClient = sync.OnceFunc(func() { goredis.SetLogger(noLog{}) })

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// clientOf makes a client for a URL of persistence.Open, as an application would make one of
// its own: with the retries that go-redis comes with.
func clientOf(t testing.TB, url string) goredis.UniversalClient {
	t.Helper()
	quietClient()
	scheme, rest, _ := strings.Cut(url, "://")
	plain, kind, _ := strings.Cut(scheme, "+")
	plain += "://" + rest
	var client goredis.UniversalClient
	var err error
	switch kind {
	case "cluster":
		var o *goredis.ClusterOptions
		if o, err = goredis.ParseClusterURL(plain); err == nil {
			o.ContextTimeoutEnabled, o.DialerRetries, o.ClusterStateReloadInterval = true, 1, 500*time.Millisecond
			client = goredis.NewClusterClient(o)
		}
	case "sentinel":
		var o *goredis.FailoverOptions
		if o, err = goredis.ParseFailoverURL(plain); err == nil {
			o.ContextTimeoutEnabled = true
			client = goredis.NewFailoverClient(o)
		}
	default:
		var o *goredis.Options
		if o, err = goredis.ParseURL(plain); err == nil {
			o.ContextTimeoutEnabled = true
			client = goredis.NewClient(o)
		}
	}
	if err != nil {
		t.Fatal("a test server's URL cannot be parsed")
	}
	return client
}

// redisSuite runs the suite with a client of its own for each handle, and then looks at what
// is left on the server.
func redisSuite(t *testing.T, name string, client func() goredis.UniversalClient) {
	t.Helper()
	redisLaws(t, name, "", client)
}

// redisLaws runs the laws below a path only.
func redisLaws(t *testing.T, name, only string, client func() goredis.UniversalClient) {
	t.Helper()
	c := client()
	t.Cleanup(func() { _ = c.Close() })
	report(t, name, serverVersion(t, c), redisModule)
	h := redisHarness(client)
	h.Only = only
	conformance.Run(t, h)
	t.Run("dump", func(t *testing.T) { checkDump(t, c) })
}

func redisHarness(client func() goredis.UniversalClient) conformance.Harness {
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		c := client()
		d, err := redis.Open(t.Context(), redis.Config{
			Client: c, Prefix: o.Namespace + ":", Limits: o.Limits, RetryFor: time.Second,
		})
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		return closing{d, c}, nil
	}
	return conformance.Harness{New: open, Reopen: open, Capabilities: redisOffers}
}

// closing also closes the client.
type closing struct {
	*redis.Driver

	client goredis.UniversalClient
}

func (c closing) Close() error {
	_ = c.client.Close() // a second time is an error to go-redis
	return c.Driver.Close()
}

// serverVersion is what the server says of itself.
func serverVersion(t testing.TB, c goredis.UniversalClient) string {
	t.Helper()
	info, err := c.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		found[name] = value
	}
	if v := found["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + found["redis_version"]
}

package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/persistence/driver"
)

// What the zero Config stands for.
const (
	defaultPrefix   = "weir:"
	defaultInHash   = 8 << 10
	defaultInline   = 4 << 20
	defaultRecord   = 16 << 20
	defaultRetryFor = 2 * time.Second
)

// The bounds of a Config.
const (
	maxPrefix = 64
	maxInHash = 1 << 20
	maxRecord = 256 << 20 // a value has at most 512 MiB
)

// Config says which server to use and how. Only Client is needed.
type Config struct {
	// Client is a client of go-redis: a *Client (also one that follows sentinels) or a
	// *ClusterClient, with whatever credentials, TLS, pool and tracing it was given. It must
	// read from primaries only. The driver does not close it, and does not change it.
	//
	// With ContextTimeoutEnabled, a deadline also ends a wait for the server; without it
	// such a wait ends with the client's ReadTimeout. The client's own retries do not
	// apply to writes of this driver, which decides itself what may be sent twice.
	Client goredis.UniversalClient

	// Prefix begins all keys; "" is "weir:". Stores with different prefixes do not see each
	// other. It has at most 64 bytes and no brace.
	Prefix string

	// InHash is up to how many bytes of State and Data together a record is kept in its
	// hash and goes through a script; a larger one goes to a key of its own beside it.
	// 0 is 8 KiB; at most 1 MiB.
	InHash int

	// Limits are the sizes the Store plans with; zero fields take 16 MiB a record, which it
	// compresses over 4 MiB.
	Limits driver.Limits

	// RetryFor is how long a call goes on trying while the server is out of reach, starting
	// or moving a slot; 0 is 2 s. A longer one rides out a failover. A context that ends
	// sooner ends it sooner.
	RetryFor time.Duration

	// Logger gets the warning about a server that may evict state; nil is slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the config with its zero values filled in, or why it cannot be used.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.InHash == 0 {
		c.InHash = defaultInHash
	}
	c.Limits = c.Limits.Or(defaultRecord, defaultInline)
	if c.RetryFor == 0 {
		c.RetryFor = defaultRetryFor
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.Client == nil:
		return unsupported("Config.Client is nil; make a client with go-redis, or open a URL")
	case len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}"):
		return unsupported(fmt.Sprintf("prefix %q; use up to %d bytes without braces", c.Prefix, maxPrefix))
	case c.InHash < 0 || c.InHash > maxInHash:
		return unsupported(fmt.Sprintf("%d bytes in the hash; use up to %d", c.InHash, maxInHash))
	case c.RetryFor < 0 || c.RetryFor > time.Hour:
		return unsupported(fmt.Sprintf("retry for %v; use up to 1h", c.RetryFor))
	}
	switch client := c.Client.(type) {
	case *goredis.Ring:
		return unsupported("a Ring moves flows to another server when one is down; use a cluster")
	case *goredis.ClusterClient:
		if o := client.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return unsupported("the client reads from replicas, which lag behind; leave out ReadOnly, RouteByLatency and RouteRandomly")
		}
	}
	return c.Limits.Check(maxRecord, unsupported)
}

// Open returns a driver for the server of cfg.Client, after asking whether it answers, is a
// primary, and may evict state; that is logged once.
//
// A config that cannot be used, and a replica, are core.ErrUnsupported; a server that cannot
// be reached is core.ErrUnavailable, and one that refuses the credentials core.ErrDenied.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{client: cfg.Client, prefix: cfg.Prefix, inHash: cfg.InHash, limits: cfg.Limits, retryFor: cfg.RetryFor}
	if err := d.inspect(ctx, cfg.Logger); err != nil {
		return nil, err
	}
	return d, nil
}

// inspect asks every primary what it is.
func (d *Driver) inspect(ctx context.Context, log *slog.Logger) error {
	const doing = "open"
	// The password of an error reply is not in it: servers do not repeat it.
	if err := d.read(ctx, doing, func() error { return d.client.Ping(ctx).Err() }); err != nil {
		return err
	}
	nodes, _, err := d.primaries(ctx)
	if err != nil {
		return err
	}
	var warned sync.Once
	for _, node := range nodes {
		// INFO is a matter of permission; without it there is nothing to warn of.
		info := parseInfo(node.Info(ctx, "memory").Val() + node.Info(ctx, "replication").Val())
		if info["role"] == "slave" {
			return unsupported("this server is a replica, which lags behind; name the primary, a cluster or the sentinels")
		}
		policy := info["maxmemory_policy"]
		limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
		if limit > 0 && policy != "" && policy != "noeviction" {
			warned.Do(func() {
				log.WarnContext(ctx, "weir: the Redis server may evict the state of flows; set maxmemory-policy to noeviction",
					slog.String("maxmemory-policy", policy), slog.Int64("maxmemory", limit))
			})
		}
	}
	return ctx.Err()
}

// parseInfo reads the lines of INFO.
func parseInfo(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

package redis

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// The URL schemes. Those with a second s use TLS.
const (
	schemeServer     = "redis"
	schemeServerTLS  = "rediss"
	schemeCluster    = "redis+cluster"
	schemeClusterTLS = "rediss+cluster"
	schemeSentinel   = "redis+sentinel"
)

func init() {
	for _, scheme := range []string{schemeServer, schemeServerTLS, schemeCluster, schemeClusterTLS, schemeSentinel} {
		persistence.Register(scheme, func(ctx context.Context, u *url.URL) (driver.Driver, error) {
			d, err := openURL(ctx, u)
			if err != nil {
				return nil, err // not d: a nil *Driver is no nil interface
			}
			return d, nil
		})
	}
}

// openURL opens what a URL names, with a client of the driver's own.
func openURL(ctx context.Context, u *url.URL) (*Driver, error) {
	cfg, rest, err := parseOptions(u)
	if err != nil {
		return nil, err
	}
	client, err := newClient(rest)
	if err != nil {
		return nil, err
	}
	cfg.Client = client
	d, err := Open(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	d.closeOwn = closeOnce(client)
	return d, nil
}

// parseOptions takes the options of this package out of a URL; go-redis reads the rest.
func parseOptions(u *url.URL) (cfg Config, rest *url.URL, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return cfg, nil, unsupported("the options of the URL cannot be parsed")
	}
	cfg.Prefix = query.Get("prefix")
	if v := query.Get("in_hash"); v != "" {
		if cfg.InHash, err = strconv.Atoi(v); err != nil || cfg.InHash < 1 {
			return cfg, nil, unsupported("option in_hash: " + strconv.Quote(v) + " is not a number of bytes")
		}
	}
	if v := query.Get("retry_for"); v != "" {
		if cfg.RetryFor, err = time.ParseDuration(v); err != nil || cfg.RetryFor <= 0 {
			return cfg, nil, unsupported("option retry_for: " + strconv.Quote(v) + " is not a duration over 0, for example 5s")
		}
	}
	for _, ours := range []string{"prefix", "in_hash", "retry_for"} {
		if len(query[ours]) > 1 {
			return cfg, nil, unsupported("the option " + ours + " is given more than once")
		}
		query.Del(ours)
	}
	copied := *u
	copied.RawQuery = query.Encode()
	return cfg, &copied, nil
}

// newClient makes the client for a URL. What the URL leaves open is set so that a dead server
// is noticed in seconds, and that a deadline ends every wait.
func newClient(u *url.URL) (goredis.UniversalClient, error) {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch u.Scheme {
	case schemeCluster, schemeClusterTLS:
		o, err := goredis.ParseClusterURL(plainURL(u))
		if err != nil {
			return nil, badURL(u, err)
		}
		o.ContextTimeoutEnabled, o.MaintNotificationsConfig = true, quiet
		o.DialerRetries, o.ClusterStateReloadInterval = 1, time.Second
		return goredis.NewClusterClient(o), nil
	case schemeSentinel:
		o, err := goredis.ParseFailoverURL(plainURL(u))
		if err != nil {
			return nil, badURL(u, err)
		}
		if o.MasterName == "" {
			return nil, unsupported("the URL names no group of sentinels; add master_name=…")
		}
		if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, unsupported("the URL wants to read from replicas, which lag behind")
		}
		o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
		return goredis.NewFailoverClient(o), nil
	}
	o, err := goredis.ParseURL(plainURL(u))
	if err != nil {
		return nil, badURL(u, err)
	}
	o.ContextTimeoutEnabled, o.MaintNotificationsConfig = true, quiet
	o.MaxRetries, o.DialerRetries = -1, 1 // Driver.read and Driver.do repeat
	return goredis.NewClient(o), nil
}

// plainURL has the scheme that go-redis knows.
func plainURL(u *url.URL) string {
	plain := *u
	plain.Scheme, _, _ = strings.Cut(u.Scheme, "+")
	return plain.String()
}

// badURL says what go-redis did not like, unless that could quote a password.
func badURL(u *url.URL, err error) error {
	if password, has := u.User.Password(); has && password != "" && strings.Contains(err.Error(), password) {
		return unsupported("the URL cannot be parsed")
	}
	return unsupported("the URL cannot be used: " + strings.TrimPrefix(err.Error(), "redis: "))
}

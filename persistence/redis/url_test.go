package redis

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
)

func TestURLClients(t *testing.T) {
	for text, want := range map[string]string{
		"redis://localhost:1/2":                                                "*redis.Client",
		"rediss://localhost:1":                                                 "*redis.Client",
		"redis+cluster://localhost:1?addr=localhost:2":                         "*redis.ClusterClient",
		"rediss+cluster://localhost:1":                                         "*redis.ClusterClient",
		"redis+sentinel://localhost:1/0?addr=localhost:2&master_name=m":        "*redis.Client",
		"redis://u:p@localhost:1/2?prefix=a:&in_hash=9&retry_for=3s":           "*redis.Client",
		"redis+cluster://u:p@localhost:1?prefix=a:&read_timeout=1s&protocol=2": "*redis.ClusterClient",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg, rest, err := parseOptions(u)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c, err := newClient(rest)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		checkClient(t, text, want, c)
		if strings.Contains(text, "in_hash") && (cfg.Prefix != "a:" || cfg.InHash != 9 || cfg.RetryFor != 3*time.Second) {
			t.Errorf("%s: the config is %+v", text, cfg)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func checkClient(t *testing.T, text, want string, c goredis.UniversalClient) {
	t.Helper()
	switch c := c.(type) {
	case *goredis.Client:
		o := c.Options()
		if want != "*redis.Client" || !o.ContextTimeoutEnabled || o.MaxRetries != 0 || (o.TLSConfig != nil) != strings.HasPrefix(text, "rediss") {
			t.Errorf("%s: a client with %+v", text, o)
		}
		if strings.Contains(text, "/2") && o.DB != 2 {
			t.Errorf("%s: database %d", text, o.DB)
		}
	case *goredis.ClusterClient:
		o := c.Options()
		if want != "*redis.ClusterClient" || !o.ContextTimeoutEnabled || (o.TLSConfig != nil) != strings.HasPrefix(text, "rediss") {
			t.Errorf("%s: a cluster client with %+v", text, o)
		}
	}
}

func TestURLRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"redis://:secret@localhost:1/x":                     "database",
		"redis://:secret@localhost:1?shade=red":             "shade",
		"redis://:secret@localhost:1?in_hash=many":          "in_hash",
		"redis://:secret@localhost:1?in_hash=2000000":       "1048576",
		"redis://:secret@localhost:1?retry_for=-1s":         "retry_for",
		"redis://:secret@localhost:1?retry_for=soon":        "retry_for",
		"redis://:secret@localhost:1?prefix={a}":            "brace",
		"redis://:secret@localhost:1?prefix=a&prefix=b":     "more than once",
		"redis+sentinel://:secret@localhost:1":              "master_name",
		"redis+cluster://:secret@localhost:1?read_only=yes": "read_only",
	} {
		_, err := persistence.Open(t.Context(), text)
		if !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want ErrUnsupported that speaks of %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in the error: %v", text, err)
		}
	}
}

func TestConfigRefusals(t *testing.T) {
	c := goredis.NewClient(&goredis.Options{Addr: "localhost:1"})
	defer c.Close()
	replicas := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"localhost:1"}, ReadOnly: true})
	defer replicas.Close()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})
	defer ring.Close()
	for name, cfg := range map[string]Config{
		"no client":        {},
		"a ring":           {Client: ring},
		"reads replicas":   {Client: replicas},
		"a long prefix":    {Client: c, Prefix: strings.Repeat("x", 65)},
		"a brace":          {Client: c, Prefix: "a{"},
		"much in the hash": {Client: c, InHash: 2 << 20},
		"a long wait":      {Client: c, RetryFor: 2 * time.Hour},
	} {
		if _, err := Open(t.Context(), cfg); !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}

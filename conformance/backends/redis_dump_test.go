package backends_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// rawKey is one key of the server as it is.
type rawKey struct {
	name     string
	kind     string // the type that Redis knows
	expireAt int64  // milliseconds, 0 for never
	hash     map[string]string
	sorts    []string
}

// redisKey takes a key apart: the flow with its prefix, what it is, and the sort or tag.
var redisKey = regexp.MustCompile(`^([^{}]*\{[^{}]+\}):(h|i|s|p)(?::(.*))?$`)

// dumpRedis reads every key of every primary, without the driver.
func dumpRedis(t testing.TB, c goredis.UniversalClient) map[string]rawKey {
	t.Helper()
	ctx := t.Context()
	var names []string
	scan := func(node goredis.Cmdable) error {
		found := node.Scan(ctx, 0, "*", 1000).Iterator()
		for found.Next(ctx) {
			names = append(names, found.Val())
		}
		return found.Err()
	}
	var err error
	if cluster, ok := c.(*goredis.ClusterClient); ok {
		var mu sync.Mutex
		err = cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(node)
		})
	} else {
		err = scan(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]rawKey{}
	for _, name := range names {
		k := rawKey{name: name, kind: c.Type(ctx, name).Val()}
		// Not PExpireTime: its time.Duration ends in the year 2262.
		if at, err := c.Do(ctx, "pexpiretime", name).Int64(); err == nil && at > 0 {
			k.expireAt = at
		}
		switch k.kind {
		case "none":
			continue // expired meanwhile
		case "hash":
			k.hash = c.HGetAll(ctx, name).Val()
		case "zset":
			k.sorts = c.ZRange(ctx, name, 0, -1).Val()
		}
		keys[name] = k
	}
	return keys
}

// checkDump demands that the server holds nothing but whole records: every payload is named
// by one record and lives as long as it, every sibling is in its index, and no index outlives
// its siblings.
func checkDump(t *testing.T, c goredis.UniversalClient) {
	t.Helper()
	keys := dumpRedis(t, c)
	if len(keys) == 0 {
		t.Error("the dump is empty; did the suite write anything?")
	}
	payloads, now := map[string]bool{}, time.Now().UnixMilli()
	for name, k := range keys {
		parts := redisKey.FindStringSubmatch(name)
		if parts == nil {
			t.Errorf("the key %q is of no kind that is documented", name)
			continue
		}
		flow, what, rest := parts[1], parts[2], parts[3]
		switch what {
		case "h", "s":
			if want := k.hash["expire_at"]; want != "" && want != strconv.FormatInt(k.expireAt, 10) || want == "" && k.expireAt != 0 {
				t.Errorf("%q expires at %d, the record says %q", name, k.expireAt, want)
			}
			if tag := k.hash["tag"]; strings.HasPrefix(tag, "p") {
				payload := flow + ":p:" + tag
				payloads[payload] = true
				if p, ok := keys[payload]; !ok && (k.expireAt == 0 || k.expireAt > now) {
					t.Errorf("%q has no payload %q", name, payload)
				} else if ok && p.expireAt != k.expireAt {
					t.Errorf("%q expires at %d, its payload at %d", name, k.expireAt, p.expireAt)
				}
			}
			if what == "s" && !slices.Contains(keys[flow+":i"].sorts, rest) {
				t.Errorf("the sibling %q is not in its index", name)
			}
		case "i":
			checkIndex(t, keys, k, flow)
		}
	}
	for name, k := range keys {
		if parts := redisKey.FindStringSubmatch(name); parts != nil && parts[2] == "p" && !payloads[name] {
			t.Errorf("the payload %q (type %s, expires at %d) belongs to no record", name, k.kind, k.expireAt)
		}
	}
	t.Logf("%d keys", len(keys))
}

// checkIndex demands that an index goes when its last sibling does: not before, and, where
// all expire, not never.
func checkIndex(t *testing.T, keys map[string]rawKey, index rawKey, flow string) {
	t.Helper()
	forever, last := false, int64(0)
	for _, sort := range index.sorts {
		if s, ok := keys[flow+":s:"+sort]; ok {
			forever = forever || s.expireAt == 0
			last = max(last, s.expireAt)
		}
	}
	switch {
	case forever && index.expireAt != 0:
		t.Errorf("the index %q expires, and a sibling in it does not", index.name)
	case index.expireAt != 0 && index.expireAt < last:
		t.Errorf("the index %q expires before a sibling in it", index.name)
	case !forever && index.expireAt == 0:
		t.Errorf("the index %q never expires, and all siblings in it do: %q", index.name, index.sorts)
	}
}

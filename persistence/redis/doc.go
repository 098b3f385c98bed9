// Package redis keeps flows on a Redis or Valkey server: a single one, a cluster, or a group
// that sentinels watch. It needs Redis 6.2 or later, or Valkey, with plain data types and Lua
// scripts, and no module.
//
// # Set-up
//
// Either by URL, with the package imported for its side effect:
//
//	import _ "github.com/weirflow/weir/persistence/redis"
//
//	store, err := persistence.Open(ctx, "redis://user:password@localhost:6379/0")
//
// or with [Open] and a client of go-redis, which keeps its credentials, TLS, pool and tracing:
//
//	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	d, err := redis.Open(ctx, redis.Config{Client: client})
//	store := persistence.New(d)
//
// The schemes:
//
//	redis://host:port/db                                  rediss:// with TLS
//	redis+cluster://host:port?addr=host:port              rediss+cluster:// with TLS
//	redis+sentinel://host:port/db?addr=host:port&master_name=mymaster
//
// Options of the URL: prefix=weir:, in_hash=8192 (bytes), retry_for=2s, and those that go-redis
// reads from a URL (dial_timeout, read_timeout, pool_size and so on).
//
// # Permissions
//
// A user of the server needs the keys that begin with the prefix and few commands:
//
//	ACL SETUSER weir on >password ~weir:* +@connection +hget +hmget +hset +hdel +get +set
//	    +exists +unlink +persist +pexpireat +pttl +zadd +zrem +zcard +zrange +time +scan
//	    +eval +evalsha +cluster|slots +cluster|shards +command +info
//
// Without +info nothing warns of eviction; +cluster is for clusters, +scan for listing flows.
//
// # Durability
//
// A save that returned is in the memory of the primary. What survives is the server's setting:
//
//	appendonly yes, appendfsync always     the death of the server and a power failure
//	appendonly yes, appendfsync everysec   the death of the server; a power failure takes up to
//	                                       about a second
//	only RDB snapshots, or nothing         up to everything since the last snapshot
//
// Replication is asynchronous: at a failover the newest acknowledged saves may be lost, in a
// cluster and with sentinels alike; min-replicas-to-write bounds how many. What is lost is
// lost whole: a flow then has an earlier state, never half of one, and a Run that goes on from
// the lost one gets core.ErrConflict.
//
// # Eviction
//
// maxmemory-policy must be noeviction. Under any other the server deletes state when memory is
// short; [Open] warns once, and a record whose payload was evicted is core.ErrCorrupt, while a
// whole evicted flow cannot be told from one that was never saved. With noeviction a save that
// finds no memory is core.ErrUnavailable, and the old state stays.
//
// # Layout
//
// All keys of a flow have its ID as their hash tag, which puts them in one slot:
//
//	weir:{<id>}:h          hash: the head
//	weir:{<id>}:s:<sort>   hash: a sibling (a segment or an earlier snapshot)
//	weir:{<id>}:i          sorted set: the sorts of the siblings
//	weir:{<id>}:p:<tag>    string: what is too large for the hash that has this tag
//
// In an ID the control characters, space, "%", "{", "}" and "#" are written as %XX; of an ID
// that is then longer than 128 bytes, keys have "#" and its SHA-256, and records the ID.
//
//	tag         of this write, random; it begins with "p" if there is a payload
//	payload     "s<bytes>" for the state, "d<bytes>" for the data, in the order of the payload
//	method, saved_at (microseconds since 1970), expire_at (milliseconds), id
//	state       the JSON of the state; redis-cli HGET shows it
//	data        what Weir adds, opaque
//
// A record expires as a whole, by the clock of the server: PEXPIREAT is part of every write. A
// payload that no record names yet goes by itself after 15 minutes. Do not change records by
// hand while they are in use: a hash that is written over with its tag kept would satisfy a
// condition that it must not.
//
// # Limits
//
// A record has up to 16 MiB, and the Store compresses it over 4 MiB; larger states go to
// several records. A state of up to 8 KiB is in the hash of its head. All this is [Config].
// An unreachable server, a failover, a slot on the move or a starting server is tried again for
// 2 s ([Config].RetryFor) and then core.ErrUnavailable. A server that is listed by Partitions
// is walked through with SCAN, all keys of it, ours and others.
//
// A canceled context ends a wait between attempts at once; a request under way is waited for
// until its answer, a deadline, or the read timeout.
//
// # Cost
//
// A save is one round trip and one script: up to 8 KiB the record goes through the script;
// above, the script only flips a hash of some hundred bytes and the payload is a plain SET in
// the same round trip, so that a large state does not hold up the server. A load is one round
// trip (HMGET), and above 8 KiB two (and GET). See BenchmarkSaveLoad for what that costs beside
// a bare SET and GET.
package redis

// Package dynamodb keeps flows in Amazon DynamoDB, in the layout of the Python package
// crewai-persistence-dynamodb, so that existing tables are read and what Weir writes stays
// readable to it.
//
// # Set-up
//
// Either by URL, with the package imported for its side effect:
//
//	import _ "github.com/weirflow/weir/persistence/dynamodb"
//
//	store, err := persistence.Open(ctx, "dynamodb://flow-states?region=eu-central-1")
//
// or with [Open] and a [Config] that has the SDK's own client. The URL uses the SDK's default
// chain of configuration and credentials. Its options, each at most once: region, profile,
// endpoint=http://127.0.0.1:8000 (for example for DynamoDB Local) and timeout=30s. Any other
// is refused by its name.
//
// Nothing is to be created first: a table that is missing is made by the first write, with
// on-demand billing, and a missing table is an empty one to a read. Where the programs shall
// not have the permissions for that, [Driver.Setup] makes both tables beforehand; or make them
// by other means with these keys, all of them strings:
//
//	flow-states           flow_uuid (HASH)
//	flow-states_records   pk (HASH), sk (RANGE)
//
// and TTL on the attribute ttl of both, if flows expire.
//
// # Permissions
//
// Plain flow state on a table that exists needs dynamodb:GetItem and dynamodb:PutItem, and
// nothing else. Further actions, on both tables:
//
//	states over the record limit, history    GetItem, PutItem, Query, BatchWriteItem
//	deleting and sweeping flows              Query, DeleteItem, BatchWriteItem
//	listing flows                            Scan, BatchGetItem
//	making tables                            CreateTable, DescribeTable
//	TTL                                      DescribeTimeToLive, UpdateTimeToLive
//
// What is not allowed is core.ErrDenied, which names the action and the table. Only TTL may be
// missing: without its permissions a warning is logged once for each table, and expired items
// stay stored. They are absent to Weir all the same.
//
// # Cost
//
// An ordinary save is one PutItem, a load one strongly consistent GetItem. An item is the
// state, the IDs and about 300 bytes; a save consumes one write unit for each KiB of the new
// item or the old one, whichever is larger, a load one read unit for each 4 KiB, both rounded
// up:
//
//	state     save (write units)   load (read units)
//	1 KiB       2                   1
//	10 KiB     11                   3
//	100 KiB   101                  26
//	300 KiB   301                  76
//
// The first save of a flow by a process reads the item, too. A state in segments is written
// with a conditional PutItem for each, 16 at a time (BatchWriteItem takes no conditions and is
// no cheaper), and the old segments are deleted 25 at a time. A listing scans both tables and
// consumes the read units of all that is stored; it is for maintenance. A smaller
// Limits.Inline in [Config] has states compressed, which saves units, and hides them from
// Python.
//
// # Limits
//
// An item has at most 400 KiB, attribute names included, counted in bytes of UTF-8. Up to that
// a state stays as it is; then it is compressed; what still does not fit goes to the table of
// siblings, in segments. Python's states reach the limit earlier, since its JSON has escapes
// of 6 bytes for a Chinese character and of 12 for an emoji.
//
// One flow takes about 1000 write units a second, which is a limit of DynamoDB for one key:
// ten saves a second of 100 KiB each. Throttling is retried by the SDK's client, as it is
// configured (three or four attempts by default), and then core.ErrUnavailable.
//
// # Durability and consistency
//
// DynamoDB acknowledges a write when several data centers of the region have it. Every read
// here is strongly consistent, and every write of the Store is a conditional one of a single
// item. Transactions are not used. In a global table with eventual consistency DynamoDB merges
// the writes of two regions without conditions: let all writers of a flow use one region. A
// table with strong consistency across regions has no such rule.
//
// The SDK repeats a request whose reply was lost. A conditional write that meets itself that
// way is recognized by its tag. A write without a condition, which the Store does not make, is
// not repeated, and its outcome is unknown.
//
// # Layout
//
// The table of heads; an item is one flow:
//
//	flow_uuid        S   the flow's ID as it is
//	data             S   the state as JSON; missing where it is not in the item, so that
//	                     Python fails and does not find an empty state
//	method_name      S
//	saved_at         S   ISO 8601 in UTC with offset, as Python's isoformat writes it
//	ttl              N   expiry in whole seconds since 1970, rounded up; for DynamoDB's TTL
//	weir_tag         S   the tag of this write; missing: another program wrote the item
//	weir_expire_at   N   expiry in milliseconds since 1970
//	weir_data        B   what Weir adds to a state
//
// The table of siblings, <table>_records: pk S (the ID), sk S (the sort), tag S, data B,
// expire_at N and ttl N.
//
// Python puts whole items, so that its write drops everything of Weir's. Its items are read
// with ttl as their expiry, and their tag is a hash of what they hold, the time of the write
// in microseconds included. A write on such a tag reads the item first, and then demands of
// the store that each of the attributes is unchanged and there is no tag of Weir's.
// A change by UpdateItem that keeps weir_tag is not noticed: put whole items.
package dynamodb

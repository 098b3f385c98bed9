package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// How many keys a server looks at for one page of Partitions; it returns those of them that
// are ours, and may be shared with much else.
const (
	defaultScan = 512
	leastScan   = 16
	mostScan    = 4096
)

// mostSeen bounds what a loop remembers in order not to yield a flow twice. Beyond, it may.
const mostSeen = 1 << 20

// mostRestarts bounds how often a loop begins anew because the cluster changed under it.
const mostRestarts = 3

const doingList = "list flows"

// Partitions yields flows in no order. It walks over all keys of all primaries with SCAN, so
// it costs as much as the database has keys, whoever owns them.
//
// When the slots of a cluster change hands during the loop, it begins anew and leaves out
// what it has yielded already. While a slot is being moved, flows in it can be missed.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		l := listing{d: d, count: defaultScan, seen: map[[16]byte]struct{}{}}
		if o.PageSize > 0 {
			l.count = min(max(o.PageSize, leastScan), mostScan)
		}
		err := l.begin(ctx, o.Cursor)
		for err == nil && l.at.node < len(l.nodes) {
			var page []driver.Entry
			if page, err = l.next(ctx); err != nil {
				break
			}
			for _, e := range page {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && l.at.node == len(l.nodes) {
				err = l.end(ctx)
			}
		}
		if err != nil {
			yield(driver.Entry{}, err)
		}
	}
}

// position is a place in a listing, between two entries.
type position struct {
	topology string // of the cluster when the listing began
	node     int    // index of the primary
	scan     uint64 // cursor of SCAN
	skip     int    // how many flows of that page are done, in the order of their keys
	sum      string // of these, to notice that the page is no longer the same
}

func (p position) String() string {
	return fmt.Sprintf("%s.%d.%d.%d.%s", p.topology, p.node, p.scan, p.skip, p.sum)
}

func parsePosition(s string) (p position, err error) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 {
		return position{}, unsupported("the cursor is not one of this store")
	}
	var errs [3]error
	p.topology, p.sum = parts[0], parts[4]
	p.node, errs[0] = strconv.Atoi(parts[1])
	p.scan, errs[1] = strconv.ParseUint(parts[2], 10, 64)
	p.skip, errs[2] = strconv.Atoi(parts[3])
	if cmp.Or(errs[:]...) != nil || p.node < 0 || p.skip < 0 {
		return position{}, unsupported("the cursor is not one of this store")
	}
	return p, nil
}

// listing is where a loop over Partitions has come to.
type listing struct {
	d        *Driver
	count    int
	nodes    []goredis.Cmdable
	at       position
	seen     map[[16]byte]struct{}
	restarts int
}

// begin finds the primaries and goes to where a cursor points. One from before a change of
// the cluster starts from the beginning.
func (l *listing) begin(ctx context.Context, cursor string) error {
	nodes, topology, err := l.d.primaries(ctx)
	if err != nil {
		return err
	}
	l.nodes, l.at = nodes, position{topology: topology}
	if cursor == "" {
		return nil
	}
	at, err := parsePosition(cursor)
	if err == nil && at.topology == topology && at.node <= len(nodes) {
		l.at = at
	}
	return err
}

// end begins anew if the cluster is not what it was at the beginning.
func (l *listing) end(ctx context.Context) error {
	nodes, topology, err := l.d.primaries(ctx)
	if err != nil || topology == l.at.topology {
		return err
	}
	if l.restarts++; l.restarts > mostRestarts {
		return fmt.Errorf("%w: redis: %s: the cluster changed %d times during the listing; try again when it is stable", core.ErrUnavailable, doingList, l.restarts)
	}
	l.nodes, l.at = nodes, position{topology: topology}
	return nil
}

// primaries returns those who hold the keys, in an order that does not change while the
// topology stays the same.
func (d *Driver) primaries(ctx context.Context) (nodes []goredis.Cmdable, topology string, err error) {
	cluster, ok := d.client.(interface {
		ForEachMaster(ctx context.Context, fn func(context.Context, *goredis.Client) error) error
	})
	if !ok {
		return []goredis.Cmdable{d.client}, "one", nil
	}
	var slots []goredis.ClusterSlot
	var clients []*goredis.Client
	err = d.read(ctx, doingList, func() (err error) {
		if slots, err = d.client.ClusterSlots(ctx).Result(); err != nil {
			return err
		}
		var mu sync.Mutex
		clients = nil
		return cluster.ForEachMaster(ctx, func(_ context.Context, c *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, c)
			return nil
		})
	})
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(clients, func(a, b *goredis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	slices.SortFunc(slots, func(a, b goredis.ClusterSlot) int { return cmp.Compare(a.Start, b.Start) })
	sum := sha256.New()
	for _, c := range clients {
		nodes = append(nodes, c)
		fmt.Fprintf(sum, "%q ", c.Options().Addr)
	}
	for _, s := range slots {
		fmt.Fprintf(sum, "%d-%d ", s.Start, s.End)
		if len(s.Nodes) > 0 {
			fmt.Fprintf(sum, "%q ", s.Nodes[0].Addr)
		}
	}
	return nodes, hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// next reads the page at the position and moves the position behind it.
func (l *listing) next(ctx context.Context) ([]driver.Entry, error) {
	pattern := escapeGlob(l.d.prefix) + "{*}:[hi]"
	var names []string
	var scan uint64
	err := l.d.read(ctx, doingList, func() (err error) {
		names, scan, err = l.nodes[l.at.node].Scan(ctx, l.at.scan, pattern, int64(l.count)).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	tags := l.fresh(names)
	entries, err := l.d.describe(ctx, tags)
	if err != nil {
		return nil, err
	}
	after := position{topology: l.at.topology, node: l.at.node, scan: scan}
	if scan == 0 {
		after.node++
	}
	skip, places := l.places(tags, after)
	var page []driver.Entry
	for i, e := range entries {
		id := sha256.Sum256([]byte(tags[i]))
		short := [16]byte(id[:16])
		if _, again := l.seen[short]; again || i < skip || e.Partition == "" {
			continue
		}
		if len(l.seen) < mostSeen {
			l.seen[short] = struct{}{}
		}
		e.Cursor = places[i].String()
		page = append(page, e)
	}
	l.at = after
	return page, nil
}

// fresh returns the hash tags in keys, each once and in order.
func (l *listing) fresh(keys []string) []string {
	var tags []string
	for _, k := range keys {
		if tag, ok := l.d.listed(k); ok {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// places returns the position behind each flow of a page, and how many of them were done
// already when the cursor was made, if they are still the same.
func (l *listing) places(tags []string, after position) (skip int, places []position) {
	sum := sha256.New()
	for i, tag := range tags {
		fmt.Fprintf(sum, "%q ", tag)
		at := l.at
		at.skip, at.sum = i+1, hex.EncodeToString(sum.Sum(nil)[:8])
		if at == l.at {
			skip = i + 1
		}
		places = append(places, at)
	}
	if len(places) > 0 {
		places[len(places)-1] = after
	}
	return skip, places
}

// describe returns an entry for each hash tag; one without a partition has nothing left.
func (d *Driver) describe(ctx context.Context, tags []string) ([]driver.Entry, error) {
	entries := make([]driver.Entry, len(tags))
	if len(tags) == 0 {
		return nil, nil
	}
	cmds := make([]*goredis.SliceCmd, len(tags))
	err := d.read(ctx, doingList, func() error {
		pipe := d.client.Pipeline()
		for i, tag := range tags {
			cmds[i] = pipe.HMGet(ctx, d.prefix+"{"+tag+headSuffix, fields[:smallFields]...)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, tag := range tags {
		s, found, err := decode("", cmds[i].Val())
		if err == nil && !found {
			entries[i].Headless = true
			s, found, err = d.anySibling(ctx, flowKeys{base: d.prefix + "{" + tag})
		} else if err == nil {
			entries[i].Method, entries[i].SavedAt, entries[i].ExpireAt = s.Method, s.SavedAt, s.ExpireAt
		}
		if err == nil && found {
			entries[i].Partition, err = d.partition(tag, s.id)
		}
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// anySibling looks for a sibling that has not expired, and takes those that have out of the
// index.
func (d *Driver) anySibling(ctx context.Context, keys flowKeys) (s stored, found bool, err error) {
	w := walk{d: d, keys: keys, o: driver.RangeOptions{KeysOnly: true}, low: "-", high: "+"}
	for more := true; more; {
		var page []*stored
		if page, more, err = w.next(ctx); err != nil {
			return stored{}, false, err
		}
		if len(page) > 0 {
			return *page[0], true, nil
		}
	}
	return stored{}, false, nil
}

package dynamodb

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/persistence/driver"
)

// maxSeen bounds how many IDs a loop remembers, so that it need not ask for a head that it
// has yielded. Beyond it, and after a Cursor, a partition may come twice.
const maxSeen = 50_000

// Partitions reads both tables by Scans: first that of the heads, then that of the siblings
// for partitions without one. It asks for keys and metadata, and costs the read units of all
// that is stored.
func (d *Driver) Partitions(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		l, err := d.listing(ctx, o)
		if err != nil {
			yield(driver.Entry{}, err)
			return
		}
		for e, err := range driver.Pages(ctx, l.next) {
			if !yield(e, err) || err != nil {
				return
			}
			l.remember(e.Partition)
		}
	}
}

// The phases of a listing; a cursor begins with that of its entry.
const (
	inHeads    = "h"
	inSiblings = "s"
	done       = ""
)

// listing is where a loop over Partitions has come to.
type listing struct {
	d     *Driver
	phase string
	start item // the key that the next page follows
	limit int
	seen  map[driver.Partition]bool
	last  driver.Partition // of the siblings' table: its items come together
}

func (d *Driver) listing(ctx context.Context, o driver.ListOptions) (*listing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listing{d: d, phase: inHeads, limit: o.PageSize, seen: map[driver.Partition]bool{}}
	if o.Cursor == "" {
		return l, nil
	}
	phase, rest := o.Cursor[:1], o.Cursor[1:]
	sort, id, found := strings.Cut(rest, "\x00")
	switch {
	case phase == inHeads && rest != "":
		l.start = headLayout.key(driver.Partition(rest).Head())
	case phase == inSiblings && found && sort != "" && id != "":
		l.last = driver.Partition(id)
		l.start = siblingLayout.key(l.last.Sibling(sort))
	default:
		return nil, unsupported("the cursor is none of this driver's")
	}
	l.phase = phase
	return l, nil
}

func (l *listing) remember(p driver.Partition) {
	if len(l.seen) < maxSeen {
		l.seen[p] = true
	}
}

// next reads one page of the phase at hand, and whether there may be more.
func (l *listing) next(ctx context.Context) (page []driver.Entry, more bool, err error) {
	t, attributes := l.d.heads, []string{headLayout.partition, attrMethod, attrSaved, attrTTL, headLayout.tag, headLayout.expire}
	if l.phase == inSiblings {
		t, attributes = l.d.siblings, []string{siblingLayout.partition, siblingLayout.sort, siblingLayout.expire}
	}
	items, next, err := l.scan(ctx, t, attributes)
	if err != nil {
		return nil, false, err
	}
	if l.phase == inHeads {
		page = l.headEntries(items)
	} else if page, err = l.siblingEntries(ctx, items); err != nil {
		return nil, false, err
	}
	l.start = next
	switch {
	case len(next) > 0:
	case l.phase == inHeads:
		l.phase = inSiblings
	default:
		l.phase = done
	}
	return page, l.phase != done, nil
}

// scan reads one page of a table; without a table there is nothing.
func (l *listing) scan(ctx context.Context, t *table, attributes []string) (items []item, next item, err error) {
	in := &dynamodb.ScanInput{TableName: &t.name, ConsistentRead: aws.Bool(true), ExclusiveStartKey: l.start}
	in.ProjectionExpression, in.ExpressionAttributeNames = projection(attributes)
	if l.limit > 0 {
		in.Limit = aws.Int32(int32(min(l.limit, 10_000)))
	}
	err = l.d.send(ctx, &request{action: "Scan", table: t.name}, func(ctx context.Context, watch func(*dynamodb.Options)) error {
		out, err := l.d.client.Scan(ctx, in, watch)
		if err == nil {
			items, next = out.Items, out.LastEvaluatedKey
		}
		return err
	})
	if isMissing(err) {
		return nil, nil, nil
	}
	return items, next, err
}

// projection names attributes by references, since some are reserved words.
func projection(attributes []string) (*string, map[string]string) {
	refs, names := make([]string, len(attributes)), map[string]string{}
	for i, a := range attributes {
		refs[i] = fmt.Sprintf("#a%d", i)
		names[refs[i]] = a
	}
	return aws.String(strings.Join(refs, ", ")), names
}

func (l *listing) headEntries(items []item) []driver.Entry {
	var page []driver.Entry
	for _, it := range items {
		if e, exists := l.headEntry(it); exists {
			e.Cursor = inHeads + string(e.Partition)
			page = append(page, e)
		}
	}
	return page
}

// headEntry describes a head, whatever its state is; it does not exist if it has expired.
func (l *listing) headEntry(it item) (e driver.Entry, exists bool) {
	id, _ := textOf(it, headLayout.partition)
	e.Partition = driver.Partition(id)
	e.Method, _ = textOf(it, attrMethod)
	saved, _ := textOf(it, attrSaved)
	e.SavedAt = parseTime(saved)
	if _, ours := textOf(it, headLayout.tag); ours {
		if ms, ok := integerOf(it, headLayout.expire); ok {
			e.ExpireAt = expiryOf(ms)
		}
	} else if sec, ok := integerOf(it, attrTTL); ok {
		e.ExpireAt = time.Unix(sec, 0).UTC()
	}
	return e, id != "" && !l.d.expired(e.ExpireAt)
}

// siblingEntries finds the partitions of a page that have not been yielded, and asks for
// their heads: most have none, but one may have been made since, or before the cursor.
func (l *listing) siblingEntries(ctx context.Context, items []item) ([]driver.Entry, error) {
	var page []driver.Entry
	for _, it := range items {
		id, _ := textOf(it, siblingLayout.partition)
		sort, _ := textOf(it, siblingLayout.sort)
		ms, expires := integerOf(it, siblingLayout.expire)
		p := driver.Partition(id)
		if p == l.last && len(page) > 0 && page[len(page)-1].Partition == p {
			page[len(page)-1].Cursor = inSiblings + sort + "\x00" + id
		}
		if p == l.last || expires && l.d.expired(expiryOf(ms)) {
			continue
		}
		l.last = p
		if !l.seen[p] {
			page = append(page, driver.Entry{Partition: p, Headless: true, Cursor: inSiblings + sort + "\x00" + id})
		}
	}
	for from := 0; from < len(page); from += getsAtOnce {
		if err := l.lookUp(ctx, page[from:min(from+getsAtOnce, len(page))]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// getsAtOnce is DynamoDB's limit for BatchGetItem.
const getsAtOnce = 100

// lookUp completes the entries that have a head.
func (l *listing) lookUp(ctx context.Context, entries []driver.Entry) error {
	places := map[driver.Partition]int{}
	keys := make([]item, len(entries))
	for i, e := range entries {
		places[e.Partition] = i
		keys[i] = headLayout.key(e.Partition.Head())
	}
	heads, err := l.getHeads(ctx, keys)
	if err != nil {
		return err
	}
	for _, it := range heads {
		e, exists := l.headEntry(it)
		i, asked := places[e.Partition]
		if exists && asked {
			e.Cursor = entries[i].Cursor
			entries[i] = e
		}
	}
	return nil
}

// getHeads reads the metadata of many heads, and asks again for what was left unprocessed.
func (l *listing) getHeads(ctx context.Context, keys []item) (heads []item, err error) {
	t := l.d.heads
	q := &request{action: "BatchGetItem", table: t.name}
	want := types.KeysAndAttributes{Keys: keys, ConsistentRead: aws.Bool(true)}
	want.ProjectionExpression, want.ExpressionAttributeNames = projection(
		[]string{headLayout.partition, attrMethod, attrSaved, attrTTL, headLayout.tag, headLayout.expire})
	for idle := 0; len(want.Keys) > 0; {
		var left []item
		err := l.d.send(ctx, q, func(ctx context.Context, watch func(*dynamodb.Options)) error {
			out, err := l.d.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{t.name: want}}, watch)
			if err == nil {
				heads = append(heads, out.Responses[t.name]...)
				left = out.UnprocessedKeys[t.name].Keys
			}
			return err
		})
		if isMissing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(left) == len(want.Keys) {
			idle++
		} else {
			idle = 0
		}
		if idle == maxUnprocessed {
			return nil, unprocessed(q, len(left))
		}
		if want.Keys = left; len(left) > 0 {
			if err := pause(ctx, idle); err != nil {
				return nil, err
			}
		}
	}
	return heads, nil
}

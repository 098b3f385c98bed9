package dynamodb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// decode reads an item; found is false for none and for one that has expired.
func (d *Driver) decode(k driver.Key, it item) (r driver.Record, found bool, err error) {
	if it == nil {
		return r, false, nil
	}
	l := d.table(k).layout
	tag, ours := textOf(it, l.tag)
	if k.Sort == "" && !ours {
		return d.decodeForeign(it)
	}
	if !ours || tag == "" {
		return r, false, corrupt("the item has no tag")
	}
	r = driver.Record{Sort: k.Sort, Tag: driver.Tag(tag), Data: bytesOf(it, l.data)}
	if ms, ok := integerOf(it, l.expire); ok {
		r.ExpireAt = expiryOf(ms)
	}
	if k.Sort == "" {
		if err := readNative(it, &r); err != nil {
			return r, false, err
		}
	}
	return r, !d.expired(r.ExpireAt), nil
}

// readNative reads what the Python package reads and writes.
func readNative(it item, r *driver.Record) error {
	for _, name := range nativeAttributes {
		if _, isText := textOf(it, name); it[name] != nil && !isText && name != attrTTL {
			return corrupt("the attribute " + name + " is no text")
		}
	}
	if state, ok := textOf(it, attrState); ok {
		r.State = []byte(state)
	}
	r.Method, _ = textOf(it, attrMethod)
	saved, _ := textOf(it, attrSaved)
	r.SavedAt = parseTime(saved)
	return nil
}

// decodeForeign reads an item without a tag: the Python package wrote it, and dropped with
// it whatever Weir had there. Its ttl is its expiry.
func (d *Driver) decodeForeign(it item) (r driver.Record, found bool, err error) {
	if err := readNative(it, &r); err != nil {
		return r, false, err
	}
	if r.State == nil {
		r.State = []byte{} // a state that cannot be read, not one that is elsewhere
	}
	if sec, ok := integerOf(it, attrTTL); ok {
		r.ExpireAt = time.Unix(sec, 0).UTC()
	}
	r.Tag = contentTag(it)
	return r, !d.expired(r.ExpireAt), nil
}

func (d *Driver) expired(at time.Time) bool { return !at.IsZero() && !d.cfg.Now().Before(at) }

// nativeAttributes are those of the Python package, the key left out.
var nativeAttributes = [...]string{attrState, attrMethod, attrSaved, attrTTL}

// contentTag names an item of another program by all that it holds. The Python package puts
// the time of each write into it, in microseconds, so that two writes have the same tag only
// if they are the same state, saved by the same method in the same microsecond: nothing
// could tell them apart, and to take one for the other changes nothing. It is never a tag of
// ours, which begins otherwise.
func contentTag(it item) driver.Tag {
	h := sha256.New()
	for _, name := range nativeAttributes {
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(h, "S%d:", len(v.Value))
			_, _ = io.WriteString(h, v.Value) // a hash takes everything
		case *types.AttributeValueMemberN:
			fmt.Fprintf(h, "N%d:%s", len(v.Value), v.Value)
		default:
			fmt.Fprint(h, "-")
		}
	}
	return driver.Tag(foreignTag + hex.EncodeToString(h.Sum(nil)[:16]))
}

// guard is a condition in DynamoDB's language. The zero guard is "always".
type guard struct {
	text   string
	names  map[string]string
	values item
}

func (g guard) empty() bool { return g.text == "" }

// guard states cond for k. A tag of ours is compared by the store. One of another program's
// item stands for content, so that is read first and then compared by the store, attribute
// by attribute: whatever was written in between differs.
func (d *Driver) guard(ctx context.Context, k driver.Key, cond driver.Condition) (guard, error) {
	t := d.table(k)
	tag, onTag := cond.Tag()
	switch {
	case cond.Absent():
		return d.ifAbsent(t), nil
	case !onTag:
		return guard{}, nil
	case k.Sort == "" && strings.HasPrefix(string(tag), foreignTag):
		return d.ifContent(ctx, k, tag)
	}
	return guard{
		text:   "#t = :t AND (attribute_not_exists(#e) OR #e > :now)",
		names:  map[string]string{"#t": t.tag, "#e": t.expire},
		values: item{":t": text(string(tag)), ":now": number(d.cfg.Now().UnixMilli())},
	}, nil
}

// ifAbsent holds where there is no item, or an expired one.
func (d *Driver) ifAbsent(t *table) guard {
	now := d.cfg.Now()
	g := guard{
		text:   "attribute_not_exists(#k) OR #e <= :now",
		names:  map[string]string{"#k": t.partition, "#e": t.expire},
		values: item{":now": number(now.UnixMilli())},
	}
	if t == d.heads {
		g.text += " OR (attribute_not_exists(#t) AND #ttl <= :sec)"
		g.names["#t"], g.names["#ttl"] = t.tag, attrTTL
		g.values[":sec"] = number(now.Unix())
	}
	return g
}

// ifContent holds while the item is the one that tag stands for.
func (d *Driver) ifContent(ctx context.Context, k driver.Key, tag driver.Tag) (guard, error) {
	it, err := d.getItem(ctx, k)
	if err != nil {
		return guard{}, err
	}
	r, found, err := d.decode(k, it)
	switch {
	case err != nil:
		return guard{}, err
	case !found:
		return guard{}, &driver.ConflictError{Known: true, Sure: true}
	case r.Tag != tag:
		return guard{}, &driver.ConflictError{Known: true, Current: &r, Sure: true}
	}
	g := guard{
		text:   "attribute_exists(#k) AND attribute_not_exists(#t)",
		names:  map[string]string{"#k": headLayout.partition, "#t": headLayout.tag},
		values: item{},
	}
	for i, name := range nativeAttributes {
		ref := fmt.Sprintf("a%d", i)
		g.names["#"+ref] = name
		if v, ok := it[name]; ok {
			g.text += fmt.Sprintf(" AND #%s = :%s", ref, ref)
			g.values[":"+ref] = v
		} else {
			g.text += fmt.Sprintf(" AND attribute_not_exists(#%s)", ref)
		}
	}
	if len(g.values) == 0 {
		g.values = nil
	}
	return g, nil
}

func corrupt(what string) error { return fmt.Errorf("%w: dynamodb: %s", core.ErrCorrupt, what) }

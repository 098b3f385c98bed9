package dynamodb

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// item is what DynamoDB calls an item: values by the names of attributes.
type item = map[string]types.AttributeValue

// layout names the attributes of a table that both kinds of records have.
type layout struct {
	partition, sort string
	tag             string
	data            string
	expire          string // milliseconds since 1970
}

// The attributes of the two tables. A head has those of the Python package besides.
var (
	headLayout    = layout{partition: "flow_uuid", tag: "weir_tag", data: "weir_data", expire: "weir_expire_at"}
	siblingLayout = layout{partition: "pk", sort: "sk", tag: "tag", data: "data", expire: "expire_at"}
)

// The attributes of the Python package, and the one that DynamoDB's TTL looks at, in seconds
// since 1970, which both tables have.
const (
	attrState  = "data"
	attrMethod = "method_name"
	attrSaved  = "saved_at"
	attrTTL    = "ttl"
)

// What tags begin with: those of writes by this driver, and those that stand for the content
// of an item that another program wrote.
const (
	ownTag     = "w-"
	foreignTag = "x-"
)

// encode returns the whole item. Everything of Weir's is in it, so that the PutItem of
// another program drops it whole.
func encode(k driver.Key, r driver.Record, tag driver.Tag) item {
	l := siblingLayout
	it := item{}
	if k.Sort == "" {
		l = headLayout
		it[attrMethod] = text(r.Method)
		it[attrSaved] = text(formatTime(r.SavedAt))
		if r.State != nil {
			it[attrState] = text(string(r.State))
		}
	} else {
		it[l.sort] = text(k.Sort)
	}
	it[l.partition] = text(string(k.Partition))
	it[l.tag] = text(string(tag))
	if r.Data != nil {
		it[l.data] = &types.AttributeValueMemberB{Value: r.Data}
	}
	if !r.ExpireAt.IsZero() {
		ms := r.ExpireAt.UnixMilli()
		it[l.expire] = number(ms)
		it[attrTTL] = number(wholeSeconds(ms))
	}
	return it
}

// wholeSeconds rounds up: the store must not delete what has not expired.
func wholeSeconds(ms int64) int64 {
	sec := ms / 1000
	if ms%1000 > 0 {
		sec++
	}
	return sec
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// key returns the primary key of k.
func (l layout) key(k driver.Key) item {
	it := item{l.partition: text(string(k.Partition))}
	if l.sort != "" {
		it[l.sort] = text(k.Sort)
	}
	return it
}

// textOf returns a text attribute; ok is false for one that is missing or no text.
func textOf(it item, name string) (s string, ok bool) {
	v, ok := it[name].(*types.AttributeValueMemberS)
	if !ok {
		return "", false
	}
	return v.Value, true
}

// integerOf returns a whole number; ok is false for what is missing or none.
func integerOf(it item, name string) (n int64, ok bool) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	return n, err == nil
}

func bytesOf(it item, name string) []byte {
	v, ok := it[name].(*types.AttributeValueMemberB)
	switch {
	case !ok:
		return nil
	case v.Value == nil:
		return []byte{}
	}
	return v.Value
}

func tagOf(t *table, it item) driver.Tag {
	tag, _ := textOf(it, t.tag)
	return driver.Tag(tag)
}

// check refuses before anything is sent what DynamoDB or a reader could not hold.
func check(d *Driver, k driver.Key, r driver.Record) error {
	if err := driver.CheckSize(d, k, r); err != nil {
		return err
	}
	if y := r.SavedAt.UTC().Year(); y < 1 || y > 9999 {
		return unsupported("the save time " + r.SavedAt.String() + " is outside of the years 1 to 9999")
	}
	if !utf8.Valid(r.State) {
		return &core.StateError{Reason: "the text is not UTF-8"}
	}
	if !utf8.ValidString(r.Method) {
		return unsupported("the method is not UTF-8")
	}
	return nil
}

// Size returns what DynamoDB counts for the item: for each attribute the bytes of its name
// and of its value; texts count in UTF-8. Numbers are counted a little too long, never too
// short, and a sibling always as if it had data and an expiry, so that its size is that of
// an empty one and its data.
func (d *Driver) Size(k driver.Key, r driver.Record) int {
	l := d.table(k).layout
	size := len(l.partition) + len(k.Partition) + len(l.tag) + tagBytes + len(r.Data)
	if k.Sort != "" {
		return size + len(l.sort) + len(k.Sort) + len(l.data) + len(l.expire) + len(attrTTL) + 2*mostNumberBytes
	}
	size += len(attrMethod) + len(r.Method) + len(attrSaved) + len(formatTime(r.SavedAt))
	if r.State != nil {
		size += len(attrState) + len(r.State)
	}
	if r.Data != nil {
		size += len(l.data)
	}
	if !r.ExpireAt.IsZero() {
		ms := r.ExpireAt.UnixMilli()
		size += len(l.expire) + numberBytes(ms) + len(attrTTL) + numberBytes(wholeSeconds(ms))
	}
	return size
}

// tagBytes is the length of every tag of newTag.
const tagBytes = len(ownTag) + 26

// numberBytes is a byte for two digits, one for the exponent, and at most two for a sign and
// digits that fall across pairs.
func numberBytes(n int64) int { return (len(strconv.FormatInt(n, 10))+1)/2 + 2 }

// mostNumberBytes is for the 19 digits and the sign of the longest.
const mostNumberBytes = 12

// expiryOf reads milliseconds.
func expiryOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

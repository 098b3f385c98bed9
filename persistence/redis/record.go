package redis

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// fields are those of a record's hash, in the order in which they are read. Reading without
// what is large leaves out the end.
var fields = []string{"tag", "payload", "method", "saved_at", "expire_at", "id", "state", "data"}

// smallFields is how many of the fields are always small.
const smallFields = 6

// A tag begins with where the larger part of its record is.
const (
	taggedInline  = "i"
	taggedPayload = "p" // in the payload key of this tag
)

func newTag(hasPayload bool) driver.Tag {
	where := taggedInline
	if hasPayload {
		where = taggedPayload
	}
	return driver.Tag(where + strings.ToLower(rand.Text()))
}

func hasPayload(t driver.Tag) bool { return strings.HasPrefix(string(t), taggedPayload) }

// encoded is a record as it goes into the store.
type encoded struct {
	tag     driver.Tag
	expire  string   // milliseconds since 1970, "" for never
	pairs   []any    // fields and values of the hash
	absent  []any    // fields that the hash must not have
	payload [][]byte // what stays out of the hash, in the order of the payload field
}

// encode lays a record out: up to inHash bytes of State and Data stay in the hash; of more,
// the larger one becomes the payload, or both if the other alone is over it as well.
func encode(r driver.Record, id string, inHash int) encoded {
	var e encoded
	state, data := r.State, r.Data
	var where []string
	if len(state)+len(data) > inHash {
		both := min(len(state), len(data)) > inHash
		stateOut := both || len(state) >= len(data)
		if both || !stateOut {
			where, e.payload, data = append(where, "d"+strconv.Itoa(len(data))), append(e.payload, data), nil
		}
		if stateOut {
			where, e.payload, state = append(where, "s"+strconv.Itoa(len(state))), append(e.payload, state), nil
		}
	}
	e.tag = newTag(len(e.payload) > 0)
	if !r.ExpireAt.IsZero() {
		// What is before 1970 has expired just as much at its first millisecond.
		e.expire = strconv.FormatInt(max(r.ExpireAt.UnixMilli(), 1), 10)
	}
	var savedAt string
	if !r.SavedAt.IsZero() {
		savedAt = strconv.FormatInt(r.SavedAt.UnixMicro(), 10)
	}
	e.text("payload", strings.Join(where, " "))
	e.text("method", r.Method)
	e.text("saved_at", savedAt)
	e.text("expire_at", e.expire)
	e.text("id", id)
	e.bytes("state", state)
	e.bytes("data", data)
	return e
}

func (e *encoded) text(field, value string) {
	if value == "" {
		e.absent = append(e.absent, field)
		return
	}
	e.pairs = append(e.pairs, field, value)
}

func (e *encoded) bytes(field string, value []byte) {
	if value == nil {
		e.absent = append(e.absent, field)
		return
	}
	e.pairs = append(e.pairs, field, value)
}

// stored is a record as it comes out of the store.
type stored struct {
	driver.Record
	id    string // the partition, where the key has only its hash
	where string // the payload field
}

// decode reads the values of fields, or of the first ones; found is false if there is no
// record. The payload is not in it yet.
func decode(sort string, values []any) (s stored, found bool, err error) {
	text := make([]string, len(fields))
	has := make([]bool, len(fields))
	for i, v := range values {
		text[i], has[i] = v.(string)
		found = found || has[i]
	}
	if !found {
		return stored{}, false, nil
	}
	s.Sort, s.Tag, s.where, s.Method, s.id = sort, driver.Tag(text[0]), text[1], text[2], text[5]
	if s.Tag == "" || hasPayload(s.Tag) != (s.where != "") {
		return stored{}, false, corrupt("a record without the tag that Weir writes; another program changed it")
	}
	if has[3] {
		us, err := strconv.ParseInt(text[3], 10, 64)
		if err != nil {
			return stored{}, false, corrupt("a record whose saved_at is no number")
		}
		s.SavedAt = time.UnixMicro(us).UTC()
	}
	if has[4] {
		ms, err := strconv.ParseInt(text[4], 10, 64)
		if err != nil {
			return stored{}, false, corrupt("a record whose expire_at is no number")
		}
		s.ExpireAt = time.UnixMilli(ms).UTC()
	}
	if has[6] {
		s.State = []byte(text[6])
	}
	if has[7] {
		s.Data = []byte(text[7])
	}
	return s, true, nil
}

// payloadSize returns how many bytes are outside the hash.
func (s *stored) payloadSize() (size int, err error) {
	for part := range strings.FieldsSeq(s.where) {
		n, err := strconv.Atoi(part[1:])
		if err != nil || n < 0 {
			return 0, corrupt("a record whose payload field cannot be read")
		}
		size += n
	}
	return size, nil
}

// take puts the payload into the record, which then owns it.
func (s *stored) take(payload []byte) error {
	size, err := s.payloadSize()
	if err != nil {
		return err
	}
	if size != len(payload) {
		return corrupt(fmt.Sprintf("a payload has %d bytes, the record says %d", len(payload), size))
	}
	for part := range strings.FieldsSeq(s.where) {
		n, _ := strconv.Atoi(part[1:])
		switch part[0] {
		case 's':
			s.State = payload[:n:n]
		case 'd':
			s.Data = payload[:n:n]
		default:
			return corrupt("a record whose payload field cannot be read")
		}
		payload = payload[n:]
	}
	return nil
}

func corrupt(what string) error { return fmt.Errorf("%w: redis: %s", core.ErrCorrupt, what) }

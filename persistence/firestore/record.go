package firestore

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// The names in the document of a head. Everything but the state is in one map, which the
// Python package replaces as a whole.
const (
	metaField   = "_persistence_meta"
	metaMethod  = "method_name"
	metaSavedAt = "saved_at"

	metaWrite     = "weir_write"     // random, new at every write; without it the document is another program's
	metaData      = "weir_data"      // bytes
	metaExpireAt  = "weir_expire_at" // timestamp
	metaState     = "weir_state"     // bytes: the state as JSON, where fields cannot hold it
	metaElsewhere = "weir_elsewhere" // a reference, where the fields are not the state
	metaID        = "weir_id"        // the flow's ID, where the document's is a hash

	// What the documentation of the Python package calls its metadata.
	oldMethod  = "_method_name"
	oldSavedAt = "_saved_at"
)

// The names in the document of a sibling.
const (
	siblingWrite    = "write"
	siblingData     = "data"
	siblingExpireAt = "expire_at"
	siblingFlow     = "flow_id" // where the ID of the head's document is a hash
)

// siblingFields are all fields that a sibling can have.
func siblingFields() []string {
	return []string{siblingWrite, siblingData, siblingExpireAt, siblingFlow}
}

// elsewhereDocument is what metaElsewhere refers to, in another database of the project. The
// Python client refuses to decode a reference into another database, so that a program that
// does not know Weir fails to load a state that is not in the fields; it would otherwise find
// an empty one.
const elsewhereDocument = "/databases/weir/documents/weir/elsewhere"

// write is one record on its way into a document.
type write struct {
	doc    *gcp.DocumentRef
	token  string // of this write
	key    driver.Key
	record driver.Record
	expire time.Time
	fields map[string]any
	native bool // the state is in fields of its own
}

// newWrite lays a record out. It refuses one that is too large, before anything is sent.
func (d *Driver) newWrite(k driver.Key, r driver.Record) (*write, error) {
	if err := checkRecord(r); err != nil {
		return nil, err
	}
	w := &write{token: rand.Text(), key: k, record: r, expire: r.ExpireAt.Truncate(time.Millisecond)}
	var keep string
	w.doc, keep = d.ref(k)
	l := d.layout(k, r, true)
	if l.size > d.cfg.Limits.Record {
		return nil, &core.SizeError{Size: int64(l.size), Limit: int64(d.cfg.Limits.Record)}
	}
	if k.Sort != "" {
		w.fields = w.siblingFields(keep)
		return w, nil
	}
	w.native = l.native
	w.fields = l.fields
	if w.fields == nil {
		w.fields = map[string]any{}
	}
	w.fields[metaField] = d.meta(w, keep)
	return w, nil
}

// inBytes lays a head out again, with the state as bytes.
func (d *Driver) inBytes(w *write) error {
	if size := d.bytesSize(w.key, w.record); size > d.cfg.Limits.Record {
		return &core.SizeError{Size: int64(size), Limit: int64(d.cfg.Limits.Record)}
	}
	_, keep := d.ref(w.key)
	w.native = false
	w.fields = map[string]any{metaField: d.meta(w, keep)}
	return nil
}

func (w *write) siblingFields(keep string) map[string]any {
	fields := map[string]any{siblingWrite: w.token, siblingData: notNil(w.record.Data)}
	if !w.expire.IsZero() {
		fields[siblingExpireAt] = w.expire
	}
	if keep != "" {
		fields[siblingFlow] = keep
	}
	return fields
}

func (d *Driver) meta(w *write, keep string) map[string]any {
	r := w.record
	meta := map[string]any{metaMethod: r.Method, metaSavedAt: formatTime(r.SavedAt), metaWrite: w.token}
	if len(r.Data) > 0 {
		meta[metaData] = r.Data
	}
	if !w.expire.IsZero() {
		meta[metaExpireAt] = w.expire
	}
	if keep != "" {
		meta[metaID] = keep
	}
	if w.native {
		return meta
	}
	meta[metaElsewhere] = &gcp.DocumentRef{Path: d.elsewhere}
	if len(r.State) > 0 {
		meta[metaState] = r.State
	}
	return meta
}

// notNil keeps empty bytes from being stored as null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// checkRecord refuses what a document cannot hold.
func checkRecord(r driver.Record) error {
	for _, t := range [...]time.Time{r.SavedAt, r.ExpireAt} {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return unsupported("the time " + t.String() + " is outside of the years 1 to 9999")
		}
	}
	if !utf8.ValidString(r.Method) {
		return unsupported("the name of the method is not UTF-8")
	}
	return nil
}

// stored is a document as it was read.
type stored struct {
	driver.Record
	id     string   // the flow's ID, if the document holds it
	token  string   // of the write that made it; "" for another program's
	fields []string // names of its top-level fields

	created, readAt time.Time // by the server's clock
}

// decode reads the document of a record.
func decode(snap *gcp.DocumentSnapshot, sort string) (stored, error) {
	fields := map[string]any{}
	if err := snap.DataTo(&fields); err != nil {
		return stored{}, fmt.Errorf("%w: firestore: the document cannot be decoded: %w", core.ErrCorrupt, err)
	}
	s := stored{fields: topNames(fields), created: snap.CreateTime, readAt: snap.ReadTime}
	s.Sort = sort
	if sort != "" {
		s.token = text(fields[siblingWrite])
		s.id = text(fields[siblingFlow])
		s.ExpireAt = timestamp(fields[siblingExpireAt])
		s.Data, _ = fields[siblingData].([]byte)
	} else if err := s.decodeHead(fields); err != nil {
		return stored{}, err
	}
	s.Tag = makeTag(snap.UpdateTime, s.ExpireAt)
	return s, nil
}

func (s *stored) decodeHead(fields map[string]any) (err error) {
	meta := s.decodeMeta(fields)
	delete(fields, metaField)
	s.Data, _ = meta[metaData].([]byte)
	if _, elsewhere := meta[metaElsewhere]; s.token != "" && elsewhere {
		s.State, _ = meta[metaState].([]byte)
		return nil
	}
	s.State, err = appendJSON(nil, fields)
	return err
}

// decodeMeta reads what is not the state, and takes its old form out of the fields.
func (s *stored) decodeMeta(fields map[string]any) (meta map[string]any) {
	meta, _ = fields[metaField].(map[string]any)
	if s.token = text(meta[metaWrite]); s.token == "" {
		// Nothing of ours counts in a document that is not.
		meta = map[string]any{metaMethod: meta[metaMethod], metaSavedAt: meta[metaSavedAt]}
	}
	s.Method, s.SavedAt = text(meta[metaMethod]), savedAt(meta[metaSavedAt])
	if _, ok := fields[metaField]; !ok {
		s.Method, s.SavedAt = text(fields[oldMethod]), savedAt(fields[oldSavedAt])
		delete(fields, oldMethod)
		delete(fields, oldSavedAt)
	}
	s.ExpireAt, s.id = timestamp(meta[metaExpireAt]), text(meta[metaID])
	return meta
}

// expired reports whether the record is absent at that time.
func (s *stored) expired(now time.Time) bool { return isExpired(s.ExpireAt, now) }

func isExpired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

func text(v any) string {
	s, _ := v.(string)
	return s
}

func timestamp(v any) time.Time {
	t, _ := v.(time.Time)
	return t
}

// savedAt reads the time of a save, which is text, or a timestamp where somebody made it one.
func savedAt(v any) time.Time {
	if t, ok := v.(time.Time); ok {
		return t.UTC().Truncate(time.Microsecond)
	}
	return parseTime(text(v))
}

// formatTime writes t as Python's datetime.isoformat does in UTC: microseconds are left out
// when they are zero.
func formatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// parseTime reads what formatTime or another program wrote; a time without a zone is UTC.
// What cannot be read is the zero time: it informs people and decides nothing.
func parseTime(s string) time.Time {
	s = strings.Replace(s, " ", "T", 1)
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

// makeTag returns the tag of a document: the time of its last change, which no other state of
// it had, since every write of ours changes at least the token. It carries the expiry, so that
// a condition on an expired record is refused without a look.
func makeTag(updated, expire time.Time) driver.Tag {
	tag := strconv.FormatInt(updated.UnixNano(), 10)
	if !expire.IsZero() {
		tag += "x" + strconv.FormatInt(expire.UnixMilli(), 10)
	}
	return driver.Tag(tag)
}

// parseTag undoes makeTag, or reports false for a tag that no document has.
func parseTag(t driver.Tag) (updated, expire time.Time, ok bool) {
	head, tail, expires := strings.Cut(string(t), "x")
	nanos, err := strconv.ParseInt(head, 10, 64)
	if err != nil || nanos <= 0 || nanos%1000 != 0 {
		return time.Time{}, time.Time{}, false
	}
	if expires {
		millis, err := strconv.ParseInt(tail, 10, 64)
		if err != nil {
			return time.Time{}, time.Time{}, false
		}
		expire = time.UnixMilli(millis)
	}
	updated = time.Unix(0, nanos)
	return updated, expire, makeTag(updated, expire) == t
}

// updates returns the write as changes of single fields, which leave nothing of a document
// that has the fields old.
func (w *write) updates(old []string) []gcp.Update {
	us := make([]gcp.Update, 0, len(w.fields)+len(old))
	for _, name := range slices.Sorted(maps.Keys(w.fields)) {
		us = append(us, gcp.Update{FieldPath: gcp.FieldPath{name}, Value: w.fields[name]})
	}
	for _, name := range old {
		if _, stays := w.fields[name]; !stays {
			us = append(us, gcp.Update{FieldPath: gcp.FieldPath{name}, Value: gcp.Delete})
		}
	}
	return us
}

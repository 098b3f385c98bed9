package persistence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// Names of the parts of a payload. A program ignores no part it does not know: a new part
// comes with a new format version.
const (
	partState    = "state"
	partProgress = "progress"
	partLog      = "log" // the newest entries, always inline
)

// Places of a part.
const (
	atNative   = "native"   // Record.State
	atInline   = "inline"   // after the header line of Record.Data
	atSegments = "segments" // in the siblings seg/<epoch>/<ID>/…
)

// manifest says where each part of a payload is.
type manifest struct {
	Parts    []part `json:"parts,omitempty"`
	ID       string `json:"id,omitempty"`       // owner of the segments
	Segments int    `json:"segments,omitempty"` // how many there are
}

// part is one named byte string of a payload, in the order of storage.
type part struct {
	Name string `json:"name"`
	At   string `json:"at"`
	Size int    `json:"size"`          // bytes as given
	Enc  string `json:"enc,omitempty"` // "zstd" or "" for as given
	Len  int    `json:"len,omitempty"` // bytes as stored, if not native
	Sum  string `json:"sum,omitempty"` // first 16 bytes of SHA-256 of the stored bytes, if not native
}

func nativeManifest(state []byte) manifest {
	return manifest{Parts: []part{{Name: partState, At: atNative, Size: len(state)}}}
}

// content is the payload of a head or a history entry as the Store's callers see it.
type content struct {
	state    []byte
	progress []byte // nil for none
	log      []byte // of a head: the newest entries, nil for none
}

// packed is a content laid out for the store: one record and its segments.
type packed struct {
	manifest manifest
	native   []byte
	inline   []byte
	segments []byte // all of them in a row
	chunk    int    // bytes a segment
}

// encodedPart is a part on its way into a record.
type encodedPart struct {
	part
	raw    []byte
	stored []byte
}

// layout decides where the parts of c go. size tells how large a record of the given shape is;
// native allows the state to stay in the store's own form.
//
// The ladder keeps the state readable to other programs as long as possible: as given; then
// compressed, progress first; then in segments, progress first.
func layout(c content, native bool, limits driver.Limits, size func(packed) int) packed {
	parts := []*encodedPart{newPart(partState, c.state, atInline)}
	if native {
		parts[0].At = atNative
	}
	if c.progress != nil {
		parts = append(parts, newPart(partProgress, c.progress, atInline))
	}
	var log []*encodedPart
	if c.log != nil {
		log = append(log, newPart(partLog, c.log, atInline)) // first, so that it is found without reading on
	}
	arrange := func(parts []*encodedPart) packed { return arrange(append(log, parts...)) }
	p := arrange(parts)
	if size(p) <= limits.Inline {
		return p
	}
	for _, e := range slices.Backward(parts) {
		if e.compress() {
			if p = arrange(parts); size(p) <= limits.Inline {
				return p
			}
		}
	}
	for _, e := range slices.Backward(parts) {
		if p = arrange(parts); size(p) <= limits.Record {
			return p
		}
		e.At = atSegments
	}
	return arrange(parts)
}

func newPart(name string, raw []byte, at string) *encodedPart {
	return &encodedPart{part: part{Name: name, At: at, Size: len(raw)}, raw: raw, stored: raw}
}

// compress replaces the stored form by a smaller one, if it saves at least a tenth. A frame
// of less than 256 bytes would not say how much it holds, and would hardly be smaller.
func (e *encodedPart) compress() bool {
	const worthwhile = 256
	if len(e.raw) < worthwhile {
		return false
	}
	small := compress(e.raw)
	if len(small) > len(e.raw)-len(e.raw)/10 {
		return false
	}
	e.stored, e.Enc = small, encZstd
	if e.At == atNative {
		e.At = atInline
	}
	return true
}

// arrange collects the parts by place.
func arrange(parts []*encodedPart) packed {
	var p packed
	for _, e := range parts {
		if e.At == atNative {
			p.native = e.stored
		} else {
			e.Len, e.Sum = len(e.stored), checksum(e.stored)
		}
		switch e.At {
		case atInline:
			p.inline = append(p.inline, e.stored...)
		case atSegments:
			p.segments = append(p.segments, e.stored...)
		}
		p.manifest.Parts = append(p.manifest.Parts, e.part)
	}
	return p
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// cut gives the segments an owner, whose name the keys tell, and a size. A chunk too small to
// be useful means that the limit of the store is nearly used up by the key alone.
func (s *Store) cut(p *packed, part driver.Partition, epoch, owner string) error {
	if len(p.segments) == 0 {
		return nil
	}
	p.manifest.ID = owner
	key := part.Sibling(segmentSort(epoch, p.manifest.ID, 0))
	limit := s.limits.Record
	empty := driver.Size(s.drv, key, driver.Record{})
	const smallest = 64
	if p.chunk = limit - empty; p.chunk < smallest {
		return &core.SizeError{Size: int64(empty + smallest), Limit: int64(limit)}
	}
	p.manifest.Segments = (len(p.segments) + p.chunk - 1) / p.chunk
	if p.manifest.Segments > maxSegments {
		return &core.SizeError{Size: int64(len(p.segments)), Limit: int64(p.chunk) * maxSegments}
	}
	return nil
}

// maxSegments is what the number in a segment's key has digits for.
const maxSegments = 1_000_000

func segmentSort(epoch, id string, number int) string {
	return fmt.Sprintf("%s%06d", segmentPrefix(epoch, id), number)
}

func segmentPrefix(epoch, id string) string { return "seg/" + epoch + "/" + id + "/" }

// putSegments writes the segments of p. Until a record names them they are garbage.
func (s *Store) putSegments(ctx context.Context, p packed, part driver.Partition, epoch string, expire time.Time) error {
	records := make([]driver.Record, 0, p.manifest.Segments)
	for chunk := range slices.Chunk(p.segments, max(p.chunk, 1)) {
		records = append(records, driver.Record{
			Sort:     segmentSort(epoch, p.manifest.ID, len(records)),
			Data:     chunk,
			ExpireAt: expire,
		})
	}
	return s.putSiblings(ctx, part, records)
}

// putSiblings writes records that nothing names yet, in batches where the driver has them.
// Their names are random and used once, so a conflict can only be with an own Put that was
// repeated after a lost reply: the record is there.
func (s *Store) putSiblings(ctx context.Context, part driver.Partition, records []driver.Record) error {
	if b, ok := s.drv.(driver.BatchPutter); ok && len(records) > 1 {
		err := b.PutSiblings(ctx, part, records)
		if !errors.Is(err, core.ErrConflict) {
			return err
		}
		// Which of them are there the batch does not say.
	}
	for _, r := range records {
		_, err := s.drv.Put(ctx, part.Sibling(r.Sort), r, driver.IfAbsent())
		if err != nil && !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
	return nil
}

// errMissingSegment tells the reader of a head to look at the head again.
var errMissingSegment = fmt.Errorf("%w: a segment is missing", core.ErrCorrupt)

// unpack returns the content that a manifest describes.
func (s *Store) unpack(ctx context.Context, part driver.Partition, h header, native, inline []byte) (content, error) {
	segments, err := s.readSegments(ctx, part, h)
	if err != nil {
		return content{}, err
	}
	var c content
	for _, p := range h.Payload.Parts {
		var stored []byte
		switch p.At {
		case atNative:
			stored = native
		case atInline:
			stored, inline = take(inline, p.Len)
		case atSegments:
			stored, segments = take(segments, p.Len)
		}
		raw, err := s.decodePart(p, stored)
		if err != nil {
			return content{}, err
		}
		switch p.Name {
		case partState:
			c.state = raw
		case partProgress:
			c.progress = raw
		case partLog:
			c.log = raw
		default:
			return content{}, fmt.Errorf("%w: the record has an unknown part %q", core.ErrUnsupported, p.Name)
		}
	}
	if c.state == nil {
		return content{}, fmt.Errorf("%w: the record names no state", core.ErrCorrupt)
	}
	return c, nil
}

// readTail returns the part of a head's payload that is the log's newest entries.
func readTail(m manifest, inline []byte) ([]byte, error) {
	if len(m.Parts) == 0 || m.Parts[0].Name != partLog {
		return nil, nil
	}
	p := m.Parts[0]
	tail, _ := take(inline, p.Len)
	if p.At != atInline || p.Enc != "" || len(tail) != p.Len || checksum(tail) != p.Sum {
		return nil, fmt.Errorf("%w: the part %q is damaged", core.ErrCorrupt, p.Name)
	}
	return bytes.Clone(tail), nil
}

// take splits off n bytes, or fewer where there are not as many.
func take(b []byte, n int) (taken, rest []byte) {
	n = max(0, min(n, len(b)))
	return b[:n], b[n:]
}

func (s *Store) decodePart(p part, stored []byte) ([]byte, error) {
	if p.At == atNative {
		return bytes.Clone(stored), nil
	}
	if len(stored) != p.Len || checksum(stored) != p.Sum {
		return nil, fmt.Errorf("%w: the part %q has a wrong checksum", core.ErrCorrupt, p.Name)
	}
	switch p.Enc {
	case "":
		return bytes.Clone(stored), nil
	case encZstd:
		return decompress(stored, p.Size, s.maxPayload)
	}
	return nil, fmt.Errorf("%w: the part %q has the unknown encoding %q", core.ErrUnsupported, p.Name, p.Enc)
}

// readSegments returns the segments of a payload in a row.
func (s *Store) readSegments(ctx context.Context, part driver.Partition, h header) ([]byte, error) {
	if h.Payload.Segments == 0 {
		return nil, nil
	}
	prefix := segmentPrefix(h.Epoch, h.Payload.ID)
	var all []byte
	next := 0
	for r, err := range s.drv.Range(ctx, part, driver.WithPrefix(prefix)) {
		if err != nil {
			return nil, err
		}
		if r.Sort != segmentSort(h.Epoch, h.Payload.ID, next) {
			return nil, errMissingSegment
		}
		all = append(all, r.Data...)
		next++
	}
	if next != h.Payload.Segments {
		return nil, errMissingSegment
	}
	return all, nil
}

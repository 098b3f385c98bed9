package firestore

import (
	"strings"

	"github.com/weirflow/weir/persistence/driver"
)

// The sizes of Firestore (https://firebase.google.com/docs/firestore/storage-size).
const (
	nameOverhead = 16
	tokenSize    = 26 + 1
	// valueMargin is by how much a single field must be smaller than a document.
	valueMargin = 89
)

// layout is how a record will be stored.
type layout struct {
	fields map[string]any // of a native state, if they were to be built
	native bool
	size   int // of the document
}

// Size returns the size of a record's document as Firestore counts it.
func (d *Driver) Size(k driver.Key, r driver.Record) int { return d.layout(k, r, false).size }

// layout decides whether a state becomes fields or bytes: fields, if they give it back exactly
// and the document fits. build also makes the fields.
func (d *Driver) layout(k driver.Key, r driver.Record, build bool) layout {
	inBytes := layout{size: d.bytesSize(k, r)}
	// A text of many times the limit will not fit, and need not be walked to know that.
	if k.Sort != "" || len(r.State) == 0 || len(r.State) > 4*d.cfg.Limits.Record {
		return inBytes
	}
	name := d.nameSize(k)
	state, ok := native(r.State, name, build)
	if !ok {
		return inBytes
	}
	meta := d.metaSize(k, r)
	size := name + mapOverhead + state.size + len(metaField) + 1 + meta
	size = max(size, state.largest+valueMargin, meta+valueMargin)
	if size > d.cfg.Limits.Record {
		if inBytes.size > d.cfg.Limits.Record {
			inBytes.size = min(size, inBytes.size)
		}
		return inBytes
	}
	return layout{fields: state.fields, native: true, size: size}
}

// bytesSize returns the size of a sibling, or of a head whose state is not in fields.
func (d *Driver) bytesSize(k driver.Key, r driver.Record) int {
	base := d.nameSize(k) + mapOverhead
	if k.Sort != "" {
		// The expiry counts in any case: segments are cut before it is known.
		size := base + len(siblingWrite) + 1 + tokenSize + len(siblingData) + 1 + len(r.Data) + len(siblingExpireAt) + 1 + scalarSize
		if _, hashed := d.documentID(k.Partition); hashed {
			size += len(siblingFlow) + 1 + len(k.Partition) + 1
		}
		return max(size, len(r.Data)+valueMargin)
	}
	meta := d.metaSize(k, r) + len(metaElsewhere) + 1 + referenceSize(d.elsewhere)
	if len(r.State) > 0 {
		meta += len(metaState) + 1 + len(r.State)
	}
	return max(base+len(metaField)+1+meta, meta+valueMargin)
}

// metaSize returns the size of the map of a head whose state is in fields.
func (d *Driver) metaSize(k driver.Key, r driver.Record) int {
	size := mapOverhead + len(metaMethod) + 1 + len(r.Method) + 1 +
		len(metaSavedAt) + 1 + len(formatTime(r.SavedAt)) + 1 + len(metaWrite) + 1 + tokenSize
	if len(r.Data) > 0 {
		size += len(metaData) + 1 + len(r.Data)
	}
	if !r.ExpireAt.IsZero() {
		size += len(metaExpireAt) + 1 + scalarSize
	}
	if _, hashed := d.documentID(k.Partition); hashed {
		size += len(metaID) + 1 + len(k.Partition) + 1
	}
	return size
}

// nameSize returns the size of a document's name.
func (d *Driver) nameSize(k driver.Key) int {
	id, _ := d.documentID(k.Partition)
	size := nameOverhead + len(d.cfg.Collection) + 1 + len(id) + 1
	if k.Sort != "" {
		size += len(siblingCollection) + 1 + len(siblingID(k.Sort)) + 1
	}
	return size
}

// referenceSize returns the size of a reference, which is that of the name of its document:
// of what follows projects/P/databases/D/documents.
func referenceSize(path string) int {
	_, names, _ := strings.Cut(path, "/documents/")
	return nameOverhead + len(names) + 1
}

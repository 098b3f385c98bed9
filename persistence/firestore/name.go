package firestore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/persistence/driver"
)

// siblingCollection is the subcollection of a head's document that holds its siblings.
const siblingCollection = "weir_records"

// The two beginnings of a document ID that is not the flow's ID as it is. An ID that begins
// with one of them is escaped itself, so that none equals what another is turned into.
const (
	escapedID = "~weir~" // "~" is ~0 and "/" is ~1
	hashedID  = "~weir#" // SHA-256 in hexadecimal digits; the document holds the ID
)

var (
	escapeID   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapeID = strings.NewReplacer("~0", "~", "~1", "/")
)

// isLegalID reports whether Firestore takes name for the ID of a document or collection.
func isLegalID(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxNameBytes &&
		!strings.Contains(name, "/") && !isReserved(name)
}

// isReserved reports whether a name is one of those that Firestore keeps for itself: __.*__,
// and for safety the shorter ones that begin and end so.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// documentID returns the ID of a flow's document, and whether it is a hash. A flow ID that
// Firestore can hold stays as it is.
func (d *Driver) documentID(p driver.Partition) (id string, hashed bool) {
	prefix, flow := d.cfg.TenantPrefix, string(p)
	id = prefix + flow
	if isLegalID(id) && !strings.HasPrefix(flow, escapedID) && !strings.HasPrefix(flow, hashedID) {
		return id, false
	}
	if id = prefix + escapedID + escapeID.Replace(flow); isLegalID(id) {
		return id, false
	}
	sum := sha256.Sum256([]byte(flow))
	return prefix + hashedID + hex.EncodeToString(sum[:]), true
}

// partition returns the flow whose document has that ID. kept is the ID that the document
// holds, which counts if the document's own is a hash. It reports false for a document of
// somebody else: of another tenant, or with an ID that documentID does not make.
func (d *Driver) partition(id, kept string) (driver.Partition, bool) {
	flow, ours := strings.CutPrefix(id, d.cfg.TenantPrefix)
	if !ours {
		return "", false
	}
	if escaped, ok := strings.CutPrefix(flow, escapedID); ok {
		flow = unescapeID.Replace(escaped)
	} else if strings.HasPrefix(flow, hashedID) {
		flow = kept
	}
	made, _ := d.documentID(driver.Partition(flow))
	return driver.Partition(flow), flow != "" && made == id
}

// siblingID returns the document ID for a Sort, so that the order of IDs is that of Sorts:
// "/", which no ID may hold, takes the place of ".", the character before it, and so on down
// to "+", which no Sort holds. The "=" keeps "." and ".." from being IDs.
func siblingID(sort string) string {
	b := []byte("=" + sort)
	for i, c := range b[1:] {
		if c >= ',' && c <= '/' {
			b[1+i] = c - 1
		}
	}
	return string(b)
}

// siblingSort undoes siblingID.
func siblingSort(id string) (string, bool) {
	rest, ok := strings.CutPrefix(id, "=")
	b := []byte(rest)
	for i, c := range b {
		if c >= '+' && c <= '.' {
			b[i] = c + 1
		}
	}
	return string(b), ok && rest != ""
}

// ref returns the document of a record, and the flow ID it must hold, if any.
func (d *Driver) ref(k driver.Key) (doc *gcp.DocumentRef, keep string) {
	id, hashed := d.documentID(k.Partition)
	if hashed {
		keep = string(k.Partition)
	}
	doc = d.heads.Doc(id)
	if k.Sort != "" {
		doc = doc.Collection(siblingCollection).Doc(siblingID(k.Sort))
	}
	return doc, keep
}

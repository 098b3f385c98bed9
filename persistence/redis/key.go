package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/weirflow/weir/persistence/driver"
)

// The keys of a flow, with <id> as the hash tag that keeps them in one slot of a cluster:
//
//	<prefix>{<id>}:h           hash: the head
//	<prefix>{<id>}:s:<sort>    hash: a sibling
//	<prefix>{<id>}:i           sorted set: the sorts of the siblings, all with score 0
//	<prefix>{<id>}:p:<tag>     string: what was too large for the hash with that tag
const (
	headSuffix    = "}:h"
	siblingSuffix = "}:s:"
	indexSuffix   = "}:i"
	payloadSuffix = "}:p:"
)

// maxPlainID is the longest escaped ID that stands in keys; each record has such a key.
const maxPlainID = 128

// hashMark begins the hash of a longer ID. Escaping leaves no '#' in an ID.
const hashMark = "#"

// flowKeys makes the keys of one partition.
type flowKeys struct {
	base string // <prefix>{<id>
	id   string // the ID as given if base has only its hash, else ""
}

func (d *Driver) keys(p driver.Partition) flowKeys {
	id := escapeID(string(p))
	if len(id) <= maxPlainID {
		return flowKeys{base: d.prefix + "{" + id}
	}
	sum := sha256.Sum256([]byte(p))
	return flowKeys{base: d.prefix + "{" + hashMark + base64.RawURLEncoding.EncodeToString(sum[:]), id: string(p)}
}

func (f flowKeys) record(sort string) string {
	if sort == "" {
		return f.base + headSuffix
	}
	return f.base + siblingSuffix + sort
}

func (f flowKeys) index() string                 { return f.base + indexSuffix }
func (f flowKeys) payloads() string              { return f.base + payloadSuffix }
func (f flowKeys) payload(tag driver.Tag) string { return f.payloads() + string(tag) }

const upperHex = "0123456789ABCDEF"

// escapeID writes the bytes that would end a hash tag, mark a hash or spoil a terminal as
// %XX. No two IDs are equal after it, since % is among them.
func escapeID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte("%{}#", c) >= 0:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescapeID undoes escapeID, and refuses what escapeID does not write.
func unescapeID(s string) (id string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), b.Len() > 0 && escapeID(b.String()) == s
}

// listed returns what stands between the braces in the key of a head or an index; a key that
// this driver does not write is not ok.
func (d *Driver) listed(key string) (tag string, ok bool) {
	tag, ok = strings.CutPrefix(key, d.prefix+"{")
	if !ok {
		return "", false
	}
	if head, isHead := strings.CutSuffix(tag, headSuffix); isHead {
		tag = head
	} else if tag, ok = strings.CutSuffix(tag, indexSuffix); !ok {
		return "", false
	}
	if _, hashed := strings.CutPrefix(tag, hashMark); hashed {
		return tag, true
	}
	_, ok = unescapeID(tag)
	return tag, ok
}

// partition returns the ID that belongs to a hash tag; stored is the one in a record, which
// is needed where the tag is only a hash.
func (d *Driver) partition(tag, stored string) (driver.Partition, error) {
	if id, ok := unescapeID(tag); ok {
		return driver.Partition(id), nil
	}
	p := driver.Partition(stored)
	if d.keys(p).base != d.prefix+"{"+tag {
		return "", corrupt("a record does not have the id that belongs to its key")
	}
	return p, nil
}

// escapeGlob quotes what means something in the pattern of SCAN.
func escapeGlob(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]^\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

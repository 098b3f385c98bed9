package persistence

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// formatVersion is the newest header this program reads. Format 2 added the log; what has none
// is written in format 1, for programs that know no logs.
const (
	formatVersion = 2
	plainVersion  = 1
)

// maxTokens is how many of its last state writes a head remembers, so that a writer whose
// reply was lost recognizes its own write although others have written since.
const maxTokens = 8

// header is what Weir adds to a record: for a head its identity and the whereabouts of its
// payload, for a history entry the same of an earlier snapshot. It is the first line of
// Record.Data, as JSON; the inline parts follow it.
type header struct {
	V        int      `json:"v"`
	Epoch    string   `json:"epoch"`
	N        uint64   `json:"n"`                 // revision: counts state writes; 0 is a reserved head
	Tokens   []string `json:"tokens,omitempty"`  // of the last state writes, newest first
	Payload  manifest `json:"payload,omitzero"`  // empty for a reserved head
	Reserved int64    `json:"reserved,omitzero"` // unix ms at which a head without state was made
	Log      logState `json:"log,omitzero"`
	Held     bool     `json:"held,omitempty"` // a head without state that owns checkpoints: it stays

	// History is the id of the history entry that holds this very snapshot, "" for none.
	// In an entry it is the id of the entry before.
	History string `json:"history,omitempty"`

	// Method and Saved are set in history entries only; a head keeps them as record fields.
	Method string `json:"method,omitempty"`
	Saved  int64  `json:"saved,omitempty"` // unix microseconds
}

// token returns the token of the newest state write.
func (h *header) token() string {
	if len(h.Tokens) == 0 {
		return ""
	}
	return h.Tokens[0]
}

// newName returns a random name of 16 characters (80 bits) for an epoch, a token or a
// payload; it is made of characters that a driver may use in a key as they are.
func newName() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return names.EncodeToString(b[:])
}

var names = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// encode returns Record.Data: the header line, then the inline parts.
func (h *header) encode(inline []byte) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic(err) // it holds text and integers only
	}
	data := make([]byte, 0, len(line)+1+len(inline))
	data = append(append(data, line...), '\n')
	return append(data, inline...)
}

// decodeHeader splits Data into its header and the inline parts.
func decodeHeader(data []byte) (header, []byte, error) {
	var h header
	inline, err := decodeLine(data, formatVersion, &h)
	if err != nil {
		return header{}, nil, err
	}
	if h.V < 1 || h.Epoch == "" {
		return header{}, nil, fmt.Errorf("%w: the record header lacks its version or epoch", core.ErrCorrupt)
	}
	return h, inline, nil
}

// decodeLine reads the first line of a record's Data, in a format up to newest, into hdr and
// returns the rest.
func decodeLine(data []byte, newest int, hdr any) (rest []byte, err error) {
	line, rest, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, fmt.Errorf("%w: the record has no header line", core.ErrCorrupt)
	}
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(line, &version); err != nil {
		return nil, fmt.Errorf("%w: the record header is not JSON: %w", core.ErrCorrupt, err)
	}
	if version.V > newest {
		return nil, fmt.Errorf("%w: the record has format version %d, this program reads up to %d; update it",
			core.ErrUnsupported, version.V, newest)
	}
	if err := json.Unmarshal(line, hdr); err != nil {
		return nil, fmt.Errorf("%w: the record header: %w", core.ErrCorrupt, err)
	}
	return rest, nil
}

// head is what the Store knows of a flow's head. The zero head is "there is none".
type head struct {
	tag     driver.Tag
	hdr     header // zero Epoch: another program wrote it
	foreign bool
	// stateless: the record holds no state that could be loaded, only a reservation or
	// JSON of another program that is no object.
	stateless bool
	tail      []byte // the log's newest entries
}

func (h head) exists() bool { return h.tag != "" }

// condition is what the next Put of the head demands.
func (h head) condition() driver.Condition {
	if !h.exists() {
		return driver.IfAbsent()
	}
	return driver.IfTag(h.tag)
}

// revision is what a reader of this head is told.
func (h head) revision() core.Revision {
	if !h.exists() || h.stateless {
		return core.Revision{}
	}
	return core.Revision{N: h.hdr.N, Tag: h.hdr.token()}
}

// written returns the revision of an earlier write by its token, if the head remembers it.
func (h head) written(token string) (rev core.Revision, newest, ok bool) {
	i := slices.Index(h.hdr.Tokens, token)
	if i < 0 {
		return core.Revision{}, false, false
	}
	return core.Revision{N: h.hdr.N - uint64(i), Tag: token}, i == 0, true
}

// readHead interprets a record as a head. inline is the rest of its Data.
func readHead(r driver.Record) (h head, inline []byte, err error) {
	if len(r.Data) == 0 {
		return foreignHead(r), nil, nil
	}
	hdr, inline, err := decodeHeader(r.Data)
	if err != nil {
		return head{}, nil, err
	}
	h = head{tag: r.Tag, hdr: hdr, stateless: hdr.N == 0}
	h.tail, err = readTail(hdr.Payload, inline)
	return h, inline, err
}

// foreignToken begins the token of a state write of another program. No name of ours does.
const foreignToken = "@"

// foreignHead is a head that another program wrote: one state write, named after the tag, so
// that the revision stays the same when a sweep or a large save gives the head its epoch.
func foreignHead(r driver.Record) head {
	h := head{tag: r.Tag, foreign: true}
	if isObject(r.State) || !json.Valid(r.State) {
		h.hdr = header{N: 1, Tokens: []string{foreignToken + string(r.Tag)}, Payload: nativeManifest(r.State)}
		return h
	}
	// CrewAI takes JSON that is no object for "no state" (spec/state.md §1.6).
	h.stateless = true
	return h
}

func isObject(state []byte) bool {
	trimmed := bytes.TrimLeft(state, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// nextTokens puts token in front and forgets what is too old.
func nextTokens(token string, before []string) []string {
	tokens := append([]string{token}, before...)
	return tokens[:min(len(tokens), maxTokens)]
}

// Package driver is what a backend author implements: five data methods over records, with
// compare-and-swap on one record as the only primitive.
//
// Everything else (segments for large states, pruning, history, listing, optimistic
// concurrency, feedback) is written once, above, in package persistence. A driver that keeps
// the laws of this package gets all of it; package conformance proves that it does, with one
// call.
//
// # Records
//
// A [Partition] is one flow. It holds one head, the record whose Sort is "", and any number
// of siblings with a non-empty Sort. The head carries the flow's state in a form that other
// programs may read ([Record.State], [Record.Method], [Record.SavedAt]) and everything that
// Weir adds in [Record.Data]. A sibling carries only Data.
//
// # Laws
//
// The conformance suite states each of these as a test.
//
//  1. Partitions are data: any ID round-trips and never aliases another.
//  2. Put and Delete are atomic and linearizable per record. A failed condition is
//     core.ErrConflict and changes nothing.
//  3. Reads see every acknowledged write.
//  4. A tag is never reused: a record that was deleted and made again, or written over by
//     another program, never satisfies an old tag.
//  5. An expired record is absent on every read path at once, satisfies IfAbsent and fails
//     IfTag.
//  6. A record over the limit is core.ErrTooLarge before anything is written.
//  7. Bytes in, equal bytes out (State: equal JSON out), never aliased.
//  8. Iterators follow every page, may be left early, and allow reads and writes inside the
//     loop, which may or may not be seen and never make it endless.
//  9. Delete removes one record and nothing else.
//  10. A context that ends leaves no goroutine and no lock, and starts no request.
package driver

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/weirflow/weir/core"
)

// Driver is a store of records. Implementations are safe for concurrent use.
//
// Errors wrap the sentinels of package core: ErrNotFound, ErrConflict, ErrTooLarge,
// ErrCorrupt, ErrUnavailable, ErrDenied, ErrUnsupported. A write that was sent and got no
// answer is marked with core.WithOutcomeUnknown. What retries could not cure is
// ErrUnavailable.
type Driver interface {
	// Get returns the record, strongly consistent, or core.ErrNotFound.
	Get(ctx context.Context, k Key) (Record, error)

	// Put writes the whole record in one atomic step if cond holds, and returns the tag it
	// now has, which no record of this key has had before. A failed condition is
	// core.ErrConflict, as a *ConflictError where the store returned the current record
	// with the refusal.
	Put(ctx context.Context, k Key, r Record, cond Condition) (Tag, error)

	// Delete removes the record if cond holds. An absent record is no error without a
	// condition, and core.ErrConflict with IfTag.
	Delete(ctx context.Context, k Key, cond Condition) error

	// Range yields the siblings of a partition (never its head) in byte order of Sort.
	// An error is yielded once, as the last pair.
	Range(ctx context.Context, p Partition, o RangeOptions) iter.Seq2[Record, error]

	// Partitions yields every partition that has any record, at least once each, in no
	// particular order, page by page. An error is yielded once, as the last pair.
	Partitions(ctx context.Context, o ListOptions) iter.Seq2[Entry, error]

	// Limits returns the sizes the Store plans with. It never changes.
	Limits() Limits

	// Close releases what the driver opened itself. Closing twice is no error.
	Close() error
}

// Partition names a flow: its ID as the application gave it, valid by core.ValidateID.
type Partition string

// Key addresses one record. Sort is "" for the head; the Sort of a sibling is made by Weir
// from the characters 0-9 a-z / . _ - and has at most 200 bytes.
type Key struct {
	Partition Partition
	Sort      string
}

// Head returns the key of p's head.
func (p Partition) Head() Key { return Key{Partition: p} }

// Sibling returns the key of the sibling with that sort.
func (p Partition) Sibling(sort string) Key { return Key{Partition: p, Sort: sort} }

// Record is the unit of storage. Whoever gives or receives one owns its bytes: a driver
// copies what it keeps.
type Record struct {
	Sort string // filled in by Get and Range; Put takes the key's
	Tag  Tag    // filled in by Get and Range; ignored by Put

	// ExpireAt is when the record ceases to exist, with a resolution of one millisecond;
	// the zero time is never.
	ExpireAt time.Time

	// State, Method and SavedAt belong to heads. State is a JSON object in the form that
	// other programs on this store read, or nil when the state is elsewhere: then a program
	// that does not know Weir must fail to read it, not find it empty. SavedAt has a
	// resolution of one microsecond.
	State   []byte
	Method  string
	SavedAt time.Time

	// Data is opaque: what Weir adds to a head, or the payload of a sibling. A head without
	// Data was written by another program. Everything Weir adds lives in the same record, so
	// that another program's write drops it whole.
	Data []byte
}

// Tag identifies one physical write of a record. Tags compare with ==; "" is no tag.
type Tag string

// Condition says when a Put or Delete may happen. The zero Condition is "always".
type Condition struct {
	absent bool
	tag    Tag
}

// IfAbsent allows a Put only where no record exists.
func IfAbsent() Condition { return Condition{absent: true} }

// IfTag allows a Put or Delete only while the record has exactly this tag. The empty tag is
// never had, so IfTag("") always fails.
func IfTag(t Tag) Condition {
	if t == "" {
		t = neverTag
	}
	return Condition{tag: t}
}

// neverTag is what no driver returns: tags are printable.
const neverTag Tag = "\x00"

// Absent reports whether the condition is IfAbsent.
func (c Condition) Absent() bool { return c.absent }

// Tag returns the demanded tag, and whether the condition is IfTag.
func (c Condition) Tag() (Tag, bool) { return c.tag, c.tag != "" }

// Holds reports whether the condition allows a write over a record that exists or not and
// has tag t. Drivers that compare in the client use it; others state the same in a query.
func (c Condition) Holds(exists bool, t Tag) bool {
	switch {
	case c.absent:
		return !exists
	case c.tag != "":
		return exists && t == c.tag
	}
	return true
}

// RangeOptions selects siblings. The zero value selects all, ascending.
type RangeOptions struct {
	From     string // first Sort to yield; "" starts at the beginning
	To       string // first Sort not to yield; "" goes on to the end
	Reverse  bool   // descending order, between the same bounds
	KeysOnly bool   // Data may be left nil; all else is filled in
}

// WithPrefix selects the siblings whose Sort starts with prefix.
func WithPrefix(prefix string) RangeOptions {
	if prefix == "" {
		return RangeOptions{}
	}
	end := []byte(prefix)
	end[len(end)-1]++ // sorts are ASCII, so the last byte is below 0x7f
	return RangeOptions{From: prefix, To: string(end)}
}

// ListOptions selects partitions.
type ListOptions struct {
	// Cursor goes on after the entry that carried it; "" starts at the beginning.
	Cursor string
	// PageSize is a hint for how many records to ask the store for at once; 0 leaves it to
	// the driver.
	PageSize int
}

// Entry is one partition as Partitions yields it.
type Entry struct {
	Partition Partition
	Headless  bool      // it has siblings but no head (or an expired one)
	Method    string    // of the head
	SavedAt   time.Time // of the head
	ExpireAt  time.Time // of the head
	Cursor    string    // for ListOptions; opaque
}

// Limits are the sizes the Store plans with, in bytes of a whole encoded record as Size
// counts it.
type Limits struct {
	// Record is the largest record the store can hold.
	Record int
	// Inline is up to where a record is worth keeping as it is. Above, the Store compresses
	// what it holds. It is at most Record.
	Inline int
}

// Sizer is an optional interface of a Driver whose records take another size in the store
// than RecordSize computes. Size is what the limit of the store counts.
type Sizer interface {
	Size(k Key, r Record) int
}

// BatchPutter is an optional interface of a Driver that can write many siblings in fewer
// round trips. Each record is written on IfAbsent; nothing is promised about the whole: after
// an error any subset may be written.
type BatchPutter interface {
	PutSiblings(ctx context.Context, p Partition, rs []Record) error
}

// BatchDeleter is an optional interface of a Driver that can delete many siblings in fewer
// round trips, without condition. After an error any subset may be deleted.
type BatchDeleter interface {
	DeleteSiblings(ctx context.Context, p Partition, sorts []string) error
}

// ForeignRequests is an optional interface of a Driver whose store may hold, in the layout of
// another program, requests to people at which that program paused a flow. Weir writes none;
// it reads them so that those flows can be answered and go on.
type ForeignRequests interface {
	// ForeignRequest returns the request of a partition, whoever wrote its head, or
	// core.ErrNotFound. One that does not read is core.ErrCorrupt. Its State is as it was
	// found; its Revision is left to the Store.
	ForeignRequest(ctx context.Context, p Partition) (core.ForeignRequest, error)

	// PutAnswer is the Put of p's head that also removes the request of that ID, in one atomic
	// step. If there is no such request (any more) nothing is changed and the error is
	// core.ErrConflict, as when cond does not hold.
	PutAnswer(ctx context.Context, p Partition, r Record, cond Condition, requestID string) (Tag, error)
}

// Size returns the size of r under k as d counts it.
func Size(d Driver, k Key, r Record) int {
	if s, ok := d.(Sizer); ok {
		return s.Size(k, r)
	}
	return RecordSize(k, r)
}

// recordOverhead stands for times, tag and the names of a store's columns or attributes.
const recordOverhead = 128

// RecordSize is the size of a record in a store that holds bytes and text as they are.
func RecordSize(k Key, r Record) int {
	return len(k.Partition) + len(k.Sort) + len(r.Method) + len(r.State) + len(r.Data) + recordOverhead
}

// CheckSize returns a core.ErrTooLarge with both numbers if r does not fit into d.
func CheckSize(d Driver, k Key, r Record) error {
	if size, limit := Size(d, k, r), d.Limits().Record; size > limit {
		return &core.SizeError{Size: int64(size), Limit: int64(limit)}
	}
	return nil
}

// ConflictError is core.ErrConflict together with what the driver learned on the way. A
// driver that knows neither thing returns core.ErrConflict itself.
type ConflictError struct {
	// Known says that Current is what the store had when it refused.
	Known   bool
	Current *Record // nil if Known: the record does not exist

	// Sure says that no earlier attempt of the same request can have been applied, because
	// it was sent once and answered. A client that repeats a request after a lost reply is
	// never sure: its own write may be what it now collides with.
	Sure bool
}

// Error returns what stood in the way.
func (e *ConflictError) Error() string {
	if e.Known && e.Current == nil {
		return fmt.Sprintf("%v (the record does not exist)", core.ErrConflict)
	}
	return core.ErrConflict.Error()
}

// Is reports that a ConflictError is core.ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == core.ErrConflict }

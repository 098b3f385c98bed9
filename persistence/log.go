package persistence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

var _ core.FlowLog = (*Store)(nil)

// A flow's log is lines of JSON. The newest ride in the head, so that a save which appends to
// the log is still one write; when they have grown to maxTail they move to a chunk, a sibling
// ev/<epoch>/<number>/<id>, put before the head that names it. Chunks form a chain from the
// head backwards; one that is not in the chain belongs to a save that lost, and is never shown.
const maxTail = 4 << 10

// logState is what a head says of its log's chunks.
type logState struct {
	Chunk  string `json:"chunk,omitempty"`  // id of the newest one
	Chunks uint64 `json:"chunks,omitempty"` // how many there are
}

// chunkHeader is the first line of a chunk; the entries follow it.
type chunkHeader struct {
	V        int    `json:"v"`
	Previous string `json:"previous,omitempty"` // id of the chunk before
}

func chunkPrefix(epoch string) string { return "ev/" + epoch + "/" }

func chunkSort(epoch string, number uint64, id string) string {
	return fmt.Sprintf("%s%016x/%s", chunkPrefix(epoch), number, id)
}

// logPlan is what a save does to the log.
type logPlan struct {
	state  logState
	tail   []byte
	chunks []driver.Record
}

// planLog appends entries to the tail of a head and moves it to chunks when it is full.
func (s *Store) planLog(part driver.Partition, base head, epoch string, entries []json.RawMessage) (logPlan, error) {
	p := logPlan{state: base.hdr.Log, tail: base.tail}
	if len(entries) == 0 {
		return p, nil
	}
	full := min(maxTail, s.limits.Inline/4)
	p.tail = slices.Clone(base.tail)
	for _, e := range entries {
		line, err := compact(e)
		if err != nil {
			return p, err
		}
		if len(p.tail) > 0 && len(p.tail)+len(line) > full {
			if err := p.move(s, part, epoch); err != nil {
				return p, err
			}
		}
		p.tail = append(p.tail, line...)
	}
	if len(p.tail) > full {
		return p, p.move(s, part, epoch)
	}
	return p, nil
}

// move makes a chunk of the tail.
func (p *logPlan) move(s *Store, part driver.Partition, epoch string) error {
	line, err := json.Marshal(chunkHeader{V: checkpointFormat, Previous: p.state.Chunk})
	if err != nil {
		return err
	}
	id := newName()
	r := driver.Record{Sort: chunkSort(epoch, p.state.Chunks+1, id), Data: slices.Concat(line, []byte{'\n'}, p.tail)}
	if err := s.fits(part.Sibling(r.Sort), r); err != nil {
		return fmt.Errorf("a log entry: %w", err)
	}
	p.chunks = append(p.chunks, r)
	p.state = logState{Chunk: id, Chunks: p.state.Chunks + 1}
	p.tail = nil
	return nil
}

// compact returns an entry as one line.
func compact(e json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, e); err != nil {
		return nil, &core.StateError{Reason: "a log entry is not JSON"}
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// Log implements core.FlowLog.
func (s *Store) Log(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for e, err := range s.logOf(ctx, flowID) {
			if err != nil {
				yield(nil, &core.Error{Op: "read log", FlowID: flowID, Err: err})
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *Store) logOf(ctx context.Context, flowID string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		part := driver.Partition(flowID)
		h, chunks, err := s.logHead(ctx, part)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, sort := range slices.Backward(chunks) {
			r, err := s.drv.Get(ctx, part.Sibling(sort))
			var lines []byte
			if err == nil {
				lines, err = decodeLine(r.Data, checkpointFormat, &chunkHeader{})
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yieldLines(lines, yield) {
				return
			}
		}
		yieldLines(h.tail, yield)
	}
}

// logHead returns a head with state and the chunks of its log, the newest first.
func (s *Store) logHead(ctx context.Context, part driver.Partition) (head, []string, error) {
	if err := core.ValidateID(string(part)); err != nil {
		return head{}, nil, err
	}
	h, err := s.readHeadOf(ctx, part)
	if err == nil && (!h.exists() || h.stateless) {
		err = core.ErrNotFound
	}
	if err != nil {
		return head{}, nil, err
	}
	chunks, err := s.logChunks(ctx, part, h.hdr)
	if err == nil && uint64(len(chunks)) < h.hdr.Log.Chunks {
		err = fmt.Errorf("%w: %d of the %d chunks of the log are missing", core.ErrCorrupt, h.hdr.Log.Chunks-uint64(len(chunks)), h.hdr.Log.Chunks)
	}
	return h, chunks, err
}

// logChunks returns the sorts of the chunks that hdr can vouch for, the newest first.
func (s *Store) logChunks(ctx context.Context, part driver.Partition, hdr header) ([]string, error) {
	want := hdr.Log.Chunk
	if want == "" {
		return nil, nil
	}
	all := driver.WithPrefix(chunkPrefix(hdr.Epoch))
	all.Reverse = true
	var chunks []string
	for r, err := range s.drv.Range(ctx, part, all) {
		if err != nil {
			return nil, err
		}
		if _, _, id := place(r.Sort); id != want {
			continue
		}
		var c chunkHeader
		if _, err := decodeLine(r.Data, checkpointFormat, &c); err != nil {
			return nil, err
		}
		chunks = append(chunks, r.Sort)
		if want = c.Previous; want == "" {
			break
		}
	}
	return chunks, nil
}

// yieldLines reports whether to go on.
func yieldLines(lines []byte, yield func(json.RawMessage, error) bool) bool {
	for line := range bytes.Lines(lines) {
		if !yield(bytes.Clone(bytes.TrimSuffix(line, []byte{'\n'})), nil) {
			return false
		}
	}
	return true
}

//go:build unix

package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// Kinds of ledger lines.
const (
	lineDid      = "did"      // a call had its side effect
	lineSaving   = "saving"   // a snapshot is about to be handed to the store
	lineSaved    = "saved"    // the store has acknowledged it
	lineLoaded   = "loaded"   // the store has returned one
	lineAnswered = "answered" // the run told that an answer was taken
	lineStrikes  = "strikes"  // the process is about to kill itself or to stop
	lineWoke     = "woke"     // it goes on after it stopped
)

// line is one line of the ledger.
type line struct {
	Kind    string        `json:"kind"`
	PID     int           `json:"pid"`
	Call    string        `json:"call,omitempty"`
	Point   string        `json:"point,omitempty"`
	N       uint64        `json:"n,omitempty"`      // the revision's number
	Digest  string        `json:"digest,omitempty"` // of state and progress
	Broken  string        `json:"broken,omitempty"` // what is wrong with the state in itself
	Done    []done        `json:"done,omitempty"`   // calls that the state holds
	Open    []openRequest `json:"open,omitempty"`   // requests that the progress holds
	Request string        `json:"request,omitempty"`
}

// openRequest is a question that waits for its answer.
type openRequest struct {
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Output json.RawMessage `json:"output,omitempty"`
}

// ledger is the world outside the store: an append-only file.
type ledger struct{ file *os.File }

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{f}, nil
}

// write appends a line in one write and waits until it is on disk.
func (l *ledger) write(entry line) error {
	entry.PID = os.Getpid()
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return l.file.Sync()
}

// snapshot makes a line about one.
func snapshot(kind string, s core.Snapshot, open []flow.Request) (line, error) {
	l := line{Kind: kind, N: s.Revision.N}
	var w world
	if err := json.Unmarshal(s.State, &w); err != nil {
		return l, fmt.Errorf("the state of a snapshot: %w", err)
	}
	if w.Sum != "" && w.Sum != w.checksum() {
		l.Broken = "the state does not agree with its checksum"
	}
	l.Done = w.Done
	for _, r := range open {
		l.Open = append(l.Open, openRequest{r.ID, r.Method, r.Output})
	}
	digest, err := digestOf(s)
	l.Digest = digest
	return l, err
}

// digestOf is the same for snapshots whose state and progress are equal as JSON.
func digestOf(s core.Snapshot) (string, error) {
	parts := [2]any{}
	for i, raw := range [2]json.RawMessage{s.State, s.Progress} {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&parts[i]); err != nil {
			return "", fmt.Errorf("a part of a snapshot: %w", err)
		}
	}
	text, err := json.Marshal(parts)
	return fmt.Sprintf("%x", hash(string(text))), err
}

// readLedger returns its lines. A process dies between lines, never within one.
func readLedger(path string) ([]line, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []line
	for raw := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return lines, fmt.Errorf("ledger line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weirflow/weir/core/flow"
)

// ledger is the world outside the store: an append-only file, on disk before a method goes
// on. It is what tells whether a method ran more often than it should have.
type ledger struct {
	file   *os.File // nil: nothing is recorded
	flowID string
	path   string
	err    error // of the observer, which cannot return one
}

// Kinds of ledger lines.
const (
	lineStart   = "start"   // a process began to work on the conversation
	lineBegin   = "begin"   // the conversation began anew; what was before does not count
	lineEffect  = "effect"  // a method had its side effect
	lineSaved   = "saved"   // the store acknowledged the method's completion
	lineCrash   = "crash"   // the process is about to kill itself
	lineRefusal = "refusal" // a request that a provider would refuse
)

// line is one line of the ledger.
type line struct {
	Kind       string `json:"kind"`
	Flow       string `json:"flow"`
	PID        int    `json:"pid"`
	Method     string `json:"method,omitempty"`
	Activation string `json:"activation,omitempty"`
	Provider   string `json:"provider,omitempty"`
}

func openLedger(path, flowID string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &ledger{file: f, flowID: flowID, path: path}, nil
}

func (l *ledger) close() { l.file.Close() }

// write appends a line in one write and waits until it is on disk.
func (l *ledger) write(entry line) error {
	if l.file == nil {
		return nil
	}
	entry.Flow, entry.PID = l.flowID, os.Getpid()
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

func (l *ledger) started() error { return l.write(line{Kind: lineStart}) }
func (l *ledger) crash() error   { return l.write(line{Kind: lineCrash}) }

func (l *ledger) effect(method, activation string) error {
	return l.write(line{Kind: lineEffect, Method: method, Activation: activation})
}

func (l *ledger) refusal(activation, provider string) error {
	return l.write(line{Kind: lineRefusal, Activation: activation, Provider: provider})
}

// begin marks a conversation that the store does not know although the ledger does: the
// store was removed in between, so that the old lines tell nothing about it.
func (l *ledger) begin() error {
	tally, err := l.tally()
	if err != nil || tally.saved == 0 {
		return err
	}
	return errors.Join(l.write(line{Kind: lineBegin}), l.started())
}

// observe records what the store acknowledged.
func (l *ledger) observe(_ context.Context, e flow.Event) {
	if saved, ok := e.(flow.StateSaved); ok {
		l.err = errors.Join(l.err, l.write(line{Kind: lineSaved, Method: saved.Method}))
	}
}

// tally is what the ledger says about one conversation.
type tally struct {
	starts, crashes int
	effects, saved  int
	refusals        int
	again           []string // methods that had an effect again after their save
}

// tally reads the ledger.
func (l *ledger) tally() (tally, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return tally{}, nil
	}
	if err != nil {
		return tally{}, err
	}
	defer f.Close()
	r := newReading()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var entry line
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.Flow != l.flowID {
			continue // another conversation's, or cut off by a crash
		}
		r.take(entry)
	}
	return r.tally, nil
}

// save is where the ledger says that an activation was saved.
type save struct{ at, pid int }

// reading is the ledger as it has been read so far.
type reading struct {
	tally
	at    int            // number of the line
	since map[int]int    // process: the line with which it started
	last  map[int]string // process: the activation of its last effect
	saves map[string]save
}

func newReading() *reading {
	return &reading{since: map[int]int{}, last: map[int]string{}, saves: map[string]save{}}
}

// take counts one line. A save belongs to the same process's effect before it: methods of this
// flow run one after another.
func (r *reading) take(entry line) {
	r.at++
	switch entry.Kind {
	case lineBegin:
		*r = *newReading()
	case lineStart:
		r.starts++
		r.since[entry.PID] = r.at
	case lineCrash:
		r.crashes++
	case lineRefusal:
		r.refusals++
	case lineEffect:
		r.effects++
		r.last[entry.PID] = entry.Activation
		if r.knewSaved(entry) {
			r.again = append(r.again, entry.Method)
		}
	case lineSaved:
		r.saved++
		r.saves[r.last[entry.PID]] = save{at: r.at, pid: entry.PID}
	}
}

// knewSaved reports whether the process had to know that the activation was saved: it saved it
// itself, or it started after the save. A process that works beside another one cannot know;
// its own save then ends in a conflict.
func (r *reading) knewSaved(effect line) bool {
	saved, ok := r.saves[effect.Activation]
	return ok && (saved.pid == effect.PID || saved.at < r.since[effect.PID])
}

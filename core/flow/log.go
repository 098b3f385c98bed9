package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// KeepLog appends what happens in the run to the flow's log, each entry in the same write as
// what it tells of. It needs WithStore and a run that saves; a resumed run goes on logging as
// it did. Log reads it.
func KeepLog() RunOption {
	return runOption(func(c *runConfig) { c.keepLog = true })
}

// EntryKind says what an entry of a log tells of.
type EntryKind string

// The kinds. Only what is stored is told: a method that failed, or whose process died, leaves
// no entry, so the log of a run that was cut and continued is that of one that never was.
const (
	RunStarted      EntryKind = "run_started"
	MethodCompleted EntryKind = "method_completed"
	Asked           EntryKind = "asked"    // a request to a person was opened
	Answered        EntryKind = "answered" // a request was answered
	RunFinished     EntryKind = "run_finished"
)

// LogEntry is one thing that happened, with its links to others. Entries of one flow are in
// the order in which they were stored; the links make a graph of them across crashes, restores
// and forks.
type LogEntry struct {
	Kind EntryKind `json:"kind"`
	ID   string    `json:"id"` // unique in the log; that of a completion is its activation id
	At   time.Time `json:"at"`

	// Parent is the entry this one is a part of: that of its run's start.
	Parent string `json:"parent,omitempty"`

	// Trigger is the completion that made this method due. Empty for starts and for entries
	// that are no completion.
	Trigger string `json:"trigger,omitempty"`

	// Previous is the entry before in the course of the run. For the start of a run that
	// began from a checkpoint that is the last entry before the checkpoint was taken, which
	// for a fork is in the log of the flow From.
	Previous string `json:"previous,omitempty"`

	Method     string `json:"method,omitempty"`
	Call       int    `json:"call,omitempty"`       // how-manieth of the method in the run
	Label      string `json:"label,omitempty"`      // what a router or a person chose
	Request    string `json:"request,omitempty"`    // the request asked or answered
	From       string `json:"from,omitempty"`       // the flow whose state the run began with, if it is another one
	Checkpoint string `json:"checkpoint,omitempty"` // the checkpoint the run began from

	// FromRevision is the number of the revision of From whose state the run began with; 0 if
	// that was a checkpoint's.
	FromRevision uint64 `json:"from_revision,omitempty"`
}

// checkLog refuses to keep a log that nothing would keep.
func (c *runConfig) checkLog() error {
	if !c.keepLog {
		return nil
	}
	if c.store == nil {
		return fmt.Errorf("KeepLog: %w", errNoStore)
	}
	if _, ok := c.store.(core.FlowLog); !ok {
		return fmt.Errorf("KeepLog: %w: the store keeps no logs", core.ErrUnsupported)
	}
	return nil
}

// Log yields the entries of a flow's log, the oldest first. A store that keeps no logs is
// core.ErrUnsupported, a flow that is not there core.ErrNotFound. An error is yielded once, as
// the last pair.
func Log(ctx context.Context, store core.FlowPersistence, flowID string) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		logs, ok := store.(core.FlowLog)
		if !ok {
			yield(LogEntry{}, fail("read log", flowID, fmt.Errorf("%w: the store keeps no logs", core.ErrUnsupported)))
			return
		}
		for raw, err := range logs.Log(ctx, flowID) {
			var entry LogEntry
			if err == nil {
				if bad := json.Unmarshal(raw, &entry); bad != nil {
					err = fail("read log", flowID, fmt.Errorf("%w: an entry: %w", core.ErrCorrupt, bad))
				}
			}
			if err != nil {
				yield(LogEntry{}, err)
				return
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// journal collects the entries of a run that are to be stored with its next save.
type journal struct {
	keep     bool
	previous string
	entries  []json.RawMessage
	triggers map[uint64]string // by Seq of calls that became due in the run this one was made of
}

// note adds an entry, linked to the one before.
func (e *engine) note(entry LogEntry) {
	j := &e.journal
	if !j.keep {
		return
	}
	entry.At, entry.Previous = time.Now().UTC().Truncate(time.Millisecond), j.previous
	if entry.Kind != RunStarted {
		entry.Parent = e.runID + "/start"
	}
	raw, err := encodeJSON(entry)
	if err != nil {
		e.fails(fail("log", e.flowID, err)) // it holds text, which always encodes
		return
	}
	j.previous = entry.ID
	j.entries = append(j.entries, raw)
}

// noteStart is for a run that begins; the entry tells which checkpoint or revision it begins
// from.
func (e *engine) noteStart(begins LogEntry) {
	e.journal.keep = e.journal.keep || e.cfg.keepLog
	begins.Kind, begins.ID, begins.From = RunStarted, e.runID+"/start", e.from
	e.note(begins)
}

// noteCompletion is for a call that is about to complete; it must still be active.
func (e *engine) noteCompletion(seq uint64, label string) {
	a := e.activation(seq)
	if a == nil || !e.journal.keep {
		return
	}
	trigger, inherited := e.journal.triggers[seq]
	if !inherited && a.Cause != 0 {
		trigger = e.callID(a.Cause)
	}
	delete(e.journal.triggers, seq)
	e.note(LogEntry{Kind: MethodCompleted, ID: e.callID(seq), Trigger: trigger, Method: e.methods[a.Method].name, Call: a.Call, Label: label})
}

func (e *engine) noteEnd(step *scheduler.Step) {
	if step.Finished {
		e.note(LogEntry{Kind: RunFinished, ID: e.runID + "/end"})
	}
}

// inherit keeps the triggers of the calls that are due, before the run gets another id.
func (j *journal) inherit(e *engine) {
	for _, a := range e.sched.Active() {
		if _, older := j.triggers[a.Seq]; older || a.Cause == 0 {
			continue
		}
		if j.triggers == nil {
			j.triggers = map[uint64]string{}
		}
		j.triggers[a.Seq] = e.callID(a.Cause)
	}
}

// callID is the activation id of a call of this run.
func (e *engine) callID(seq uint64) string { return callID(e.runID, seq) }

func callID(run string, seq uint64) string { return run + "-" + strconv.FormatUint(seq, 10) }

// activation returns a call that is due or in progress.
func (e *engine) activation(seq uint64) *scheduler.Activation {
	for _, a := range e.sched.Active() {
		if a.Seq == seq {
			return a
		}
	}
	return nil
}

package flow

import (
	"encoding/json"
	"fmt"

	"github.com/weirflow/weir/core"
)

// progressVersion is the format of Snapshot.Progress. A program refuses a newer one; fields
// that it does not know in a version it does are ignored. Format 2 added requests, feedback
// and races, none of which progress in format 1 has.
const progressVersion = 2

// progress is what is stored beside the state: everything the run needs to go on.
type progress struct {
	Version     int                        `json:"v"`
	Flow        string                     `json:"flow"`
	Methods     map[string]string          `json:"methods"`        // fingerprint of the graph
	Run         string                     `json:"run"`            // activation ids begin with it
	Writer      string                     `json:"writer"`         // the process that wrote it, random
	Saves       uint64                     `json:"saves"`          // counts the saves of the run
	From        string                     `json:"from,omitempty"` // the flow this run was forked from
	Persist     bool                       `json:"persist,omitempty"`
	Scheduler   json.RawMessage            `json:"scheduler"`
	Last        string                     `json:"last,omitempty"`   // the method that completed last
	Latest      map[string]json.RawMessage `json:"latest,omitempty"` // newest output by method
	KeepOutputs bool                       `json:"keep,omitempty"`
	Outputs     []MethodOutput             `json:"outputs,omitempty"`
	Pending     []*pending                 `json:"pending,omitempty"`  // open requests, oldest first
	Answers     map[uint64][]string        `json:"answers,omitempty"`  // by Seq of calls in progress, to what they asked
	Feedback    []Feedback                 `json:"feedback,omitempty"` // answered reviews of the run
	Log         bool                       `json:"log,omitempty"`      // the run keeps one
	Entry       string                     `json:"entry,omitempty"`    // its newest entry
	Triggers    map[uint64]string          `json:"triggers,omitempty"` // see journal
	Branch      string                     `json:"branch,omitempty"`   // if not core.MainBranch
	Parent      string                     `json:"parent,omitempty"`   // the checkpoint that the next one follows,
	ParentFlow  string                     `json:"parent_flow,omitempty"`
}

// encodedProgress is progress with the parts that are encoded already.
type encodedProgress struct {
	progress

	Methods json.RawMessage `json:"methods"` // hides progress.Methods
}

func (e *engine) encodeProgress() (json.RawMessage, error) {
	sched, err := e.sched.Encode()
	if err != nil {
		return nil, err
	}
	parentFlow, parent := e.recorder.Parent()
	branch := e.recorder.Branch
	if branch == core.MainBranch {
		branch = ""
	}
	return encodeJSON(encodedProgress{
		progress: progress{
			Version: progressVersion, Flow: e.flow, Run: e.runID, Writer: e.writer, Saves: e.saves, From: e.from,
			Persist: e.cfg.persist, Scheduler: sched, Last: e.lastMethod, Latest: e.last,
			KeepOutputs: e.keepOutputs, Outputs: e.outputs, Pending: e.pending, Answers: e.answers, Feedback: e.feedback,
			Log: e.journal.keep, Entry: e.journal.previous, Triggers: e.journal.triggers,
			Branch: branch, Parent: parent, ParentFlow: parentFlow,
		},
		Methods: e.fingerprint.encoded,
	})
}

func decodeProgress(data json.RawMessage) (*progress, error) {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: its progress: %w", core.ErrCorrupt, err)
	}
	if head.Version > progressVersion {
		return nil, fmt.Errorf("its progress has format %d, this program knows %d: %w", head.Version, progressVersion, core.ErrUnsupported)
	}
	if head.Version < 1 {
		return nil, fmt.Errorf("%w: its progress names no format", core.ErrCorrupt)
	}
	p := &progress{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("%w: its progress does not read as format %d: %w", core.ErrCorrupt, head.Version, err)
	}
	return p, nil
}

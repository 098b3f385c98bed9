// Package linear records what clients of one flow call and are told, and judges whether some
// order of the calls explains it.
package linear

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirflow/weir/core"
)

// The kinds of a Call.
const (
	Save   = "save"   // without a condition
	Swap   = "swap"   // on the revision that the client knows
	Load   = "load"   //
	Delete = "delete" //
	Claim  = "claim"  // answer a request that is open as long as the value is 0
	Look   = "look"   // whether that request is open
)

// Call is one operation of a history. Every save writes a value of its own, so that a value
// names a write; 0 is "no flow".
type Call struct {
	Kind   string
	Value  int // what it writes
	Expect int // what a swap demands; 0 for a claim
}

// Answer is what came back.
type Answer struct {
	Value    int  // what a load returned; of a look: 0 if the request is open
	Conflict bool // a swap or a claim was refused
	Unknown  bool // it may have happened, at any time from the call on
	Failed   bool // it has certainly not happened
}

// Register is the sequential meaning of the calls.
var Register = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(int), input.(Call), output.(Answer)
		if out.Failed {
			return true, now
		}
		switch in.Kind {
		case Load:
			return now == out.Value, now
		case Look:
			return (now == 0) == (out.Value == 0), now
		case Delete:
			return true, 0
		case Save:
			return true, in.Value
		}
		switch {
		case out.Unknown && now != in.Expect:
			return true, now
		case out.Conflict:
			return now != in.Expect, now
		}
		return now == in.Expect, in.Value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// Store is what a client calls.
type Store interface {
	core.FlowPersistence
	Delete(ctx context.Context, flowID string) error
}

// Client makes calls one after the other, and knows what it was told last.
type Client struct {
	Store Store
	Flow  string
	// Snapshot returns what a save of value writes, and Value what a loaded snapshot is.
	Snapshot func(value int) core.Snapshot
	Value    func(s core.Snapshot) (int, error)

	known core.Revision
	value int
}

// Expect returns what a swap would demand now.
func (c *Client) Expect() int { return c.value }

// Do makes a call. The error is one that a client of a healthy store never gets.
func (c *Client) Do(ctx context.Context, in Call) (Answer, error) {
	var out Answer
	var err error
	switch in.Kind {
	case Load:
		var snap core.Snapshot
		if snap, err = c.Store.LoadState(ctx, c.Flow); err == nil {
			c.known = snap.Revision
			c.value, err = c.Value(snap)
		} else if errors.Is(err, core.ErrNotFound) {
			c.known, c.value, err = core.Revision{}, 0, nil
		}
		out.Value = c.value
	case Delete:
		err = c.Store.Delete(ctx, c.Flow)
	case Save, Swap:
		var opts []core.SaveOption
		if in.Kind == Swap {
			opts = append(opts, core.IfRevision(c.known))
		}
		var saved core.Saved
		if saved, err = c.Store.SaveState(ctx, c.Snapshot(in.Value), opts...); err == nil {
			c.known, c.value = saved.Revision, in.Value
		}
	}
	switch {
	case err == nil:
	case core.OutcomeUnknown(err):
		out.Unknown = true
	case in.Kind == Swap && errors.Is(err, core.ErrConflict):
		out.Conflict = true
	default:
		return out, fmt.Errorf("%s: %w", in.Kind, err)
	}
	return out, nil
}

// Check looks for an order that explains the history, for as long as timeout. Where there is
// none, the error lists the calls; undecided says that there was no time to find out.
func Check(history []porcupine.Operation, timeout time.Duration) (undecided bool, err error) {
	switch porcupine.CheckOperationsTimeout(Register, history, timeout) {
	case porcupine.Illegal:
		var text strings.Builder
		fmt.Fprintf(&text, "no order explains the results of %d calls:", len(history))
		for _, op := range history {
			fmt.Fprintf(&text, "\n  client %d, %8d to %8d us: %s", op.ClientId, op.Call/1000, op.Return/1000, Register.DescribeOperation(op.Input, op.Output))
		}
		return false, errors.New(text.String())
	case porcupine.Unknown:
		return true, nil
	}
	return false, nil
}

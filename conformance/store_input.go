package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func badInputWritesNothing() law {
	return law{
		layer: storeLayer, name: "bad_input_writes_nothing",
		text: "What cannot be kept exactly is refused with the place, and no record is touched.",
		cases: []testCase{
			{"ids", badIDs},
			{"states_of_a_new_flow", func(c *caseRun) { badStates(c, false) }},
			{"states_of_a_known_flow", func(c *caseRun) { badStates(c, true) }},
			{"progress", badProgress},
			{"over_the_bound", overTheBound},
			{"ended_contexts", storeEndedContexts},
		},
	}
}

func badIDs(c *caseRun) {
	d := c.open()
	s := c.store(d)
	c.save(s, c.snapshot("f", 1, 10))
	before := c.dump(d)
	for _, id := range []string{"", "\xff", "a\xc3", "\xed\xa0\x80", "ok\x00\xfe", strings.Repeat("a", core.MaxIDBytes+1), strings.Repeat("é", core.MaxIDBytes/2) + "x"} {
		_, err := s.SaveState(c.ctx, core.Snapshot{FlowID: id, State: []byte(`{}`)})
		c.wantErr(err, core.ErrInvalidID, "SaveState of flow "+clip([]byte(id)))
		c.wantWrapped(err, id)
		_, err = s.LoadState(c.ctx, id)
		c.wantErr(err, core.ErrInvalidID, "LoadState of flow "+clip([]byte(id)))
		c.wantErr(s.Delete(c.ctx, id), core.ErrInvalidID, "Delete of flow "+clip([]byte(id)))
		_, err = s.Sweep(c.ctx, id)
		c.wantErr(err, core.ErrInvalidID, "Sweep of flow "+clip([]byte(id)))
		var last error
		for _, err := range s.History(c.ctx, id) {
			last = err
		}
		c.wantErr(last, core.ErrInvalidID, "History of flow "+clip([]byte(id)))
	}
	c.wantUnchanged(d, before, "after refused ids")
}

// badState is a state with the path at which it must be refused.
type badState struct{ state, path string }

func statesToRefuse() []badState {
	return []badState{
		{``, ""}, {` `, ""}, {`null`, ""}, {`[]`, ""}, {`1`, ""}, {`"x"`, ""}, {`{} {}`, ""}, {`{}x`, ""}, {"\ufeff{}", ""},
		{`{`, ""}, {`{"a"`, "/a"}, {`{"a":`, "/a"}, {`{"a":1`, ""}, {`{"a":1,}`, ""}, {`{a:1}`, ""}, {`{'a':1}`, ""}, {`{"a":'x'}`, "/a"},
		{`{"a":NaN}`, "/a"}, {`{"a":Infinity}`, "/a"}, {`{"a":[1,-Infinity]}`, "/a/1"}, {`{"a":nil}`, "/a"}, {`{"a":undefined}`, "/a"}, {`{"a":+1}`, "/a"}, {`{"a":.5}`, "/a"}, {`{"a":1.}`, "/a"}, {`{"a":0x1}`, ""},
		{`{"a":1,"a":2}`, "/a"}, {`{"a":1,"\u0061":2}`, "/a"}, {`{"x":[{"a":1,"a":1}]}`, "/x/0/a"}, {`{"":1,"":2}`, "/"}, {`{"a/b":{"c~d":[NaN]}}`, "/a~1b/c~0d/0"},
		{`{"a":"\ud800"}`, "/a"}, {`{"a":["x","\udc00\ud800"]}`, "/a/1"}, {`{"\ud800":1}`, ""}, {"{\"a\":\"\xff\"}", "/a"}, {"{\"a\":\"\xed\xa0\x80\"}", "/a"}, {"{\"a\":\"\n\"}", "/a"}, {`{"a":"\x"}`, "/a"}, {`{"a":"\u12"}`, "/a"},
		{`{"a":` + strings.Repeat("[", core.MaxStateDepth) + strings.Repeat("]", core.MaxStateDepth) + `}`, "*"},
		{`{"a":1}/**/`, ""}, {`{"a":1,/**/"b":2}`, ""},
	}
}

func badStates(c *caseRun, known bool) {
	d := c.open()
	s := c.store(d)
	want := c.snapshot("f", 1, 10)
	if known {
		want.Revision = c.save(s, want).Revision
	}
	before := c.dump(d)
	for _, bad := range statesToRefuse() {
		what := "SaveState of " + clip([]byte(bad.state))
		_, err := s.SaveState(c.ctx, core.Snapshot{FlowID: want.FlowID, State: []byte(bad.state)})
		c.wantErr(err, core.ErrInvalidState, what)
		c.wantWrapped(err, want.FlowID)
		var se *core.StateError
		if err != nil && !errors.As(err, &se) {
			c.Errorf("%s returned no *core.StateError: %v", what, err)
		} else if err != nil && bad.path != "*" && se.Path != bad.path {
			c.Errorf("%s was refused at %q, want %q", what, se.Path, bad.path)
		}
		if core.OutcomeUnknown(err) {
			c.Errorf("%s leaves the outcome open", what)
		}
	}
	_, err := s.SaveState(c.ctx, core.Snapshot{FlowID: want.FlowID, State: nil})
	c.wantErr(err, core.ErrInvalidState, "SaveState of no state")
	c.wantUnchanged(d, before, "after refused states")
	if known {
		c.wantSnapshot(s, want)
	} else {
		c.wantNoFlow(s, want.FlowID, "after refused states")
	}
}

func badProgress(c *caseRun) {
	d := c.open()
	s := c.store(d)
	want := c.snapshot("f", 1, 10)
	want.Revision = c.save(s, want).Revision
	before := c.dump(d)
	for _, p := range []string{``, `{`, `NaN`, `{} {}`, `nil`} {
		bad := c.snapshot("f", 2, 10)
		bad.Progress = []byte(p)
		_, err := s.SaveState(c.ctx, bad)
		c.wantErr(err, core.ErrInvalidState, fmt.Sprintf("SaveState with the progress %q", p))
	}
	c.wantUnchanged(d, before, "after refused progress")
	c.wantSnapshot(s, want)
}

func overTheBound(c *caseRun) {
	d := c.openTight()
	s := c.store(d, persistence.WithMaxState(5000))
	want := c.snapshot("f", 1, 2000)
	want.Revision = c.save(s, want).Revision
	before := c.dump(d)
	for _, size := range []int{2501, 5000, 50_000} {
		for _, flow := range []string{"f", "new"} {
			_, err := s.SaveState(c.ctx, c.snapshot(flow, 2, size))
			what := fmt.Sprintf("SaveState of 2x%d bytes, the bound is 5000,", size)
			c.wantErr(err, core.ErrTooLarge, what)
			var se *core.SizeError
			if err != nil && (!errors.As(err, &se) || se.Limit <= 0 || se.Size <= se.Limit) {
				c.Errorf("%s carries no sizes: %v", what, err)
			}
		}
	}
	c.wantUnchanged(d, before, "after refused sizes")
	c.wantSnapshot(s, want)
}

func storeEndedContexts(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	want := c.snapshot("f", 1, 2000)
	want.Revision = c.save(s, want).Revision
	before := c.dump(d)
	ctx, cancel := ended(c.ctx)
	defer cancel()
	for _, opts := range [][]core.SaveOption{nil, {core.IfRevision(want.Revision)}, {core.IfRevision(core.Revision{})}} {
		_, err := s.SaveState(ctx, c.snapshot("f", 2, 2000), opts...)
		c.wantErr(err, ctx.Err(), "SaveState with an ended context")
		if core.OutcomeUnknown(err) {
			c.Errorf("SaveState with an ended context leaves the outcome open")
		}
	}
	_, err := s.LoadState(ctx, want.FlowID)
	c.wantErr(err, ctx.Err(), "LoadState with an ended context")
	c.wantErr(s.Delete(ctx, want.FlowID), ctx.Err(), "Delete with an ended context")
	_, err = s.Sweep(ctx, want.FlowID)
	c.wantErr(err, ctx.Err(), "Sweep with an ended context")
	for _, err := range s.Flows(ctx, driver.ListOptions{}) {
		c.wantErr(err, ctx.Err(), "Flows with an ended context")
	}
	c.wantUnchanged(d, before, "after calls with an ended context")
	c.wantSnapshot(s, want)
}

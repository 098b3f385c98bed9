package conformance

import (
	"context"
	"errors"
	"slices"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// stage is the state of a flow of which the program is changed between its runs.
type stage struct {
	ID    string   `json:"id"`
	Done  []string `json:"done"`
	Added int      `json:"added,omitempty"` // of the newer program
}

// chain is a flow of methods in a row. The one called fail fails.
func chain(w *witness, initial stage, fail string, methods ...string) (*flow.Definition[stage], error) {
	step := func(_ context.Context, run *flow.Run[stage]) (string, error) {
		w.enter(run.Method(), run.ActivationID())
		if run.Method() == fail {
			return "", errors.New("out of order")
		}
		return run.Method(), run.State().Update(func(s *stage) error {
			s.Done = append(slices.Clone(s.Done), run.Method())
			return nil
		})
	}
	b := flow.New[stage]("chain")
	b.Initial(func() stage { return initial })
	last := flow.Start(b, methods[0], step)
	for _, m := range methods[1:] {
		last = flow.Listen(b, m, func(ctx context.Context, run *flow.Run[stage], _ string) (string, error) { return step(ctx, run) }, last)
	}
	return b.Build()
}

// stopped saves a flow of which the second method failed.
func (c *caseRun) stopped(s flowStore, id string) {
	c.Helper()
	var w witness
	def, err := chain(&w, stage{}, "b", "a", "b", "c")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	if _, err = def.Kickoff(c.ctx, flow.Inputs{"id": id}, flow.WithStore(s), flow.Persist()); err == nil {
		c.Fatalf("a flow with a failing method finished")
	}
}

// changedGraph resumes with another graph than the flow was saved with: it is refused with
// the difference, nothing runs, and nothing is written, until the caller accepts the change.
func changedGraph(c *caseRun) {
	d := c.openTight()
	s, id := c.store(d), c.flow("f")
	c.stopped(s, id)
	before := c.dump(d)
	var w witness
	def, err := chain(&w, stage{}, "", "a", "b2", "c")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	_, err = def.Resume(c.ctx, id, flow.WithStore(s), flow.Persist())
	if changed, ok := errors.AsType[*flow.ChangedError](err); !ok {
		c.Errorf("Resume with another graph returned %v, want a *flow.ChangedError", err)
	} else if !slices.Equal(changed.Added, []string{"b2"}) || !slices.Equal(changed.Removed, []string{"b"}) {
		c.Errorf("the methods b2 and no longer b are there; the error tells of %q and no longer %q", changed.Added, changed.Removed)
	}
	if len(w.ran) > 0 {
		c.Errorf("Resume with another graph ran %q", w.ran)
	}
	c.wantUnchanged(d, before, "after a refused Resume")
	if _, err = def.Resume(c.ctx, id, flow.WithStore(s), flow.Persist(), flow.AcceptChanges()); err != nil {
		c.Errorf("Resume with an accepted change failed: %v", err)
	}
}

// newField restores a state of an older program: what it does not have keeps its default.
func newField(c *caseRun) {
	d := c.openTight()
	s, id := c.store(d), c.flow("f")
	c.stopped(s, id)
	var w witness
	def, err := chain(&w, stage{Added: 7}, "", "a", "b", "c")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	result, err := def.Kickoff(c.ctx, flow.Inputs{"id": c.flow("fork")}, flow.RestoreFrom(id), flow.MustExist(), flow.WithStore(s), flow.Persist())
	if err != nil {
		c.Fatalf("Kickoff with the state of an older program failed: %v", err)
	}
	if want := []string{"a", "a", "b", "c"}; result.State.Added != 7 || !slices.Equal(result.State.Done, want) {
		c.Errorf("the state of an older program became %+v, want the default 7 in the new field and %q", result.State, want)
	}
	if err := sameJSON(c.load(s, c.flow("fork")).State, []byte(`{"id":"`+c.flow("fork")+`","done":["a","a","b","c"],"added":7}`)); err != nil {
		c.Errorf("the stored state: %v", err)
	}
}

// forkOntoFlow forks to the id of a flow that exists: it is never written over.
func forkOntoFlow(c *caseRun) {
	d := c.openTight()
	s := c.store(d)
	c.stopped(s, c.flow("f"))
	c.stopped(s, c.flow("target"))
	before := c.dump(d)
	var w witness
	def, err := chain(&w, stage{}, "", "a", "b", "c")
	if err != nil {
		c.Fatalf("building the flow: %v", err)
	}
	_, err = def.Kickoff(c.ctx, flow.Inputs{"id": c.flow("target")}, flow.RestoreFrom(c.flow("f")), flow.WithStore(s), flow.Persist())
	c.wantErr(err, core.ErrConflict, "a fork to the id of a flow that exists")
	c.wantUnchanged(d, before, "after a fork to the id of a flow that exists")
}

package flow

import (
	"context"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
)

// A MethodOption changes one method of a flow.
type MethodOption interface{ applyMethod(c *methodConfig) }

// A RunOption changes one run: Kickoff or Resume.
type RunOption interface{ applyRun(c *runConfig) }

// methodConfig is what a method's options amount to.
type methodConfig struct {
	when     *node
	hasWhen  bool
	emits    []labelSpec
	budget   int
	persist  persistMode
	isOutput bool
	timeout  time.Duration
	retry    Retry
	review   *Review

	misplaced bool // the review of a router
}

type persistMode int

const (
	persistInherit persistMode = iota
	persistOn
	persistOff
)

type methodOption func(*methodConfig)

func (o methodOption) applyMethod(c *methodConfig) { o(c) }

type runOption func(*runConfig)

func (o runOption) applyRun(c *runConfig) { o(c) }

// When makes a start conditional: it runs each time c is satisfied, after the listeners of
// the same event.
func When(c Condition) MethodOption {
	return methodOption(func(m *methodConfig) { m.when, m.hasWhen = childOf(c), true })
}

// Emits declares the labels that a router may choose; any other choice is an error of the
// method (UndeclaredLabelError). Without it the router is dynamic: any label is allowed, and
// Build knows less about the graph. Only labels are accepted, not methods.
func Emits(labels ...Condition) MethodOption {
	return methodOption(func(m *methodConfig) {
		for _, l := range labels {
			m.emits = append(m.emits, newLabelSpec(l))
		}
	})
}

// Budget limits how often this method may be called in one run, resumes included. The call
// beyond it fails the run with a BudgetError. Zero stands for the run's MethodBudget; a
// negative number for no limit.
func Budget(calls int) MethodOption {
	return methodOption(func(m *methodConfig) { m.budget = calls })
}

// Output declares this method's latest output to be the output of the flow. Without it that
// is the output of whichever method completed last.
func Output() MethodOption {
	return methodOption(func(m *methodConfig) { m.isOutput = true })
}

// NoPersist exempts a method from the run's Persist: its completion is not saved by itself,
// only with the next one that is. Until then a crash runs it again, and so does Resume if it
// was the last method of the flow, or the last before the run paused.
func NoPersist() MethodOption {
	return methodOption(func(m *methodConfig) { m.persist = persistOff })
}

// PersistOption is what Persist returns: an option of a run and of a method.
type PersistOption struct{}

func (PersistOption) applyMethod(m *methodConfig) { m.persist = persistOn }
func (PersistOption) applyRun(c *runConfig)       { c.persist = true }

// Persist saves the state and the runtime's progress when a method has completed, before
// anything that waits for it starts. As the option of a run it holds for every method that
// has not NoPersist, as the option of a method for that method in any run. It needs
// WithStore. A resumed run goes on saving as it did before.
func Persist() PersistOption { return PersistOption{} }

// runConfig is what a run's options amount to.
type runConfig struct {
	store         core.FlowPersistence
	persist       bool
	restoreFrom   string
	restoring     bool
	mustExist     bool
	acceptChanges bool
	keepOutputs   bool
	runBudget     int
	methodBudget  int
	saveRetry     SaveRetry
	observers     []Observer
	hooks         []Hooks
	concurrency   int
	provider      Provider
	answers       []answer
	keepLog       bool
	checkpoints   *checkpoint.Config
	from          *checkpoint.Ref
	fork          bool
	branch        string
}

func newRunConfig(opts []RunOption) runConfig {
	c := runConfig{methodBudget: DefaultMethodBudget, saveRetry: SaveRetry{Attempts: 3, Wait: 50 * time.Millisecond}}
	for _, o := range opts {
		o.applyRun(&c)
	}
	return c
}

// WithStore gives the run a store to restore from and, with Persist, to save to.
func WithStore(store core.FlowPersistence) RunOption {
	return runOption(func(c *runConfig) { c.store = store })
}

// RestoreFrom makes Kickoff a fork: the run begins with the state of the flow flowID, under
// the id of the inputs or a new one, and never writes to the flow it came from. A flow that
// does not exist is no error unless MustExist is given.
func RestoreFrom(flowID string) RunOption {
	return runOption(func(c *runConfig) { c.restoreFrom, c.restoring = flowID, true })
}

// MustExist makes Kickoff fail with core.ErrNotFound if the flow to restore, named by the
// inputs or by RestoreFrom, is not in the store. Without it such a run begins afresh.
func MustExist() RunOption {
	return runOption(func(c *runConfig) { c.mustExist = true })
}

// AcceptChanges lets Resume go on although the graph changed since the flow was saved, which
// is a ChangedError otherwise. Calls of methods that are gone are dropped.
func AcceptChanges() RunOption {
	return runOption(func(c *runConfig) { c.acceptChanges = true })
}

// KeepOutputs collects the output of every completed method in Result.Outputs, across
// resumes. It is off by default because such a list, and with it each save, grows with the
// number of calls.
func KeepOutputs() RunOption {
	return runOption(func(c *runConfig) { c.keepOutputs = true })
}

// DefaultMethodBudget is how often a method may be called in one run unless an option says
// otherwise. It stops a loop that never exits.
const DefaultMethodBudget = 100

// MethodBudget sets how often each method without a Budget of its own may be called in this
// run, resumes included; DefaultMethodBudget without it. A number below 1 is no limit.
func MethodBudget(calls int) RunOption {
	return runOption(func(c *runConfig) { c.methodBudget = calls })
}

// RunBudget limits the calls of all methods together, resumes included. Without it, or with
// a number below 1, there is no such limit.
func RunBudget(calls int) RunOption {
	return runOption(func(c *runConfig) { c.runBudget = calls })
}

// SaveRetry says how a failed save is tried again. Only a store that is unavailable
// (core.ErrUnavailable) is asked again, since no other failure is cured by waiting. A
// SaveRetry is an option of a run.
type SaveRetry struct {
	Attempts int           // how often a save is tried in all; below 1 means once
	Wait     time.Duration // before the second attempt; doubled for each further one
}

// An Observer is told of each event of a run, in order, one at a time, on the goroutine that
// called Kickoff or Resume. It should return soon: the run waits for it.
type Observer func(ctx context.Context, e Event)

// applyRun makes SaveRetry an option of a run. Without it a save is tried three times, with
// waits of 50 and 100 ms.
func (r SaveRetry) applyRun(c *runConfig) { c.saveRetry = r }

// WithObserver adds an observer to the run. Several are called in the order given.
func WithObserver(o Observer) RunOption {
	return runOption(func(c *runConfig) { c.observers = append(c.observers, o) })
}

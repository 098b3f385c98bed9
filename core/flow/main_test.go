package flow_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core/flow"
)

// TestMain looks, when all tests are done, for goroutines that runs have left behind: nothing
// of a run runs after Kickoff or Resume has returned.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(5 * time.Second); left != "" {
		fmt.Fprintln(os.Stderr, "goroutines left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that this package's code started or runs, after
// waiting for them to end.
func leaked(patience time.Duration) string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		buf := make([]byte, 1<<22)
		for i, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && strings.Contains(g, "weir/core/flow") { // the first is this goroutine
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}

func TestTheLeakCheckSeesALeak(t *testing.T) {
	stop := make(chan struct{})
	go func() { <-stop }()
	if leaked(0) == "" {
		t.Error("a goroutine of this package was not seen")
	}
	close(stop)
}

// tally is the state of most tests.
type tally struct {
	ID  string   `json:"id"`
	N   int      `json:"n"`
	Log []string `json:"log,omitempty"`
}

type tallyRun = flow.Run[tally]

// note returns a method that logs its name and does nothing else.
func note(name string) func(context.Context, *tallyRun) (string, error) {
	return func(_ context.Context, run *tallyRun) (string, error) {
		return name, run.State().Update(func(s *tally) error {
			s.N++
			s.Log = append(s.Log, name)
			return nil
		})
	}
}

// noteAny is note for a listener.
func noteAny(name string) func(context.Context, *tallyRun, any) (string, error) {
	return func(ctx context.Context, run *tallyRun, _ any) (string, error) { return note(name)(ctx, run) }
}

// mustBuild builds or fails the test.
func mustBuild[S any](t testing.TB, b *flow.Builder[S]) *flow.Definition[S] {
	t.Helper()
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// chain is a flow of methods that run one after another.
func chain(t testing.TB, names ...string) *flow.Definition[tally] {
	t.Helper()
	b := flow.New[tally]("chain")
	last := flow.Start(b, names[0], note(names[0]))
	for _, name := range names[1:] {
		last = flow.Listen(b, name, noteAny(name), flow.Any(last))
	}
	return mustBuild(t, b)
}

// recorder collects events.
type recorder struct{ events []flow.Event }

func (r *recorder) option() flow.RunOption {
	return flow.WithObserver(func(_ context.Context, e flow.Event) { r.events = append(r.events, e) })
}

// names returns the events as the scenario files name them.
func (r *recorder) names() string {
	var out []string
	for _, e := range r.events {
		name := strings.TrimPrefix(fmt.Sprintf("%T", e), "flow.")
		switch e := e.(type) {
		case flow.MethodStarted:
			name += ":" + e.Method
		case flow.MethodFinished:
			name += ":" + e.Method
		case flow.MethodFailed:
			name += ":" + e.Method
		case flow.StateSaved:
			name += ":" + e.Method
		case flow.SaveFailed:
			name += ":" + e.Method
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

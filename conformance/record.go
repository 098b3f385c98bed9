package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Status is the verdict on one case.
type Status string

// The verdicts. Only Passed is good; the others say why there is nothing good to say.
const (
	Passed      Status = "passed"
	Failed      Status = "failed"
	Unsupported Status = "unsupported" // the backend does not offer what the case needs
	OptedOut    Status = "opted out"   // by Harness.OptOut
	NotRun      Status = "not run"     // not selected, or the context ended before
)

// Result is what came of one case.
type Result struct {
	Layer, Law, Case string
	Status           Status
	Messages         []string // failures, or the reason; empty for Passed
	Duration         time.Duration
}

// Path returns layer/law/case, as Harness.Only takes it.
func (r Result) Path() string { return r.Layer + "/" + r.Law + "/" + r.Case }

// Report is what came of a whole run.
type Report struct {
	Seed    uint64
	Results []Result
}

// Failed returns the failed results.
func (r Report) Failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.Status != Failed })
}

// caseTimeout is how long one case may take: enough for a slow store on a loaded machine, and
// the end of a driver that locks itself up.
const caseTimeout = 2 * time.Minute

// Check judges the backend of h as Run does, outside of go test: it runs one case after the
// other and returns what came of each. A case that hangs or panics has failed. The error is
// for an unusable harness; failures are in the report. Several calls may run at the same time.
// What it does to the flags of a program that is no test, the package comment says.
func Check(ctx context.Context, h Harness) (Report, error) {
	if err := h.validate(); err != nil {
		return Report{}, err
	}
	report := Report{Seed: h.seed()}
	for _, l := range laws() {
		for _, tc := range l.cases {
			r := Result{Layer: l.layer, Law: l.name, Case: tc.name, Status: NotRun}
			if reason, out := h.optedOut(r.Path()); out {
				r.Status, r.Messages = OptedOut, []string{reason}
			} else if within(r.Path(), h.Only) && ctx.Err() == nil {
				judge(ctx, h, report.Seed, tc, &r)
			}
			report.Results = append(report.Results, r)
		}
	}
	return report, nil
}

// judge runs one case and fills in its result.
func judge(ctx context.Context, h Harness, seed uint64, tc testCase, r *Result) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	rec := &recorder{name: r.Path(), ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer rec.finish()
		tc.run(newCase(rec, h, seed, r.Path()))
	}()
	select {
	case <-done:
	case <-time.After(caseTimeout + 5*time.Second):
		rec.Errorf("the case hangs: it has not returned after %v", caseTimeout)
	}
	r.Duration = time.Since(start)
	r.Status, r.Messages = rec.verdict()
}

// recorder is a T that remembers.
type recorder struct {
	name string
	ctx  context.Context

	mu       sync.Mutex
	failed   bool
	skipped  bool
	messages []string
	logs     []string // the last ones
	cleanups []func()
	temp     string
}

var errNoTemp = errors.New("no temporary directory")

func (r *recorder) Name() string             { return r.name }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}

// mostLogs is how many of the last log lines a failure brings along.
const mostLogs = 80

// Logf keeps what explains a failure.
func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
	r.logs = r.logs[max(0, len(r.logs)-mostLogs):]
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.temp == "" {
		dir, err := os.MkdirTemp("", "conformance")
		if err != nil {
			panic(errors.Join(errNoTemp, err))
		}
		r.temp = dir
	}
	dir, err := os.MkdirTemp(r.temp, "")
	if err != nil {
		panic(errors.Join(errNoTemp, err))
	}
	return dir
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.mu.Lock()
	r.skipped = true
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// finish turns a panic into a failure and cleans up, last registered first.
func (r *recorder) finish() {
	if p := recover(); p != nil {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			break
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		f()
	}
	if r.temp != "" {
		_ = os.RemoveAll(r.temp)
	}
}

func (r *recorder) verdict() (Status, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := slices.Clone(r.messages)
	switch {
	case r.failed:
		if len(r.logs) > 0 {
			messages = append(messages, "log:\n"+strings.Join(r.logs, "\n"))
		}
		return Failed, messages
	case r.skipped:
		for i, m := range messages {
			messages[i] = strings.TrimPrefix(m, unsupportedPrefix)
		}
		return Unsupported, messages
	}
	return Passed, nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weirflow/weir/conformance"
)

// runCases runs the cases, several at a time, and returns the results of all laws in their
// order. One call of Check a case lets the progress be seen.
func runCases(ctx context.Context, h conformance.Harness, paths []string, parallel int, t *ticker) []conformance.Result {
	done := make(map[string]conformance.Result, len(paths))
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan struct{}, parallel)
	t.total = len(paths)
	for _, path := range paths {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			r := runCase(ctx, h, path)
			mu.Lock()
			defer mu.Unlock()
			done[path] = r
			t.tick(r)
		})
	}
	wg.Wait()
	var all []conformance.Result
	for _, l := range conformance.Laws() {
		for _, c := range l.Cases {
			r := conformance.Result{Layer: l.Layer, Law: l.Name, Case: c, Status: conformance.NotRun}
			if d, ok := done[r.Path()]; ok {
				r = d
			}
			all = append(all, r)
		}
	}
	return all
}

func runCase(ctx context.Context, h conformance.Harness, path string) conformance.Result {
	h.Only = path
	report, err := conformance.Check(ctx, h)
	if err != nil {
		return conformance.Result{Status: conformance.Failed, Messages: []string{err.Error()}}
	}
	for _, r := range report.Results {
		if r.Path() == path {
			return r
		}
	}
	return conformance.Result{Status: conformance.Failed, Messages: []string{"the suite has no case " + path}}
}

// ticker shows on a terminal how far the run is. Elsewhere it is silent.
type ticker struct {
	out                         io.Writer // nil: no terminal
	total, done, failed, passed int
	start                       time.Time
}

func newTicker(w io.Writer) *ticker {
	t := &ticker{start: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			t.out = w
		}
	}
	return t
}

// tick counts a result. Calls come one at a time.
func (t *ticker) tick(r conformance.Result) {
	t.done++
	switch r.Status {
	case conformance.Passed:
		t.passed++
	case conformance.Failed:
		t.failed++
	case conformance.Unsupported, conformance.OptedOut, conformance.NotRun:
	}
	if t.out != nil {
		fmt.Fprintf(t.out, "\r\x1b[K%d/%d cases, %d passed, %d failed, %v  %s",
			t.done, t.total, t.passed, t.failed, time.Since(t.start).Round(time.Second), r.Path())
	}
}

func (t *ticker) end() {
	if t.out != nil {
		fmt.Fprint(t.out, "\r\x1b[K")
	}
}

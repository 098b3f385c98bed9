//go:build unix

package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// process is a worker that runs.
type process struct {
	strike strike
	random bool // it is killed from outside

	cmd      *exec.Cmd
	out      bytes.Buffer // after its first line
	messages bytes.Buffer
	done     chan struct{} // closed when it has ended
}

// start starts a worker and waits until it has opened its store, or has ended.
func (m *match) start(ctx context.Context, s strike) (*process, error) {
	text, err := json.Marshal(job{Seed: m.seed, URL: m.url(m.seed), Ledger: m.ledger, Strike: s})
	if err != nil {
		return nil, err
	}
	p := &process{strike: s, cmd: exec.CommandContext(ctx, os.Args[0]), done: make(chan struct{})}
	// The race detector would have each process sleep for a second before it exits.
	p.cmd.Env = append(os.Environ(), workerJob+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = &p.messages
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	m.processes.Add(1)
	ready := make(chan struct{})
	go func() {
		defer close(p.done)
		r := bufio.NewReader(out)
		_, _ = r.ReadString('\n') // what is missing shows in how it ends
		close(ready)
		_, _ = p.out.ReadFrom(r)
		_ = p.cmd.Wait() // ProcessState has it
	}()
	<-ready
	return p, nil
}

// ended waits until the process has ended and returns its exit status, or -1 if it was killed
// as it was to be.
func (m *match) ended(p *process) (int, error) {
	<-p.done
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, fmt.Errorf("the state of a process is a %T", p.cmd.ProcessState.Sys())
	}
	m.story = append(m.story, fmt.Sprintf("%d %s", p.cmd.Process.Pid, p.tale(status)))
	switch code := status.ExitStatus(); {
	case status.Signaled() && status.Signal() == syscall.SIGKILL && p.random:
		m.random.Add(1)
	case status.Signaled() && status.Signal() == syscall.SIGKILL && p.strike.Point != "":
		m.hits[p.strike.Point].Add(1)
	case status.Signaled(), !slices.Contains([]int{exitDone, exitPaused, exitLost}, code):
		return code, fmt.Errorf("process %d ends with %v: %s", p.cmd.Process.Pid, p.cmd.ProcessState, p.messages.String())
	default:
		return code, nil
	}
	return -1, nil
}

func (p *process) tale(status syscall.WaitStatus) string {
	what := "ends with " + fmt.Sprint(status.ExitStatus())
	if status.Signaled() {
		what = status.Signal().String()
	}
	switch {
	case p.random:
		what += ", to be killed at a random moment"
	case p.strike.Point != "":
		what += fmt.Sprintf(", at %q for the %d. time", p.strike.Point, p.strike.N)
	}
	return what
}

// killAfter kills the process some time from now, if it still runs then.
func (p *process) killAfter(d time.Duration) {
	p.random = true
	time.AfterFunc(d, func() { _ = p.cmd.Process.Kill() })
}

// stops waits until the process has come to the point where it stops. It reports false if it
// has ended without.
func (p *process) stops(ledger string) (bool, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return false, nil
		case <-tick.C:
		}
		lines, err := readLedger(ledger)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(lines, func(l line) bool { return l.Kind == lineStrikes && l.PID == p.cmd.Process.Pid }) {
			return true, nil
		}
	}
}

// wake wakes it. The signal is sent until it has an effect: it has none on a process that is
// only about to stop.
func (p *process) wake() error {
	for {
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

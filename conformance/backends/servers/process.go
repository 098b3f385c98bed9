//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a server that runs as a child process.
type Process struct {
	Addr string // host:port

	argv  []string
	dir   *folder
	ready func(ctx context.Context, addr string) error // one try

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	out  *tail
}

// start starts the program, for the first time or again, and waits until it is ready.
func (p *Process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = &tail{}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir.path, p.out, p.out, sysProcAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // ProcessState has it
		close(done)
	}()
	if err := p.dir.record(cmd.Process.Pid); err != nil {
		return err
	}
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(p.argv, " "), err, p.out)
	}
	return nil
}

// wait tries every few milliseconds whether the server is ready.
func (p *Process) wait(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		last := p.ready(ctx, p.Addr)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last try: %w", ctx.Err(), last)
		case <-p.done:
			return fmt.Errorf("ended while starting: %v", p.cmd.ProcessState)
		case <-tick.C:
		}
	}
}

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return os.ErrProcessDone // its number may be another's by now
	default:
		return syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// Pause freezes the server: connections stay open and nothing answers.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Unpause ends a Pause.
func (p *Process) Unpause() error { return p.signal(syscall.SIGCONT) }

// Kill ends the server with SIGKILL and waits for its end. Its files stay.
func (p *Process) Kill() error {
	err := p.signal(syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Restart starts a killed server again, at the same address and with the same files, and
// waits until it is ready.
func (p *Process) Restart(ctx context.Context) error { return p.start(ctx) }

// Close kills the server and removes its files.
func (p *Process) Close() error {
	var err error
	if p.cmd != nil {
		err = p.Kill()
	}
	return errors.Join(err, p.dir.close())
}

// freePort returns a TCP port of the loopback address that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// tail keeps the last few kilobytes that a server has printed.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if n := t.buf.Len(); n > 2*tailBytes {
		t.buf.Next(n - tailBytes)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// isRunning reports whether a process exists and was started in that folder.
func isRunning(pid int, dir string) bool {
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && strings.HasPrefix(cwd, dir)
}

//go:build unix

package servers

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// orphanEnv makes the test binary start a server, tell its address and folder, and wait.
const orphanEnv = "WEIR_SERVERS_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		p, err := Redis(context.Background())
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(p.Addr + " " + p.dir.path + "\n")
		time.Sleep(time.Hour) // it is killed before
	}
	os.Exit(m.Run())
}

func start(t *testing.T) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := Redis(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestKilledRunLeavesNothing kills a test binary that has a server.
func TestKilledRunLeavesNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(exe)
	run.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err := redisReady(t.Context(), addr); err != nil {
		t.Fatal(err)
	}
	start(t) // a run beside it leaves it alone
	if err := redisReady(t.Context(), addr); err != nil {
		t.Errorf("another run ended a server whose owner lives: %v", err)
	}
	_ = run.Process.Kill()
	_ = run.Wait()
	start(t)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a killed run is still there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = eventually(ctx, "the end of its server", func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil // nobody listens any more
		}
		_ = c.Close()
		return os.ErrExist
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPauseKillRestart(t *testing.T) {
	p := start(t)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := redisReady(ctx, p.Addr); err == nil {
		t.Error("a frozen server answers")
	}
	if err := p.Unpause(); err != nil {
		t.Fatal(err)
	}
	if err := redisReady(ctx, p.Addr); err != nil {
		t.Error(err)
	}
	for range 2 { // the second time there is nothing to kill
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := redisReady(ctx, p.Addr); err == nil {
		t.Error("a killed server answers")
	}
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := redisReady(ctx, p.Addr); err != nil {
		t.Error(err)
	}
}

func TestFailureToStartSaysWhy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Redis(ctx, "--no-such-option", "x")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("a server that does not start: %v", err)
	}
	t.Setenv(RedisProgram, "no-such-program")
	_, err = Redis(ctx)
	if err == nil || !strings.Contains(err.Error(), "setup.sh") {
		t.Errorf("a server that is not installed: %v", err)
	}
}

func TestProxy(t *testing.T) {
	p := start(t)
	proxy, err := Listen(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	if err := redisReady(t.Context(), proxy.Addr()); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Faults{"answers": {DropAnswers: true}, "requests": {DropRequests: true}, "connections": {Refuse: true}} {
		proxy.Set(f)
		if err := redisReady(t.Context(), proxy.Addr()); err == nil {
			t.Errorf("a proxy that loses %s lets an answer through", name)
		}
	}
	proxy.Set(Faults{Delay: 50 * time.Millisecond})
	begin := time.Now()
	if err := redisReady(t.Context(), proxy.Addr()); err != nil || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("with a delay of 50 ms either way an answer takes %v (%v)", time.Since(begin), err)
	}
	proxy.Set(Faults{})
	c, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was cut goes on")
	}
}

func TestEndpoints(t *testing.T) {
	t.Setenv("WEIR_TEST_X", " a=redis://h:1/?x=y , b=redis+cluster://h:2")
	got, err := Endpoints("WEIR_TEST_X")
	if err != nil || len(got) != 2 || got[0] != (Endpoint{"a", "redis://h:1/?x=y"}) || got[1] != (Endpoint{"b", "redis+cluster://h:2"}) {
		t.Errorf("%+v, %v", got, err)
	}
	t.Setenv("WEIR_TEST_X", "redis://:secret@h")
	if _, err := Endpoints("WEIR_TEST_X"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an endpoint without a name: %v", err)
	}
	if got, err := Endpoints("WEIR_TEST_UNSET"); err != nil || got != nil {
		t.Errorf("an unset variable: %v, %v", got, err)
	}
}

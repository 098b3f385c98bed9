package redis

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// startServer starts a server of the test's own and returns a client of it. WEIR_REDIS_SERVER
// names another program than redis-server.
func startServer(t testing.TB, args ...string) *goredis.Client {
	t.Helper()
	program := os.Getenv("WEIR_REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("no Redis server: %v; run scripts/servers/setup.sh", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	var out bytes.Buffer
	// Without its own context: it must outlive the clean-up of what uses it.
	cmd := exec.Command(program, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	deadline := time.Now().Add(20 * time.Second)
	for c.Ping(t.Context()).Err() != nil {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer:\n%s", &out)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return c
}

func openTest(t testing.TB, cfg Config) *Driver {
	t.Helper()
	d, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// trips counts the round trips of a client, and the bytes of what it sends.
type trips struct{ n, sent atomic.Int64 }

// DialHook implements goredis.Hook.
func (c *trips) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (c *trips) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (c *trips) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *trips) count(cmds ...goredis.Cmder) {
	c.n.Add(1)
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			switch v := arg.(type) {
			case string:
				c.sent.Add(int64(len(v)))
			case []byte:
				c.sent.Add(int64(len(v)))
			default:
				c.sent.Add(1)
			}
		}
	}
}

func (c *trips) reset() {
	c.n.Store(0)
	c.sent.Store(0)
}

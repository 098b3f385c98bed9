package backends_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirflow/weir/conformance/backends/servers"
)

// network is a server of its own with a proxy before it, and what can be done to both.
type network struct {
	server *servers.Process
	keeps  bool                     // what it has stored survives that it is killed
	url    func(addr string) string // of a store, with little patience
	direct func(addr string) string // the same store, with the usual patience
	calls  int                      // of each worker on each flow
	bad    time.Duration            // how long a fault lasts: longer than the store's patience
	good   time.Duration            // the time between two faults
}

// TestRedisProcessesAreLinearizable has processes call one Redis, which writes each command to
// disk before it answers.
func TestRedisProcessesAreLinearizable(t *testing.T) {
	judgeNetwork(t, network{
		server: startRedis(t, "--appendonly", "yes", "--appendfsync", "always"), keeps: true, calls: 50,
		bad: 50 * time.Millisecond, good: 20 * time.Millisecond,
		url: func(addr string) string {
			return "redis://" + addr + "/0?retry_for=60ms&read_timeout=40ms&dial_timeout=40ms"
		},
		direct: func(addr string) string { return "redis://" + addr + "/0" },
	})
}

// TestDynamoProcessesAreLinearizable has them call one dynalite with its tables on disk. Moto
// is left out: it keeps nothing on disk, and only a patch of ours keeps it from mixing writes.
func TestDynamoProcessesAreLinearizable(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	server, err := servers.DynaliteOnDisk(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, server) })
	direct := func(addr string) string { return "dynamodb://flows?region=us-east-1&endpoint=http://" + addr }
	judgeNetwork(t, network{
		server: server, keeps: true, calls: 24, bad: 200 * time.Millisecond, good: 400 * time.Millisecond,
		url: func(addr string) string { return direct(addr) + "&timeout=300ms" }, direct: direct,
	})
}

// TestFirestoreProcessesAreLinearizable has them call one emulator. It keeps everything in
// memory, so it is paused and never killed.
func TestFirestoreProcessesAreLinearizable(t *testing.T) {
	direct := func(addr string) string { return "firestore://conform/flows?emulator=" + addr }
	judgeNetwork(t, network{
		server: startFirestore(t), calls: 12, bad: 200 * time.Millisecond, good: 400 * time.Millisecond,
		url: func(addr string) string { return direct(addr) + "&timeout=300ms" }, direct: direct,
	})
}

// judgeNetwork goes through the faults in turn until the workers are done: connections that
// are cut, answers lost after the server has done the work, requests lost, delay, a server
// that is paused and one that is killed and started again.
func judgeNetwork(t *testing.T, n network) {
	t.Helper()
	proxy, err := servers.Listen(n.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	proxied := func(f servers.Faults) func(context.Context) error {
		return func(context.Context) error {
			proxy.Set(f)
			time.Sleep(n.bad)
			proxy.Cut()
			proxy.Set(servers.Faults{})
			return nil
		}
	}
	pause := func(context.Context) error {
		if err := n.server.Pause(); err != nil {
			return err
		}
		time.Sleep(n.bad)
		return n.server.Unpause()
	}
	restart := func(context.Context) error {
		if err := n.server.Kill(); err != nil {
			return err
		}
		// Not the context of the workers: they may be done while the server starts.
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		return n.server.Restart(ctx)
	}
	faults := []func(context.Context) error{
		proxied(servers.Faults{DropAnswers: true}), pause, proxied(servers.Faults{Delay: 5 * time.Millisecond}),
		proxied(servers.Faults{DropRequests: true}), proxied(servers.Faults{Refuse: true}),
	}
	if n.keeps {
		faults = append([]func(context.Context) error{restart}, faults...)
	}
	judgeProcesses(t, n.url(proxy.Addr()), n.direct(n.server.Addr), n.calls, func(ctx context.Context, killOne func() error) error {
		done := 0
		defer func() { t.Logf("%d faults of %d kinds, restarts: %t", done, len(faults), n.keeps) }()
		for ; ctx.Err() == nil; done++ {
			time.Sleep(n.good)
			if err := faults[done%len(faults)](ctx); err != nil {
				return errors.Join(err, killOne())
			}
		}
		return killOne() // too late to matter: here the network is what fails
	})
}

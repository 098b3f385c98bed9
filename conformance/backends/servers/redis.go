//go:build unix

package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// RedisProgram is the environment variable that names another program than redis-server.
const RedisProgram = "WEIR_REDIS_SERVER"

// Redis starts a server with a folder of its own, no password and nothing on disk, unless
// args, options of redis-server, say otherwise.
func Redis(ctx context.Context, args ...string) (*Process, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	p, err := startRedis(ctx, dir, args...)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return p, nil
}

// eventually tries fn every few milliseconds until it succeeds or ctx ends.
func eventually(ctx context.Context, what string, fn func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last := fn()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last try: %w", what, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// startRedis starts a server in a given folder.
func startRedis(ctx context.Context, dir *folder, args ...string) (*Process, error) {
	program, err := redisProgram()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	argv := append([]string{
		program, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir.path,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
	}, args...)
	p := &Process{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), argv: argv, dir: dir, ready: redisReady}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// redisProgram finds the server, or says what to do.
func redisProgram() (string, error) {
	name := os.Getenv(RedisProgram)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no Redis server: %w; run scripts/servers/setup.sh, or name running ones in WEIR_TEST_REDIS=name=url,name=url", err)
	}
	return path, nil
}

// redisReady asks for a PONG: the port is open before the data is loaded. A server that wants
// a password is ready too.
func redisReady(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "+PONG\r\n" && line != "-NOAUTH Authentication required.\r\n" {
		err = fmt.Errorf("the server says %q", line)
	}
	return err
}

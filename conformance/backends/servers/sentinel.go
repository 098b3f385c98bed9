//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// sentinelGroup is what the sentinels call the servers they watch.
const sentinelGroup = "weir"

// Sentinel is a primary with a replica, and three sentinels that watch them.
type Sentinel struct {
	Primary, Replica *Process // at the beginning
	Sentinels        []*Process
	dir              *folder
}

// StartSentinel starts them and waits until each sentinel knows the others and the replica.
// A primary that is silent for a second is replaced.
func StartSentinel(ctx context.Context) (*Sentinel, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	s := &Sentinel{dir: dir}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a group with sentinels: %w", err), s.Close())
	}
	return s, nil
}

// URL is the address for persistence.Open.
func (s *Sentinel) URL() string {
	query := url.Values{"master_name": {sentinelGroup}}
	for _, n := range s.Sentinels[1:] {
		query.Add("addr", n.Addr)
	}
	return "redis+sentinel://" + s.Sentinels[0].Addr + "/0?" + query.Encode()
}

// Close ends all servers and removes their files.
func (s *Sentinel) Close() error {
	var errs []error
	for _, p := range append([]*Process{s.Primary, s.Replica}, s.Sentinels...) {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(append(errs, s.dir.close())...)
}

func (s *Sentinel) start(ctx context.Context) (err error) {
	dir, err := s.dir.sub("primary")
	if err != nil {
		return err
	}
	if s.Primary, err = startRedis(ctx, dir); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Primary.Addr)
	if err != nil {
		return err
	}
	if dir, err = s.dir.sub("replica"); err != nil {
		return err
	}
	if s.Replica, err = startRedis(ctx, dir, "--replicaof", host+" "+port); err != nil {
		return err
	}
	err = eventually(ctx, "the first copy", func() error {
		return contains(ctx, s.Replica, "replication", "master_link_status:up")
	})
	if err != nil {
		return err
	}
	for i := range 3 {
		p, err := s.startSentinel(ctx, i, host, port)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, p)
	}
	for _, p := range s.Sentinels {
		err := eventually(ctx, "a sentinel", func() error { return contains(ctx, p, "sentinel", "slaves=1,sentinels=3") })
		if err != nil {
			return err
		}
	}
	return nil
}

// startSentinel starts one sentinel, which keeps its settings in a file.
func (s *Sentinel) startSentinel(ctx context.Context, i int, host, port string) (*Process, error) {
	dir, err := s.dir.sub("sentinel" + strconv.Itoa(i))
	if err != nil {
		return nil, err
	}
	own, err := freePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir.path, "sentinel.conf")
	settings := strings.Join([]string{
		"bind 127.0.0.1", "port " + strconv.Itoa(own), "dir " + dir.path,
		"sentinel monitor " + sentinelGroup + " " + host + " " + port + " 2",
		"sentinel down-after-milliseconds " + sentinelGroup + " 1000",
		"sentinel failover-timeout " + sentinelGroup + " 3000",
	}, "\n") + "\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	program, err := redisProgram()
	if err != nil {
		return nil, err
	}
	p := &Process{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(own)), argv: []string{program, file, "--sentinel"},
		dir: dir, ready: redisReady,
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// contains asks a server for a section of its information and looks for a text in it.
func contains(ctx context.Context, p *Process, section, text string) error {
	client := goredis.NewClient(&goredis.Options{Addr: p.Addr})
	defer func() { _ = client.Close() }()
	info, err := client.Info(ctx, section).Result()
	if err == nil && !strings.Contains(info, text) {
		err = fmt.Errorf("%s does not say %q", p.Addr, text)
	}
	return err
}

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirflow/weir/core"
)

// pool lends a fixed number of connections, opened when first needed, to one user each. A
// pool of one connection is at once the lock around it.
type pool struct {
	dial func(context.Context) (*conn, error)
	keep bool          // never replace a connection: the database is in it
	wait time.Duration // longest wait for a free connection

	free chan *conn // a nil is the right to open one
	done chan struct{}
	once sync.Once
	err  error // of close
}

func newPool(size int, wait time.Duration, dial func(context.Context) (*conn, error)) *pool {
	p := &pool{dial: dial, wait: wait, free: make(chan *conn, size), done: make(chan struct{})}
	for range size {
		p.free <- nil
	}
	return p
}

// get lends a connection; give it back with put.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := p.slot(ctx)
	if err != nil || c != nil {
		return c, err
	}
	if c, err = p.dial(ctx); err != nil {
		p.free <- nil
		return nil, err
	}
	return c, nil
}

func (p *pool) slot(ctx context.Context) (*conn, error) {
	select {
	case <-p.done:
		return nil, errClosed()
	default:
	}
	select {
	case c := <-p.free:
		return c, nil
	default:
	}
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	select {
	case c := <-p.free:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, errClosed()
	case <-timeout.C:
		return nil, fmt.Errorf("%w: sqlite: no connection became free in %v; try again, or raise the busy timeout", core.ErrUnavailable, p.wait)
	}
}

// put takes a connection back. err is what its last use ended with.
func (p *pool) put(c *conn, err error) {
	if ruinsConnection(err) && !p.keep {
		// Its close has nothing to add to the error that its user got.
		_ = c.close()
		c = nil
	}
	p.free <- c
}

// close waits for the connections that are lent out and closes them all.
func (p *pool) close() error {
	p.once.Do(func() {
		close(p.done)
		var errs []error
		for range cap(p.free) {
			if c := <-p.free; c != nil {
				errs = append(errs, c.close())
			}
		}
		p.err = errors.Join(errs...)
	})
	return p.err
}

func errClosed() error {
	return fmt.Errorf("%w: sqlite: the store was closed", core.ErrUnavailable)
}

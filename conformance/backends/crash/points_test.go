//go:build unix

package crash

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/weirflow/weir/persistence/driver"
)

// points are where a worker can be struck: before and after each physical write, by the kind of
// record, after the read that a run begins with, and in the course of a method and of what is
// told about it.
var points = []string{
	"head read", "head put", "head put done",
	"segment put", "segment put done", "log put", "log put done", "history put", "history put done",
	"checkpoint put", "checkpoint put done", "delete", "delete done",
	"method", "method done", "save told", "finish told", "request told", "answer told", "checkpoint told",
}

// strike is when and how a worker is struck by itself: the n-th time it comes to the point.
type strike struct {
	Point string `json:"point,omitempty"` // "": never
	N     int    `json:"n,omitempty"`
	Stop  bool   `json:"stop,omitempty"` // SIGSTOP instead of SIGKILL
}

// mine is a strike that is laid out.
type mine struct {
	strike

	book *ledger
	mu   sync.Mutex
	left int
}

func lay(s strike, book *ledger) *mine { return &mine{strike: s, book: book, left: s.N} }

// pass is called at each point. It returns when the worker may go on.
func (m *mine) pass(point string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if point != m.Point {
		return nil
	}
	if m.left--; m.left != 0 {
		return nil
	}
	if !m.Stop {
		if err := m.book.write(line{Kind: lineStrikes, Point: point}); err != nil {
			return err
		}
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("it lives on"))
	}
	// The signal stops other threads first, perhaps; so this one waits to be woken.
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	if err := m.book.write(line{Kind: lineStrikes, Point: point}); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-woken
	return m.book.write(line{Kind: lineWoke, Point: point})
}

// mined is a driver with points around each operation.
type mined struct {
	driver.Driver
	driver.BatchPutter
	driver.BatchDeleter

	mine *mine
}

func newMined(d driver.Driver, m *mine) (*mined, error) {
	put, canPut := d.(driver.BatchPutter)
	del, canDelete := d.(driver.BatchDeleter)
	if _, sizes := d.(driver.Sizer); sizes || !canPut || !canDelete {
		return nil, errors.New("the points are for a driver that puts and deletes in batches and has no sizes of its own")
	}
	return &mined{d, put, del, m}, nil
}

var kinds = map[string]string{"": "head", "seg": "segment", "ev": "log", "h": "history", "cp": "checkpoint", "br": "branch"}

func kindOf(sort string) string {
	first, _, _ := strings.Cut(sort, "/")
	return kinds[first]
}

func (d *mined) around(what string, do func() error) error {
	if err := d.mine.pass(what); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return d.mine.pass(what + " done")
}

func (d *mined) Get(ctx context.Context, k driver.Key) (driver.Record, error) {
	r, err := d.Driver.Get(ctx, k)
	if k.Sort == "" {
		err = errors.Join(err, d.mine.pass("head read"))
	}
	return r, err
}

func (d *mined) Put(ctx context.Context, k driver.Key, r driver.Record, cond driver.Condition) (tag driver.Tag, err error) {
	err = d.around(kindOf(k.Sort)+" put", func() (err error) {
		tag, err = d.Driver.Put(ctx, k, r, cond)
		return err
	})
	return tag, err
}

func (d *mined) Delete(ctx context.Context, k driver.Key, cond driver.Condition) error {
	return d.around("delete", func() error { return d.Driver.Delete(ctx, k, cond) })
}

func (d *mined) PutSiblings(ctx context.Context, p driver.Partition, rs []driver.Record) error {
	return d.around(kindOf(rs[0].Sort)+" put", func() error { return d.BatchPutter.PutSiblings(ctx, p, rs) })
}

func (d *mined) DeleteSiblings(ctx context.Context, p driver.Partition, sorts []string) error {
	return d.around("delete", func() error { return d.BatchDeleter.DeleteSiblings(ctx, p, sorts) })
}

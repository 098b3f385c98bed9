//go:build unix

package customdriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// file is a record on disk, as JSON. Bytes are base64 in it, so that everything comes back as
// it was.
type file struct {
	ID       []byte     `json:"id"`
	Sort     string     `json:"sort,omitempty"`
	Tag      driver.Tag `json:"tag"`
	ExpireAt time.Time  `json:"expire_at,omitzero"`
	SavedAt  time.Time  `json:"saved_at,omitzero"`
	Method   []byte     `json:"method,omitempty"`
	State    []byte     `json:"state,omitempty"`
	Data     []byte     `json:"data,omitempty"`
}

func fileOf(k driver.Key, r driver.Record, tag driver.Tag) file {
	return file{
		ID: []byte(k.Partition), Sort: k.Sort, Tag: tag,
		ExpireAt: r.ExpireAt.UTC().Truncate(time.Millisecond), SavedAt: r.SavedAt.UTC().Truncate(time.Microsecond),
		Method: []byte(r.Method), State: r.State, Data: r.Data,
	}
}

func (f file) record() driver.Record {
	return driver.Record{
		Sort: f.Sort, Tag: f.Tag, ExpireAt: f.ExpireAt, SavedAt: f.SavedAt,
		Method: string(f.Method), State: f.State, Data: f.Data,
	}
}

// folder is the name of a partition's folder.
func folder(p driver.Partition) string {
	sum := sha256.Sum256([]byte(p))
	return hex.EncodeToString(sum[:])
}

// read returns a record that is there and has not expired.
func (d *Driver) read(folder, name string) (file, error) {
	text, err := d.root.ReadFile(path.Join(recordsDir, folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, core.ErrNotFound
	}
	if err != nil {
		return file{}, errorOf(err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return file{}, fmt.Errorf("%w: %s/%s: %w", core.ErrCorrupt, folder, name, err)
	}
	if !f.ExpireAt.IsZero() && !d.cfg.Now().Before(f.ExpireAt) {
		return file{}, core.ErrNotFound
	}
	return f, nil
}

// write makes a file that does not exist yet.
func (d *Driver) write(name string, f file) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	w, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err == nil && !d.cfg.NoSync {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// sync waits until the names in a folder are on the disk.
func (d *Driver) sync(dir string) error {
	if d.cfg.NoSync {
		return nil
	}
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// names returns what is in a folder, in order; a folder that is not there is empty.
func (d *Driver) names(dir string) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, errorOf(err)
}

// lock lets one writer at a time, of all processes, into a partition. Partitions share 256
// locks, which stay: a lock file that is removed would be two. The lock ends with the process
// that holds it.
func (d *Driver) lock(ctx context.Context, p driver.Partition) (unlock func(), err error) {
	const poll = 500 * time.Microsecond
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(path.Join(locksDir, folder(p)[:2]), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errorOf(err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(errorOf(err), f.Close())
		}
		select { // a wait in flock itself would not end with the context
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(poll):
		}
	}
}

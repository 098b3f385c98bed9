//go:build unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folder holds the files of servers that one test binary runs. It is locked for as long as
// that lives, so that others see when it has died.
type folder struct {
	path string
	pids string   // the file that lists the processes of the run
	lock *os.File // nil for a folder within one
}

// The files of a folder that are not of a server.
const (
	lockFile = "owner.lock"
	pidsFile = "pids"
)

// newFolder makes a folder, after removing those whose owner has died.
func newFolder() (*folder, error) {
	base := filepath.Join(os.TempDir(), "weir-servers-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	// Nobody sweeps between the making of a folder and its lock.
	all, err := os.OpenFile(filepath.Join(base, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }()
	if err := syscall.Flock(int(all.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", base, err)
	}
	if err := sweep(base); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(base, "run-")
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &folder{path: path, pids: filepath.Join(path, pidsFile), lock: lock}, nil
}

// sweep ends the servers and removes the files of owners that have died.
func sweep(base string) error {
	runs, err := filepath.Glob(filepath.Join(base, "run-*"))
	if err != nil {
		return err
	}
	for _, run := range runs {
		lock, err := os.OpenFile(filepath.Join(run, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			pids, _ := os.ReadFile(filepath.Join(run, pidsFile))
			for line := range strings.FieldsSeq(string(pids)) {
				if pid, err := strconv.Atoi(line); err == nil && isRunning(pid, run) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			_ = os.RemoveAll(run)
		}
		_ = lock.Close()
	}
	return nil
}

// record notes a process to end if this one dies first.
func (f *folder) record(pid int) error {
	pids, err := os.OpenFile(f.pids, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(pids, pid)
	return errors.Join(err, pids.Close())
}

// sub makes a folder for one of several servers.
func (f *folder) sub(name string) (*folder, error) {
	path := filepath.Join(f.path, name)
	return &folder{path: path, pids: f.pids}, os.MkdirAll(path, 0o700)
}

// close removes everything. A folder within another one goes with that.
func (f *folder) close() error {
	if f.lock == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(f.path), f.lock.Close())
	f.lock = nil
	return err
}

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// mountSmall mounts a file system of 4 MiB in memory, where that is permitted.
func mountSmall(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mounting a file system is not permitted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=4m"); err != nil {
		t.Fatal(err)
	}
}

func TestFullFileSystemKeepsTheOldState(t *testing.T) {
	dir := mountSmall(t)
	d := openTest(t, Config{Path: filepath.Join(dir, "weir.db"), Synchronous: Full})
	k := driver.Partition("p").Head()
	tag := mustPut(t, d, k, head(`{"n":1}`), driver.Condition{})
	large := head(`{"t":"` + strings.Repeat("x", 1<<20) + `"}`)
	full := false
	for i := 0; i < 20 && !full; i++ {
		got, err := d.Put(t.Context(), driver.Partition("q").Sibling(string(rune('a'+i))), large, driver.Condition{})
		if full = err != nil; full {
			wantErr(t, "Put on a full disk", err, core.ErrUnavailable)
		} else if got == "" {
			t.Error("no tag")
		}
	}
	if !full {
		t.Fatal("the disk did not become full")
	}
	large.Data = make([]byte, 1<<20)
	_, err := d.Put(t.Context(), k, large, driver.IfTag(tag))
	wantErr(t, "Put of a head on a full disk", err, core.ErrUnavailable)
	if r := mustGet(t, d, k); r.Tag != tag || string(r.State) != `{"n":1}` {
		t.Errorf("the old head is %+v", r)
	}
	// An existing file on a full disk can still be opened and read.
	mustGet(t, openTest(t, Config{Path: d.cfg.Path}), k)
	_, err = Open(t.Context(), Config{Path: filepath.Join(dir, "second.db")})
	wantErr(t, "Open of a new file on a full disk", err, core.ErrUnavailable)
}

func TestReadOnlyMount(t *testing.T) {
	dir := mountSmall(t)
	d := openTest(t, Config{Path: filepath.Join(dir, "weir.db")})
	k := driver.Partition("p").Head()
	tag := mustPut(t, d, k, head(`{"n":1}`), driver.Condition{})
	// The file and its log as a killed process leaves them.
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(d.cfg.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "killed.db")+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crew, db := newCrewFile(t)
	mustExec(t, db, crewSave, "p", "theirs", crewTime, `{"n": 2}`)
	mustExec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	b, err := os.ReadFile(crew)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crew.db"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	remount(t, dir, syscall.MS_RDONLY)
	t.Cleanup(func() { remount(t, dir, 0) })

	for _, readOnly := range []bool{true, false} { // asked for, or found out
		ro := openTest(t, Config{Path: d.cfg.Path, ReadOnly: readOnly})
		if r := mustGet(t, ro, k); r.Tag != tag {
			t.Errorf("Get = %+v", r)
		}
		_, err := ro.Put(t.Context(), k, head(`{}`), driver.Condition{})
		wantErr(t, "Put", err, core.ErrDenied)
		ro = openTest(t, Config{Path: filepath.Join(dir, "crew.db"), ReadOnly: readOnly})
		if r := mustGet(t, ro, k); string(r.State) != `{"n": 2}` {
			t.Errorf("Get from CrewAI's file = %+v", r)
		}
		// Without the log the newest state would be missing, which is worse than an error.
		killed, err := Open(t.Context(), Config{Path: filepath.Join(dir, "killed.db"), ReadOnly: readOnly})
		if err == nil {
			if r := mustGet(t, killed, k); r.Tag != tag {
				t.Errorf("Get without the log = %+v", r)
			}
			err = killed.Close()
		}
		if err != nil && !errors.Is(err, core.ErrDenied) && !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("Open of a file whose log cannot be read: %v", err)
		}
		t.Logf("a log on a read-only mount: %v", err)
		_, err = Open(t.Context(), Config{Path: filepath.Join(dir, "new", "new.db"), ReadOnly: readOnly})
		if !errors.Is(err, core.ErrDenied) && !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("Open of a new file: %v", err)
		}
	}
}

// as runs test with the file permissions of a user who is not root, where that is permitted.
func as(t *testing.T, uid int, test func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() != 0 || syscall.Setfsuid(uid) != nil {
		t.Skip("only root can act as another user")
	}
	defer func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
	}()
	test()
}

func TestFileOfAnotherUser(t *testing.T) {
	const nobody = 65534
	top := t.TempDir()
	d := openTest(t, Config{Path: filepath.Join(top, "data", "weir.db")})
	k := driver.Partition("p").Head()
	tag := mustPut(t, d, k, head(`{}`), driver.Condition{})
	for _, dir := range []string{filepath.Dir(top), top} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	denied := func(doing, path string) {
		t.Helper()
		as(t, nobody, func() {
			_, err := Open(t.Context(), Config{Path: path})
			wantErr(t, doing, err, core.ErrDenied)
		})
	}
	readable := func(doing string, readOnly bool) {
		t.Helper()
		as(t, nobody, func() {
			other, err := Open(t.Context(), Config{Path: d.cfg.Path, ReadOnly: readOnly})
			if err != nil {
				t.Errorf("%s: %v", doing, err)
				return
			}
			if r := mustGet(t, other, k); r.Tag != tag {
				t.Errorf("%s: Get = %+v", doing, r)
			}
			_, err = other.Put(t.Context(), k, head(`{}`), driver.Condition{})
			wantErr(t, doing+": Put", err, core.ErrDenied)
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	denied("Open in a directory of another user", d.cfg.Path)
	denied("Open of a new file there", filepath.Join(top, "data", "new.db"))
	denied("Open in a new directory there", filepath.Join(top, "data", "new", "new.db"))
	if err := os.Chmod(filepath.Join(top, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		readable("while its owner has it open", readOnly)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		readable("while nobody has it open", readOnly)
	}
	if err := os.Chmod(d.cfg.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	readable("when only the directory cannot be written", false)
}

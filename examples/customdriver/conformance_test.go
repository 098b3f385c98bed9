//go:build unix

package customdriver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// TestConformance is all that the author of a driver has to write.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		return Open(t.Context(), Config{Dir: filepath.Join(dir, o.Namespace), NoSync: true, Now: o.Now, Limits: o.Limits})
	}
	conformance.Run(t, conformance.Harness{
		New: open, Reopen: open,
		Capabilities: []conformance.Capability{conformance.InjectedClock, conformance.PretendedLimits},
	})
}

// What the suite cannot know: how this store breaks.

func TestDamagedFileIsCorrupt(t *testing.T) {
	d := opened(t)
	k := driver.Partition("f").Head()
	if _, err := d.Put(t.Context(), k, driver.Record{State: []byte(`{}`)}, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(d.cfg.Dir, recordsDir, folder("f"), fileName(""))
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), k); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("Get of half a file returned %v", err)
	}
	for e, err := range d.Partitions(t.Context(), driver.ListOptions{}) {
		if !errors.Is(err, core.ErrCorrupt) {
			t.Errorf("Partitions over half a file yields %v, %v", e, err)
		}
	}
}

// A directory that somebody has replaced by a link to another must not be followed.
func TestLinksLeadNowhere(t *testing.T) {
	d := opened(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(d.cfg.Dir, recordsDir, folder("f"))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), driver.Partition("f").Head(), driver.Record{}, driver.Condition{}); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Put through a link returned %v", err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside of the directory there are %d files (%v)", len(names), err)
	}
}

func opened(t *testing.T) *Driver {
	t.Helper()
	d, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
	"github.com/weirflow/weir/persistence/sqlite"
)

// backend is a store that can be judged.
type backend struct {
	name, server, driver string
	harness              conformance.Harness
	close                func()
}

// placeholder is what a URL has in the place of the namespace.
const placeholder = "{namespace}"

// open finds out how to reach the store of a URL, and whether it answers.
func open(ctx context.Context, storeURL string) (*backend, error) {
	scheme, rest, _ := strings.Cut(storeURL, ":")
	b := &backend{close: func() {}, name: withoutPassword(storeURL)}
	var err error
	switch scheme = strings.ToLower(scheme); scheme {
	case "mem":
		err = b.openMemory(rest)
	case "sqlite":
		err = b.openSQLite(rest)
	default:
		err = b.openURL(ctx, scheme, storeURL)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// openMemory judges the driver inmem.
func (b *backend) openMemory(rest string) error {
	if rest != "" {
		return errors.New("mem: takes nothing after the colon")
	}
	b.server, b.driver = "this process", "persistence/inmem "+version("github.com/weirflow/weir/persistence")
	b.harness.New = func(_ conformance.T, o conformance.Options) (driver.Driver, error) {
		return inmem.New(inmem.Config{Now: o.Now, Limits: o.Limits}), nil
	}
	b.harness.Capabilities = []conformance.Capability{conformance.InjectedClock, conformance.PretendedLimits}
	return nil
}

// openSQLite judges files in a folder of their own, one a case. sqlite:file.db has them made
// beside that file, to judge another disk.
func (b *backend) openSQLite(rest string) error {
	beside := os.TempDir()
	if rest != "" {
		if strings.ContainsAny(rest, "?#:") {
			return errors.New("sqlite: takes a path only, and a file of its own for each case; options do not change what is judged")
		}
		path, err := filepath.Abs(filepath.FromSlash(strings.TrimPrefix(rest, "//")))
		if err != nil {
			return err
		}
		beside = filepath.Dir(path)
	}
	dir, err := os.MkdirTemp(beside, "conform")
	if err != nil {
		return err
	}
	b.close = func() { _ = os.RemoveAll(dir) }
	file := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		return sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, o.Namespace+".db"), Now: o.Now, Limits: o.Limits})
	}
	b.harness.New = func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		t.Cleanup(func() { removeFiles(filepath.Join(dir, o.Namespace+".db")) })
		return file(t, o)
	}
	b.harness.Reopen = file
	b.harness.Capabilities = []conformance.Capability{
		conformance.InjectedClock, conformance.PretendedLimits, conformance.BatchPut, conformance.BatchDelete,
	}
	b.driver = "persistence/sqlite " + version("github.com/weirflow/weir/persistence/sqlite") + ", modernc.org/sqlite " + version("modernc.org/sqlite")
	b.server, err = sqliteVersion()
	return err
}

// removeFiles removes a database with what SQLite keeps beside it.
func removeFiles(path string) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(path + suffix)
	}
}

// withoutPassword is a URL as it may be printed.
func withoutPassword(storeURL string) string {
	u, err := url.Parse(storeURL)
	if err != nil {
		scheme, _, _ := strings.Cut(storeURL, ":")
		return scheme + ":…"
	}
	readable := strings.NewReplacer("%7B", "{", "%7D", "}")
	return readable.Replace(u.Redacted())
}

// version returns the version of a module that this program is made of.
func version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown version)"
	}
	for _, m := range info.Deps {
		if m.Path != module {
			continue
		}
		if m.Replace != nil || m.Version == "(devel)" || m.Version == "v0.0.0" {
			return fmt.Sprintf("(this workspace%s)", revision(info))
		}
		return m.Version
	}
	return "(this workspace" + revision(info) + ")"
}

// revision is the commit that the program was built from, if the build knew.
func revision(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " at " + s.Value[:12]
		}
	}
	return ""
}

package backends_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// prefix is that of the paths of all modules.
const prefix = "github.com/weirflow/weir/"

// unpublished are the folders of modules that nobody depends on: they may join everything.
var unpublished = []string{"conformance/backends", "examples"}

// module is one module of the workspace, as its files say.
type module struct {
	path    string // its module path without prefix, which is its folder
	file    *modfile.File
	sum     string              // go.sum
	imports map[string][]string // by import path: the files that import it, tests included
}

// workspace reads every module that go.work uses.
func workspace(t *testing.T) map[string]module {
	t.Helper()
	root := workspaceRoot(t)
	text := read(t, filepath.Join(root, "go.work"))
	work, err := modfile.ParseWork("go.work", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]module{}
	for _, use := range work.Use {
		dir := filepath.Join(root, filepath.FromSlash(use.Path))
		file, err := modfile.Parse(use.Path+"/go.mod", []byte(read(t, filepath.Join(dir, "go.mod"))), nil)
		if err != nil {
			t.Fatal(err)
		}
		path, ours := strings.CutPrefix(file.Module.Mod.Path, prefix)
		if want := strings.TrimPrefix(use.Path, "./"); !ours || path != want {
			t.Errorf("the module in %s is called %s, want %s%s", use.Path, file.Module.Mod.Path, prefix, want)
		}
		m := module{path: path, file: file, imports: imports(t, dir)}
		if sum, err := os.ReadFile(filepath.Join(dir, "go.sum")); err == nil {
			m.sum = string(sum)
		}
		modules[path] = m
	}
	return modules
}

func workspaceRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.work in any folder above")
		}
		dir = up
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imports parses every Go file below dir that belongs to the module there, whatever its build
// constraints.
func imports(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != dir && (nested == nil || e.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			out[path] = append(out[path], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// published returns the modules that others may depend on.
func published(t *testing.T) map[string]module {
	t.Helper()
	modules := workspace(t)
	for _, path := range unpublished {
		if _, ok := modules[path]; !ok {
			t.Errorf("the module %s is not in go.work", path)
		}
		delete(modules, path)
	}
	for _, path := range []string{"core", "reducer", "persistence", "persistence/sqlite", "conformance"} {
		if _, ok := modules[path]; !ok {
			t.Errorf("the module %s is not in go.work", path)
		}
	}
	return modules
}

// owner returns which of the modules an import path belongs to; "" is none.
func owner(modules map[string]module, importPath string) string {
	rest, ours := strings.CutPrefix(importPath, prefix)
	if !ours {
		return ""
	}
	best := ""
	for path := range modules {
		if (rest == path || strings.HasPrefix(rest, path+"/")) && len(path) > len(best) {
			best = path
		}
	}
	return best
}

// mayUse says which modules of this workspace a published one may know, tests included.
func mayUse(path string) []string {
	switch path {
	case "core", "reducer":
		return nil
	case "reducer/tokens":
		return []string{"reducer"}
	case "persistence":
		return []string{"core", "reducer"}
	case "conformance":
		return []string{"core", "reducer", "persistence"}
	}
	if strings.HasPrefix(path, "persistence/") {
		return []string{"core", "reducer", "persistence"}
	}
	return []string{"*"} // programs
}

// TestPublishedModulesAreLayered looks at imports and at requirements. Since every module may
// only use those below it, there is no cycle either; that is checked by itself, so that a
// wrong table above cannot hide one.
func TestPublishedModulesAreLayered(t *testing.T) {
	modules := published(t)
	uses := map[string]map[string]string{}
	for path, m := range modules {
		uses[path] = map[string]string{}
		for imported, files := range m.imports {
			if to := owner(modules, imported); to != "" && to != path {
				uses[path][to] = "imported by " + files[0]
			} else if to == "" && strings.HasPrefix(imported, prefix) {
				t.Errorf("%s imports %s, which is not published: %s", path, imported, files[0])
			}
		}
		for _, r := range m.file.Require {
			if to := owner(modules, r.Mod.Path); to != "" && uses[path][to] == "" {
				uses[path][to] = "required by its go.mod"
			} else if to == "" && strings.HasPrefix(r.Mod.Path, prefix) {
				t.Errorf("%s requires %s, which is not published", path, r.Mod.Path)
			}
		}
		for to, why := range uses[path] {
			if may := mayUse(path); !slices.Contains(may, to) && !slices.Contains(may, "*") {
				t.Errorf("%s uses %s (%s); it may only use %v", path, to, why, may)
			}
		}
	}
	if cycle := findCycle(uses); cycle != nil {
		t.Errorf("the modules depend on each other in a circle: %s", strings.Join(cycle, " -> "))
	}
}

// findCycle returns a path that ends where it began, or nil.
func findCycle(uses map[string]map[string]string) []string {
	done := map[string]bool{}
	var visit func(path string, trail []string) []string
	visit = func(path string, trail []string) []string {
		if i := slices.Index(trail, path); i >= 0 {
			return append(slices.Clone(trail[i:]), path)
		}
		if done[path] {
			return nil
		}
		for _, to := range slices.Sorted(maps.Keys(uses[path])) {
			if cycle := visit(to, append(trail, path)); cycle != nil {
				return cycle
			}
		}
		done[path] = true
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(uses)) {
		if cycle := visit(path, nil); cycle != nil {
			return cycle
		}
	}
	return nil
}

func TestFindCycle(t *testing.T) {
	straight := map[string]map[string]string{"c": {"b": "", "a": ""}, "b": {"a": ""}, "a": {}}
	if cycle := findCycle(straight); cycle != nil {
		t.Errorf("found %v where there is no cycle", cycle)
	}
	straight["a"]["c"] = ""
	if cycle := findCycle(straight); len(cycle) < 3 || cycle[0] != cycle[len(cycle)-1] {
		t.Errorf("found %v, want a cycle", cycle)
	}
}

// kept apart: what must not come near a user who did not ask for it, and the one module that
// may have it.
var keptApart = map[string]string{
	"github.com/testcontainers/": "",
	"github.com/docker/":         "",
	"github.com/moby/":           "",
	"modernc.org/":               "persistence/sqlite",
	"github.com/mattn/go-sqlite": "",
	"github.com/redis/":          "persistence/redis",
	"github.com/aws/":            "persistence/dynamodb",
	"cloud.google.com/":          "persistence/firestore",
	"google.golang.org/":         "persistence/firestore",
	"github.com/pkoukk/":         "reducer/tokens",
	"github.com/tiktoken-go/":    "reducer/tokens",
	"pgregory.net/rapid":         "conformance",
	"github.com/anishathalye/":   "conformance",
}

// TestNoModuleCarriesAnothersDependencies reads requirements, checksums (which name the whole
// graph) and imports.
func TestNoModuleCarriesAnothersDependencies(t *testing.T) {
	for path, m := range published(t) {
		if mayUse(path) != nil && mayUse(path)[0] == "*" {
			continue // a program links what it offers
		}
		for dep, allowed := range keptApart {
			if path == allowed {
				continue
			}
			for _, r := range m.file.Require {
				if strings.HasPrefix(r.Mod.Path, dep) {
					t.Errorf("the go.mod of %s requires %s", path, r.Mod.Path)
				}
			}
			for line := range strings.Lines(m.sum) {
				if strings.HasPrefix(line, dep) {
					t.Errorf("the go.sum of %s has %s", path, strings.TrimSpace(line))
				}
			}
			for imported, files := range m.imports {
				if strings.HasPrefix(imported, dep) {
					t.Errorf("%s imports %s", files[0], imported)
				}
			}
		}
	}
}

// TestCoreAndReducerAreStandardLibraryOnly counts tests as well: a test dependency is a
// dependency of everybody's go.sum.
func TestCoreAndReducerAreStandardLibraryOnly(t *testing.T) {
	modules := published(t)
	for _, path := range []string{"core", "reducer"} {
		m := modules[path]
		if len(m.imports) == 0 {
			t.Errorf("%s imports nothing at all; was it read?", path)
		}
		for _, r := range m.file.Require {
			t.Errorf("the go.mod of %s requires %s", path, r.Mod.Path)
		}
		if m.sum != "" {
			t.Errorf("%s has a go.sum", path)
		}
		for imported, files := range m.imports {
			first, _, _ := strings.Cut(imported, "/")
			if owner(modules, imported) != path && strings.Contains(first, ".") {
				t.Errorf("%s imports %s", files[0], imported)
			}
		}
	}
}

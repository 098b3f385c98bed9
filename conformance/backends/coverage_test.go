package backends_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/conformance"
)

// How long the two lists of COVERAGE.md are.
const (
	coveragePoints  = 54
	coverageAttacks = 24
)

var (
	coverageRow = regexp.MustCompile(`(?m)^\| (A?\d+) \| (.+) \| (.+) \|$`)
	coverageRef = regexp.MustCompile("`([^`]+)`")
	testFunc    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

	scenarioTable = regexp.MustCompile(`(?ms)^var scenariosElsewhere = .+?^}`)
	scenarioRow   = regexp.MustCompile(`(?m)^\t"(\w+-\d+)": "([^"]+)",`)
)

// TestCoverageIsTrue keeps COVERAGE.md to what there is: all points and attacks once and in
// order, each with cases or tests that exist, or with a reason.
func TestCoverageIsTrue(t *testing.T) {
	known := coverageNames(t)
	var want, got []string
	for n := range coveragePoints {
		want = append(want, fmt.Sprint(n+1))
	}
	for n := range coverageAttacks {
		want = append(want, fmt.Sprintf("A%d", n+1))
	}
	for _, row := range coverageRow.FindAllStringSubmatch(read(t, "../COVERAGE.md"), -1) {
		point, where := row[1], row[3]
		got = append(got, point)
		refs := coverageRef.FindAllStringSubmatch(where, -1)
		if reason, none := strings.CutPrefix(where, "none: "); len(refs) == 0 && (!none || len(reason) < 20) {
			t.Errorf("point %s names no case and no reason: %s", point, where)
		}
		for _, ref := range refs {
			if !known[ref[1]] {
				t.Errorf("point %s names %q, which is no law, case or test", point, ref[1])
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the points are %q, want %q", got, want)
	}
}

// coverageNames returns what the map may name: laws, cases and the tests of the workspace.
func coverageNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, l := range conformance.Laws() {
		known[l.Layer+"/"+l.Name] = true
		for _, c := range l.Cases {
			known[l.Layer+"/"+l.Name+"/"+c] = true
		}
	}
	err := filepath.WalkDir(workspaceRoot(t), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		for _, f := range testFunc.FindAllStringSubmatch(read(t, name), -1) {
			known[f[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// TestCoverageNamesEveryLaw finds laws that no point asks for: they are missing in the map, or
// superfluous.
func TestCoverageNamesEveryLaw(t *testing.T) {
	laws := map[string]bool{}
	for _, l := range conformance.Laws() {
		laws[l.Layer+"/"+l.Name] = true
	}
	for _, ref := range coverageRef.FindAllStringSubmatch(read(t, "../COVERAGE.md"), -1) {
		if parts := strings.SplitN(ref[1], "/", 3); len(parts) >= 2 {
			delete(laws, parts[0]+"/"+parts[1])
		}
	}
	// What Weir promises beyond the points.
	for _, own := range []string{"driver/capabilities", "store/foreign_heads", "store/pruning"} {
		if !laws[own] {
			t.Errorf("%s is in the map; take it out of this list", own)
		}
		delete(laws, own)
	}
	if len(laws) > 0 {
		t.Errorf("no point of COVERAGE.md names %q", slices.Sorted(maps.Keys(laws)))
	}
}

// TestScenariosElsewhereExist keeps the table of scenarios that the module conformance does
// not play itself to the tests there are.
func TestScenariosElsewhereExist(t *testing.T) {
	known := coverageNames(t)
	here := map[string]bool{}
	for _, s := range sqliteScenarios {
		here["TestScenariosOnSQLite/"+s.id] = true
	}
	table := scenarioTable.FindString(read(t, "../scenarios_test.go"))
	rows := scenarioRow.FindAllStringSubmatch(table, -1)
	if want := strings.Count(table, "\n") - 1; len(rows) != want || want < 1 {
		t.Fatalf("the table has %d rows that can be read, want %d", len(rows), want)
	}
	for _, row := range rows {
		id, where := row[1], row[2]
		if strings.HasPrefix(where, "none: ") {
			continue
		}
		for test := range strings.SplitSeq(where, ", ") {
			name, part, played := strings.Cut(test, "/")
			switch {
			case played && (!here[test] || part != id):
				t.Errorf("%s is said to be shown by %s, which does not play it", id, test)
			case !known[name]:
				t.Errorf("%s is said to be shown by %s, which is no test", id, test)
			}
			delete(here, test)
		}
	}
	for test := range here {
		t.Errorf("the table does not tell of %s", test)
	}
}

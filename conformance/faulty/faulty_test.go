package faulty_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/faulty"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

var matrix = flag.Bool("matrix", false, "judge every mutant by every law, not only by its own")

func TestMain(m *testing.M) {
	flag.Parse()
	// The failures of a mutant are what is wanted: no files of them, no long search for the
	// smallest.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "1s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// TestSuiteCatchesEveryBug is the proof that the suite is worth passing: every mutant fails
// the law named for it. It meets three other laws as well, each time the same; what these say
// is only told, since one bug may break several promises.
func TestSuiteCatchesEveryBug(t *testing.T) {
	for i, m := range faulty.Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			paths := []string{""}
			if !*matrix {
				paths = append(others(m.Law, i), m.Law)
			}
			caught := map[string][]string{}
			for _, path := range paths {
				report, err := m.Judge(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range report.Failed() {
					law := r.Layer + "/" + r.Law
					caught[law] = append(caught[law], r.Case)
				}
			}
			if len(caught[m.Law]) == 0 {
				t.Errorf("%s (%s) passes %s; it is caught by %v", m.Name, m.Bug, m.Law, slices.Sorted(maps.Keys(caught)))
			}
			t.Logf("%s: %s -> %s (%s)", m.Name, m.Bug, m.Law, strings.Join(caught[m.Law], ", "))
			for _, law := range slices.Sorted(maps.Keys(caught)) {
				if law != m.Law {
					t.Logf("%s -> %s (%s) as well", m.Name, law, strings.Join(caught[law], ", "))
				}
			}
		})
	}
}

// others returns three laws beside the mutant's own, of the same layer, that take no seconds.
// They change from mutant to mutant, so that every law meets several.
func others(own string, i int) []string {
	var paths []string
	for _, l := range conformance.Laws() {
		path := l.Layer + "/" + l.Name
		if strings.HasPrefix(own, l.Layer+"/") && path != own && path != "store/like_the_model" && path != "store/linearizable" {
			paths = append(paths, path)
		}
	}
	for range 3 * i % len(paths) {
		paths = append(paths[1:], paths[0])
	}
	return paths[:min(3, len(paths))]
}

// TestCorrectDriverIsNotAccused judges what the mutants are made of.
func TestCorrectDriverIsNotAccused(t *testing.T) {
	h := faulty.Harness(faulty.Mutant{})
	h.Only = "driver"
	conformance.Run(t, h)
}

// TestNamesOfMutants keeps the table readable: unique names, and laws that exist.
func TestNamesOfMutants(t *testing.T) {
	laws := map[string]bool{}
	for _, l := range conformance.Laws() {
		laws[l.Layer+"/"+l.Name] = true
	}
	seen := map[string]bool{}
	for _, m := range faulty.Mutants() {
		if seen[m.Name] || m.Name == "" || m.Bug == "" || !laws[m.Law] {
			t.Errorf("the mutant %q has a name twice, no description, or the unknown law %q", m.Name, m.Law)
		}
		seen[m.Name] = true
	}
}

// mostLines is how long a mutant may be.
const mostLines = 15

// TestMutantsAreShort holds every mutant to being correct code that is patched in one place: all
// declarations that its entry in the table leads to count, but for those in the files that
// TestWhatMutantsAreMadeOfIsCorrect judges.
func TestMutantsAreShort(t *testing.T) {
	src := readSource(t)
	var names []string
	used := map[string]bool{}
	for _, e := range src.entries {
		lines := src.lines(e.literal)
		if lines == 1 {
			lines = 0 // it only names what is wrong
		}
		own := src.reach(e.literal)
		for _, name := range own {
			used[name] = true
			for _, part := range src.decls[name] {
				lines += src.lines(part)
			}
		}
		if lines > mostLines {
			t.Errorf("the mutant %q has %d lines, at most %d are allowed: %v", e.name, lines, mostLines, own)
		}
		names = append(names, e.name)
	}
	var want []string
	for _, m := range faulty.Mutants() {
		want = append(want, m.Name)
	}
	if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		t.Errorf("the source has the mutants %q, want %q", names, want)
	}
	for name := range src.decls {
		if !used[name] {
			t.Errorf("%s is of no mutant", name)
		}
	}
}

// empty accepts everything and keeps nothing, or refuses everything.
type empty struct {
	err error
	tag driver.Tag
}

func (e empty) Get(context.Context, driver.Key) (driver.Record, error) {
	if e.err != nil {
		return driver.Record{}, e.err
	}
	return driver.Record{}, core.ErrNotFound
}

func (e empty) Put(context.Context, driver.Key, driver.Record, driver.Condition) (driver.Tag, error) {
	return e.tag, e.err
}

func (e empty) Delete(context.Context, driver.Key, driver.Condition) error { return e.err }

func (e empty) Range(context.Context, driver.Partition, driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		if e.err != nil {
			yield(driver.Record{}, e.err)
		}
	}
}

func (e empty) Partitions(context.Context, driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if e.err != nil {
			yield(driver.Entry{}, e.err)
		}
	}
}

func (e empty) Limits() driver.Limits { return driver.Limits{Record: 1 << 20, Inline: 1 << 20} }
func (e empty) Close() error          { return nil }

// TestEmptyDriverScoresNothing demands that no case at all is passed by doing nothing.
func TestEmptyDriverScoresNothing(t *testing.T) {
	for name, d := range map[string]empty{
		"refuses everything":                {err: core.ErrUnsupported},
		"is never there":                    {err: core.ErrUnavailable},
		"finds nothing":                     {err: core.ErrNotFound},
		"accepts everything, keeps nothing": {tag: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(conformance.T, conformance.Options) (driver.Driver, error) { return d, nil }
			report, err := conformance.Check(t.Context(), conformance.Harness{
				New: open, Reopen: open, Outage: func(conformance.T, conformance.Options) func() { return func() {} },
			})
			if err != nil {
				t.Fatal(err)
			}
			counts := map[conformance.Status]int{}
			for _, r := range report.Results {
				counts[r.Status]++
				if r.Status == conformance.Passed {
					t.Errorf("%s passes %s", name, r.Path())
				}
			}
			t.Log(fmt.Sprint(counts))
		})
	}
}

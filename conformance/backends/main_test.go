package backends_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/mod/modfile"
)

// TestMain prints, after everything, which backends really ran: a test that was skipped or
// never reached its server shows as a row that is not there.
func TestMain(m *testing.M) {
	flag.Parse()
	// The seed in the message is enough to repeat a failure; files of it would come up again
	// and again.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	code := m.Run()
	printRan(os.Stdout)
	os.Exit(code)
}

// backendRun is a row of the table.
type backendRun struct {
	name    string // as the test names it
	server  string // what answered, with its version
	client  string // the module that spoke to it, with its version
	verdict string
	took    time.Duration
}

var (
	ranMu sync.Mutex
	ran   []backendRun
)

// report adds a row when the test is over. server is what the backend itself says it is.
func report(t *testing.T, name, server, client string) {
	t.Helper()
	start, client := time.Now(), client+" "+required(t, client)
	t.Cleanup(func() {
		r := backendRun{name: name, server: server, client: client, verdict: "passed", took: time.Since(start)}
		if t.Failed() {
			r.verdict = "FAILED"
		}
		ranMu.Lock()
		defer ranMu.Unlock()
		ran = append(ran, r)
	})
}

// required returns the version of a module that this one requires.
func required(t *testing.T, path string) string {
	t.Helper()
	file, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Require {
		if r.Mod.Path == path {
			return r.Mod.Version
		}
	}
	t.Fatalf("go.mod requires no %s", path)
	return ""
}

func printRan(out *os.File) {
	ranMu.Lock()
	defer ranMu.Unlock()
	slices.SortFunc(ran, func(a, b backendRun) int { return strings.Compare(a.name, b.name) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "backends that ran: %d\n", len(ran))
	for _, r := range ran {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%v\n", r.name, r.server, r.client, r.verdict, r.took.Round(time.Millisecond))
	}
	_ = w.Flush()
}

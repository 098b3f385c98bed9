// Command conform judges a store by the conformance suite, outside of go test.
//
//	go run ./conformance/backends/cmd/conform -store sqlite:
//	go run ./conformance/backends/cmd/conform -store redis://localhost:6379/1 -layer driver
//	go run ./conformance/backends/cmd/conform -store 'dynamodb:{namespace}?endpoint=http://localhost:8000' -json
//
// The suite gives every case a namespace of its own. A URL says with {namespace} where it
// belongs: into the name of a table, a collection or a prefix. mem:, sqlite: and the redis
// URLs know by themselves. Without it all cases share one store, and the few that need an
// empty one are reported as unsupported. What a case wrote is deleted after it.
//
// The report has a row for each law: how many of its cases passed, failed, are unsupported by
// the backend, were opted out by the user, or were not run. Only what passed counts: a store
// that does nothing scores nothing.
//
// The exit code is 0 when every case that ran passed and at least one did, 1 when one failed
// or none passed, and 2 when there was nothing to judge: bad arguments, or no store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/weirflow/weir/conformance"
)

// The exit codes.
const (
	exitPassed = iota
	exitFailed
	exitUnusable
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	store, server string
	json, verbose bool
	only, layer   string
	files         string
	optOut        map[string]string
	seed          uint64
	large         bool
	parallel      int
}

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	o, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return exitPassed
	}
	if err != nil {
		fmt.Fprintln(progress, "conform:", err)
		return exitUnusable
	}
	b, err := open(ctx, o.store)
	if err != nil {
		fmt.Fprintln(progress, "conform:", err)
		return exitUnusable
	}
	defer b.close()
	if o.server != "" {
		b.server = o.server
	}
	r, err := judge(ctx, b, o, newTicker(progress))
	if err != nil {
		fmt.Fprintln(progress, "conform:", err)
		return exitUnusable
	}
	if err := r.write(out, o); err != nil {
		fmt.Fprintln(progress, "conform:", err)
		return exitUnusable
	}
	if r.Passed == 0 || r.Failed > 0 {
		return exitFailed
	}
	return exitPassed
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{optOut: map[string]string{}}
	f := flag.NewFlagSet("conform", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.store, "store", "", "the `URL` of the store, as persistence.Open takes it")
	f.StringVar(&o.server, "server", "", "the `name` and version of the server, where the command cannot ask it")
	f.BoolVar(&o.json, "json", false, "report as JSON, with every case")
	f.BoolVar(&o.verbose, "v", false, "list the cases that did not run, with the reason")
	f.StringVar(&o.files, "o", "", "write `name`.txt and name.json as well")
	f.StringVar(&o.only, "only", "", "run the layer, law or case with this `path` only")
	f.StringVar(&o.layer, "layer", "", "run one layer only: driver, store or runtime")
	f.Uint64Var(&o.seed, "seed", 0, "repeat the random choices of an earlier run")
	f.BoolVar(&o.large, "large", false, "add the cases that take minutes on a slow store")
	f.IntVar(&o.parallel, "parallel", max(2, runtime.GOMAXPROCS(0)), "how many cases run at a time")
	f.Func("opt-out", "leave out `path=reason`; may be repeated", func(v string) error {
		path, reason, _ := strings.Cut(v, "=")
		if strings.TrimSpace(reason) == "" {
			return errors.New("want path=reason; a case is left out for a reason")
		}
		o.optOut[path] = reason
		return nil
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.store == "":
		return o, errors.New("no store is named; write for example -store mem: or -store sqlite:flows.db")
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is no flag", f.Arg(0))
	case o.only != "" && o.layer != "":
		return o, errors.New("-only and -layer exclude each other: a path begins with its layer")
	case o.parallel < 1:
		return o, errors.New("-parallel: at least one case runs at a time")
	}
	if o.layer != "" {
		o.only = o.layer
	}
	return o, nil
}

// judge runs the selected cases and collects what came of all.
func judge(ctx context.Context, b *backend, o options, t *ticker) (*report, error) {
	start := time.Now()
	h := b.harness
	h.OptOut, h.Large, h.Seed, h.Only = o.optOut, o.large, o.seed, o.only
	paths, err := selected(h)
	if err != nil {
		return nil, err
	}
	if h.Seed == 0 {
		h.Seed = uint64(start.UnixNano())
	}
	results := runCases(ctx, h, paths, o.parallel, t)
	t.end()
	r := newReport(results)
	r.Store, r.Server, r.Driver, r.Go = b.name, b.server, b.driver, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH
	r.Seed, r.Started, r.Took = h.Seed, start.UTC().Truncate(time.Second), secondsOf(time.Since(start))
	return r, nil
}

// selected returns the paths of the cases that h selects, and refuses a harness that the
// suite refuses.
func selected(h conformance.Harness) ([]string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing runs
	if _, err := conformance.Check(ctx, h); err != nil {
		return nil, err
	}
	var paths []string
	for _, l := range conformance.Laws() {
		for _, c := range l.Cases {
			path := l.Layer + "/" + l.Name + "/" + c
			if h.Only == "" || path == h.Only || strings.HasPrefix(path, h.Only+"/") {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

// conform calls the command and returns its exit code and what it printed.
func conform(t *testing.T, args ...string) (code int, out, messages string) {
	t.Helper()
	var o, m bytes.Buffer
	code = run(t.Context(), args, &o, &m)
	return code, o.String(), m.String()
}

func reported(t *testing.T, out string) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, out)
	}
	return r
}

// nothing finds nothing, accepts everything and keeps nothing.
type nothing struct{ tag driver.Tag }

func (nothing) Get(context.Context, driver.Key) (driver.Record, error) {
	return driver.Record{}, core.ErrNotFound
}

func (n nothing) Put(context.Context, driver.Key, driver.Record, driver.Condition) (driver.Tag, error) {
	return n.tag, nil
}
func (nothing) Delete(context.Context, driver.Key, driver.Condition) error { return nil }
func (nothing) Range(context.Context, driver.Partition, driver.RangeOptions) iter.Seq2[driver.Record, error] {
	return func(func(driver.Record, error) bool) {}
}

func (nothing) Partitions(context.Context, driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(func(driver.Entry, error) bool) {}
}
func (nothing) Limits() driver.Limits { return driver.Limits{Record: 1 << 20, Inline: 1 << 20} }
func (nothing) Close() error          { return nil }

// forgetful is a store of which Delete does nothing.
type forgetful struct{ driver.Driver }

func (forgetful) Delete(context.Context, driver.Key, driver.Condition) error { return nil }

func init() {
	shared := inmem.New(inmem.Config{})
	for scheme, d := range map[string]driver.Driver{
		"nothing": nothing{tag: "1"}, "forgetful": forgetful{inmem.New(inmem.Config{})}, "shared": shared,
	} {
		persistence.Register(scheme, func(context.Context, *url.URL) (driver.Driver, error) { return d, nil })
	}
}

func TestEmptyStoreScoresNothing(t *testing.T) {
	code, out, messages := conform(t, "-store", "nothing:", "-json")
	r := reported(t, out)
	if code != exitFailed || r.Passed != 0 || r.Failed == 0 {
		t.Errorf("exit code %d, %d passed, %d failed; want 1, none, some\n%s", code, r.Passed, r.Failed, messages)
	}
	for _, l := range r.Laws {
		if strings.Contains(l.Verdict, "passed") {
			t.Errorf("a store that does nothing gets %q for %s", l.Verdict, l.Law)
		}
	}
}

func TestReportOfAGoodStore(t *testing.T) {
	code, out, messages := conform(t, "-store", "mem:", "-only", "driver/law05_expiry", "-seed", "42", "-json",
		"-opt-out", "driver/law05_expiry/the_time_comes_back=to see it reported")
	r := reported(t, out)
	if code != exitPassed || r.Failed != 0 || r.OptedOut != 1 || r.Passed == 0 || r.Seed != 42 {
		t.Errorf("exit code %d, %+v, seed %d\n%s", code, r.counts, r.Seed, messages)
	}
	cases := 0
	for _, l := range conformance.Laws() {
		cases += len(l.Cases)
	}
	if all := r.Passed + r.Failed + r.Unsupported + r.OptedOut + r.NotRun; all != cases || len(r.Laws) != len(conformance.Laws()) {
		t.Errorf("the report has %d laws and %d cases, there are %d and %d", len(r.Laws), all, len(conformance.Laws()), cases)
	}
	for _, l := range r.Laws {
		want := "not run"
		if l.Law == "law05_expiry" {
			want = "passed in part"
		}
		if l.Verdict != want || l.Text == "" {
			t.Errorf("%s is %q, want %q", l.Law, l.Verdict, want)
		}
	}
}

func TestFailuresAreTold(t *testing.T) {
	code, out, _ := conform(t, "-store", "forgetful:", "-only", "driver/law09_delete_is_exact/absent_is_no_error", "-v")
	for _, want := range []string{"Conformance of forgetful:", "law09_delete_is_exact", "FAILED", "\nFailed:\n  driver/law09_delete_is_exact/absent_is_no_error\n", "Not run:"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
}

func TestFilesHoldTheSameReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mem")
	code, out, messages := conform(t, "-store", "mem:", "-only", "driver/capabilities", "-json", "-o", name)
	text, err := os.ReadFile(name + ".json")
	if code != exitPassed || err != nil || string(text) != out {
		t.Errorf("exit code %d, %v; the file is not what was printed: %s", code, err, messages)
	}
	table, err := os.ReadFile(name + ".txt")
	if err != nil || !strings.Contains(string(table), "Not run:") {
		t.Errorf("the table in the file: %v\n%s", err, table)
	}
}

// A store that cannot tell namespaces apart is judged as one that others use as well.
func TestSharedStore(t *testing.T) {
	code, out, _ := conform(t, "-store", "shared:", "-only", "driver/law01_ids_are_data", "-json")
	if r := reported(t, out); code != exitPassed || r.Failed != 0 || r.Unsupported != 1 {
		t.Errorf("exit code %d, %+v; want one unsupported case, which needs an empty store\n%s", code, r.counts, out)
	}
}

func TestUnusable(t *testing.T) {
	for name, args := range map[string][]string{
		"no store":             {},
		"no URL":               {"-store", "weir.db"},
		"unknown scheme":       {"-store", "nosuch:x"},
		"unknown path":         {"-store", "mem:", "-only", "driver/law99"},
		"layer and path":       {"-store", "mem:", "-only", "driver", "-layer", "store"},
		"opt-out, no reason":   {"-store", "mem:", "-opt-out", "driver/law01_ids_are_data"},
		"opt-out of nothing":   {"-store", "mem:", "-opt-out", "driver/law99=because"},
		"nobody there":         {"-store", "redis://user:hunter2@127.0.0.1:1/0?retry_for=100ms"},
		"options for a file":   {"-store", "sqlite:x.db?mode=ro"},
		"nothing at a time":    {"-store", "mem:", "-parallel", "0"},
		"something left over":  {"-store", "mem:", "all"},
		"a flag without value": {"-store"},
	} {
		code, out, messages := conform(t, args...)
		if code != exitUnusable || out != "" || messages == "" {
			t.Errorf("%s: exit code %d, want %d, with a message and no report: %s%s", name, code, exitUnusable, out, messages)
		}
		if strings.Contains(messages, "hunter2") {
			t.Errorf("%s: the password is printed", name)
		}
	}
}

func TestPasswordIsNotReported(t *testing.T) {
	for in, want := range map[string]string{
		"redis://user:hunter2@host:1/0":  "redis://user:xxxxx@host:1/0",
		"redis://host/0?prefix=a:":       "redis://host/0?prefix=a:",
		"dynamodb:{namespace}?region=eu": "dynamodb:{namespace}?region=eu",
		"redis://user:hun%zzter2@host":   "redis:…",
	} {
		if got := withoutPassword(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
)

func TestHarnessIsChecked(t *testing.T) {
	good := inMemory(driver.Limits{})
	for name, change := range map[string]func(*conformance.Harness){
		"no New":                   func(h *conformance.Harness) { h.New = nil },
		"opt-out without a reason": func(h *conformance.Harness) { h.OptOut = map[string]string{"driver/law05_expiry": " "} },
		"opt-out of nothing":       func(h *conformance.Harness) { h.OptOut = map[string]string{"driver/law99": "because"} },
		"selection of nothing":     func(h *conformance.Harness) { h.Only = "driver/law05" },
	} {
		h := good
		change(&h)
		if _, err := conformance.Check(t.Context(), h); err == nil {
			t.Errorf("%s: the harness was accepted", name)
		}
	}
}

func TestReportTellsVerdictsApart(t *testing.T) {
	h := inMemory(driver.Limits{})
	h.Only = "driver/law03_reads_see_writes"
	h.OptOut = map[string]string{"driver/law01_ids_are_data": "to see it reported", "driver/law03_reads_see_writes/handles_take_turns": "this too"}
	report, err := conformance.Check(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if report.Seed == 0 {
		t.Error("the report has no seed")
	}
	for _, r := range report.Results {
		want := conformance.NotRun
		switch {
		case r.Law == "law01_ids_are_data", r.Case == "handles_take_turns":
			want = conformance.OptedOut
		case r.Law == "law03_reads_see_writes" && r.Case == "own_writes":
			want = conformance.Passed
		case r.Law == "law03_reads_see_writes":
			want = conformance.Unsupported // inmem has one handle
		}
		if r.Status != want {
			t.Errorf("%s is %s, want %s: %v", r.Path(), r.Status, want, r.Messages)
		}
		if (r.Status == conformance.OptedOut || r.Status == conformance.Unsupported) && len(r.Messages) == 0 {
			t.Errorf("%s is %s without a reason", r.Path(), r.Status)
		}
	}
}

// panicking is a driver that falls over at the first read.
type panicking struct{ driver.Driver }

func (panicking) Get(context.Context, driver.Key) (driver.Record, error) { panic("out of order") }

func TestPanicIsAFailure(t *testing.T) {
	h := inMemory(driver.Limits{})
	open := h.New
	h.New = func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		d, err := open(t, o)
		return panicking{d}, err
	}
	h.Only = "driver/law01_ids_are_data/longest"
	report, err := conformance.Check(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if failed := report.Failed(); len(failed) != 1 || !strings.Contains(fmt.Sprint(failed[0].Messages), "out of order") {
		t.Errorf("a panic is reported as %+v", failed)
	}
}

func TestEndedContextRunsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := conformance.Check(ctx, inMemory(driver.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != conformance.NotRun {
			t.Errorf("%s is %s although the context had ended", r.Path(), r.Status)
		}
	}
}

// The names of laws and cases are paths in opt-outs and reports: they are unique and plain.
func TestNamesOfLaws(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range conformance.Laws() {
		if l.Text == "" || len(l.Cases) == 0 {
			t.Errorf("the law %s has no text or no cases", l.Name)
		}
		for _, c := range l.Cases {
			path := l.Layer + "/" + l.Name + "/" + c
			if seen[path] || strings.Trim(path, "abcdefghijklmnopqrstuvwxyz0123456789_/") != "" {
				t.Errorf("the path %q is there twice or not plain", path)
			}
			seen[path] = true
		}
	}
}

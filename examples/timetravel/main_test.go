package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
)

// trips runs commands on one store.
type trips struct {
	t   *testing.T
	url string
}

func (p trips) do(id string, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(p.t.Context(), &out, p.url, id, args)
	return out.String(), err
}

func (p trips) must(id string, args ...string) string {
	p.t.Helper()
	out, err := p.do(id, args...)
	if err != nil {
		p.t.Fatalf("%q: %v", args, err)
	}
	return out
}

// after returns the id of the newest checkpoint of a method.
func (p trips) after(id, method string) string {
	p.t.Helper()
	for line := range strings.Lines(p.must(id, "list")) {
		if strings.Contains(line, " after "+method) {
			return strings.Fields(line)[0]
		}
	}
	p.t.Fatalf("%s has no checkpoint after %q", id, method)
	return ""
}

func TestATripGoesBackAndAnotherWay(t *testing.T) {
	p := trips{t, "sqlite:" + filepath.Join(t.TempDir(), "trips.db")}
	if out := p.must("t-1", "plan", "Lisbon"); out != "t-1 [train to Lisbon hotel for 120 dinner]\n" {
		t.Fatalf("planned %q", out)
	}
	if list := p.must("t-1", "list"); strings.Count(list, "\n") != 3 || !strings.Contains(strings.SplitN(list, "\n", 2)[0], "after eat") {
		t.Errorf("three checkpoints, the newest first, were expected:\n%s", list)
	}
	travel := p.after("t-1", "travel")
	if out := p.must("t-1", "restore", travel, "80"); out != "t-1 [train to Lisbon hotel for 80 dinner]\n" {
		t.Errorf("back on another budget: %q", out)
	}
	out := p.must("t-1", "fork", travel, "cheap", "40")
	fork, plan, _ := strings.Cut(out, " ")
	if fork == "t-1" || plan != "[train to Lisbon hostel dinner]\n" {
		t.Errorf("forked: %q", out)
	}
	lineage := p.must(fork, "lineage")
	if lines := strings.Split(strings.TrimSpace(lineage), "\n"); len(lines) != 3 ||
		!strings.HasSuffix(lines[0], "on cheap of "+fork) || !strings.HasPrefix(lines[2], travel) || !strings.HasSuffix(lines[2], "on main of t-1") {
		t.Errorf("the lineage of the fork is\n%s", lineage)
	}
	if _, err := p.do("t-1", "fork", travel, "cheap", "30"); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a second branch of that name: %v", err)
	}
}

func TestWhatCannotBeDoneIsExplained(t *testing.T) {
	p := trips{t, "sqlite:" + filepath.Join(t.TempDir(), "trips.db")}
	for _, c := range []struct {
		args []string
		want error
	}{
		{nil, errUsage},
		{[]string{"dance"}, errUsage},
		{[]string{"restore", "x", "much"}, errUsage},
		{[]string{"restore", "x", "1"}, core.ErrNotFound},
		{[]string{"lineage"}, core.ErrNotFound},
	} {
		if _, err := p.do("t-1", c.args...); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.args, err, c.want)
		}
	}
}

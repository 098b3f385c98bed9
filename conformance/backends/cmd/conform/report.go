package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirflow/weir/conformance"
)

// report is what the command prints, as JSON under these names.
type report struct {
	Store   string    `json:"store"`  // the URL, without a password
	Server  string    `json:"server"` // what answered, with its version
	Driver  string    `json:"driver"`
	Go      string    `json:"go"`
	Seed    uint64    `json:"seed"`
	Started time.Time `json:"started"`
	Took    seconds   `json:"seconds"`
	counts
	Laws []*lawReport `json:"laws"`
}

// counts are cases by verdict.
type counts struct {
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	Unsupported int `json:"unsupported"`
	OptedOut    int `json:"opted_out"`
	NotRun      int `json:"not_run"`
}

func (c *counts) add(s conformance.Status) {
	switch s {
	case conformance.Passed:
		c.Passed++
	case conformance.Failed:
		c.Failed++
	case conformance.Unsupported:
		c.Unsupported++
	case conformance.OptedOut:
		c.OptedOut++
	case conformance.NotRun:
		c.NotRun++
	}
}

// verdict sums up: one failure fails a law, and what passed in part says so.
func (c *counts) verdict() string {
	switch rest := c.Unsupported + c.OptedOut + c.NotRun; {
	case c.Failed > 0:
		return "FAILED"
	case c.Passed > 0 && rest == 0:
		return "passed"
	case c.Passed > 0:
		return "passed in part"
	case c.Unsupported >= max(c.OptedOut, c.NotRun):
		return string(conformance.Unsupported)
	case c.OptedOut >= c.NotRun:
		return string(conformance.OptedOut)
	}
	return string(conformance.NotRun)
}

type lawReport struct {
	Layer   string `json:"layer"`
	Law     string `json:"law"`
	Text    string `json:"text"`
	Verdict string `json:"verdict"`
	counts
	Took  seconds      `json:"seconds"`
	Cases []caseReport `json:"cases"`
}

type caseReport struct {
	Case     string             `json:"case"`
	Status   conformance.Status `json:"status"`
	Messages []string           `json:"messages,omitempty"`
	Took     seconds            `json:"seconds"`
}

// seconds is a duration as JSON shows it, in whole milliseconds.
type seconds float64

func secondsOf(d time.Duration) seconds { return seconds(d.Round(time.Millisecond).Seconds()) }

func (s seconds) String() string { return fmt.Sprintf("%.1f s", float64(s)) }

// newReport collects results by law.
func newReport(results []conformance.Result) *report {
	r := &report{}
	laws, took := map[string]*lawReport{}, map[string]time.Duration{}
	for _, l := range conformance.Laws() {
		law := &lawReport{Layer: l.Layer, Law: l.Name, Text: l.Text}
		laws[l.Layer+"/"+l.Name] = law
		r.Laws = append(r.Laws, law)
	}
	for _, x := range results {
		law := laws[x.Layer+"/"+x.Law]
		law.Cases = append(law.Cases, caseReport{Case: x.Case, Status: x.Status, Messages: x.Messages, Took: secondsOf(x.Duration)})
		took[x.Law] += x.Duration
		law.add(x.Status)
		r.add(x.Status)
	}
	for _, law := range r.Laws {
		law.Verdict, law.Took = law.verdict(), secondsOf(took[law.Law])
	}
	return r
}

// write prints the report as o wants it.
func (r *report) write(out io.Writer, o options) error {
	if o.files != "" {
		var table, text bytes.Buffer
		err := errors.Join(r.writeTable(&table, true), r.writeJSON(&text))
		if err == nil {
			err = errors.Join(os.WriteFile(o.files+".txt", table.Bytes(), 0o600), os.WriteFile(o.files+".json", text.Bytes(), 0o600))
		}
		if err != nil {
			return err
		}
	}
	if o.json {
		return r.writeJSON(out)
	}
	return r.writeTable(out, o.verbose)
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeTable prints the report for people. What failed is always told; verbose tells of what
// did not run as well.
func (r *report) writeTable(w io.Writer, verbose bool) error {
	t := &printer{w: w}
	t.printf("Conformance of %s\n\n", r.Store)
	t.printf("  server    %s\n  driver    %s\n  go        %s\n  started   %s, took %v\n  seed      %d\n\n",
		r.Server, r.Driver, r.Go, r.Started.Format(time.RFC3339), r.Took, r.Seed)
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	rows := &printer{w: tab}
	rows.printf("  law\tverdict\tpassed\tfailed\tunsupported\topted out\tnot run\ttime\n")
	layer := ""
	for _, l := range r.Laws {
		if l.Layer != layer {
			layer = l.Layer
			rows.printf("%s\t\t\t\t\t\t\t\n", layer)
		}
		rows.row("  "+l.Law, l.Verdict, l.counts, l.Took)
	}
	rows.printf("\t\t\t\t\t\t\t\n")
	rows.row("all", r.verdict(), r.counts, r.Took)
	if err := tab.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		t.printf("%s\n", strings.TrimRight(line, " \n"))
	}
	r.writeCases(t, conformance.Failed, "\nFailed:\n")
	if verbose {
		for _, s := range []conformance.Status{conformance.Unsupported, conformance.OptedOut, conformance.NotRun} {
			r.writeCases(t, s, fmt.Sprintf("\n%s:\n", strings.ToUpper(string(s[:1]))+string(s[1:])))
		}
	}
	if t.err == nil {
		t.err = rows.err
	}
	return t.err
}

// writeCases lists the cases with a status, with what they said.
func (r *report) writeCases(t *printer, status conformance.Status, title string) {
	for _, l := range r.Laws {
		for _, c := range l.Cases {
			if c.Status != status {
				continue
			}
			t.printf("%s  %s/%s/%s\n", title, l.Layer, l.Law, c.Case)
			title = ""
			for _, m := range c.Messages {
				t.printf("      %s\n", strings.ReplaceAll(strings.TrimSpace(m), "\n", "\n      "))
			}
		}
	}
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) row(name, verdict string, c counts, took seconds) {
	p.printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%v\n", name, verdict,
		number(c.Passed), number(c.Failed), number(c.Unsupported), number(c.OptedOut), number(c.NotRun), took)
}

// number leaves out zeros, so that what is there stands out.
func number(n int) string {
	if n == 0 {
		return "·"
	}
	return strconv.Itoa(n)
}

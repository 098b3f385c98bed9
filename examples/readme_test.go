package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// snippet is a marked code block of the README, with the text block behind it.
var snippet = regexp.MustCompile("(?s)<!-- run: (go|test) -->\n```go\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// The README's snippets compile, run, and print what stands below them.
func TestReadmeSnippetsRun(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := snippet.FindAllStringSubmatch(string(readme), -1)
	if want := strings.Count(string(readme), "```go\n"); len(found) != want || want == 0 {
		t.Fatalf("%d of %d Go blocks are marked to be run", len(found), want)
	}
	for _, s := range found {
		kind, code, want := s[1], s[2], s[3]
		name := regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(code)[1]
		t.Run(kind+" "+name, func(t *testing.T) {
			got := runSnippet(t, kind, code)
			if kind == "go" && got != want {
				t.Errorf("printed:\n%s\nthe README says:\n%s", got, want)
			}
			if kind == "test" && !strings.Contains(got, "ok") {
				t.Errorf("printed:\n%s", got)
			}
		})
	}
}

// runSnippet runs the code in a folder of this module, so that its imports resolve.
func runSnippet(t *testing.T, kind, code string) string {
	t.Helper()
	dir, err := os.MkdirTemp(".", "readme-") //nolint:usetesting // it must lie within the module
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, args := "main.go", []string{"run", "./" + dir}
	if kind == "test" {
		file, args = "snippet_test.go", []string{"test", "./" + dir}
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The commands that the README names are targets of the Makefile.
func TestReadmeCommandsExist(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)").FindAllStringSubmatch(string(readme), -1)
	if len(commands) < 4 {
		t.Fatalf("the README names only %d commands", len(commands))
	}
	for _, c := range commands {
		if !regexp.MustCompile(`(?m)^` + c[1] + `:`).Match(makefile) {
			t.Errorf("make %s is no target", c[1])
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirflow/weir/core/flow"
)

// The test binary is the program when this variable is set.
const asProgram = "APPROVAL_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestARefundWaitsForAManagerInAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
		fail bool
	}{
		{[]string{"request", "120 EUR"}, "waiting for a manager: true", false},
		{[]string{"pending"}, `Pay this refund? "refund 120 EUR" [approved rejected]`, false},
		{[]string{"answer", "maybe"}, "maybe", true},
		{[]string{"answer", "rejected"}, "refused", false},
		{[]string{"answer", "approved"}, "nothing is open", true},
		{[]string{"-id", "unknown", "answer", "approved"}, "not found", true},
	} {
		out, err := program(t, dir, c.args...)
		if (err != nil) != c.fail || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

func TestOfTwoManagersOneDecides(t *testing.T) {
	dir := t.TempDir()
	if out, err := program(t, dir, "request", "120 EUR"); err != nil {
		t.Fatal(out)
	}
	outs := make(chan string, 2)
	for _, outcome := range []string{"approved", "rejected"} {
		go func() {
			out, _ := program(t, dir, "answer", outcome)
			outs <- out
		}()
	}
	decided, told := 0, 0
	for range 2 {
		switch out := <-outs; {
		case out == "paid\n" || out == "refused\n":
			decided++
		case strings.Contains(out, "another manager was faster") || strings.Contains(out, "nothing is open"):
			told++
		default:
			t.Errorf("printed %q", out)
		}
	}
	if decided != 1 || told != 1 {
		t.Errorf("%d decided and %d were told, want one of each", decided, told)
	}
}

func TestAnUnknownCommandIsExplained(t *testing.T) {
	err := run(t.Context(), &bytes.Buffer{}, "sqlite::memory:", "r-1", "dance", "")
	if err == nil || errors.Is(err, flow.ErrAnswered) || !strings.Contains(err.Error(), "pending") {
		t.Errorf("got %v", err)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The tests run the program as its users do: the test binary is the program when this variable
// is set.
const asProgram = "SUPPORTCHAT_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs supportchat once and reports what it printed and whether it was killed.
func start(t *testing.T, dir string, args ...string) (out string, killed bool, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1")
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return string(text), true, nil
		}
	}
	return string(text), false, err
}

// untilDone starts it again and again, and returns the last output and the number of kills.
func untilDone(t *testing.T, dir string, args ...string) (out string, kills int) {
	t.Helper()
	for range 200 {
		out, killed, err := start(t, dir, args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !killed {
			return out, kills
		}
		kills++
	}
	t.Fatal("no progress")
	return "", 0
}

func TestAChatThatIsKilledEndsAsOneThatIsNot(t *testing.T) {
	for name, args := range map[string][]string{
		"every second method": {"-crash-after", "2"},
		"every seventh":       {"-crash-after", "7"},
		"in segments":         {"-crash-after", "5", "-limit", "1024"},
		"hardly any history":  {"-crash-after", "9", "-keep", "4"},
		"two messages":        {"-crash-after", "3", "-conversation", "1"},
		"never":               {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, kills := untilDone(t, t.TempDir(), args...)
			if !strings.Contains(out, "EQUAL northwind-") || !strings.Contains(out, fmt.Sprintf("crashes %d, resumes %d,", kills, kills)) {
				t.Errorf("after %d kills it printed:\n%s", kills, out)
			}
			if len(args) > 0 && kills == 0 {
				t.Error("it was never killed")
			}
		})
	}
}

func TestAFinishedChatIsNotRunAgain(t *testing.T) {
	dir := t.TempDir()
	first, _ := untilDone(t, dir)
	second, _ := untilDone(t, dir)
	if strings.Contains(second, "turn") || !strings.Contains(second, "EQUAL") || !strings.Contains(first, "turn") {
		t.Errorf("the second run printed:\n%s", second)
	}
}

func TestARemovedStoreBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	untilDone(t, dir)
	if err := os.Remove(filepath.Join(dir, "weir-demo.db")); err != nil {
		t.Fatal(err)
	}
	if out, _ := untilDone(t, dir); !strings.Contains(out, "turn   2/33") || !strings.Contains(out, "EQUAL") {
		t.Errorf("printed:\n%s", out)
	}
}

// Of two processes that work on one chat, one is told of the conflict and has stored nothing.
func TestOfTwoProcessesOneWins(t *testing.T) {
	dir := t.TempDir()
	if _, killed, err := start(t, dir, "-crash-after", "4"); !killed {
		t.Fatal("not killed", err)
	}
	type outcome struct {
		out string
		err error
	}
	outcomes := make(chan outcome, 2)
	for range 2 {
		go func() {
			out, _, err := start(t, dir, "-think", "30ms")
			outcomes <- outcome{out, err}
		}()
	}
	winner, loser := <-outcomes, <-outcomes
	if winner.err != nil {
		winner, loser = loser, winner
	}
	if winner.err != nil || !strings.Contains(winner.out, "EQUAL") {
		t.Errorf("the winner: %v\n%s", winner.err, winner.out)
	}
	if loser.err == nil || !strings.Contains(loser.out, "conflict") {
		t.Errorf("the loser: %v\n%s", loser.err, loser.out)
	}
}

// The equality line must be able to say no.
func TestADifferenceIsSeen(t *testing.T) {
	good := tally{starts: 3, crashes: 2, effects: 49, saved: 47}
	want := verdict{Hash: "a", Methods: 47}
	if problems := judge("a", want, good); len(problems) != 0 {
		t.Errorf("problems %v", problems)
	}
	for name, c := range map[string]struct {
		hash   string
		change func(*tally)
	}{
		"another state":    {"b", func(*tally) {}},
		"ran again":        {"a", func(t *tally) { t.again = []string{"answer"} }},
		"ran too often":    {"a", func(t *tally) { t.effects += 5 }},
		"methods missing":  {"a", func(t *tally) { t.saved -= 5 }},
		"methods invented": {"a", func(t *tally) { t.saved++ }},
		"refused":          {"a", func(t *tally) { t.refusals = 1 }},
	} {
		bad := good
		c.change(&bad)
		if len(judge(c.hash, want, bad)) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestTheLedgerSeesAMethodThatRunsAgainAfterItsSave(t *testing.T) {
	book, err := openLedger(filepath.Join(t.TempDir(), "ledger"), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer book.close()
	for _, l := range []line{
		{Kind: lineStart}, {Kind: lineEffect, Method: "receive", Activation: "1"}, {Kind: lineCrash},
		{Kind: lineStart}, {Kind: lineEffect, Method: "receive", Activation: "1"}, {Kind: lineSaved, Method: "receive"},
		{Kind: lineEffect, Method: "receive", Activation: "1"},
	} {
		if err := book.write(l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := book.tally()
	if err != nil || len(got.again) != 1 || got.crashes != 1 || got.starts != 2 || got.effects != 3 || got.saved != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadInputIsExplained(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"cut.jsonl": `{"id":"x","messages":[`, "odd.jsonl": `{"id":"x","messages":[7]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-crash-after", "1"}, "at least 2"},
		{[]string{"-conversation", "9"}, "has 2 conversations"},
		{[]string{"-transcript", "missing.jsonl"}, "no such file"},
		{[]string{"-transcript", "cut.jsonl"}, "conversation 0"},
		{[]string{"-transcript", "odd.jsonl"}, "message 0"},
		{[]string{"-store", "nosuch://localhost"}, "unknown URL scheme"},
		{[]string{"-keep", "0"}, ""},
	} {
		out, _, err := start(t, dir, c.args...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

func TestOwnTranscriptIsSound(t *testing.T) {
	talk, err := readConversation("", 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, m := range talk.messages {
		calls += len(m.Calls)
		if !json.Valid(m.raw) {
			t.Errorf("%s is no JSON", m.raw)
		}
	}
	if len(talk.messages) < 30 || calls < 8 {
		t.Errorf("%d messages with %d calls are too few to show anything", len(talk.messages), calls)
	}
}

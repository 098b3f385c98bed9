package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
)

func ExampleError() {
	err := error(&core.Error{Op: "load state", FlowID: "c-42", Err: core.ErrNotFound})
	fmt.Println(err)
	fmt.Println(errors.Is(err, core.ErrNotFound), errors.Is(err, core.ErrUnavailable))
	// Output:
	// weir: load state of flow "c-42": not found
	// true false
}

func TestErrorsKeepAStrangersIDHarmless(t *testing.T) {
	err := &core.Error{Op: "save state", FlowID: "line\nbreak" + strings.Repeat("é", 500), Err: core.ErrConflict}
	if got := err.Error(); strings.ContainsRune(got, '\n') || len(got) > 250 || !strings.Contains(got, "1010 bytes") {
		t.Errorf("got %q", got)
	}
}

func TestSizeAndStateErrorsAreTheirSentinels(t *testing.T) {
	size := fmt.Errorf("put: %w", &core.SizeError{Size: 11, Limit: 10})
	if !errors.Is(size, core.ErrTooLarge) || errors.Is(size, core.ErrInvalidState) {
		t.Error("a SizeError must be ErrTooLarge and nothing else")
	}
	if !strings.Contains(size.Error(), "11") || !strings.Contains(size.Error(), "10") {
		t.Errorf("%v lacks one of its numbers", size)
	}
	if !errors.Is(&core.StateError{}, core.ErrInvalidState) {
		t.Error("a StateError must be ErrInvalidState")
	}
}

func TestOutcomeUnknownSurvivesWrapping(t *testing.T) {
	err := &core.Error{Op: "save state", Err: fmt.Errorf("put: %w", core.WithOutcomeUnknown(core.ErrUnavailable))}
	if !core.OutcomeUnknown(err) || !errors.Is(err, core.ErrUnavailable) {
		t.Error("the mark or the cause got lost")
	}
	if core.OutcomeUnknown(core.ErrUnavailable) || core.WithOutcomeUnknown(nil) != nil {
		t.Error("marked without reason")
	}
}

func TestIDsAreData(t *testing.T) {
	for _, id := range []string{"a", "../../etc/passwd", "*", "a'; DROP TABLE flows; --", "\x00", " ", "名前", strings.Repeat("x", core.MaxIDBytes)} {
		if err := core.ValidateID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "\xff", strings.Repeat("x", core.MaxIDBytes+1)} {
		if err := core.ValidateID(id); !errors.Is(err, core.ErrInvalidID) {
			t.Errorf("%q: got %v", id, err)
		}
	}
}

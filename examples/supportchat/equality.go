package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/weirflow/weir/core"
)

// verdict is what two runs of one conversation must have in common.
type verdict struct {
	Hash    string `json:"hash"`    // of the final state
	Methods int    `json:"methods"` // completions saved
	Refused int    `json:"refused"` // requests that a provider would refuse
}

func printVerdict(w io.Writer, v verdict) error { return json.NewEncoder(w).Encode(v) }

// stateHash is the same for states that are equal as JSON: a store may keep the keys of an
// object in an order of its own.
func stateHash(ctx context.Context, store core.FlowPersistence, flowID string) (string, error) {
	snap, err := store.LoadState(ctx, flowID)
	if err != nil {
		return "", err
	}
	numbersAsText := json.NewDecoder(bytes.NewReader(snap.State))
	numbersAsText.UseNumber()
	var state any
	if err := numbersAsText.Decode(&state); err != nil {
		return "", err
	}
	keysInOrder, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(keysInOrder)
	return hex.EncodeToString(sum[:8]), nil
}

// printEquality compares the finished conversation with a run in another process that never
// crashed, on a store in its memory.
func printEquality(ctx context.Context, c config, talk conversation, store core.FlowPersistence, book *ledger) error {
	hash, err := stateHash(ctx, store, talk.flowID)
	if err != nil {
		return err
	}
	want, err := reference(ctx, c)
	if err != nil {
		return fmt.Errorf("the run to compare with: %w", err)
	}
	t, err := book.tally()
	if err != nil {
		return err
	}
	problems := judge(hash, want, t)
	word := "EQUAL"
	if len(problems) > 0 {
		word = "DIFFERENT"
	}
	fmt.Printf("%s %s state %s, uncrashed %s, methods %d, crashes %d, resumes %d, ran again after their save %d, requests a provider would refuse %d\n",
		word, talk.flowID, hash, want.Hash, t.saved, t.crashes, t.starts-1, len(t.again), t.refusals)
	return errors.Join(problems...)
}

// judge lists what the run that crashed has not in common with the one that did not.
func judge(hash string, want verdict, t tally) []error {
	var problems []error
	if hash != want.Hash {
		problems = append(problems, errors.New("the final states differ"))
	}
	// A crash between the store's acknowledgment and the ledger's line loses the line.
	if t.saved > want.Methods || t.saved < want.Methods-(t.starts-1) {
		problems = append(problems, fmt.Errorf("%d methods were saved instead of %d", t.saved, want.Methods))
	}
	if len(t.again) > 0 {
		problems = append(problems, fmt.Errorf("methods ran again after their save: %v", t.again))
	}
	if extra := t.effects - want.Methods; extra > t.starts-1 {
		problems = append(problems, fmt.Errorf("%d side effects too many for %d restarts", extra, t.starts-1))
	}
	if t.refusals > 0 || want.Refused > 0 {
		problems = append(problems, fmt.Errorf("pruning made %d requests that a provider would refuse", t.refusals+want.Refused))
	}
	return problems
}

// reference runs the same conversation in a process of its own.
func reference(ctx context.Context, c config) (verdict, error) {
	self, err := os.Executable()
	if err != nil {
		return verdict{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-reference", "-store", "mem:", "-transcript", c.transcript,
		"-conversation", strconv.Itoa(c.conversation), "-keep", strconv.Itoa(c.keep))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	return v, json.Unmarshal(out, &v)
}

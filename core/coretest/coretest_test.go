package coretest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
)

func Example() {
	ctx, store := context.Background(), coretest.New()
	first, _ := store.SaveState(ctx, core.Snapshot{FlowID: "c-1", Method: "receive", State: []byte(`{"n":1}`)})
	_, _ = store.SaveState(ctx, core.Snapshot{FlowID: "c-1", Method: "answer", State: []byte(`{"n":2}`)})
	_, err := store.SaveState(ctx, core.Snapshot{FlowID: "c-1", State: []byte(`{"n":3}`)}, core.IfRevision(first.Revision))
	snap, _ := store.LoadState(ctx, "c-1")
	fmt.Println(errors.Is(err, core.ErrConflict), snap.Method, snap.Revision, string(snap.State))
	// Output: true answer 2 {"n":2}
}

func TestOfManyCompareAndSwapsOneWins(t *testing.T) {
	ctx, store := t.Context(), coretest.New()
	var wins, conflicts int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, err := store.SaveState(ctx, core.Snapshot{FlowID: "f", State: []byte(`{}`)}, core.IfRevision(core.Revision{}))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				wins++
			case errors.Is(err, core.ErrConflict):
				conflicts++
			}
		})
	}
	wg.Wait()
	if wins != 1 || conflicts != 31 {
		t.Errorf("%d wins and %d conflicts, want 1 and 31", wins, conflicts)
	}
}

func TestAFlowMadeAnewSatisfiesNoOldRevision(t *testing.T) {
	ctx, store := t.Context(), coretest.New()
	old, err := store.SaveState(ctx, core.Snapshot{FlowID: "f", State: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(ctx, "f"); err != nil {
		t.Fatal(err)
	}
	anew, err := store.SaveState(ctx, core.Snapshot{FlowID: "f", State: []byte(`{}`)})
	if err != nil || anew.Revision.N != 1 {
		t.Fatalf("revision %v, %v", anew.Revision, err)
	}
	_, err = store.SaveState(ctx, core.Snapshot{FlowID: "f", State: []byte(`{}`)}, core.IfRevision(old.Revision))
	if !errors.Is(err, core.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
}

func TestBytesAreNeverShared(t *testing.T) {
	ctx, store := t.Context(), coretest.New()
	given := []byte(`{"n":1}`)
	if _, err := store.SaveState(ctx, core.Snapshot{FlowID: "f", State: given}); err != nil {
		t.Fatal(err)
	}
	given[5] = '9'
	first, err := store.LoadState(ctx, "f")
	if err != nil {
		t.Fatal(err)
	}
	first.State[5] = '8'
	if second, _ := store.LoadState(ctx, "f"); string(second.State) != `{"n":1}` {
		t.Errorf("stored state changed to %s", second.State)
	}
}

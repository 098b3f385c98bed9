package persistence_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/inmem"
)

// Drivers with requests of another program have their tests; this is about all others.
func TestAStoreWithoutForeignRequests(t *testing.T) {
	s := persistence.New(inmem.New(inmem.Config{}))
	snap := core.Snapshot{FlowID: "f", State: json.RawMessage(`{}`)}
	if _, err := s.SaveState(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if r, err := s.LoadForeignRequest(t.Context(), "f"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("it has %+v, %v", r, err)
	}
	if _, err := s.SaveState(t.Context(), snap, core.Answering("row 1")); !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("an answer to a request that it cannot have: %v", err)
	}
	if now, err := s.LoadState(t.Context(), "f"); err != nil || now.Revision.N != 1 {
		t.Errorf("revision %v, %v", now.Revision, err)
	}
}

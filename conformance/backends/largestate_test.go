package backends_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
)

// largeStateBytes is what every backend takes, in whatever number of records.
const largeStateBytes = 64 << 20

// storeLargeState saves a state of 64 MiB that cannot be compressed, then one that takes next
// to nothing, and looks each time that it comes back.
func storeLargeState(t *testing.T, store *persistence.Store) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	raw := make([]byte, largeStateBytes/4*3)
	_, _ = random.Read(raw)
	large, err := json.Marshal(map[string]any{"blob": raw}) // base64
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range [][]byte{large, []byte(`{"blob":""}`)} {
		if _, err := store.SaveState(t.Context(), core.Snapshot{FlowID: "f", Method: "m", State: state}); err != nil {
			t.Fatal(err)
		}
		got, err := store.LoadState(t.Context(), "f")
		if err != nil || !bytes.Equal(got.State, state) {
			t.Fatalf("%d bytes come back as %d (%v)", len(state), len(got.State), err)
		}
	}
}

// openLargeState opens the store of a URL with nothing but the URL.
func openLargeState(t *testing.T, url string) *persistence.Store {
	t.Helper()
	store, err := persistence.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestSQLiteLargeState(t *testing.T) {
	storeLargeState(t, openLargeState(t, "sqlite:"+t.TempDir()+"/large.db"))
}

func TestDynamoLargeState(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	storeLargeState(t, openLargeState(t, "dynamodb://large?region=us-east-1&endpoint=http://"+dynaliteProcess(t.Context(), t).Addr))
}

func TestFirestoreLargeState(t *testing.T) {
	storeLargeState(t, openLargeState(t, "firestore://large/flows?emulator="+startFirestore(t).Addr))
}

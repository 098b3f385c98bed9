package firestore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/firestore"
)

// It has no output to compare: it needs a project of Google Cloud, or an emulator at the
// address in FIRESTORE_EMULATOR_HOST.
func Example() { //nolint:testableexamples // needs a project
	ctx := context.Background()
	store, err := persistence.Open(ctx, "firestore://my-project/flow_states?timeout=10s")
	if err != nil {
		log.Fatal(err)
	}
	saved, err := store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: []byte(`{"id":"c-42","turns":3}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("revision", saved.Revision)
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
}

// As [Example], it is compiled only.
func ExampleOpen() { //nolint:testableexamples // needs a project
	ctx := context.Background()
	client, err := gcp.NewClientWithDatabase(ctx, "my-project", "orders")
	if err != nil {
		log.Fatal(err)
	}
	d, err := firestore.Open(ctx, firestore.Config{Client: client, TenantPrefix: "acme:", Timeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	store := persistence.New(d, persistence.WithTTL(30*24*time.Hour))
	_, err = store.LoadState(ctx, "c-42")
	if errors.Is(err, core.ErrNotFound) {
		fmt.Println("a new conversation")
	}
	if err := errors.Join(store.Close(), client.Close()); err != nil {
		log.Fatal(err)
	}
}

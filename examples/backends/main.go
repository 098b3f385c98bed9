// Backends is one program for every store: the URL alone chooses.
//
//	go run ./examples/backends -store sqlite:weir.db
//	go run ./examples/backends -store redis://localhost:6379/0
//	go run ./examples/backends -store 'dynamodb://weir?region=eu-central-1'
//	go run ./examples/backends -store firestore://my-project/flows
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	_ "github.com/weirflow/weir/persistence/dynamodb"
	_ "github.com/weirflow/weir/persistence/firestore"
	_ "github.com/weirflow/weir/persistence/inmem"
	_ "github.com/weirflow/weir/persistence/redis"
	_ "github.com/weirflow/weir/persistence/sqlite"
)

func main() {
	url := flag.String("store", "sqlite::memory:", "`URL` of the store")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *url); err != nil {
		fmt.Fprintln(os.Stderr, "backends:", err)
		os.Exit(1)
	}
}

// flowID is what a stranger may send; to every store it is data.
const flowID = "user@example.com/#1 *"

// run takes one flow through its life and prints the same on every store.
func run(ctx context.Context, w io.Writer, url string) error {
	store, err := persistence.Open(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Delete(ctx, flowID); err != nil {
		return err
	}
	first, err := store.SaveState(ctx, core.Snapshot{FlowID: flowID, Method: "receive", State: json.RawMessage(`{"n":9007199254740993}`)})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "saved revision", first.Revision)

	// Two megabytes are more than a record of some of these stores can hold.
	large := json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("Weir ", 2<<20/5)))
	second, err := store.SaveState(ctx, core.Snapshot{FlowID: flowID, Method: "answer", State: large}, core.IfRevision(first.Revision))
	if err != nil {
		return err
	}
	snap, err := store.LoadState(ctx, flowID)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "loaded revision", snap.Revision, "of method", snap.Method+",", len(snap.State), "bytes, as saved:",
		snap.Revision == second.Revision && string(snap.State) == string(large))

	_, err = store.SaveState(ctx, core.Snapshot{FlowID: flowID, State: json.RawMessage(`{}`)}, core.IfRevision(first.Revision))
	fmt.Fprintln(w, "a stale save is a conflict:", errors.Is(err, core.ErrConflict))

	if err := store.Delete(ctx, flowID); err != nil {
		return err
	}
	_, err = store.LoadState(ctx, flowID)
	fmt.Fprintln(w, "deleted:", errors.Is(err, core.ErrNotFound))
	return nil
}

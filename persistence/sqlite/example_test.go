package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		log.Fatal(err)
	}
	store, err := persistence.Open(ctx, "sqlite://"+filepath.ToSlash(filepath.Join(dir, "weir.db"))+"?synchronous=normal")
	if err != nil {
		log.Fatal(err)
	}

	_, err = store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: []byte(`{"id":"c-42","turns":3}`)})
	if err != nil {
		log.Fatal(err)
	}
	s, err := store.LoadState(ctx, "c-42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Method, string(s.State), "revision", s.Revision)
	if err := errors.Join(store.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output: answer {"id":"c-42","turns":3} revision 1
}

func ExampleOpen() {
	ctx := context.Background()
	d, err := sqlite.Open(ctx, sqlite.Config{Path: sqlite.Memory, History: 3})
	if err != nil {
		log.Fatal(err)
	}

	head := driver.Partition("c-42").Head()
	tag, err := d.Put(ctx, head, driver.Record{State: []byte(`{"turns":3}`), Method: "answer"}, driver.IfAbsent())
	if err != nil {
		log.Fatal(err)
	}
	_, err = d.Put(ctx, head, driver.Record{State: []byte(`{"turns":3}`), Method: "answer"}, driver.IfAbsent())
	fmt.Println(err)
	r, err := d.Get(ctx, head)
	fmt.Println(string(r.State), r.Tag == tag, err)
	if err := d.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// conflict: another writer was first
	// {"turns":3} true <nil>
}

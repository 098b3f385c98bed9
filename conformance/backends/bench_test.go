package backends_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
	"github.com/weirflow/weir/persistence/sqlite"
)

// BenchmarkSaveAndLoad is one save and one load of a chat state through the Store, and beside
// it the raw driver with the same bytes: a Put and a Get of the state, without revision,
// validation or progress.
func BenchmarkSaveAndLoad(b *testing.B) {
	for _, backend := range []struct {
		name string
		open func(b *testing.B) driver.Driver
	}{
		{"inmem", func(*testing.B) driver.Driver { return inmem.New(inmem.Config{}) }},
		{"sqlite-full", func(b *testing.B) driver.Driver { return openSQLite(b, sqlite.Full) }},
		{"sqlite-normal", func(b *testing.B) driver.Driver { return openSQLite(b, sqlite.Normal) }},
	} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			state := chatState(size)
			for _, goroutines := range []int{1, 16} {
				name := fmt.Sprintf("%s/%dKiB/g%d", backend.name, size>>10, goroutines)
				b.Run(name+"/raw", func(b *testing.B) { benchRaw(b, backend.open(b), state, goroutines) })
				b.Run(name+"/store", func(b *testing.B) { benchStore(b, backend.open(b), state, goroutines) })
			}
		}
	}
}

func openSQLite(b *testing.B, sync sqlite.Synchronous) driver.Driver {
	b.Helper()
	d, err := sqlite.Open(b.Context(), sqlite.Config{Path: b.TempDir() + "/bench.db", Synchronous: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// chatState is a state of about that many bytes whose revision the caller stamps in, since a
// store may do nothing for bytes it has already.
func chatState(size int) string {
	message := `{"role":"assistant","content":"` + strings.Repeat("All is well with booking 4711. ", 8) + `"},`
	return `{"id":"c-42","stamp":%d,"messages":[` + strings.TrimSuffix(strings.Repeat(message, max(1, size/len(message))), ",") + `]}`
}

// parallel runs op b.N times from that many goroutines, each on a flow of its own.
func parallel(b *testing.B, goroutines int, op func(ctx context.Context, id string, n uint64) error) {
	b.Helper()
	ctx := b.Context()
	var workers, ops atomic.Uint64
	b.SetParallelism(max(1, goroutines/2)) // times GOMAXPROCS, which is 2 on the machines of CI
	b.ReportAllocs()
	b.ResetTimer()
	run := func(next func() bool) {
		id := fmt.Sprint("flow-", workers.Add(1))
		for next() {
			if err := op(ctx, id, ops.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	}
	if goroutines == 1 {
		n := 0
		run(func() bool { n++; return n <= b.N })
		return
	}
	b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
}

func benchRaw(b *testing.B, d driver.Driver, state string, goroutines int) {
	b.Helper()
	b.SetBytes(int64(len(state)))
	parallel(b, goroutines, func(ctx context.Context, id string, n uint64) error {
		key := driver.Partition(id).Head()
		if _, err := d.Put(ctx, key, driver.Record{State: fmt.Appendf(nil, state, n), Method: "answer"}, driver.Condition{}); err != nil {
			return err
		}
		_, err := d.Get(ctx, key)
		return err
	})
}

func benchStore(b *testing.B, d driver.Driver, state string, goroutines int) {
	b.Helper()
	s := persistence.New(d)
	b.SetBytes(int64(len(state)))
	parallel(b, goroutines, func(ctx context.Context, id string, n uint64) error {
		snap := core.Snapshot{FlowID: id, Method: "answer", State: fmt.Appendf(nil, state, n), Progress: []byte(`{"v":1}`)}
		if _, err := s.SaveState(ctx, snap); err != nil {
			return err
		}
		_, err := s.LoadState(ctx, id)
		return err
	})
}

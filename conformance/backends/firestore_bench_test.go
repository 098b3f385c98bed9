package backends_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/firestore"
)

// BenchmarkFirestoreSaveAndLoad is one save and one load of a chat state on the emulator: a
// bare Set and Get of the document with the same fields, a Put by tag and a Get of the driver,
// and the Store above it. requests/op says how many requests a save and a load make.
func BenchmarkFirestoreSaveAndLoad(b *testing.B) {
	addr := startFirestore(b).Addr
	for _, size := range []int{1 << 10, 64 << 10, 512 << 10} {
		state := chatState(size)
		for _, c := range []struct {
			name  string
			bench func(*testing.B, *firestoreLab, string)
		}{{"raw", benchFirestoreRaw}, {"driver", benchFirestoreDriver}, {"store", benchFirestoreStore}} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, c.name), func(b *testing.B) {
				lab := newFirestoreLab(b, addr, firestore.Config{})
				warmUpFirestore(b, lab)
				lab.commits.Store(0)
				lab.reads.Store(0)
				b.SetBytes(int64(len(state)))
				b.ReportAllocs()
				c.bench(b, lab, state)
				b.ReportMetric(float64(lab.commits.Load()+lab.reads.Load())/float64(b.N), "requests/op")
			})
		}
	}
}

func benchFirestoreRaw(b *testing.B, lab *firestoreLab, state string) {
	var fields map[string]any
	if err := json.Unmarshal(fmt.Appendf(nil, state, 0), &fields); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		fields["stamp"] = n
		if _, err := lab.flows.Doc("f").Set(b.Context(), fields); err != nil {
			b.Fatal(err)
		}
		if _, err := lab.flows.Doc("f").Get(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFirestoreDriver(b *testing.B, lab *firestoreLab, state string) {
	cond := driver.IfAbsent()
	for n := 0; b.Loop(); n++ {
		tag, err := lab.Put(b.Context(), driver.Partition("f").Head(), driver.Record{State: fmt.Appendf(nil, state, n), Method: "answer", Data: []byte("d")}, cond)
		if err != nil {
			b.Fatal(err)
		}
		cond = driver.IfTag(tag)
		if _, err := lab.Get(b.Context(), driver.Partition("f").Head()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFirestoreStore(b *testing.B, lab *firestoreLab, state string) {
	s := persistence.New(lab.Driver)
	for n := 0; b.Loop(); n++ {
		snap := core.Snapshot{FlowID: "f", Method: "answer", State: fmt.Appendf(nil, state, n), Progress: []byte(`{"v":1}`)}
		if _, err := s.SaveState(b.Context(), snap); err != nil {
			b.Fatal(err)
		}
		if _, err := s.LoadState(b.Context(), "f"); err != nil {
			b.Fatal(err)
		}
	}
}

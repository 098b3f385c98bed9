package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

// BenchmarkSaveLoad is one Put of a head by tag and one Get, beside what the same bytes cost
// with SQLite alone: an UPSERT and a SELECT of one row by key, prepared, with the same pragmas
// and number of connections, without conditions, history or CrewAI's layout. The metric
// x-raw is the ratio of the two in this run.
func BenchmarkSaveLoad(b *testing.B) {
	for _, sync := range []Synchronous{Full, Normal} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			for _, g := range []int{1, 16} {
				name := fmt.Sprintf("%s/%dKiB/g=%d", sync, size>>10, g)
				var raw float64
				b.Run(name+"/raw", func(b *testing.B) { raw = benchRaw(b, sync, size, g) })
				b.Run(name+"/weir", func(b *testing.B) {
					if ns := benchWeir(b, sync, size, g); raw > 0 {
						b.ReportMetric(ns/raw, "x-raw")
					}
				})
			}
		}
	}
}

// spread runs op b.N times in g goroutines, and returns the time for each in nanoseconds.
func spread(b *testing.B, size, g int, op func(worker int, n int64) error) float64 {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for worker := range g {
		wg.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if err := op(worker, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}

// benchState returns a state of that size. Each write of it must differ: SQLite does not write
// a page on which nothing changes.
func benchState(size int) []byte {
	const frame = len(`{"n":"0000000000","t":""}`)
	return []byte(`{"n":"0000000000","t":"` + strings.Repeat("x", size-frame) + `"}`)
}

func benchStates(size, g int) [][]byte {
	states := make([][]byte, g)
	for i := range states {
		states[i] = benchState(size)
	}
	return states
}

// renew changes digits at the beginning and a letter in each page of a state.
func renew(state []byte, n int64) {
	copy(state[len(`{"n":"`):], fmt.Sprintf("%010d", n))
	for i := 1000; i < len(state)-2; i += 4000 {
		state[i] = 'a' + byte(n%26)
	}
}

func benchWeir(b *testing.B, mode Synchronous, size, g int) float64 {
	d := openTest(b, Config{Synchronous: mode, BusyTimeout: time.Minute})
	states := benchStates(size, g)
	tags := make([]driver.Tag, g)
	keys := make([]driver.Key, g)
	for i := range keys {
		keys[i] = driver.Partition("4f3c1a52-0b6e-4a5e-9d0e-0000000000" + strconv.Itoa(10+i)).Head()
	}
	ctx := b.Context()
	return spread(b, size, g, func(worker int, n int64) error {
		cond := driver.IfAbsent()
		if tags[worker] != "" {
			cond = driver.IfTag(tags[worker])
		}
		renew(states[worker], n)
		tag, err := d.Put(ctx, keys[worker], driver.Record{State: states[worker], Method: "answer", SavedAt: time.Now(), Data: []byte(`{"v":1}`)}, cond)
		if err != nil {
			return err
		}
		tags[worker] = tag
		r, err := d.Get(ctx, keys[worker])
		if err == nil && (len(r.State) != size || r.Tag != tag) {
			err = fmt.Errorf("read back %d bytes with tag %s", len(r.State), r.Tag)
		}
		return err
	})
}

func benchRaw(b *testing.B, mode Synchronous, size, g int) float64 {
	name := fileURI(filepath.Join(b.TempDir(), "raw.db")) + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_txlock=immediate&_pragma=synchronous(" + string(mode) + ")"
	open := func(conns int) *sql.DB {
		db, err := sql.Open("sqlite", name)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return db
	}
	writer, reader := open(1), open(defaultReaders)
	mustExec(b, writer, `CREATE TABLE kv (k TEXT PRIMARY KEY, v BLOB)`)
	prepare := func(db *sql.DB, query string) *sql.Stmt {
		stmt, err := db.PrepareContext(context.Background(), query)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = stmt.Close() })
		return stmt
	}
	upsert := prepare(writer, `INSERT INTO kv VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v`)
	load := prepare(reader, `SELECT v FROM kv WHERE k = ?1`)
	states, ctx := benchStates(size, g), b.Context()
	return spread(b, size, g, func(worker int, n int64) error {
		k := "4f3c1a52-0b6e-4a5e-9d0e-0000000000" + strconv.Itoa(10+worker)
		renew(states[worker], n)
		if _, err := upsert.ExecContext(ctx, k, states[worker]); err != nil {
			return err
		}
		var v []byte
		err := load.QueryRowContext(ctx, k).Scan(&v)
		if err == nil && len(v) != size {
			err = fmt.Errorf("read back %d bytes", len(v))
		}
		return err
	})
}

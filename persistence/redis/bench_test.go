package redis

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/persistence/driver"
)

// BenchmarkSaveLoad is one Put of a head by tag and one Get, beside what the same bytes cost
// otherwise, on the same server in the same run:
//
//   - raw: SET and GET, without any promise;
//   - floor: what a swap of a large value cannot do without: SET of the value under a new key,
//     pipelined with the smallest script that compares and flips a pointer and removes the
//     old value; read by HGET and GET.
//
// The metrics x-raw and x-floor are the ratios of time, trips and sent-B are round trips and
// bytes sent for one Put.
func BenchmarkSaveLoad(b *testing.B) {
	c := startServer(b)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		for _, g := range []int{1, 16} {
			name := fmt.Sprintf("%dKiB/g=%d", size>>10, g)
			var raw, floor float64
			b.Run(name+"/raw", func(b *testing.B) { raw = benchRaw(b, c, size, g) })
			b.Run(name+"/floor", func(b *testing.B) { floor = benchFloor(b, c, size, g) })
			b.Run(name+"/weir", func(b *testing.B) {
				ns := benchWeir(b, c, size, g)
				if raw > 0 && floor > 0 {
					b.ReportMetric(ns/raw, "x-raw")
					b.ReportMetric(ns/floor, "x-floor")
				}
			})
		}
	}
}

// spread runs op b.N times in g goroutines, and returns the time for each in nanoseconds.
func spread(b *testing.B, c *goredis.Client, size, g int, op func(worker int) error) float64 {
	b.Helper()
	if err := c.FlushAll(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for worker := range g {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := op(worker); err != nil {
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

func benchState(size int) []byte {
	const frame = len(`{"t":""}`)
	return []byte(`{"t":"` + strings.Repeat("x", size-frame) + `"}`)
}

func benchID(worker int) string {
	return "4f3c1a52-0b6e-4a5e-9d0e-0000000000" + strconv.Itoa(10+worker)
}

func benchRaw(b *testing.B, c *goredis.Client, size, g int) float64 {
	state, ctx := benchState(size), b.Context()
	return spread(b, c, size, g, func(worker int) error {
		if err := c.Set(ctx, benchID(worker), state, 0).Err(); err != nil {
			return err
		}
		return wantSize(c.Get(ctx, benchID(worker)), size)
	})
}

func wantSize(cmd *goredis.StringCmd, size int) error {
	got, err := cmd.Bytes()
	if err == nil && len(got) != size {
		err = fmt.Errorf("read back %d bytes", len(got))
	}
	return err
}

// floorScript flips a pointer: KEYS the head and the new value; ARGV the old and new version.
const floorScript = `local have = redis.call('HGET', KEYS[1], 'v')
if (have or '') ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
redis.call('HSET', KEYS[1], 'v', ARGV[2])
redis.call('PERSIST', KEYS[2])
if have then redis.call('UNLINK', KEYS[3]) end
return 1`

func benchFloor(b *testing.B, c *goredis.Client, size, g int) float64 {
	script := goredis.NewScript(floorScript)
	if err := script.Load(b.Context(), c).Err(); err != nil {
		b.Fatal(err)
	}
	state, ctx := benchState(size), b.Context()
	versions := make([]int, g)
	return spread(b, c, size, g, func(worker int) error {
		head := "{" + benchID(worker) + "}"
		old, version := "", versions[worker]+1
		if version > 1 {
			old = strconv.Itoa(version - 1)
		}
		versions[worker] = version
		key := head + strconv.Itoa(version)
		pipe := c.Pipeline()
		pipe.Set(ctx, key, state, time.Minute)
		flip := pipe.EvalSha(ctx, script.Hash(), []string{head, key, head + old}, old, version)
		if _, err := pipe.Exec(ctx); err != nil || flip.Val() != int64(1) {
			return fmt.Errorf("flip: %v, %w", flip.Val(), err)
		}
		now, err := c.HGet(ctx, head, "v").Result()
		if err != nil {
			return err
		}
		return wantSize(c.Get(ctx, head+now), size)
	})
}

func benchWeir(b *testing.B, c *goredis.Client, size, g int) float64 {
	d := openTest(b, Config{Client: c})
	tags := make([]driver.Tag, g)
	state, ctx := benchState(size), b.Context()
	put := func(d *Driver, worker int) error {
		cond := driver.IfAbsent()
		if tags[worker] != "" {
			cond = driver.IfTag(tags[worker])
		}
		r := driver.Record{State: state, Method: "answer", SavedAt: time.Now(), Data: []byte(`{"v":1}`)}
		tag, err := d.Put(ctx, driver.Partition(benchID(worker)).Head(), r, cond)
		tags[worker] = tag
		return err
	}
	ns := spread(b, c, size, g, func(worker int) error {
		if err := put(d, worker); err != nil {
			return err
		}
		r, err := d.Get(ctx, driver.Partition(benchID(worker)).Head())
		if err == nil && (len(r.State) != size || r.Tag != tags[worker]) {
			err = fmt.Errorf("read back %d bytes with tag %s", len(r.State), r.Tag)
		}
		return err
	})
	countPut(b, c, func(d *Driver) error { return put(d, 0) })
	return ns
}

// countPut reports what one Put costs.
func countPut(b *testing.B, c *goredis.Client, put func(*Driver) error) {
	b.Helper()
	counted := goredis.NewClient(c.Options())
	defer counted.Close()
	d, count := openTest(b, Config{Client: counted}), &trips{}
	if err := put(d); err != nil { // opens its connections
		b.Fatal(err)
	}
	counted.AddHook(count)
	if err := put(d); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(count.n.Load()), "trips")
	b.ReportMetric(float64(count.sent.Load()), "sent-B")
}

package backends_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/weirflow/weir/persistence"
)

// TestRedisLargeState saves 64 MiB that cannot be compressed, and then next to nothing: the
// state comes back, and nothing of it stays.
func TestRedisLargeState(t *testing.T) {
	c := clientOf(t, "redis://"+startRedis(t).Addr+"?read_timeout=30s&write_timeout=30s")
	defer func() { _ = c.Close() }()
	store := persistence.New(openRedis(t, c))
	storeLargeState(t, store)
	if keys := dumpRedis(t, c); len(keys) != 1 {
		t.Errorf("a small state after a large one takes %d keys, want 1", len(keys))
	}
}

// TestRedisInlineSteps goes over the size up to which a state stays in the hash of its head in
// steps of one byte, up and down, and looks at the keys each time.
func TestRedisInlineSteps(t *testing.T) {
	c := clientOf(t, "redis://"+startRedis(t).Addr)
	defer func() { _ = c.Close() }()
	store := persistence.New(openRedis(t, c))
	seen := map[int]int{} // by number of keys
	step := func(size int) {
		t.Helper()
		s := snapshot("f", 1, size)
		if _, err := store.SaveState(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		got, err := store.LoadState(t.Context(), "f")
		if err != nil || !bytes.Equal(got.State, s.State) {
			t.Fatalf("a text of %d bytes does not come back: %v", size, err)
		}
		keys := int(c.DBSize(t.Context()).Val())
		if keys > 2 {
			t.Fatalf("a text of %d bytes takes %d keys", size, keys)
		}
		seen[keys]++
	}
	const border, around = 8 << 10, 600 // what Weir adds to a head counts as well
	for size := border - around; size <= border+around; size++ {
		step(size)
	}
	for size := border + around; size >= border-around; size-- {
		step(size)
	}
	if seen[1] < 100 || seen[2] < 100 {
		t.Errorf("states in the hash and beside it: %v; the border was not crossed", seen)
	}
	checkDump(t, c)
	if err := store.Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if keys := dumpRedis(t, c); len(keys) != 0 {
		t.Errorf("after the delete there are %s", fmt.Sprint(len(keys)))
	}
}

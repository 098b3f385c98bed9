package conformance

import (
	"fmt"
	"slices"

	"github.com/weirflow/weir/persistence/driver"
)

func deleteIsExact() law {
	return law{
		layer: driverLayer, name: "law09_delete_is_exact",
		text: "Delete removes one record and nothing else.",
		cases: []testCase{
			{"prefix_families_of_ids", func(c *caseRun) {
				deleteOneByOne(c, heads(c, "a", "ab", "abc", "a/b", "a#b", "a:b", "a.b", "a ", "A", "a\x00", "a\x00b", "", "b"))
			}},
			{"patterns_in_ids", func(c *caseRun) {
				deleteOneByOne(c, heads(c, "*", "alice*", "alice", "alicia", "ali?e", "[a-z]*", "%", "_", "a_ice", "al%", ".*", "bob", "' OR 1=1 --", `"; DROP TABLE flow_states; --`))
			}},
			{"prefix_families_of_sorts", func(c *caseRun) {
				p := c.id("f")
				keys := []driver.Key{p.Head()}
				for _, s := range []string{"s", "s/", "s/1", "s/10", "s/1/2", "s-1", "s_", "s.", "t"} {
					keys = append(keys, p.Sibling(s))
				}
				deleteOneByOne(c, keys)
			}},
			{"head_and_siblings_are_apart", headAndSiblingsApart},
			{"absent_is_no_error", deleteAbsent},
			{"batch_is_exact", batchDeleteIsExact},
		},
	}
}

func heads(c *caseRun, ids ...string) []driver.Key {
	var keys []driver.Key
	for _, id := range ids {
		keys = append(keys, c.id(id).Head())
	}
	return keys
}

// deleteOneByOne deletes the keys in random order and looks at all of them after each.
func deleteOneByOne(c *caseRun, keys []driver.Key) {
	c.Helper()
	d := c.open()
	keys = slices.Clone(keys)
	for i, k := range keys {
		c.put(d, k, aSibling(i), driver.Condition{})
	}
	alive := map[driver.Key]int{}
	for i, k := range keys {
		alive[k] = i
	}
	c.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		c.remove(d, k)
		delete(alive, k)
		for _, other := range keys {
			if i, ok := alive[other]; ok {
				c.want(d, other, "", aSibling(i))
			} else {
				c.wantAbsent(d, other, "after its Delete")
			}
		}
		if c.Failed() {
			c.Fatalf("the failures come after Delete of %s", show(k))
		}
	}
	if n := len(c.list(d)); n != 0 {
		c.Errorf("after Delete of everything Partitions lists %d partitions", n)
	}
}

func headAndSiblingsApart(c *caseRun) {
	d := c.open()
	p := c.id("f")
	c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, []string{"a", "b"}, nil)
	c.remove(d, p.Head())
	c.wantSorts(d, p, driver.RangeOptions{}, []string{"a", "b"})
	c.put(d, p.Head(), aHead(2), driver.IfAbsent())
	c.remove(d, p.Sibling("a"))
	c.remove(d, p.Sibling("b"))
	c.want(d, p.Head(), "", aHead(2))
	c.wantSorts(d, p, driver.RangeOptions{}, nil)
}

func deleteAbsent(c *caseRun) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		c.remove(d, k)
		c.put(d, k, aSibling(1), driver.Condition{})
		c.remove(d, k)
		c.remove(d, k)
		c.wantAbsent(d, k, "after two Deletes")
	}
}

func batchDeleteIsExact(c *caseRun) {
	d := c.open()
	batch, ok := d.(driver.BatchDeleter)
	if !ok {
		c.unsupported(BatchDelete)
	}
	p, other := c.id("f"), c.id("fx")
	var sorts, gone, kept []string
	for i := range 230 { // more than any store takes at once
		s := fmt.Sprintf("s/%d", i)
		sorts = append(sorts, s)
		if i%2 == 0 {
			gone = append(gone, s)
		} else {
			kept = append(kept, s)
		}
	}
	slices.Sort(sorts)
	slices.Sort(kept)
	c.put(d, p.Head(), aHead(1), driver.Condition{})
	c.fill(d, p, sorts, nil)
	c.fill(d, other, sorts, nil)
	if err := batch.DeleteSiblings(c.ctx, p, nil); err != nil {
		c.Errorf("DeleteSiblings of nothing failed: %v", err)
	}
	if err := batch.DeleteSiblings(c.ctx, p, append(slices.Clone(gone), "s", "s/", "never", "t/*")); err != nil {
		c.Fatalf("DeleteSiblings failed: %v", err)
	}
	c.wantSorts(d, p, driver.RangeOptions{}, kept)
	c.wantSorts(d, other, driver.RangeOptions{}, sorts)
	c.want(d, p.Head(), "", aHead(1))
	if err := batch.DeleteSiblings(c.ctx, p, append(gone, kept...)); err != nil {
		c.Fatalf("DeleteSiblings, half of them again, failed: %v", err)
	}
	c.wantSorts(d, p, driver.RangeOptions{}, nil)
	c.want(d, p.Head(), "", aHead(1))
}

package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func idsAreData() law {
	return law{
		layer: driverLayer, name: "law01_ids_are_data",
		text: "Partitions are data: any ID round-trips and never aliases another.",
		cases: []testCase{
			{"attack_characters", func(c *caseRun) { c.distinct(attackIDs()) }},
			{"queries_patterns_and_paths", func(c *caseRun) { c.distinct(queryIDs()) }},
			{"case_form_and_space", func(c *caseRun) { c.distinct(lookalikeIDs()) }},
			{"sentinels", func(c *caseRun) { c.distinct(sentinelIDs()) }},
			{"longest", func(c *caseRun) { c.longest() }},
			{"bare_ids", bareIDs},
			{"id_and_sort_never_alias", idAndSortNeverAlias},
			{"sorts_are_data", sortsAreData},
		},
	}
}

// attackCharacters are those that some store, query language, path or key scheme gives a
// meaning to.
var attackCharacters = []string{
	"#", ":", "/", ".", "_", "%", "*", "?", "[", "]", "{", "}", "|", "'", `"`, `\`, " ", "\n",
	"\t", "\r", "\x00", "\x01", "\x7f", "-", "~", "@", "$", "&", "(", ")", "!", "^", "=", "+", ",",
	";", "<", ">", "`", "\u00a0", "\u2028", "\ufeff", "\ufffd", "é", "漢", "😀", "\u202e", "..", "//", "::", "##", "%00", "%2F",
}

// attackIDs puts each attack character first, last, in the middle and alone.
func attackIDs() []string {
	ids := []string{"a", "b", "ab"}
	for _, ch := range attackCharacters {
		ids = append(ids, ch, ch+"a", "a"+ch, "a"+ch+"b", ch+ch+"a")
	}
	return ids
}

func queryIDs() []string {
	return []string{
		"alice", "alice*", "al?ce", "a%", "a_ice", "[a-z]*", "[alice]", "{alice}", "^alice$", ".*",
		"' OR '1'='1", "x') = 1 OR 1=1 --", `"; DROP TABLE flow_states; --`, `";DROP TABLE flow_states;`,
		`x}|@thread_id:{*`, `{"$ne":null}`, `{"$eq' OR '1'='1": 1}`, "$where", "@flow", "NOW()", "?1", ":id", "$1",
		"../../etc/passwd", "..", "../alice", "./alice", "/alice", "alice/", "alice/.", "a/sub/b", "a//b",
		`C:\alice`, `..\alice`, "CON", "alice.json", "alice.lock", "alice~", ".alice",
		"user@example.com", "user+tag@example.com", "https://example.com/a?b=c#d",
		"{alice}:1", "alice}:{1", "{}", "{}alice", "key:{x}:y",
	}
}

func lookalikeIDs() []string {
	return []string{
		"flow", "Flow", "FLOW", "fLOW", "flow ", " flow", "flow  ", "flow\t", "flow\n", "flow\r\n", "flow\x00", "flow\x00x",
		"\u00e9", "e\u0301", "\u00c9", "E\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "ß", "ss", "SS",
		"\u0130", "i", "I", "\u0131", "ı", "K", "\u212a", "k", "x\u200b", "x\u200d", "x", "\ufeffx", "x\u00ad",
		"1", "01", "1.0", "1e0", "+1", "1 ", "0x1", "10", "9", "１", "9007199254740993", "9007199254740992",
	}
}

func sentinelIDs() []string {
	return []string{
		"__empty__", "None", "none", "null", "nil", "NULL", "undefined", "NaN", "true", "false", "0", "-1", "__default__",
		"00000000-0000-0000-0000-000000000000", "__x__", "__", "_", ".", "head", "state", "seg", "seg/1", "cp/1",
		"flow_states", "sqlite_master", "_persistence_meta", "weir", "weir:", "weir:head", "id", "ttl", "tag", "data",
	}
}

// longest checks the longest ids, and that the last byte of one still counts: a store with a
// shorter key limit must not cut.
func (c *caseRun) longest() {
	room := core.MaxIDBytes - len(c.prefix)
	fill := func(unit, end string) string {
		s := strings.Repeat(unit, (room-len(end))/len(unit))
		return s + strings.Repeat("x", room-len(s)-len(end)) + end
	}
	var ids []string
	for _, unit := range []string{"a", "/", "%", "#", ".", "é", "😀", "\x00", "\\"} {
		ids = append(ids, fill(unit, "1"), fill(unit, "2"), fill(unit, ""))
	}
	ids = append(ids, fill("a", "")[:room-1], strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("/", 100))
	slices.Sort(ids)
	c.distinct(slices.Compact(ids))
}

// distinct demands that all ids are kept apart, in reading, listing, and deleting.
func (c *caseRun) distinct(ids []string) {
	c.Helper()
	parts := make([]driver.Partition, len(ids))
	for i, id := range ids {
		parts[i] = c.id(id)
	}
	c.distinctPartitions(c.open(), parts)
}

func (c *caseRun) distinctPartitions(d driver.Driver, parts []driver.Partition) {
	c.Helper()
	slices.Sort(parts)
	parts = slices.Compact(parts)
	record := func(p driver.Partition, what string) driver.Record {
		return driver.Record{Data: fmt.Appendf(nil, "%s of %s", what, p)}
	}
	for _, p := range parts {
		// The condition finds an alias at the first of the two writes.
		if _, err := d.Put(c.ctx, p.Head(), record(p, "head"), driver.IfAbsent()); err != nil {
			c.Errorf("Put of %s on \"must not exist\" failed, is it taken for another? %v", show(p.Head()), err)
		}
		c.put(d, p.Sibling("s"), record(p, "sibling"), driver.Condition{})
	}
	listed := c.list(d)
	for _, p := range parts {
		c.want(d, p.Head(), "", record(p, "head"))
		c.want(d, p.Sibling("s"), "", record(p, "sibling"))
		if rs := c.siblings(d, p, driver.RangeOptions{}); len(rs) != 1 || !bytes.Equal(rs[0].Data, record(p, "sibling").Data) {
			c.Errorf("Range of %q yields %d records, want its one sibling", p, len(rs))
		}
		if _, ok := listed[p]; !ok {
			c.Errorf("Partitions does not list %q", p)
		}
	}
	if len(listed) != len(parts) {
		c.Errorf("Partitions lists %d partitions, want %d", len(listed), len(parts))
	}
	// Every other one goes; the rest must stay.
	for i, p := range parts {
		if i%2 == 0 {
			c.remove(d, p.Head())
		}
	}
	for i, p := range parts {
		if i%2 == 0 {
			c.wantAbsent(d, p.Head(), "after its Delete")
		} else {
			c.want(d, p.Head(), "", record(p, "head"))
		}
		c.want(d, p.Sibling("s"), "", record(p, "sibling"))
	}
}

// bareIDs uses the ids as they are, without the prefix that keeps cases apart: a store that
// reserves "__x__", "." or "None" is only caught this way.
func bareIDs(c *caseRun) {
	if c.h.Shared {
		c.Skipf("%san empty store (Harness.Shared)", unsupportedPrefix)
	}
	var parts []driver.Partition
	for _, ids := range [][]string{attackIDs(), queryIDs(), lookalikeIDs(), sentinelIDs()} {
		for _, id := range ids {
			parts = append(parts, driver.Partition(id))
		}
	}
	d := c.open()
	c.distinctPartitions(d, parts)
}

// idAndSortNeverAlias moves a separator between the partition and the sort.
func idAndSortNeverAlias(c *caseRun) {
	d := c.open()
	var keys []driver.Key
	for _, sep := range []string{"/", ".", "_", "-", "/seg/", "..", "//"} {
		keys = append(
			keys,
			c.id("a").Sibling("b"+sep+"c"),
			c.id("a"+sep+"b").Sibling("c"),
			c.id("a"+sep+"b"+sep+"c").Head(),
			c.id("a").Sibling("b"+sep+"c"+sep+"d"),
			c.id("a"+sep+"b").Sibling("c"+sep+"d"),
			c.id("a"+sep+"b"+sep+"c").Sibling("d"),
			c.id("a"+sep).Sibling("b"),
			c.id("a").Sibling("b"+sep),
			c.id("a"+sep).Head(),
		)
	}
	for _, k := range keys {
		r := driver.Record{Data: fmt.Appendf(nil, "%q %q", k.Partition, k.Sort)}
		if _, err := d.Put(c.ctx, k, r, driver.IfAbsent()); err != nil {
			c.Errorf("Put of %s on \"must not exist\" failed, is it taken for another? %v", show(k), err)
		}
	}
	for _, k := range keys {
		c.want(d, k, "", driver.Record{Data: fmt.Appendf(nil, "%q %q", k.Partition, k.Sort)})
	}
}

// sortsAreData checks the characters that Weir makes sorts of, at both ends and up to the
// longest.
func sortsAreData(c *caseRun) {
	d := c.open()
	p := c.id("p")
	sorts := []string{"seg/1/2", "h/0001", "..", ".", "/", "//", "a/../b", "a", "a/", "a.", "a_", "a-", strings.Repeat("z", 200), strings.Repeat("z", 199), strings.Repeat("/", 200)}
	for _, ch := range "0123456789abcdefghijklmnopqrstuvwxyz/._-" {
		sorts = append(sorts, string(ch)+"x", "x"+string(ch), "x"+string(ch)+"x")
	}
	slices.Sort(sorts)
	sorts = slices.Compact(sorts)
	for _, s := range sorts {
		if _, err := d.Put(c.ctx, p.Sibling(s), driver.Record{Data: []byte(s)}, driver.IfAbsent()); err != nil {
			c.Fatalf("Put of %s on \"must not exist\" failed: %v", show(p.Sibling(s)), err)
		}
	}
	for _, s := range sorts {
		c.want(d, p.Sibling(s), "", driver.Record{Data: []byte(s)})
	}
	c.wantSorts(d, p, driver.RangeOptions{}, sorts)
}

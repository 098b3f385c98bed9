package redis

import (
	"strings"
	"testing"

	"github.com/weirflow/weir/persistence/driver"
)

// hostileIDs would end a hash tag, look like another ID escaped or hashed, or spoil a pattern.
func hostileIDs() []string {
	long := strings.Repeat("é", 100)
	return []string{
		"a", "{", "}", "{}", "{a}", "a}:h", "a}:s:b", "%", "%25", "%7D", "%7d", "#", "#a", "%23a", " ", "a b", "a\nb", "\x00", "\x7f",
		"*", "?", "[a]", `\`, "a:h", ":", "é", "e\u0301", "😀", "A", long, long + "a", strings.Repeat("{", 50), strings.Repeat("x", 128),
		strings.Repeat("x", 129), strings.Repeat("x", 1024), "#" + strings.Repeat("x", 43),
	}
}

func TestKeysNeverAlias(t *testing.T) {
	d := &Driver{prefix: "weir:"}
	seen := map[string]string{}
	for _, id := range hostileIDs() {
		keys := d.keys(driver.Partition(id))
		if other, taken := seen[keys.base]; taken {
			t.Errorf("%q and %q have the same keys: %q", id, other, keys.base)
		}
		seen[keys.base] = id
		tag := strings.TrimPrefix(keys.base, "weir:{")
		if tag == "" || strings.ContainsAny(tag, "{} \n\x00") {
			t.Errorf("the hash tag of %q is %q", id, tag)
		}
		if len(tag) > maxPlainID {
			t.Errorf("the hash tag of %q has %d bytes", id, len(tag))
		}
		for _, key := range []string{keys.record(""), keys.index()} {
			if got, ok := d.listed(key); !ok || got != tag {
				t.Errorf("the key %q is listed as %q (%t), want %q", key, got, ok, tag)
			}
		}
		for _, key := range []string{keys.record("a"), keys.payload("p1")} {
			if got, ok := d.listed(key); ok {
				t.Errorf("the key %q is listed as %q, and is no head and no index", key, got)
			}
		}
		p, err := d.partition(tag, keys.id)
		if err != nil || string(p) != id {
			t.Errorf("the hash tag %q is that of %q (%v), want %q", tag, p, err, id)
		}
	}
}

func TestKeysOfOthersAreNotListed(t *testing.T) {
	d := &Driver{prefix: "weir:"}
	for _, key := range []string{
		"weir:{}:h", "weir:{a}", "weir:{a}:x", "other:{a}:h", "weir:{a b}:h", "weir:{%7d}:h", "weir:{%}:h", "weir:{%4}:h", "weir:{%41}:h",
		"weir:{a}:h}:i}:h", "weir:{a{b}:h",
	} {
		if got, ok := d.listed(key); ok {
			t.Errorf("the key %q is listed as %q", key, got)
		}
	}
	if p, err := d.partition("#"+strings.Repeat("A", 43), "some id"); err == nil {
		t.Errorf("an ID that does not have the hash of its key is taken for %q", p)
	}
}

func FuzzEscapeID(f *testing.F) {
	for _, id := range hostileIDs() {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		escaped := escapeID(id)
		if back, ok := unescapeID(escaped); id != "" && (!ok || back != id) {
			t.Errorf("%q is escaped as %q, which is %q (%t)", id, escaped, back, ok)
		}
		if back, ok := unescapeID(id); ok && escapeID(back) != id {
			t.Errorf("%q is taken for %q, which is escaped as %q", id, back, escapeID(back))
		}
	})
}

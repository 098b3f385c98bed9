package firestore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

func coreTag(s string) driver.Tag { return driver.Tag(s) }

func isUnsupported(err error) bool { return errors.Is(err, core.ErrUnsupported) }

func badRecords() []driver.Record {
	return []driver.Record{
		{Method: "\xff"}, {SavedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, {ExpireAt: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

func TestIDsStayAsTheyAre(t *testing.T) {
	d := &Driver{}
	for _, id := range []string{"user@example.com", "a.b", "...", "__x", "x__", "_", "~", "~weir", "~weirdo", "a~1b", "%2F", "ü 漢 😀", "\x00", "\n", strings.Repeat("x", 1024)} {
		if got, hashed := d.documentID(driver.Partition(id)); got != id || hashed {
			t.Errorf("%q becomes the document %q", id, got)
		}
	}
}

func TestIDsNeverMeet(t *testing.T) {
	for _, prefix := range []string{"", "acme:"} {
		d := &Driver{cfg: Config{TenantPrefix: prefix}}
		seen := map[string]string{}
		var ids []string
		for _, id := range []string{"a/b", "a~1b", "/", "//", ".", "..", "__x__", "____", "__", "~weir~", "~weir#", "~weir~a~1b", "~weir~~0", "a~b/c", "~weir~.", strings.Repeat("/", 1024), strings.Repeat("~/", 512)} {
			ids = append(ids, id)
			// What it becomes is an ID that somebody can have given.
			if made, hashed := d.documentID(driver.Partition(id)); !hashed {
				ids = append(ids, strings.TrimPrefix(made, prefix))
			}
		}
		ids = append(ids, "~weir#"+strings.Repeat("0", 64))
		for _, id := range ids {
			made, hashed := d.documentID(driver.Partition(id))
			if other, dup := seen[made]; dup && other != id {
				t.Errorf("%q and %q are both the document %q", id, other, made)
			}
			seen[made] = id
			if !isLegalID(made) {
				t.Errorf("%q becomes %q, which Firestore refuses", id, made)
			}
			kept := ""
			if hashed {
				kept = id
			}
			if p, ours := d.partition(made, kept); !ours || string(p) != id {
				t.Errorf("%q becomes %q, and that %q (%t)", id, made, p, ours)
			}
		}
	}
}

func TestDocumentsOfOthersAreNoFlows(t *testing.T) {
	d := &Driver{cfg: Config{TenantPrefix: "acme:"}}
	for _, id := range []string{"", "acme:", "acme", "other:x", "acme:~weir~plain", "acme:~weir#beef"} {
		if p, ours := d.partition(id, ""); ours {
			t.Errorf("%q is taken for the flow %q", id, p)
		}
	}
}

func TestSiblingIDsKeepTheOrder(t *testing.T) {
	sorts := []string{"-", "--", "-.", "-/", ".", "..", "./0", "/", "/-", "//", "0", "9", "9/", "_", "__x__", "a", "a-", "a.", "a/", "a0", "a_", "aa", "seg/e/i/000001", "seg/e/i/000002", "z"}
	var ids []string
	for _, sort := range sorts {
		id := siblingID(sort)
		if back, ok := siblingSort(id); !ok || back != sort || !isLegalID(id) {
			t.Errorf("%q becomes %q, and that %q", sort, id, back)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(sorts) || !slices.IsSorted(ids) {
		t.Errorf("not in order: %q", ids)
	}
	// The end of a prefix is no Sort.
	if o := driver.WithPrefix("a/"); siblingID("a/zz") >= siblingID(o.To) || siblingID("a0") < siblingID(o.To) {
		t.Errorf("the prefix a/ ends at %q", siblingID(o.To))
	}
}

func TestFieldNamesAreForgottenWithinBounds(t *testing.T) {
	n := newNames()
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Repeat("n", 100)
	}
	n.remember("a", "1", []string{"x"})
	n.remember("a", "2", []string{"y"})
	if _, ok := n.get("a", "1"); ok {
		t.Error("the fields of an earlier write are known")
	}
	if got, ok := n.get("a", "2"); !ok || !slices.Equal(got, []string{"y"}) {
		t.Errorf("the fields are %q (%t)", got, ok)
	}
	for i := range 200 {
		n.remember(strings.Repeat("d", i+1), "1", many)
	}
	total := 0
	for _, f := range n.docs {
		total += f.size
	}
	if total != n.size || total > maxNames || len(n.docs) < 10 {
		t.Errorf("%d documents of %d bytes, counted as %d", len(n.docs), total, n.size)
	}
}

package main

import (
	"bytes"
	"path/filepath"
	"testing"
)

const want = `saved revision 1
loaded revision 2 of method answer, 2097161 bytes, as saved: true
a stale save is a conflict: true
deleted: true
`

// The networked stores run the same program in conformance/backends.
func TestOneProgramForEveryStore(t *testing.T) {
	for _, url := range []string{"mem:", "sqlite::memory:", "sqlite:" + filepath.Join(t.TempDir(), "weir.db")} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, url); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", url, err, out.String())
		}
	}
}

package persistence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/inmem"
)

func TestDamageIsCorruptAndNeverPartial(t *testing.T) {
	head := driver.Partition("f").Head()
	for name, damage := range map[string]func(t *testing.T, d driver.Driver, r driver.Record){
		"segment missing": func(t *testing.T, d driver.Driver, _ driver.Record) {
			removeSibling(t, d, siblings(t, d, "f")[0])
		},
		"last segment missing": func(t *testing.T, d driver.Driver, _ driver.Record) {
			all := siblings(t, d, "f")
			removeSibling(t, d, all[len(all)-1])
		},
		"segment changed": func(t *testing.T, d driver.Driver, _ driver.Record) {
			key := driver.Partition("f").Sibling(siblings(t, d, "f")[0])
			r, err := d.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			r.Data[0] ^= 1
			put(t, d, key, r)
		},
		"header cut": func(t *testing.T, d driver.Driver, r driver.Record) {
			r.Data = r.Data[:10]
			put(t, d, head, r)
		},
		"header not JSON": func(t *testing.T, d driver.Driver, r driver.Record) {
			r.Data = []byte("{\n")
			put(t, d, head, r)
		},
		"header empty": func(t *testing.T, d driver.Driver, r driver.Record) {
			r.Data = []byte("{}\n")
			put(t, d, head, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newStore(t, inmem.Config{Limits: small})
			mustSave(t, s, core.Snapshot{FlowID: "f", State: json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(9_000)))})
			r, err := d.Get(t.Context(), head)
			if err != nil {
				t.Fatal(err)
			}
			damage(t, d, r)
			snap, err := s.LoadState(t.Context(), "f")
			if !errors.Is(err, core.ErrCorrupt) || errors.Is(err, core.ErrNotFound) || snap.State != nil {
				t.Errorf("got %s, %v", snap.State, err)
			}
		})
	}
}

func removeSibling(t *testing.T, d driver.Driver, sort string) {
	t.Helper()
	if err := d.Delete(t.Context(), driver.Partition("f").Sibling(sort), driver.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func TestANewerFormatIsUnsupported(t *testing.T) {
	s, d := newStore(t, inmem.Config{})
	put(t, d, driver.Partition("f").Head(), driver.Record{Data: []byte(`{"v":9,"epoch":"x","unknown":[]}` + "\n")})
	if _, err := s.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("load: %v", err)
	}
	if _, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: state(1)}); !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("save: %v; a newer program's state must not be overwritten", err)
	}
}

func TestAnotherProgramsHead(t *testing.T) {
	foreign := func(t *testing.T, cfg inmem.Config, state string) (*persistence.Store, *inmem.Driver) {
		t.Helper()
		s, d := newStore(t, cfg)
		put(t, d, driver.Partition("f").Head(), driver.Record{State: []byte(state), Method: "python", SavedAt: time.Unix(1, 0)})
		return s, d
	}
	t.Run("is a state without progress", func(t *testing.T) {
		s, _ := foreign(t, inmem.Config{}, `{"n":1}`)
		got := mustLoad(t, s, "f")
		if string(got.State) != `{"n":1}` || got.Progress != nil || got.Method != "python" || got.Revision.N != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("can be compared and swapped, also after a sweep gave it an epoch", func(t *testing.T) {
		s, d := foreign(t, inmem.Config{}, `{"n":1}`)
		loaded := mustLoad(t, s, "f")
		put(t, d, driver.Partition("f").Sibling("seg/dead/dead/000000"), driver.Record{Data: []byte("x")})
		if n, err := s.Sweep(t.Context(), "f"); err != nil || n != 1 {
			t.Fatalf("swept %d, %v", n, err)
		}
		if again := mustLoad(t, s, "f"); again.Revision != loaded.Revision {
			t.Errorf("a sweep changed the revision from %+v to %+v", loaded.Revision, again.Revision)
		}
		saved := mustSave(t, s, core.Snapshot{FlowID: "f", State: state(2)}, core.IfRevision(loaded.Revision))
		if saved.Revision.N != 2 {
			t.Errorf("revision %v, want 2", saved.Revision)
		}
	})
	t.Run("takes a state that needs segments", func(t *testing.T) {
		s, _ := foreign(t, inmem.Config{Limits: small}, `{"n":1}`)
		loaded := mustLoad(t, s, "f")
		big := json.RawMessage(fmt.Sprintf(`{"t":%q}`, noiseOf(9_000)))
		mustSave(t, s, core.Snapshot{FlowID: "f", State: big}, core.IfRevision(loaded.Revision))
		if got := mustLoad(t, s, "f"); !bytes.Equal(got.State, big) {
			t.Error("came back changed")
		}
	})
	t.Run("over ours drops all of ours and satisfies no old revision", func(t *testing.T) {
		s, d := newStore(t, inmem.Config{})
		ours := mustSave(t, s, core.Snapshot{FlowID: "f", State: state(1), Progress: json.RawMessage(`{"v":1}`)})
		put(t, d, driver.Partition("f").Head(), driver.Record{State: []byte(`{"n":7}`), Method: "python"})
		if got := mustLoad(t, s, "f"); got.Progress != nil || string(got.State) != `{"n":7}` {
			t.Errorf("got %+v", got)
		}
		_, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: state(2)}, core.IfRevision(ours.Revision))
		if !errors.Is(err, core.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
	})
	t.Run("that is no object is no state", func(t *testing.T) {
		s, _ := foreign(t, inmem.Config{}, `[1]`)
		if _, err := s.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		mustSave(t, s, core.Snapshot{FlowID: "f", State: state(1)}, core.IfRevision(core.Revision{}))
	})
	t.Run("that is no JSON is corrupt", func(t *testing.T) {
		for _, text := range []string{`{oops`, `{"x":NaN}`, `{"x":"\ud800"}`} {
			s, _ := foreign(t, inmem.Config{}, text)
			if _, err := s.LoadState(t.Context(), "f"); !errors.Is(err, core.ErrCorrupt) {
				t.Errorf("%s: got %v", text, err)
			}
		}
	})
}

package backends_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/firestore"
)

// firestoreScripts measures in bytes, not characters.
func firestoreScripts(t *testing.T, lab *firestoreLab) {
	for _, unit := range []string{"漢", "😀", "é", `\u0000`} {
		k := driver.Partition("f").Head()
		record := func(n int) driver.Record {
			return driver.Record{State: []byte(`{"s":"` + strings.Repeat(unit, n) + `"}`)}
		}
		low, high := 0, 1<<20+1
		for low+1 < high {
			if mid := (low + high) / 2; driver.CheckSize(lab.Driver, k, record(mid)) == nil {
				low = mid
			} else {
				high = mid
			}
		}
		for _, n := range []int{low - 1, low} {
			if _, err := lab.Put(t.Context(), k, record(n), driver.Condition{}); err != nil {
				t.Errorf("%d times %s: %v", n, unit, err)
			}
			if r, err := lab.Get(t.Context(), k); err != nil || !sameJSON(t, string(r.State), string(record(n).State)) {
				t.Errorf("%d times %s come back as %d bytes (%v)", n, unit, len(r.State), err)
			}
		}
		if _, err := lab.Put(t.Context(), k, record(low+1), driver.Condition{}); !errors.Is(err, core.ErrTooLarge) {
			t.Errorf("%d times %s: %v", low+1, unit, err)
		}
	}
}

// firestoreSizes goes in steps of one byte to where Size says that a document is full, and
// asks the emulator whether it agrees that it fits.
func firestoreSizes(t *testing.T, addr string) {
	lab := newFirestoreLab(t, addr, firestore.Config{})
	text := func(n int) driver.Record {
		return driver.Record{State: []byte(`{"s":"` + strings.Repeat("x", n) + `"}`)}
	}
	inBytes := func(n int) driver.Record {
		return driver.Record{State: []byte(`{"l":[[1]],"s":"` + strings.Repeat("x", n) + `"}`)}
	}
	many := func(n int) driver.Record {
		return driver.Record{State: []byte(`{"m":[` + strings.Repeat(`{"role":"user","n":1},`, 15000) + `{}],"s":"` + strings.Repeat("x", n) + `"}`)}
	}
	data := func(n int) driver.Record { return driver.Record{Data: make([]byte, n)} }
	expiring := func(n int) driver.Record {
		return driver.Record{Data: make([]byte, n), ExpireAt: time.Now().Add(time.Hour)}
	}
	long := driver.Partition(strings.Repeat("/", 1024))
	for name, c := range map[string]struct {
		key    driver.Key
		record func(int) driver.Record
	}{
		"fields":           {driver.Partition("f").Head(), text},
		"bytes":            {driver.Partition("f").Head(), inBytes},
		"many maps":        {driver.Partition("f").Head(), many},
		"no state":         {driver.Partition("f").Head(), data},
		"a hashed ID":      {long.Head(), expiring},
		"a sibling":        {driver.Partition("f").Sibling("a/1"), data},
		"a hashed sibling": {long.Sibling("a/1"), expiring},
	} {
		low, high := 0, 1<<20+1
		for low+1 < high {
			if mid := (low + high) / 2; driver.CheckSize(lab.Driver, c.key, c.record(mid)) == nil {
				low = mid
			} else {
				high = mid
			}
		}
		for n := low - 2; n <= low+2; n++ {
			_, err := lab.Put(t.Context(), c.key, c.record(n), driver.Condition{})
			if fits := n <= low; fits != (err == nil) || !fits && !errors.Is(err, core.ErrTooLarge) {
				t.Errorf("%s: %+d bytes from the limit: %v", name, n-low, err)
			}
		}
	}
}

// sameJSON compares texts without regard to the order of keys; 1 and 1.0 differ.
func sameJSON(t testing.TB, a, b string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{a, b} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			t.Errorf("%s: %v", text, err)
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func pyMeta(method, at string) map[string]any {
	return map[string]any{"method_name": method, "saved_at": at}
}

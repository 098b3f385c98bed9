package faulty

import (
	"bytes"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

func valueMutants() []Mutant {
	return []Mutant{
		{Name: "nul_dropped", Bug: "strings of a state lose their NUL characters", Law: "driver/law07_values", Break: stored(func(r *driver.Record) {
			r.State = bytes.ReplaceAll(r.State, []byte(`\u0000`), nil)
		})},
		{Name: "reserved_key_renamed", Bug: "a user's key that the layout uses itself is renamed", Law: "driver/law07_values", Break: stored(func(r *driver.Record) {
			r.State = bytes.ReplaceAll(r.State, []byte(`"_persistence_meta"`), []byte(`"persistence_meta"`))
		})},
		{Name: "empty_state_is_none", Bug: "the state {} is stored as no state", Law: "driver/law07_values", Break: stored(func(r *driver.Record) {
			if string(r.State) == "{}" {
				r.State = nil
			}
		})},
		{Name: "saved_at_in_milliseconds", Bug: "the time of the save loses its microseconds", Law: "driver/law07_values", Break: stored(func(r *driver.Record) {
			r.SavedAt = r.SavedAt.Truncate(time.Millisecond)
		})},
		{Name: "data_is_text", Bug: "bytes that are no UTF-8 are replaced", Law: "driver/law07_values", Break: stored(func(r *driver.Record) {
			r.Data = bytes.ToValidUTF8(r.Data, []byte("\ufffd"))
		})},
		{Name: "expiry_a_millisecond_late", Bug: "a record is there for one millisecond too long", Law: "driver/law05_expiry", Break: stored(func(r *driver.Record) {
			if !r.ExpireAt.IsZero() {
				r.ExpireAt = r.ExpireAt.Add(time.Millisecond)
			}
		})},
	}
}

package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

// sameRecord returns how got, as read, differs from want, as written under sort. Tags are
// not compared. Times are compared in the resolution that a Record promises.
func sameRecord(sort string, got, want driver.Record) error {
	if got.Sort != sort {
		return fmt.Errorf("the record says it is sort %q, it was read as %q", got.Sort, sort)
	}
	if err := sameMeta(got, want); err != nil {
		return err
	}
	if !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("data is %s, was %s", clip(got.Data), clip(want.Data))
	}
	if sort == "" && want.Data == nil && got.Data != nil {
		return fmt.Errorf("data is %s, was nil: a head without data is one of another program", clip(got.Data))
	}
	if (got.State == nil) != (want.State == nil) {
		return fmt.Errorf("state is %s, was %s: nil and a state are told apart", clipState(got.State), clipState(want.State))
	}
	if want.State == nil {
		return nil
	}
	return sameJSON(got.State, want.State)
}

// sameMeta compares what is left of a record without its payload.
func sameMeta(got, want driver.Record) error {
	if got.Method != want.Method {
		return fmt.Errorf("method is %q, was %q", got.Method, want.Method)
	}
	if err := sameTime(got.SavedAt, want.SavedAt, time.Microsecond); err != nil {
		return fmt.Errorf("SavedAt %w", err)
	}
	if err := sameTime(got.ExpireAt, want.ExpireAt, time.Millisecond); err != nil {
		return fmt.Errorf("ExpireAt %w", err)
	}
	return nil
}

// sameTime allows for rounding to the resolution, either way, and for another zone; "never"
// stays "never".
func sameTime(got, want time.Time, resolution time.Duration) error {
	if got.IsZero() != want.IsZero() {
		return fmt.Errorf("is %v, was %v: the zero time is told apart", got, want)
	}
	if diff := got.Sub(want).Abs(); diff >= resolution || want.Truncate(resolution).Equal(want) && diff != 0 {
		return fmt.Errorf("is %v, was %v", got, want)
	}
	return nil
}

func clipState(b []byte) string {
	if b == nil {
		return "nil"
	}
	return clip(b)
}

// sameJSON returns the first place where two JSON texts differ as values. Numbers must be
// exactly equal, stay integers or decimals, and keep the sign of zero; strings must have the
// same code points; the order of keys does not matter.
func sameJSON(got, want []byte) error {
	g, err := decodeJSON(got)
	if err != nil {
		return fmt.Errorf("what came back is no JSON (%w): %s", err, clip(got))
	}
	w, err := decodeJSON(want)
	if err != nil {
		return fmt.Errorf("the wanted value is no JSON: %w", err)
	}
	return sameValue("", g, w)
}

func decodeJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("more text after the value")
	}
	return v, nil
}

func sameValue(path string, got, want any) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		return sameObject(path, g, w)
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		if len(g) != len(w) {
			return fmt.Errorf("at %q: %d elements, were %d", path, len(g), len(w))
		}
		for i := range w {
			if err := sameValue(fmt.Sprintf("%s/%d", path, i), g[i], w[i]); err != nil {
				return err
			}
		}
		return nil
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(g.String(), w.String()) {
			return nil
		}
	default:
		if got == want {
			return nil
		}
	}
	return fmt.Errorf("at %q: is %s, was %s", path, clip(fmt.Appendf(nil, "%v", got)), clip(fmt.Appendf(nil, "%v", want)))
}

func sameObject(path string, got, want map[string]any) error {
	for k, w := range want {
		g, ok := got[k]
		if !ok {
			return fmt.Errorf("at %q: the key %q is gone", path, k)
		}
		if err := sameValue(path+"/"+k, g, w); err != nil {
			return err
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("at %q: the key %q was never there", path, k)
		}
	}
	return nil
}

// sameNumber compares two JSON numbers as written: 1e2 is 100.0, but 1 is not 1.0 (programs
// in other languages read another type) and -0.0 is not 0.0.
func sameNumber(a, b string) bool {
	return a == b || canonicalNumber(a) == canonicalNumber(b)
}

// canonicalNumber returns sign, kind, digits and exponent, without ever computing the value:
// 1e999999999 is a legal number.
func canonicalNumber(s string) string {
	digits, negative := strings.CutPrefix(s, "-")
	kind := "integer"
	if strings.ContainsAny(digits, ".eE") {
		kind = "decimal"
	}
	exponent := new(big.Int)
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exponent.SetString(digits[i+1:], 10)
		digits = digits[:i]
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	}
	digits = strings.TrimLeft(digits, "0")
	for strings.HasSuffix(digits, "0") {
		digits = digits[:len(digits)-1]
		exponent.Add(exponent, big.NewInt(1))
	}
	if digits == "" {
		exponent.SetInt64(0)
	}
	return fmt.Sprintf("%t %s %s e%s", negative, kind, digits, exponent)
}

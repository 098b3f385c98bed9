package firestore

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// nativeNumber returns a JSON number as an integer or double of Firestore, or false if what
// comes back would not be the same number: an integer beyond 64 bits, more digits than a
// double has, or a negative zero, of which nobody promises that it keeps its sign.
func nativeNumber(text string) (any, bool) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && text != "-0"
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f == 0 && math.Signbit(f) {
		return nil, false
	}
	given, ok := splitDecimal(text)
	kept, _ := splitDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return f, ok && given == kept
}

// decimal is a number as text without the choice of how to write it.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; "" is zero
	exponent int    // of the last digit
}

// splitDecimal takes a JSON number apart, or reports false if it is too long to matter.
func splitDecimal(text string) (decimal, bool) {
	const longest = 400 // 1e308 can be written with 309 digits
	if len(text) > longest {
		return decimal{}, false
	}
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil {
			return decimal{}, false
		}
		text, d.exponent = text[:i], n
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.exponent -= len(fraction)
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits)
	if d.digits == "" {
		d.exponent = 0
	}
	return d, true
}

// appendDouble writes a double so that it stays one: 1.0, not 1. NaN and the infinities, which
// only other programs store, are no JSON, and the Store refuses them.
func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

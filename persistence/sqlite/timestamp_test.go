package sqlite

import (
	"testing"
	"time"
)

func TestTimestampAsPythonWritesIt(t *testing.T) {
	for _, c := range []struct {
		text string
		time time.Time
	}{
		{"2026-01-02T03:04:05+00:00", time.Date(2026, 1, 2, 3, 4, 5, 999, time.UTC)},
		{"2026-01-02T03:04:05.000010+00:00", time.Date(2026, 1, 2, 3, 4, 5, 10_000, time.UTC)},
		{"2026-01-02T01:04:05.123456+00:00", time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.FixedZone("", 7200))},
		{"0001-01-01T00:00:00+00:00", time.Time{}},
	} {
		if got := formatTime(c.time); got != c.text {
			t.Errorf("formatTime(%v) = %s, want %s", c.time, got, c.text)
		}
		if got, want := parseTime(c.text), c.time.UTC().Truncate(time.Microsecond); got != want {
			t.Errorf("parseTime(%s) = %v, want %v", c.text, got, want)
		}
	}
	for text, want := range map[string]time.Time{
		"2026-01-02 03:04:05.5":            time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
		"2026-01-02T03:04:05Z":             time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05.000001+02:00": time.Date(2026, 1, 2, 1, 4, 5, 1000, time.UTC),
		"2026-01-02":                       time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"last week":                        {},
		"":                                 {},
	} {
		if got := parseTime(text); got != want {
			t.Errorf("parseTime(%q) = %v, want %v", text, got, want)
		}
	}
}

package sqlite

import (
	"strings"
	"time"
)

// formatTime writes t as Python's datetime.isoformat does in UTC: microseconds are left out
// when they are zero.
func formatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// parseTime reads what formatTime or another program wrote; a time without a zone is UTC.
// What cannot be read is the zero time: it informs people and decides nothing.
func parseTime(s string) time.Time {
	s = strings.Replace(s, " ", "T", 1)
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

// expiry returns t as it is stored: milliseconds since 1970, NULL for never.
func expiry(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// expiryTime reads what expiry wrote.
func expiryTime(v any) time.Time {
	if ms, ok := number(v); ok {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

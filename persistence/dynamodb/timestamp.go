package dynamodb

import "time"

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
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

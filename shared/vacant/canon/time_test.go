package canon_test

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"pgregory.net/rapid"
)

func TestTimesAreWrittenAsSigned(t *testing.T) {
	zone := time.FixedZone("", 5*3600+30*60)
	for _, tt := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC), "2026-05-06T00:00:00+00:00"},
		{time.Date(2026, 5, 6, 0, 0, 0, 999, time.UTC), "2026-05-06T00:00:00+00:00"},
		{time.Date(2026, 5, 6, 12, 34, 56, 789_999, time.UTC), "2026-05-06T12:34:56.000789+00:00"},
		{time.Date(2026, 5, 6, 12, 34, 56, 999_999_999, zone), "2026-05-06T07:04:56.999999+00:00"},
		{time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "1969-12-31T23:59:59.999999+00:00"},
		{time.Time{}, "0001-01-01T00:00:00+00:00"},
	} {
		if got := canon.FormatTime(tt.in); got != tt.want {
			t.Errorf("FormatTime(%s) = %s, want %s", tt.in, got, tt.want)
		}
		if got := string(canon.AppendTime([]byte("at "), tt.in)); got != "at "+tt.want {
			t.Errorf("AppendTime(%s) = %s, want at %s", tt.in, got, tt.want)
		}
	}
}

// The forms that Python documents, and forms that it accepts contrary to its documentation. The
// vectors do not contain them.
func TestFormsOfTime(t *testing.T) {
	const refused = ""
	for in, want := range map[string]string{
		"2026W19":                        "2026-05-04T00:00:00+00:00",
		"2026W193":                       "2026-05-06T00:00:00+00:00",
		"2026-W19":                       "2026-05-04T00:00:00+00:00",
		"2026-W19-3":                     "2026-05-06T00:00:00+00:00",
		"2026W19T12":                     "2026-05-04T12:00:00+00:00",
		"2026W193T12":                    "2026-05-06T12:00:00+00:00",
		"2026W19512":                     "2026-05-04T12:00:00+00:00", // even number of digits: week, separator 5, hour
		"2026W193512":                    "2026-05-06T12:00:00+00:00", // odd number of digits: week, day 3, separator 5, hour
		"2026-W19-12":                    "2026-05-04T12:00:00+00:00", // digit at index 10, so the second hyphen is the separator
		"2026-W19-3T12":                  "2026-05-06T12:00:00+00:00",
		"2020-W53-7":                     "2021-01-03T00:00:00+00:00",
		"2021-W53-1":                     refused, // 2021 has 52 weeks
		"2026-W00-1":                     refused,
		"2026-W19-0":                     refused,
		"2026-W19-8":                     refused,
		"9999-W52-5":                     "9999-12-31T00:00:00+00:00",
		"9999-W52-6":                     refused, // in the year 10000
		"0001-W01-1":                     "0001-01-01T00:00:00+00:00",
		"0000-W52-7":                     refused,
		"0000-12-31T23:00:00-02:00":      refused, // refused although the time is in year 1 in UTC
		"0001-01-01T00:30:00+00:30":      "0001-01-01T00:00:00+00:00",
		"9999-12-31T23:59:59.9999999Z":   "9999-12-31T23:59:59.999999+00:00",
		"2026-05-06T123456":              "2026-05-06T12:34:56+00:00",
		"20260506 12:34:56,25-01":        "2026-05-06T13:34:56.250000+00:00",
		"2026-05-06😀12:34":               "2026-05-06T12:34:00+00:00",
		"2026-05-06T12:34:56+00:00:00.5": "2026-05-06T12:34:55.500000+00:00",
		"2026-05-06T00:00:00-23:59:59":   "2026-05-06T23:59:59+00:00",
		"2025-02-29":                     refused,
		"2024-02-29":                     "2024-02-29T00:00:00+00:00",
		"2026-00-01":                     refused,
		"2026-01-00":                     refused,
		"2026-01-1":                      refused,
		"2026-0101":                      refused,
		"202601-01":                      refused,
		"2026-05":                        refused,
		"2026-05-06T12:34.5":             refused, // Python reads .5 of a minute as half a second
		"2026-05-06T12.5":                refused,
		"2026-05-06T12:34:56.":           refused,
		"2026-05-06T12:34:56.+00:00":     "2026-05-06T12:34:56+00:00",
		"2026-05-06T12:3456":             refused,
		"2026-05-06T1234:56":             refused,
		"2026-05-06T12:34:56.1x":         refused,
		"2026-05-06T12:34:56.1234567xZ":  refused,
		"2026-05-06T12:34:56+00:60":      refused,
		"2026-05-06T12:34:56+":           refused,
		"2026-05-06T12:34:56-":           refused,
		"2026-05-06TZ":                   refused,
		"2026-05-06T+00:00":              refused,
		"2026-05-06T12:34:56ZZ":          refused,
		"2026-05-06T12:34:56Z+00:00":     refused,
		"2026-05-06T12:34:56+00:00+":     refused,
		"2026-05-06T12:34:56\x00":        refused,
		"-026-05-06":                     refused,
		"+2026-05-06":                    refused,
		"12026-05-06":                    refused,
	} {
		got, err := canon.ParseTime(in)
		switch {
		case want == refused:
			if !problem.Is(err, problem.Malformed) {
				t.Errorf("ParseTime(%q) = %s, %v, want a refusal", in, got, err)
			}
		case err != nil || canon.FormatTime(got) != want || got.Location() != time.UTC:
			t.Errorf("ParseTime(%q) = %s, %v, want %s", in, canon.FormatTime(got), err, want)
		}
	}
}

func TestATimeReadsBackFromItsText(t *testing.T) {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(first.Unix(), last.Unix()).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
		text := canon.FormatTime(at)
		got, err := canon.ParseTime(text)
		if want := at.UTC().Truncate(time.Microsecond); err != nil || got != want {
			t.Fatalf("ParseTime(%s) = %s, %v, want %s", text, got, err, want)
		}
		const layout = "2006-01-02T15:04:05.999999-07:00"
		if std, err := time.Parse(layout, text); err != nil || !std.Equal(got) {
			t.Fatalf("time.Parse(%s) = %s, %v, want %s", text, std, err, got)
		}
	})
}

func BenchmarkParseTime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.ParseTime("2026-05-06T12:34:56.000789+00:00"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTime(b *testing.B) {
	at := time.Date(2026, 5, 6, 12, 34, 56, 789_000, time.UTC)
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		buf = canon.AppendTime(buf[:0], at)
	}
}

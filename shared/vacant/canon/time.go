package canon

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// FormatTime writes t as it is signed: UTC, "+00:00", never "Z", six digits of
// microseconds or none (PROTOCOL §3). Finer digits are cut off.
func FormatTime(t time.Time) string { return string(AppendTime(nil, t)) }

// AppendTime appends t as FormatTime writes it.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = appendDigits(dst, year, 4)
	dst = appendDigits(append(dst, '-'), int(month), 2)
	dst = appendDigits(append(dst, '-'), day, 2)
	dst = appendDigits(append(dst, 'T'), hour, 2)
	dst = appendDigits(append(dst, ':'), minute, 2)
	dst = appendDigits(append(dst, ':'), second, 2)
	if micro := t.Nanosecond() / 1000; micro != 0 {
		dst = appendDigits(append(dst, '.'), micro, 6)
	}
	return append(dst, "+00:00"...)
}

func appendDigits(dst []byte, n, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// ParseTime reads what Python 3.12's fromisoformat documents (PROTOCOL §3): a date
// in extended, basic or week form, any one character, a time of hours, minutes
// and seconds with a fraction of any length, cut to microseconds, and Z or an
// offset. No offset means UTC. The result is UTC; one outside years 1 to 9999
// is refused, since it has no signed form. So is what Python takes against its
// documentation: a fraction of an hour, offsets of 60 minutes, characters
// between fraction and offset.
func ParseTime(s string) (time.Time, error) {
	date, clock := splitTime(s)
	day, ok := parseDate(date)
	if ok && clock != "" {
		var since time.Duration
		since, ok = parseClock(clock)
		day = day.Add(since)
	}
	if !ok || day.Year() < 1 || day.Year() > 9999 {
		return time.Time{}, problem.New(problem.Malformed, "expected an ISO 8601 time of the years 1 to 9999, got %q", excerpt(s))
	}
	return day, nil
}

// splitTime cuts s at the character between date and time, which the form of
// the date tells: its length is 8 or 10, and 7 without a weekday. A separator
// with nothing behind it stays with the date, which then does not parse.
func splitTime(s string) (date, clock string) {
	if len(s) < 7 {
		return s, ""
	}
	n := 8 // YYYYMMDD, YYYY-Www
	switch {
	case s[4] == '-' && s[5] != 'W':
		n = 10 // YYYY-MM-DD
	case s[4] == '-' && len(s) > 8 && s[8] == '-' && !(len(s) > 10 && isDigit(s[10])):
		n = 10 // YYYY-Www-D; with a digit at 10 the hyphen at 8 is the separator
	case s[4] == 'W':
		// YYYYWww or YYYYWwwD. Digits of a time come in pairs, and the character
		// between may be one too: an even count from the start means the former.
		end := 7
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if end == 7 || end > 8 && end%2 == 0 {
			n = 7
		}
	}
	if len(s) <= n {
		return s, ""
	}
	_, size := utf8.DecodeRuneInString(s[n:])
	if n+size == len(s) {
		return s, ""
	}
	return s[:n], s[n+size:]
}

// parseDate reads a date in one of its forms as the start of that day.
func parseDate(s string) (time.Time, bool) {
	year, s, ok := number(s, 4)
	s, extended := strings.CutPrefix(s, "-")
	if !ok || year < 1 {
		return time.Time{}, false
	}
	if s, week := strings.CutPrefix(s, "W"); week {
		return parseWeek(year, s, extended)
	}
	month, s, ok1 := number(s, 2)
	s, ok2 := separator(s, '-', extended)
	day, s, ok3 := number(s, 2)
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	// A month or day out of range comes back as another date.
	return t, ok1 && ok2 && ok3 && s == "" && t.Day() == day && t.Month() == time.Month(month)
}

// parseWeek reads what follows the W of an ISO week date.
func parseWeek(year int, s string, extended bool) (time.Time, bool) {
	week, s, ok := number(s, 2)
	day := 1
	if s != "" {
		var ok1, ok2 bool
		s, ok1 = separator(s, '-', extended)
		day, s, ok2 = number(s, 1)
		ok = ok && ok1 && ok2
	}
	if !ok || s != "" || day < 1 || day > 7 {
		return time.Time{}, false
	}
	first := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC) // always in week 1
	toMonday := (int(first.Weekday()) + 6) % 7
	t := first.AddDate(0, 0, 7*(week-1)+day-1-toMonday)
	y, w := t.ISOWeek()
	return t, y == year && w == week && t.Year() >= 1 && t.Year() <= 9999
}

// parseClock reads a time and its offset as the time in UTC since the start of
// the day.
func parseClock(s string) (time.Duration, bool) {
	zone := ""
	if i := strings.IndexAny(s, "+-Z"); i >= 0 {
		s, zone = s[:i], s[i:]
	}
	// The reference takes a point without digits before an offset only.
	since, ok := parseHours(s, zone != "")
	if zone == "" || zone == "Z" || !ok {
		return since, ok
	}
	offset, ok := parseHours(zone[1:], false)
	if zone[0] == '+' {
		offset = -offset
	}
	return since + offset, ok && zone[0] != 'Z'
}

// parseHours reads HH, HH:MM or HH:MM:SS with a fraction, with or without the
// colons.
func parseHours(s string, openPoint bool) (time.Duration, bool) {
	hour, s, ok := number(s, 2)
	var minute, second, micro int
	var ok1, ok2 bool
	extended := strings.HasPrefix(s, ":")
	if s != "" {
		s, ok1 = separator(s, ':', extended)
		minute, s, ok2 = number(s, 2)
		ok = ok && ok1 && ok2
	}
	if s != "" {
		s, ok1 = separator(s, ':', extended)
		second, s, ok2 = number(s, 2)
		ok = ok && ok1 && ok2
	}
	if s != "" {
		micro, ok1 = parseFraction(s, openPoint)
		ok = ok && ok1
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second +
		time.Duration(micro)*time.Microsecond, ok && hour < 24 && minute < 60 && second < 60
}

// parseFraction reads a point or comma and digits as microseconds.
func parseFraction(s string, open bool) (int, bool) {
	if s[0] != '.' && s[0] != ',' || len(s) == 1 && !open {
		return 0, false
	}
	micro, weight := 0, 100_000
	for _, c := range []byte(s[1:]) {
		if !isDigit(c) {
			return 0, false
		}
		micro += int(c-'0') * weight
		weight /= 10
	}
	return micro, true
}

// number reads exactly n ASCII digits.
func number(s string, n int) (v int, rest string, ok bool) {
	if len(s) < n {
		return 0, s, false
	}
	for _, c := range []byte(s[:n]) {
		if !isDigit(c) {
			return 0, s, false
		}
		v = 10*v + int(c-'0')
	}
	return v, s[n:], true
}

// separator reads c in the extended form and nothing in the basic one.
func separator(s string, c byte, extended bool) (string, bool) {
	if !extended {
		return s, true
	}
	if s == "" || s[0] != c {
		return s, false
	}
	return s[1:], true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

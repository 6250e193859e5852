package canon

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// FormatTime formats t in its signed form (PROTOCOL §3): in UTC with the offset "+00:00", and with
// six fraction digits if the microseconds are not zero. It truncates t to microseconds.
func FormatTime(t time.Time) string { return string(AppendTime(nil, t)) }

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
	start := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := start + width - 1; i >= start; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// ParseTime parses only the ISO 8601 forms that Python 3.12 documents for fromisoformat (PROTOCOL
// §3). A time without an offset is in UTC. The result is in UTC and truncated to microseconds.
// Times outside the years 1 to 9999 are refused, because they have no signed form.
func ParseTime(s string) (time.Time, error) {
	date, timeOfDay := splitTime(s)
	day, ok := parseDate(date)
	if ok && timeOfDay != "" {
		var sinceMidnight time.Duration
		sinceMidnight, ok = parseTimeOfDay(timeOfDay)
		day = day.Add(sinceMidnight)
	}
	if !ok || day.Year() < 1 || day.Year() > 9999 {
		return time.Time{}, problem.New(problem.Malformed, "expected an ISO 8601 time of the years 1 to 9999, got %q", truncate(s))
	}
	return day, nil
}

func splitTime(s string) (date, timeOfDay string) {
	if len(s) < 7 {
		return s, ""
	}
	dateLen := 8 // YYYYMMDD, YYYY-Www
	switch {
	case s[4] == '-' && s[5] != 'W':
		dateLen = 10 // YYYY-MM-DD
	case s[4] == '-' && len(s) > 8 && s[8] == '-' && !(len(s) > 10 && isDigit(s[10])):
		dateLen = 10 // YYYY-Www-D, not YYYY-Www with the separator '-' and a time
	case s[4] == 'W':
		// YYYYWww or YYYYWwwD. The separator may be a digit, and the time has an even number of
		// leading digits. If the digits end at an even index above 8, the separator is at index 7.
		end := 7
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if end == 7 || end > 8 && end%2 == 0 {
			dateLen = 7
		}
	}
	if len(s) <= dateLen {
		return s, ""
	}
	_, size := utf8.DecodeRuneInString(s[dateLen:])
	if dateLen+size == len(s) {
		return s, ""
	}
	return s[:dateLen], s[dateLen+size:]
}

func parseDate(s string) (time.Time, bool) {
	year, s, ok := cutDigits(s, 4)
	s, extended := strings.CutPrefix(s, "-")
	if !ok || year < 1 {
		return time.Time{}, false
	}
	if s, isWeekDate := strings.CutPrefix(s, "W"); isWeekDate {
		return parseWeek(year, s, extended)
	}
	month, s, ok1 := cutDigits(s, 2)
	s, ok2 := cutSeparator(s, '-', extended)
	day, s, ok3 := cutDigits(s, 2)
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	// time.Date converts a month or day that is out of range to another date.
	return t, ok1 && ok2 && ok3 && s == "" && t.Day() == day && t.Month() == time.Month(month)
}

func parseWeek(year int, s string, extended bool) (time.Time, bool) {
	week, s, ok := cutDigits(s, 2)
	day := 1
	if s != "" {
		var ok1, ok2 bool
		s, ok1 = cutSeparator(s, '-', extended)
		day, s, ok2 = cutDigits(s, 1)
		ok = ok && ok1 && ok2
	}
	if !ok || s != "" || day < 1 || day > 7 {
		return time.Time{}, false
	}
	january4 := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC)
	daysSinceMonday := (int(january4.Weekday()) + 6) % 7
	t := january4.AddDate(0, 0, 7*(week-1)+day-1-daysSinceMonday)
	y, w := t.ISOWeek()
	return t, y == year && w == week && t.Year() >= 1 && t.Year() <= 9999
}

func parseTimeOfDay(s string) (time.Duration, bool) {
	zone := ""
	if i := strings.IndexAny(s, "+-Z"); i >= 0 {
		s, zone = s[:i], s[i:]
	}
	// Python accepts a decimal point without digits only if an offset follows.
	sinceMidnight, ok := parseClock(s, zone != "")
	if zone == "" || zone == "Z" || !ok {
		return sinceMidnight, ok
	}
	offset, ok := parseClock(zone[1:], false)
	if zone[0] == '+' {
		offset = -offset
	}
	return sinceMidnight + offset, ok && zone[0] != 'Z'
}

func parseClock(s string, allowBarePoint bool) (time.Duration, bool) {
	hour, s, ok := cutDigits(s, 2)
	var minute, second, micro int
	var ok1, ok2 bool
	extended := strings.HasPrefix(s, ":")
	if s != "" {
		s, ok1 = cutSeparator(s, ':', extended)
		minute, s, ok2 = cutDigits(s, 2)
		ok = ok && ok1 && ok2
	}
	if s != "" {
		s, ok1 = cutSeparator(s, ':', extended)
		second, s, ok2 = cutDigits(s, 2)
		ok = ok && ok1 && ok2
	}
	if s != "" {
		micro, ok1 = parseFraction(s, allowBarePoint)
		ok = ok && ok1
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second +
		time.Duration(micro)*time.Microsecond, ok && hour < 24 && minute < 60 && second < 60
}

func parseFraction(s string, allowBarePoint bool) (int, bool) {
	if s[0] != '.' && s[0] != ',' || len(s) == 1 && !allowBarePoint {
		return 0, false
	}
	micro, digitValue := 0, 100_000
	for _, c := range []byte(s[1:]) {
		if !isDigit(c) {
			return 0, false
		}
		micro += int(c-'0') * digitValue
		digitValue /= 10
	}
	return micro, true
}

func cutDigits(s string, n int) (v int, rest string, ok bool) {
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

func cutSeparator(s string, c byte, extended bool) (string, bool) {
	if !extended {
		return s, true
	}
	if s == "" || s[0] != c {
		return s, false
	}
	return s[1:], true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

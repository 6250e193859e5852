package kit

import (
	"fmt"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
)

func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Moment formats a time for people, in UTC like the days of budgets and text keys.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Plural formats a number with its noun, which ends with s for every number but 1.
func Plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}

// ShownText and MaxShownCause limit the printed characters of a message and of a failure's cause.
const (
	ShownText     = 160
	MaxShownCause = 1200
)

// LeftOutLines returns lines about the tools that are not offered to an agent: one line for each
// reason, with the change that would make the tools available.
func LeftOutLines(l call.OmittedTools) (lines []string) {
	type group struct{ reason, change string }
	var groups []group
	names := map[group][]string{}
	for _, t := range l.Tools {
		g := group{t.Reason, t.Change}
		if names[g] == nil {
			groups = append(groups, g)
		}
		names[g] = append(names[g], t.Name)
	}
	for _, g := range groups {
		lines = append(lines, Printable(Clip(fmt.Sprintf("%s: %s; change: %s", strings.Join(names[g], ", "), g.reason, g.change), 4*MaxShownCause)))
	}
	if l.More > 0 {
		lines = append(lines, Plural(l.More, "more tool"))
	}
	return lines
}

func UsageText(u *call.Usage) string {
	if u == nil {
		return ""
	}
	s := fmt.Sprintf(", %d tokens in, %d out", u.In, u.Out)
	switch {
	case u.Unreported > 0 && u.In+u.Out == 0:
		s = ", tokens not reported"
	case u.Unreported > 0:
		s += " or more"
	}
	if u.Turns > 1 {
		s += fmt.Sprintf(", %d turns", u.Turns)
	}
	if u.Tools > 0 {
		s += ", " + Plural(u.Tools, "tool call")
	}
	if u.Cost > 0 {
		s += ", " + money.Amount(u.Cost).String()
	}
	if u.UsedFallback {
		s += ", by the fallback model"
	}
	return s
}

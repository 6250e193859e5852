package kit

import (
	"fmt"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
)

func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// FormatTime formats a time for people in UTC, the time zone of budgets and text keys.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func Plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func Truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}

// MaxShownText and MaxShownCause limit the characters of a message and of a failure's cause.
const (
	MaxShownText  = 160
	MaxShownCause = 1200
)

// OmittedToolLines returns a line for each reason why tools are not offered to an agent.
func OmittedToolLines(l call.OmittedTools) (lines []string) {
	type group struct{ reason, change string }
	var groups []group
	names := map[group][]string{}
	for _, t := range l.Tools {
		g := group{t.Reason, t.Remedy}
		if names[g] == nil {
			groups = append(groups, g)
		}
		names[g] = append(names[g], t.Name)
	}
	for _, g := range groups {
		lines = append(lines, EscapeLine(Truncate(fmt.Sprintf("%s: %s; change: %s", strings.Join(names[g], ", "), g.reason, g.change), 4*MaxShownCause)))
	}
	if l.MoreTools > 0 {
		lines = append(lines, Plural(l.MoreTools, "more tool"))
	}
	return lines
}

func FormatUsage(u *call.Usage) string {
	if u == nil {
		return ""
	}
	s := fmt.Sprintf(", %d tokens in, %d out", u.InputTokens, u.OutputTokens)
	switch {
	case u.UnreportedTurns > 0 && u.InputTokens+u.OutputTokens == 0:
		s = ", tokens not reported"
	case u.UnreportedTurns > 0:
		s += " or more"
	}
	if u.Turns > 1 {
		s += fmt.Sprintf(", %d turns", u.Turns)
	}
	if u.ToolCalls > 0 {
		s += ", " + Plural(u.ToolCalls, "tool call")
	}
	if u.Cost > 0 {
		s += ", " + money.Amount(u.Cost).String()
	}
	if u.UsedFallback {
		s += ", by the fallback model"
	}
	return s
}

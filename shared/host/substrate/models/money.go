package models

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Money is an amount in micro-dollars.
type Money int64

// Dollar is one dollar. MaxBudget bounds every budget.
const (
	Dollar    Money = 1_000_000
	MaxBudget       = 1_000_000 * Dollar
)

// ParseMoney parses dollars with at most six decimals, such as 0.002.
func ParseMoney(s string) (Money, error) {
	whole, part, point := strings.Cut(s, ".")
	digits := strings.Trim(whole+part, "0123456789") == ""
	if !digits || whole == "" || len(whole) > 9 || len(part) > 6 || point && part == "" {
		return 0, problem.Invalid("dollars", "dollars with at most six decimals, such as 0.002", fmt.Sprintf("%.40q", s))
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 6-len(part)), 10, 64)
	return Money(n), err
}

// String formats the amount in dollars, such as $0.002.
func (m Money) String() string {
	if m < 0 {
		return "-" + (-m).String()
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", m/Dollar, m%Dollar), "0")
	return "$" + strings.TrimSuffix(s, ".")
}

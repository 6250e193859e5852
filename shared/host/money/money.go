// Package money is amounts of money: integers, never floats.
package money

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Amount is an amount in micro-dollars.
type Amount int64

// Dollar is one dollar.
const Dollar Amount = 1_000_000

// Max bounds every amount that somebody enters: a billion dollars, exact in a float64.
const Max = 1_000_000_000 * Dollar

// Parse parses dollars with at most six decimals, such as 0.002.
func Parse(s string) (Amount, error) {
	whole, part, point := strings.Cut(s, ".")
	digits := strings.Trim(whole+part, "0123456789") == ""
	if !digits || whole == "" || len(whole) > 9 || len(part) > 6 || point && part == "" {
		return 0, problem.Invalid("dollars", "dollars with at most six decimals, such as 0.002", fmt.Sprintf("%.40q", s))
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 6-len(part)), 10, 64)
	return Amount(n), err
}

// InJSON implements canon.Unit.
func (Amount) InJSON() string { return "an integer of micro-dollars" }

// String formats the amount in dollars, such as $0.002.
func (m Amount) String() string {
	if m < 0 {
		return "-" + (-m).String()
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", m/Dollar, m%Dollar), "0")
	return "$" + strings.TrimSuffix(s, ".")
}

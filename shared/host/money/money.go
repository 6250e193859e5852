// Package money represents amounts of money as integers, never as floats.
package money

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Amount is an amount in micro-dollars.
type Amount int64

const Dollar Amount = 1_000_000

// Max limits every amount that users enter. float64 represents it exactly.
const Max = 1_000_000_000 * Dollar

func Parse(s string) (Amount, error) {
	whole, decimals, hasPoint := strings.Cut(s, ".")
	isNumeric := strings.Trim(whole+decimals, "0123456789") == ""
	if !isNumeric || whole == "" || len(whole) > 9 || len(decimals) > 6 || hasPoint && decimals == "" {
		return 0, problem.Invalid("dollars", "dollars with at most six decimals, such as 0.002", fmt.Sprintf("%.40q", s))
	}
	n, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", 6-len(decimals)), 10, 64)
	return Amount(n), err
}

func (Amount) DescribeJSON() string { return "an integer of micro-dollars" }

func (m Amount) String() string {
	if m < 0 {
		return "-" + (-m).String()
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", m/Dollar, m%Dollar), "0")
	return "$" + strings.TrimSuffix(s, ".")
}

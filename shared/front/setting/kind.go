package setting

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/host/money"
)

type Kind struct {
	Type      string
	ValueForm string
	// ZeroMeaning describes the zero value, for example "no limit". If it is set, an operator may
	// choose the zero value instead of Default.
	ZeroMeaning string
	parse       func(text string, v *Values) (refused []string)
}

func newKind[T any](typ, valueForm string, parse func(string) (T, bool), field func(*Values) *T) Kind {
	return Kind{Type: typ, ValueForm: valueForm, parse: func(text string, v *Values) []string {
		parsed, ok := parse(text)
		if !ok {
			return []string{text}
		}
		*field(v) = parsed
		return nil
	}}
}

func stringKind(valueForm string, isValid func(string) bool, field func(*Values) *string) Kind {
	return newKind("string", valueForm, func(s string) (string, bool) { return s, isValid(s) }, field)
}

// patternMatcher compiles the pattern at each use, because Lambda functions load this table when
// they start but need no patterns.
func patternMatcher(pattern string) func(string) bool {
	return func(s string) bool { return regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(s) }
}

func wordKind(field func(*Values) *string, words ...string) Kind {
	return stringKind(strings.Join(words, " or "), func(s string) bool { return slices.Contains(words, s) }, field)
}

func boolKind(field func(*Values) *bool) Kind {
	return newKind("bool", "true or false", func(s string) (bool, bool) { return s == "true", s == "true" || s == "false" }, field)
}

func numberKind[T int | int64](lowest, highest T, field func(*Values) *T) Kind {
	return newKind("int", fmt.Sprintf("a whole number from %d to %d", lowest, highest), func(s string) (T, bool) {
		n, err := strconv.Atoi(s)
		return T(n), err == nil && T(n) >= lowest && T(n) <= highest
	}, field)
}

func dollarKind(valueForm string, isValid func(money.Amount) bool, field func(*Values) *money.Amount) Kind {
	return newKind("dollars", valueForm, func(s string) (money.Amount, bool) {
		amount, err := money.Parse(s)
		return amount, err == nil && isValid(amount)
	}, field)
}

func rateKind(unit, example string, field func(*Values) *edge.Rate) Kind {
	k := newKind("string", unit+"-per-second:burst such as "+example, edge.ParseRate, field)
	k.ZeroMeaning = "no limit"
	return k
}

// The order of a list does not matter.
func listKind(valueForm string, isValid func(string) bool, field func(*Values) *[]string) Kind {
	return Kind{Type: "string", ValueForm: valueForm, parse: func(text string, v *Values) (invalid []string) {
		var items []string
		for item := range strings.SplitSeq(text, ",") {
			switch {
			case item == "":
			case isValid(item):
				items = append(items, item)
			default:
				invalid = append(invalid, item)
			}
		}
		if invalid == nil {
			slices.Sort(items)
			*field(v) = slices.Compact(items)
		}
		return invalid
	}}
}

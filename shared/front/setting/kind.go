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

// Kind describes the values of a setting.
type Kind struct {
	Type  string // type of a flag in its help
	Value string // expected form of a value, for errors
	// None describes the zero value, for example "no limit". It is "" unless an operator may choose
	// the zero value instead of Default. The operator chooses it by an empty context value or
	// variable, or by the flag value Off.
	None string
	read func(text string, v *Values) (refused []string) // implements Setting.Read
}

func kindOf[T any](typ, value string, parse func(string) (T, bool), field func(*Values) *T) Kind {
	return Kind{Type: typ, Value: value, read: func(text string, v *Values) []string {
		is, ok := parse(text)
		if !ok {
			return []string{text}
		}
		*field(v) = is
		return nil
	}}
}

func text(value string, ok func(string) bool, field func(*Values) *string) Kind {
	return kindOf("string", value, func(s string) (string, bool) { return s, ok(s) }, field)
}

// matching returns a function that accepts strings which a pattern matches completely. The function
// compiles the pattern at each use, because Lambda functions load this table when they start but
// need no patterns.
func matching(pattern string) func(string) bool {
	return func(s string) bool { return regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(s) }
}

func word(field func(*Values) *string, words ...string) Kind {
	return text(strings.Join(words, " or "), func(s string) bool { return slices.Contains(words, s) }, field)
}

func onOff(field func(*Values) *bool) Kind {
	return kindOf("bool", "true or false", func(s string) (bool, bool) { return s == "true", s == "true" || s == "false" }, field)
}

func number[T int | int64](least, highest T, field func(*Values) *T) Kind {
	return kindOf("int", fmt.Sprintf("a whole number from %d to %d", least, highest), func(s string) (T, bool) {
		n, err := strconv.Atoi(s)
		return T(n), err == nil && T(n) >= least && T(n) <= highest
	}, field)
}

func dollars(value string, ok func(money.Amount) bool, field func(*Values) *money.Amount) Kind {
	return kindOf("dollars", value, func(s string) (money.Amount, bool) {
		is, err := money.Parse(s)
		return is, err == nil && ok(is)
	}, field)
}

func rate(unit, example string, field func(*Values) *edge.Rate) Kind {
	k := kindOf("string", unit+"-per-second:burst such as "+example, edge.ParseRate, field)
	k.None = "no limit"
	return k
}

// list returns the kind of a comma-separated list of strings that ok accepts. The order of the list
// does not matter.
func list(value string, ok func(string) bool, field func(*Values) *[]string) Kind {
	return Kind{Type: "string", Value: value, read: func(text string, v *Values) (refused []string) {
		var items []string
		for item := range strings.SplitSeq(text, ",") {
			switch {
			case item == "":
			case ok(item):
				items = append(items, item)
			default:
				refused = append(refused, item)
			}
		}
		if refused == nil {
			slices.Sort(items)
			*field(v) = slices.Compact(items)
		}
		return refused
	}}
}

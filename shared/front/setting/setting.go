// Package setting contains the table of an operator's settings of a host. The stacks, the
// functions, the commands that run a host and the documentation use the table. It does not contain
// settings of only one command or function.
package setting

import (
	"slices"
	"strings"
)

type Setting struct {
	Context  string // context value of a stage (a deployment on AWS), or ""
	Variable string // environment variable of functions, or ""
	// Functions lists functions, separated by spaces, or is EveryFunction or WithURL.
	Functions string
	Required  bool // the functions do not start without Variable
	Flag      string
	Commands  string
	// Default is the default of Context and Flag. If Variable is not set, a function uses the zero
	// value, which must mean the same as Default.
	Default    string
	DeployOnly bool // only `vacancy deploy` sets Context
	// Help is a sentence. A word in backquotes names the value in the help of Flag.
	Help string
	Kind
}

const (
	EveryFunction = "*"
	WithURL       = "URL"
)

func (s Setting) IsReadBy(function string, url bool) bool {
	switch s.Functions {
	case EveryFunction:
		return true
	case WithURL:
		return url
	}
	return slices.Contains(strings.Fields(s.Functions), function)
}

func (s Setting) HasFlag(command string) bool {
	return slices.Contains(strings.Split(s.Commands, ", "), command)
}

// OffValue is the flag value that chooses the zero value. In a context value or variable, the empty
// string chooses it.
const OffValue = "off"

func (s Setting) ExpectedValue() string {
	if s.ZeroMeaning != "" {
		return s.ValueForm + ", or nothing for " + s.ZeroMeaning
	}
	return s.ValueForm
}

func (s Setting) ExpectedFlagValue() string {
	if s.ZeroMeaning != "" {
		return s.ValueForm + ", or " + OffValue
	}
	return s.ValueForm
}

// Read parses a string and sets the setting's value in v. If parts of the string are invalid, it
// returns them and leaves v unchanged.
func (s Setting) Read(text string, v *Values) (invalid []string) { return s.parse(text, v) }

// ReadFlag is like Read, but leaves v unchanged if text is OffValue.
func (s Setting) ReadFlag(text string, v *Values) (invalid []string) {
	if s.ZeroMeaning != "" && text == OffValue {
		return nil
	}
	return s.parse(text, v)
}

type InvalidValue struct {
	Setting
	Text string
}

func ReadContext(context map[string]string) (v Values, invalid []InvalidValue) {
	for _, s := range Table() {
		if s.Context == "" {
			continue
		}
		text, isSet := context[s.Context]
		if !isSet {
			text = s.Default
		}
		if text == "" && (s.Default == "" || s.ZeroMeaning != "") {
			continue
		}
		for _, part := range s.parse(text, &v) {
			invalid = append(invalid, InvalidValue{s, part})
		}
	}
	return v, invalid
}

func Defaults() (v Values) {
	for _, s := range Table() {
		if s.Default != "" {
			s.parse(s.Default, &v)
		}
	}
	return v
}

func OperatorContexts() []string { return contextNames(func(s Setting) bool { return !s.DeployOnly }) }

func DeployContexts() []string { return contextNames(func(s Setting) bool { return s.DeployOnly }) }

func contextNames(isIncluded func(Setting) bool) (names []string) {
	for _, s := range Table() {
		if s.Context != "" && isIncluded(s) {
			names = append(names, s.Context)
		}
	}
	slices.Sort(names)
	return names
}

func Variables(function string, url bool) (names []string) {
	for _, s := range Table() {
		if s.IsReadBy(function, url) {
			names = append(names, s.Variable)
		}
	}
	return names
}

// Package setting contains the table of an operator's settings of a host. A row contains a
// setting's names, values and default, and the functions and commands that read it. The stacks, the
// functions, the commands that run a host and the documentation use the table.
//
// The package does no I/O and imports no AWS SDK. The table does not contain settings of only one
// command or function, for example the address on which a server listens or the name of a table.
package setting

import (
	"slices"
	"strings"
)

// Setting is a row of the table.
type Setting struct {
	Context  string // name of the context value of a stage (a deployment on AWS), or ""
	Variable string // environment variable of functions, or ""
	// Functions lists the functions that read Variable, separated by spaces, or is EveryFunction or
	// WithURL.
	Functions string
	Required  bool   // the functions do not start without Variable
	Flag      string // flag of Commands, or ""
	Commands  string // commands with Flag, separated by commas
	// Default is the default of Context and Flag. If Variable is not set in a function, the setting
	// has its zero value, which must mean the same as Default, or no value if Default is "".
	Default    string
	DeployOnly bool // only `vacancy deploy` sets Context
	// Help is a sentence. A word in backquotes is the name of the value in the help of Flag.
	Help string
	Kind
}

// Special values of Setting.Functions.
const (
	EveryFunction = "*"
	WithURL       = "URL" // functions with a Function URL
)

// IsReadBy reports whether a function reads s. url must be true if the function has a Function URL.
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

// OffValue is the flag value that chooses the zero value, if Kind.ZeroMeaning allows it. An empty
// context value or variable chooses the zero value.
const OffValue = "off"

// ExpectedValue returns the expected form of a context value or variable, for errors.
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

// ReadFlag parses the value of a flag as Read does. If text is OffValue, it leaves v unchanged.
func (s Setting) ReadFlag(text string, v *Values) (invalid []string) {
	if s.ZeroMeaning != "" && text == OffValue {
		return nil
	}
	return s.parse(text, v)
}

// InvalidValue is a string that is not a valid value of its setting.
type InvalidValue struct {
	Setting
	Text string
}

// ReadContext reads the context values of a stage. Missing values get their defaults.
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

// OperatorContexts returns the sorted context values that an operator may set for a stage.
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

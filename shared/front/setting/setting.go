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
	Needed    bool   // the functions do not start without Variable
	Flag      string // flag of Commands, or ""
	Commands  string // commands with Flag, separated by commas
	// Default is the default of Context and Flag. If Variable is not set in a function, the setting
	// has its zero value, which must mean Default, or no value if Default is "".
	Default  string
	ByDeploy bool // only `vacancy deploy` sets Context
	// Help is a sentence. A word in backquotes is the name of the value in the help of Flag.
	Help string
	Kind
}

// Special values of Setting.Functions.
const (
	EveryFunction = "*"
	WithURL       = "URL" // functions with a Function URL
)

// ReadBy reports whether a function reads s. url must be true if the function has a Function URL.
func (s Setting) ReadBy(function string, url bool) bool {
	switch s.Functions {
	case EveryFunction:
		return true
	case WithURL:
		return url
	}
	return slices.Contains(strings.Fields(s.Functions), function)
}

func (s Setting) FlagOf(command string) bool {
	return slices.Contains(strings.Split(s.Commands, ", "), command)
}

// Off is the flag value that chooses the zero value, if Kind.None allows it. An empty context value
// or variable chooses the zero value.
const Off = "off"

// Expects returns the expected form of a context value or variable, for errors.
func (s Setting) Expects() string {
	if s.None != "" {
		return s.Value + ", or nothing for " + s.None
	}
	return s.Value
}

func (s Setting) FlagExpects() string {
	if s.None != "" {
		return s.Value + ", or " + Off
	}
	return s.Value
}

// Read parses a string and sets the setting's value in v. If parts of the string are invalid, it
// returns them and leaves v unchanged.
func (s Setting) Read(text string, v *Values) (refused []string) { return s.read(text, v) }

// ReadFlag parses the value of a flag as Read does. If text is Off, it leaves v unchanged.
func (s Setting) ReadFlag(text string, v *Values) (refused []string) {
	if s.None != "" && text == Off {
		return nil
	}
	return s.read(text, v)
}

// InvalidValue is a string that is not a valid value of its setting.
type InvalidValue struct {
	Setting
	Text string
}

// ReadContext reads the context values of a stage. Missing values get their defaults.
func ReadContext(context map[string]string) (v Values, wrong []InvalidValue) {
	for _, s := range Table() {
		if s.Context == "" {
			continue
		}
		text, given := context[s.Context]
		if !given {
			text = s.Default
		}
		if text == "" && (s.Default == "" || s.None != "") {
			continue
		}
		for _, part := range s.read(text, &v) {
			wrong = append(wrong, InvalidValue{s, part})
		}
	}
	return v, wrong
}

func Defaults() (v Values) {
	for _, s := range Table() {
		if s.Default != "" {
			s.read(s.Default, &v)
		}
	}
	return v
}

// OperatorContexts returns the sorted context values that an operator may set for a stage.
func OperatorContexts() []string { return contexts(func(s Setting) bool { return !s.ByDeploy }) }

func SetByDeploy() []string { return contexts(func(s Setting) bool { return s.ByDeploy }) }

func contexts(isIncluded func(Setting) bool) (names []string) {
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
		if s.ReadBy(function, url) {
			names = append(names, s.Variable)
		}
	}
	return names
}

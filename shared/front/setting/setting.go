// Package setting is the table of an operator's settings of a host. A row has a setting's names, its values, its default
// and its readers. The stacks, the functions, the commands that run a host and the documentation read the table.
//
// The table is data: this package does no I/O and imports no AWS SDK. Settings of only one command or one function are
// not here, such as the address at which a server listens, or the name of a table.
package setting

import (
	"slices"
	"strings"
)

// Setting is one row of the table.
type Setting struct {
	Context   string // context value of a stage, or ""
	Variable  string // environment variable of functions, or ""
	Functions string // names of the functions that read Variable, separated by spaces; or EveryFunction or WithURL
	Needed    bool   // these functions do not start without Variable
	Flag      string // of Commands, or ""
	Commands  string // commands with Flag, separated by commas
	Default   string // of Context and of Flag. A function without Variable has the zero value, which must mean Default, or none if Default is ""
	ByDeploy  bool   // `vacancy deploy` sets Context, no operator does
	Help      string // one sentence; a word in backquotes is the value's name in the help of Flag
	Kind
}

// Values of Setting.Functions that are not names.
const (
	EveryFunction = "*"
	WithURL       = "URL" // functions with a Function URL
)

// ReadBy reports whether a function reads s. url says that the function has a Function URL.
func (s Setting) ReadBy(function string, url bool) bool {
	switch s.Functions {
	case EveryFunction:
		return true
	case WithURL:
		return url
	}
	return slices.Contains(strings.Fields(s.Functions), function)
}

// FlagOf reports whether a command has the flag of s.
func (s Setting) FlagOf(command string) bool {
	return slices.Contains(strings.Split(s.Commands, ", "), command)
}

// Off is the text by which a flag chooses the zero value, if Kind.None allows that. A context value or a variable chooses
// the zero value by an empty text.
const Off = "off"

// Expects says what a context value or a variable must be.
func (s Setting) Expects() string {
	if s.None != "" {
		return s.Value + ", or nothing for " + s.None
	}
	return s.Value
}

// FlagExpects says what a flag must be.
func (s Setting) FlagExpects() string {
	if s.None != "" {
		return s.Value + ", or " + Off
	}
	return s.Value
}

// Read parses a text and sets its value in v. It returns the refused parts of the text, and then leaves v unchanged.
func (s Setting) Read(text string, v *Values) (refused []string) { return s.read(text, v) }

// ReadFlag is Read for the text of a flag. Off leaves v unchanged.
func (s Setting) ReadFlag(text string, v *Values) (refused []string) {
	if s.None != "" && text == Off {
		return nil
	}
	return s.read(text, v)
}

// Wrong is a text that is not a value of its setting.
type Wrong struct {
	Setting
	Text string
}

// ReadContext reads the context values of a stage. Missing values have their defaults.
func ReadContext(context map[string]string) (v Values, wrong []Wrong) {
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
			wrong = append(wrong, Wrong{s, part})
		}
	}
	return v, wrong
}

// Defaults are the values of settings that nobody set.
func Defaults() (v Values) {
	for _, s := range Table() {
		if s.Default != "" {
			s.read(s.Default, &v)
		}
	}
	return v
}

// Chosen lists the context values that an operator may set for a stage, sorted.
func Chosen() []string { return contexts(func(s Setting) bool { return !s.ByDeploy }) }

// SetByDeploy lists the context values that only a deployment sets, sorted.
func SetByDeploy() []string { return contexts(func(s Setting) bool { return s.ByDeploy }) }

func contexts(of func(Setting) bool) (names []string) {
	for _, s := range Table() {
		if s.Context != "" && of(s) {
			names = append(names, s.Context)
		}
	}
	slices.Sort(names)
	return names
}

// Variables lists the variables that tell a function its settings. url says that the function has a Function URL.
func Variables(function string, url bool) (names []string) {
	for _, s := range Table() {
		if s.ReadBy(function, url) {
			names = append(names, s.Variable)
		}
	}
	return names
}

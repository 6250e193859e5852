package kit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
)

// Hinted is an error with a command that may help.
type Hinted struct {
	error
	Hint string
}

func (h *Hinted) Unwrap() error { return h.error }

// WithHint adds a hint to err. Most hints are a command, which a comma, a colon or a # may separate
// from further words. App.Hint adds the host and identity flags of this run to the commands of a
// hint that begins with a command.
func WithHint(err error, format string, args ...any) error {
	return &Hinted{err, fmt.Sprintf(format, args...)}
}

// hintCommand matches a command in a hint: the program and its words, up to punctuation before a
// space, a comment or an operator of the shell.
var hintCommand = regexp.MustCompile(`(?:^|[\s(])` + programName + `(?: (?:[,:;]*(?:[^\s'"\\,:;)<#&|]|'[^']*'|"(?:\\.|[^"\\])*"|\\.))+)+`)

func (a *App) Hint(err error) string {
	hint := certificateHint(err)
	var stuck *dispatch.StuckError
	if errors.As(err, &stuck) {
		hint = fmt.Sprintf("vacancy call %s --%s", ShellWord(stuck.Target), stuck.Remedy)
	}
	var hinted *Hinted
	if errors.As(err, &hinted) {
		hint = hinted.Hint
	}
	if a.running == nil {
		return hint
	}
	own := beginsWithCommand.MatchString(hint)
	return hintCommand.ReplaceAllStringFunc(hint, func(text string) string {
		before, line, _ := strings.Cut(text, programName+" ")
		// Find returns the root for an unknown command.
		cmd, _, _ := a.running.Root().Find(strings.Fields(line))
		if !cmd.HasParent() && !strings.HasPrefix(line, "-") {
			return text // not a command
		}
		if own && !strings.ContainsAny(line, "[]") && !strings.Contains(line, "--help") {
			line += typedFlags(a.running, cmd, line)
		}
		return before + a.Command("%s", line)
	})
}

// beginsWithCommand matches a hint that begins with a command, which is for the user of this run.
// The commands in other hints are for another person, such as the operator.
var beginsWithCommand = regexp.MustCompile(`^([A-Z_]+=\S+ |env -u \S+ )*` + programName + ` `)

// typedFlags returns the host, identity and certificate flags that the user typed for the running
// command and that the hinted command also has. It omits flags that line contains or replaces.
func typedFlags(from, to *cobra.Command, line string) (flags string) {
	has := func(name string) bool {
		return slices.ContainsFunc(strings.Fields(line), func(word string) bool {
			flag, _, _ := strings.Cut(word, "=")
			return flag == "--"+name
		})
	}
	hasHost := has("host") || has("stage") || has("data")
	for _, flag := range []struct {
		name string
		skip bool
	}{{"data", hasHost}, {"host", hasHost || strings.Contains(line, "://")}, {"stage", hasHost}, {"as", has("as")}, {caFlag, has(caFlag)}} {
		typed, targetFlag := from.Flags().Lookup(flag.name), to.Flags().Lookup(flag.name)
		if !flag.skip && typed != nil && typed.Changed && targetFlag != nil {
			flags += " --" + flag.name + " " + ShellWord(typed.Value.String())
		}
	}
	return flags
}

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

// HintedError is an error with a command that may help.
type HintedError struct {
	error
	Hint string
}

func (h *HintedError) Unwrap() error { return h.error }

// WithHint adds a hint, usually a command, to err. A remark after the command must begin with a
// comma, a colon or a #.
func WithHint(err error, format string, args ...any) error {
	return &HintedError{err, fmt.Sprintf(format, args...)}
}

var commandInHint = regexp.MustCompile(`(?:^|[\s(])` + programName + `(?: (?:[,:;]*(?:[^\s'"\\,:;)<#&|]|'[^']*'|"(?:\\.|[^"\\])*"|\\.))+)+`)

func (a *App) Hint(err error) string {
	hint := certificateHint(err)
	var stuck *dispatch.StuckError
	if errors.As(err, &stuck) {
		hint = fmt.Sprintf("vacancy call %s --%s", ShellWord(stuck.Target), stuck.Remedy)
	}
	var hinted *HintedError
	if errors.As(err, &hinted) {
		hint = hinted.Hint
	}
	if a.currentCommand == nil {
		return hint
	}
	isForUser := leadingCommand.MatchString(hint)
	return commandInHint.ReplaceAllStringFunc(hint, func(text string) string {
		prefix, words, _ := strings.Cut(text, programName+" ")
		cmd, _, _ := a.currentCommand.Root().Find(strings.Fields(words)) // the root if unknown
		if !cmd.HasParent() && !strings.HasPrefix(words, "-") {
			return text
		}
		if isForUser && !strings.ContainsAny(words, "[]") && !strings.Contains(words, "--help") {
			words += repeatTypedFlags(a.currentCommand, cmd, words)
		}
		return prefix + a.FormatCommand("%s", words)
	})
}

// leadingCommand matches a hint for the user of this run. Hints for other persons, such as the
// operator, do not begin with a command.
var leadingCommand = regexp.MustCompile(`^([A-Z_]+=\S+ |env -u \S+ )*` + programName + ` `)

// repeatTypedFlags returns the user's flags that a hinted command should repeat, such as --host.
func repeatTypedFlags(runningCmd, hintedCmd *cobra.Command, line string) (flags string) {
	hasFlag := func(name string) bool {
		return slices.ContainsFunc(strings.Fields(line), func(word string) bool {
			flag, _, _ := strings.Cut(word, "=")
			return flag == "--"+name
		})
	}
	hasHost := hasFlag("host") || hasFlag("stage") || hasFlag("data")
	for _, flag := range []struct {
		name string
		skip bool
	}{{"data", hasHost}, {"host", hasHost || strings.Contains(line, "://")}, {"stage", hasHost}, {"as", hasFlag("as")}, {caFlag, hasFlag(caFlag)}} {
		typedFlag, targetFlag := runningCmd.Flags().Lookup(flag.name), hintedCmd.Flags().Lookup(flag.name)
		if !flag.skip && typedFlag != nil && typedFlag.Changed && targetFlag != nil {
			flags += " --" + flag.name + " " + ShellWord(typedFlag.Value.String())
		}
	}
	return flags
}

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

// Hinted is an error with the command that helps.
type Hinted struct {
	error
	Hint string
}

func (h *Hinted) Unwrap() error { return h.error }

// WithHint adds a hint to err. The hint begins with a command, which may be followed by words
// after a comma, a colon or a #. Each command gets the host and the identity that the person chose.
func WithHint(err error, format string, args ...any) error {
	return &Hinted{err, fmt.Sprintf(format, args...)}
}

// Hint returns the hint of err with each command as the person types it, or "".
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
	return a.AsTyped(a.withTypedFlags(hint))
}

// withTypedFlags adds the flags of this run that choose a host and an identity to each command in
// a hint.
func (a *App) withTypedFlags(hint string) string {
	if a.running == nil || a.commands == nil || !beginsWithCommand.MatchString(hint) {
		return hint
	}
	for _, at := range slices.Backward(a.commands.FindAllStringSubmatchIndex(hint, -1)) {
		begin := at[4] // start of the subcommand
		end := begin + commandLength(hint[begin:])
		line := hint[begin:end]
		cmd, _, err := a.running.Root().Find(strings.Fields(line))
		if err != nil || strings.ContainsAny(line, "[]") || strings.Contains(line, "--help") {
			continue // line is a usage, an unknown command, or asks for help
		}
		hint = hint[:end] + typedFlags(a.running, cmd, line) + hint[end:]
	}
	return hint
}

// beginsWithCommand matches a hint for the person who ran the command. Other hints name a command
// that another person runs, such as the operator.
var beginsWithCommand = regexp.MustCompile(`^([A-Z_]+=\S+ |env -u \S+ )*` + programName + ` `)

// typedFlags returns the host, identity and certificate flags that were typed for the command from, that the command
// to has, and that are missing in line.
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
		typed, known := from.Flags().Lookup(flag.name), to.Flags().Lookup(flag.name)
		if !flag.skip && typed != nil && typed.Changed && known != nil {
			flags += " --" + flag.name + " " + ShellWord(typed.Value.String())
		}
	}
	return flags
}

// commandLength returns the length of the command at the beginning of a hint. A hint with an
// open quotation has no command.
func commandLength(hint string) int {
	quote := rune(0)
	for i, r := range hint {
		rest := hint[i:]
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case strings.HasPrefix(rest, ", "), strings.HasPrefix(rest, ": "), strings.HasPrefix(rest, "; "), strings.HasPrefix(rest, " <"), strings.HasPrefix(rest, " #"),
			strings.HasPrefix(rest, "    #"), strings.HasPrefix(rest, " &&"), strings.HasPrefix(rest, " |"), r == ')', r == '`':
			return i
		}
	}
	if quote != 0 {
		return 0
	}
	return len(hint)
}

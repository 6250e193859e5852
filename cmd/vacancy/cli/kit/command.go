package kit

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group is the commands of a package, under one title of the help.
type Group struct {
	Topic    string // "vacancy help TOPIC" shows only these commands
	Title    string
	Commands func(*App) []*cobra.Command
}

// Parent returns cmd as the parent of commands: without one of them it shows its help.
func (a *App) Parent(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = a.KnownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// Complete sets the check of arguments of commands that have none: it allows the arguments in
// the command's usage line.
func Complete(commands ...*cobra.Command) {
	for _, cmd := range commands {
		if cmd.Args == nil && cmd.Runnable() {
			least, most := argumentsOf(cmd.Use)
			cmd.Args = Arguments(least, most)
		}
		Complete(cmd.Commands()...)
	}
}

// argumentsOf returns how many arguments a usage line names: NAME is one, [NAME] one or
// none, NAME... any number more. most is -1 if any number is taken. Flags and input of the
// shell end the line.
func argumentsOf(use string) (least, most int) {
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "--") || word == "<" {
			break
		}
		many := strings.HasSuffix(strings.TrimSuffix(word, "]"), "...")
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if most++; many {
			return least, -1
		}
	}
	return least, most
}

// ofOperator are the words of usage lines that name something of the operator's own host.
var ofOperator = []string{"VACANT", "CHILD", "PARENT", "FROM", "TO", "TENANT"}

// OptionalArgument returns the only argument, or "" without one.
func OptionalArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Arguments refuses a number of arguments outside least and most (most < 0:
// unlimited) and shows the usage.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		// A URL in the place of a name on the operator's own host, or for a command without arguments, is refused:
		// the vacant may be on another host, and only the operator of that host can run the command for it.
		words := strings.Fields(cmd.Use)[1:]
		_, limit := argumentsOf(cmd.Use)
		for i, arg := range args {
			isNamed := i < len(words) && !strings.Contains(words[i], "URL") && slices.ContainsFunc(ofOperator, func(name string) bool {
				return slices.Contains(strings.Split(strings.Trim(words[i], "[]"), "|"), name)
			})
			if !IsURL(arg) || !isNamed && (limit != 0 || cmd.HasSubCommands()) {
				continue
			}
			err := problem.New(problem.Usage, "%q is a URL, and %s is a command of a host's operator, who names a vacant by its name or id", Clip(arg, 200), cmd.CommandPath())
			if strings.Contains(arg, "/v/") {
				return WithHint(err, "vacancy card %s, or another command for callers: call, snippet, receipt", ShellWord(arg))
			}
			return WithHint(err, "%s --host %s, with the key of its operator in VACANCY_OPERATOR_KEY", cmd.CommandPath(), ShellWord(arg))
		}
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		err := problem.New(problem.Usage, "too many arguments")
		switch {
		case len(args) < least:
			err = problem.New(problem.Usage, "an argument is missing")
		case most == 0:
			err = problem.New(problem.Usage, "no arguments are taken")
		}
		return WithHint(err, "%s", cmd.UseLine())
	}
}

package kit

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group contains the commands of a package, which the help lists under one title.
type Group struct {
	Topic    string // "vacancy help TOPIC" shows only these commands
	Title    string
	Commands func(*App) []*cobra.Command
}

// Parent makes cmd the parent of commands. Without a subcommand, cmd prints its help.
func (a *App) Parent(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = a.CheckCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// SetArguments sets the argument check of each command that has none. The check allows the
// arguments in the command's usage line.
func SetArguments(commands ...*cobra.Command) {
	for _, cmd := range commands {
		if cmd.Args == nil && cmd.Runnable() {
			least, maxArgs := argumentsOf(cmd.Use)
			cmd.Args = Arguments(least, maxArgs)
		}
		SetArguments(cmd.Commands()...)
	}
}

// argumentsOf returns how many arguments a usage line allows. NAME is required, [NAME] is optional,
// and NAME... may be repeated. maxArgs is -1 if there is no limit. The count ends at the first flag
// or shell redirection.
func argumentsOf(use string) (least, maxArgs int) {
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "--") || word == "<" {
			break
		}
		many := strings.HasSuffix(strings.TrimSuffix(word, "]"), "...")
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if maxArgs++; many {
			return least, -1
		}
	}
	return least, maxArgs
}

// ofOperator lists the arguments in usage lines that name objects on the operator's own host.
var ofOperator = []string{"VACANT", "CHILD", "PARENT", "FROM", "TO", "TENANT"}

func OptionalArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Arguments returns a check of the number of arguments. If maxArgs < 0, the number is unlimited.
// The error's hint is the usage line.
func Arguments(least, maxArgs int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		// Refuse a URL where the usage line expects the name of an object on the operator's own
		// host, and for commands without arguments. The URL may belong to another host, for which
		// only the operator of that host can run the command.
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
		if len(args) >= least && (maxArgs < 0 || len(args) <= maxArgs) {
			return nil
		}
		err := problem.New(problem.Usage, "too many arguments")
		switch {
		case len(args) < least:
			err = problem.New(problem.Usage, "an argument is missing")
		case maxArgs == 0:
			err = problem.New(problem.Usage, "no arguments are accepted")
		}
		return WithHint(err, "%s", cmd.UseLine())
	}
}

package kit

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group contains the commands that the help lists under one title.
type Group struct {
	Topic    string
	Title    string
	Commands func(*App) []*cobra.Command
}

func (a *App) ParentCommand(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = a.CheckSubcommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

func SetArgumentChecks(commands ...*cobra.Command) {
	for _, cmd := range commands {
		if cmd.Args == nil && cmd.Runnable() {
			minArgs, maxArgs := countArguments(cmd.Use)
			cmd.Args = ArgumentCheck(minArgs, maxArgs)
		}
		SetArgumentChecks(cmd.Commands()...)
	}
}

// countArguments returns how many arguments a usage line allows. maxArgs is -1 if there is no
// limit.
func countArguments(use string) (minArgs, maxArgs int) {
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "--") || word == "<" {
			break
		}
		isRepeated := strings.HasSuffix(strings.TrimSuffix(word, "]"), "...")
		if !strings.HasPrefix(word, "[") {
			minArgs++
		}
		if maxArgs++; isRepeated {
			return minArgs, -1
		}
	}
	return minArgs, maxArgs
}

// operatorArguments lists the arguments in usage lines that name objects on the operator's own
// host.
var operatorArguments = []string{"VACANT", "CHILD", "PARENT", "FROM", "TO", "TENANT"}

func OptionalArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// ArgumentCheck returns a check of the number of arguments. The number is unlimited if maxArgs < 0.
func ArgumentCheck(minArgs, maxArgs int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		// Refuse a URL if the command expects an object of the operator's own host. The URL may
		// belong to another operator's host.
		usageWords := strings.Fields(cmd.Use)[1:]
		_, usageMax := countArguments(cmd.Use)
		for i, arg := range args {
			isOperatorObject := i < len(usageWords) && !strings.Contains(usageWords[i], "URL") && slices.ContainsFunc(operatorArguments, func(name string) bool {
				return slices.Contains(strings.Split(strings.Trim(usageWords[i], "[]"), "|"), name)
			})
			if !IsURL(arg) || !isOperatorObject && (usageMax != 0 || cmd.HasSubCommands()) {
				continue
			}
			err := problem.New(problem.Usage, "%q is a URL, but %s is a command for the operator of a host; the operator names a vacant by its name or id", Truncate(arg, 200), cmd.CommandPath())
			if strings.Contains(arg, "/v/") {
				return WithHint(err, "vacancy card %s, or another command for callers: call, snippet, receipt", ShellWord(arg))
			}
			return WithHint(err, "%s --host %s, with the key of its operator in VACANCY_OPERATOR_KEY", cmd.CommandPath(), ShellWord(arg))
		}
		if len(args) >= minArgs && (maxArgs < 0 || len(args) <= maxArgs) {
			return nil
		}
		err := problem.New(problem.Usage, "too many arguments")
		switch {
		case len(args) < minArgs:
			err = problem.New(problem.Usage, "an argument is missing")
		case maxArgs == 0:
			err = problem.New(problem.Usage, "no arguments are accepted")
		}
		return WithHint(err, "%s", cmd.UseLine())
	}
}

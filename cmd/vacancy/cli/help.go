package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// installHelp shortens the help of root and wraps all help to the width of the terminal.
func installHelp(a *kit.App, root *cobra.Command) {
	defaultHelp := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			showHelp(a, cmd, rootHelp(root))
			return
		}
		out := cmd.OutOrStdout()
		var buf bytes.Buffer
		cmd.SetOut(&buf)
		defaultHelp(cmd, args)
		cmd.SetOut(out)
		showHelp(a, cmd, buf.String())
	})
}

// checkHelpTopics makes "help WORD" reject an unknown command or topic and suggest a similar one.
func checkHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Args, help.Run = cobra.ArbitraryArgs, nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		command, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 && command.HasSubCommands() {
			word := args[len(args)-max(len(rest), 1)]
			err := problem.New(problem.Usage, "unknown command or topic %q", kit.Truncate(word, 80))
			var names []string
			for _, c := range command.Commands() {
				names = append(names, c.Name())
			}
			path := strings.TrimPrefix(command.CommandPath(), command.Root().Name())
			if suggestion := nearest.Name(word, names); suggestion != "" {
				return kit.WithHint(err, "vacancy help%s %s", path, suggestion)
			}
			if path == "" {
				path = " all"
			}
			return kit.WithHint(err, "vacancy help%s", path)
		}
		command.InitDefaultHelpFlag()
		return command.Help()
	}
}

func rootHelp(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  vacancy [command]\n\nExamples:\n%s\n\n%s\n", root.Long, root.Example, groups[0].Title)
	for _, name := range starterCommands {
		if c, _, err := root.Find([]string{name}); err == nil {
			writeSummaryLine(&b, name, c.Short)
		}
	}
	b.WriteString("\nMore commands:\n")
	writeSummaryLine(&b, "help all", "All commands")
	for _, g := range groups {
		if g.Topic != "" {
			writeSummaryLine(&b, "help "+g.Topic, strings.TrimSuffix(g.Title, ":"))
		}
	}
	b.WriteString("\nTexts:\n")
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() {
			writeSummaryLine(&b, "help "+c.Name(), c.Short)
		}
	}
	fmt.Fprintf(&b, "\nFlags:\n%s\n\"vacancy COMMAND --help\" describes a command.\n", root.LocalFlags().FlagUsages())
	return b.String()
}

func writeSummaryLine(b *strings.Builder, name, short string) {
	fmt.Fprintf(b, "  %-20s %s\n", name, short)
}

func allTopic(a *kit.App, root *cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: "all", Short: "All commands", Hidden: true}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) { showHelp(a, cmd, root.UsageString()) })
	return topic
}

// groupTopic returns the topic "vacancy help TOPIC", which lists all commands of a group.
func groupTopic(a *kit.App, g kit.Group, root *cobra.Command, commands []*cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: g.Topic, Short: strings.TrimSuffix(g.Title, ":"), Hidden: true}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		var b strings.Builder
		fmt.Fprintln(&b, g.Title)
		for _, c := range root.Commands() {
			if c.GroupID != g.Title && !slices.Contains(commands, c) {
				continue
			}
			writeSummaryLine(&b, c.Name(), c.Short)
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					writeSummaryLine(&b, "  "+sub.Name(), sub.Short)
				}
			}
		}
		b.WriteString("\n\"vacancy COMMAND --help\" describes a command.\n")
		showHelp(a, cmd, b.String())
	})
	return topic
}

// headingPattern matches the headings in a help text.
var headingPattern = regexp.MustCompile(`(?m)^[A-Z][^.\n"]{0,40}:$`)

func showHelp(a *kit.App, cmd *cobra.Command, text string) {
	w := a.Terminal(cmd.OutOrStdout())
	text = headingPattern.ReplaceAllStringFunc(kit.WrapText(w, text), func(s string) string { return kit.Paint(w, kit.Bold, s) })
	_, _ = io.WriteString(w, text)
}

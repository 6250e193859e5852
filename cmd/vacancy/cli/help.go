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
)

// setHelp makes the help of root short, and fits all help to the terminal.
func setHelp(a *kit.App, root *cobra.Command) {
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			showHelp(a, cmd, shortHelp(root))
			return
		}
		out := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		whole(cmd, args)
		cmd.SetOut(out)
		showHelp(a, cmd, text.String())
	})
}

// shortHelp is the help of root: the commands of the first hour, and the topics of the others.
func shortHelp(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  vacancy [command]\n\nExamples:\n%s\n\n%s\n", root.Long, root.Example, groups[0].Title)
	for _, name := range first {
		if c, _, err := root.Find([]string{name}); err == nil {
			writeShort(&b, name, c.Short)
		}
	}
	b.WriteString("\nMore commands:\n")
	writeShort(&b, "help all", "All commands")
	for _, g := range groups {
		if g.Topic != "" {
			writeShort(&b, "help "+g.Topic, strings.TrimSuffix(g.Title, ":"))
		}
	}
	b.WriteString("\nTexts:\n")
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() {
			writeShort(&b, "help "+c.Name(), c.Short)
		}
	}
	fmt.Fprintf(&b, "\nFlags:\n%s\n\"vacancy COMMAND --help\" describes a command.\n", root.LocalFlags().FlagUsages())
	return b.String()
}

// writeShort writes a line of a list of commands.
func writeShort(b *strings.Builder, name, short string) {
	fmt.Fprintf(b, "  %-20s %s\n", name, short)
}

// allTopic is "vacancy help all": all commands by group.
func allTopic(a *kit.App, root *cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: "all", Short: "All commands", Hidden: true}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) { showHelp(a, cmd, root.UsageString()) })
	return topic
}

// groupTopic is "vacancy help TOPIC": all commands of one group.
func groupTopic(a *kit.App, g kit.Group, root *cobra.Command, commands []*cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: g.Topic, Short: strings.TrimSuffix(g.Title, ":"), Hidden: true}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		var b strings.Builder
		fmt.Fprintln(&b, g.Title)
		for _, c := range root.Commands() {
			if c.GroupID != g.Title && !slices.Contains(commands, c) {
				continue
			}
			writeShort(&b, c.Name(), c.Short)
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					writeShort(&b, "  "+sub.Name(), sub.Short)
				}
			}
		}
		b.WriteString("\n\"vacancy COMMAND --help\" describes a command.\n")
		showHelp(a, cmd, b.String())
	})
	return topic
}

// heading matches the headings of a help text.
var heading = regexp.MustCompile(`(?m)^[A-Z][^.\n"]{0,40}:$`)

// showHelp prints a help text: broken to the width of a terminal, with its headings painted.
func showHelp(a *kit.App, cmd *cobra.Command, text string) {
	w := a.Terminal(cmd.OutOrStdout())
	text = heading.ReplaceAllStringFunc(kit.Wrap(w, text), func(s string) string { return kit.Paint(w, kit.Bold, s) })
	_, _ = io.WriteString(w, text)
}

// Package cli is the command line of Vacancy. Each group of commands has its own package in this
// directory, and package kit contains their common parts.
package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/agpcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/awscmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/callcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/childcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/hostcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/moneycmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/startcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
)

// Seams contains the parts of the command line that programs and tests may replace.
type Seams = kit.Seams

// Run runs one command line and returns its exit code, which is one of problem.ExitCodes. env has
// the form of os.Environ. Programs set only Program and OpenCloud in s.
func Run(ctx context.Context, s Seams, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return s.Run(ctx, rootCommand, args, stdin, stdout, stderr, env)
}

func rootCommand(a *kit.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "vacancy",
		Short: "Host vacants, and call them",
		Long: `Vacancy hosts vacants. A vacant is an agent whose id is its Ed25519 key: it signs
every message, and keeps a hash chain of its messages with each caller.

Start with "vacancy dev". It runs a host on this machine, with a vacant that answers.`,
		Example: `  vacancy dev
  vacancy call demo "hello"`,
		Version:       kit.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          a.CheckSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.PrepareCommand(cmd) },
	}
	root.SetFlagErrorFunc(kit.FlagError)
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print the result as one JSON object on standard output, or the error as one JSON object on standard error")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpTemplate(helpTemplate)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title})
		commands := g.Commands(a)
		for _, c := range commands {
			c.GroupID = g.Title
			if slices.Contains(starterCommands, c.Name()) {
				c.GroupID = groups[0].Title
			} else if g.Title == groups[0].Title {
				c.GroupID = callcmd.Group.Title
			}
			root.AddCommand(c)
		}
		if g.Topic != "" {
			root.AddCommand(groupTopic(a, g, root, commands))
		}
	}
	root.AddCommand(&cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  vacancy version\n  vacancy version --json",
		RunE:    func(*cobra.Command, []string) error { return a.PrintResult(kit.BuildInfo()) },
	}, &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of a host",
		Long: `Print the OpenAPI 3.1 document of a host. It describes each operation: the bodies, answers,
errors and examples, and who may use the operation. A host serves the document at
/v1/openapi.json. If a host has no accounts, registry or gate, the operations of the missing
part answer with 404.`,
		Example: "  vacancy openapi > openapi.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(openapi.JSON)
			return err
		},
	}, exitCodesTopic(), agentContractTopic(), agentFilesTopic(), referenceTopic(root), allTopic(a, root))
	installHelp(a, root)
	checkHelpTopics(root)
	kit.SetArgumentChecks(root)
	registerCompletion(a, root)
	return root
}

// groups lists the groups of commands in the order of the help.
var groups = []kit.Group{startcmd.Group, vacantcmd.Group, childcmd.Group, moneycmd.Group, agpcmd.Group, hostcmd.Group, callcmd.Group, awscmd.Group}

// starterCommands lists the commands that a new user needs, in that order. "vacancy --help" shows
// only these commands.
var starterCommands = []string{
	"dev", "new", "watch", "call", "create", "list", "show", "logs", "update", "publish", "search", "serve", "price", "account", "doctor",
}

// helpTemplate prints the description first, and then the usage with the example.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

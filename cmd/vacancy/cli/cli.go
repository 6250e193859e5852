// Package cli is the command line of Vacancy. Each group of commands has a package
// beside it, and what the groups share is in package kit.
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
)

// Seams are the parts of the command line that programs and tests choose.
type Seams = kit.Seams

// Run runs one command line and returns its exit code (problem.Exits lists
// them). env is in the form of os.Environ. An interrupt cancels the command
// and a second one ends the process. The zero Seams are those of a program.
func Run(ctx context.Context, s Seams, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return s.Start(ctx, rootCommand, args, stdin, stdout, stderr, env)
}

func rootCommand(a *kit.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "vacancy",
		Short: "Host vacants, and call them",
		Long: `Vacancy hosts vacants: agents whose id is their Ed25519 key, who sign every
message and keep a chain of what was said with each caller.

Start with "vacancy dev": a host on this machine, with a vacant that answers.`,
		Example: `  vacancy dev
  vacancy call demo "hello"`,
		Version:       kit.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          a.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(kit.FlagError)
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print one JSON object on standard output, and an error as one on standard error")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpTemplate(helpTemplate)
	root.AddCommand(
		startcmd.DevCommand(a), startcmd.ServeCommand(a), vacantcmd.CreateCommand(a), vacantcmd.ListCommand(a), vacantcmd.ShowCommand(a), hostcmd.RestoredCommand(a), callcmd.ChainCommand(a), hostcmd.HammerCommand(a),
		hostcmd.DoctorCommand(a), hostcmd.LogsCommand(a), hostcmd.StatusCommand(a), hostcmd.BackupCommand(a), hostcmd.RestoreCommand(a), awscmd.CostCommand(a),
		callcmd.InitCommand(a), callcmd.IdCommand(a), vacantcmd.ExportCommand(a), hostcmd.VerifyCommand(a), callcmd.CallCommand(a),
		callcmd.SearchCommand(a), callcmd.RouteCommand(a), hostcmd.LogCommand(a), hostcmd.ReindexCommand(a),
		exitCodesTopic(), agentContractTopic(), agentFilesTopic(), startcmd.NewCommand(a), startcmd.WatchCommand(a), vacantcmd.AgentsCommand(a), vacantcmd.ForgetCommand(a), vacantcmd.SecretCommand(a), vacantcmd.ModelsCommand(a), vacantcmd.BudgetCommand(a),
	)
	for _, s := range vacantcmd.StateChanges() {
		root.AddCommand(vacantcmd.StateCommand(a, s))
	}
	root.AddCommand(vacantcmd.UpdateCommand(a), vacantcmd.PlainCommand(a), vacantcmd.VacantAtRootCommand(a), vacantcmd.RemoveCommand(a), vacantcmd.DeleteCommand(a), vacantcmd.PublishCommand(a), vacantcmd.UnpublishCommand(a), vacantcmd.RevokeCommand(a))
	root.AddCommand(childcmd.SpawnCommand(a), childcmd.ChildrenCommand(a), childcmd.ManifestCommand(a), childcmd.PlanCommand(a), childcmd.GraduateCommand(a), childcmd.GateCommand(a))
	root.AddCommand(moneycmd.PriceCommand(a), moneycmd.AccountCommand(a), moneycmd.KeysCommand(a), moneycmd.CreditCommand(a), moneycmd.PaymentsCommand(a), moneycmd.UsageCommand(a), moneycmd.StatementCommand(a), moneycmd.ReceiptCommand(a), agpcmd.ListingCommand(a), agpcmd.AgpCommand(a), agpcmd.BookingsCommand(a), versionCommand(a), openapiCommand(a), startcmd.A2aCommand(a), callcmd.CardCommand(a), callcmd.PeersCommand(a))
	root.AddCommand(awscmd.CloudCommands(a)...)
	group(root)
	complete(a, root)
	return root
}

// groups are the commands by task, in the order of the help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Start here:", []string{"dev", "call", "new", "create", "search", "serve", "a2a", "card"}},
	{"Vacants:", []string{"list", "show", "update", "agents", "publish", "unpublish", "plain", "root", "pause", "resume", "remove", "sink", "archive", "delete", "revoke", "export"}},
	{"Children and composites:", []string{"spawn", "children", "manifest", "plan", "graduate", "gate"}},
	{"Money:", []string{"price", "account", "keys", "credit", "payments", "usage", "statement", "receipt"}},
	{"A running host:", []string{"status", "logs", "doctor", "backup", "restore", "verify", "restored", "reindex", "log", "hammer"}},
	{"You and your calls:", []string{"init", "id", "chain", "route", "peers"}},
	{"A host on AWS:", []string{"deploy", "destroy", "tail", "invoke", "cost"}},
}

// group sorts the commands of the help into groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// helpTemplate puts the description first, then usage with the example.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

package vacantcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func showCommand(a *kit.App) *cobra.Command {
	var w kit.HostFlags
	var card, logbook bool
	var toolCaller string
	cmd := &cobra.Command{
		Use:   "show VACANT",
		Short: "Show a hosted vacant, its card or its logbook",
		Long: `Show a hosted vacant. VACANT is its name, its id or the beginning of its id. The output lists each
setting of its agent with the value, and whether it was set or is the default; --json also has the
agent's texts. Calls of today (UTC) are counted as in "vacancy usage". The host asks the agent's
MCP servers for their current tools. The output names the tools that the agent is not offered, with
the reason and the setting to change.

--tools prints the arguments and results of the agent's tools in the last calls of CALLER. The
agent's file must say "tool_log: texts". CALLER is one of your identities, a hosted vacant or an
id.

--card prints only the signed card. You may hand the card on as a file. Such a file is a TARGET for
"vacancy call".`,
		Example: `  vacancy show demo
  vacancy show demo --logbook
  vacancy show demo --tools default
  vacancy show demo --card > demo.card.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if card && logbook {
				return kit.WithHint(problem.New(problem.Usage, "--card and --logbook: not supported together"), "%s --help", cmd.CommandPath())
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				v, err := c.ShowVacant(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				r := vacantResult{Vacant: v, Handout: kit.HandoutOf(&v), hasDetails: true}
				if card && v.DeletedAt != "" {
					return problem.New(problem.Gone, "%s was deleted, and its card with it", v.Name)
				}
				if card {
					return a.Print(r.Card, func(w io.Writer) { fmt.Fprintf(w, "%s\n", r.Card) })
				}
				if r.Agent, err = fetchAgent(cmd.Context(), c, &v); err != nil {
					return err
				}
				r.Tools = fetchTools(a, cmd.Context(), c, &v)
				if toolCaller != "" {
					if r.ToolTexts, err = fetchToolTexts(a, cmd.Context(), c, &v, toolCaller); err != nil {
						return err
					}
				}
				for nextPosition := uint64(1); logbook && nextPosition > 0; {
					page, err := admin.GetLogbook.Call(cmd.Context(), c, admin.LogbookRequest{VacantRef: admin.VacantRef{Vacant: r.ID.String()}, From: nextPosition})
					if err != nil {
						return err
					}
					r.Logbook = append(r.Logbook, page.Entries...)
					nextPosition = page.Next
				}
				return a.PrintResult(r)
			})
		},
	}
	cmd.Flags().BoolVar(&card, "card", false, "print only the signed card")
	cmd.Flags().BoolVar(&logbook, "logbook", false, "also print the logbook")
	cmd.Flags().StringVar(&toolCaller, "tools", "", "also print the texts of tools in the last calls of `CALLER`")
	kit.AddHostFlags(cmd.Flags(), &w)
	return cmd
}

func fetchToolTexts(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant, caller string) (*admin.ToolTexts, error) {
	id, err := identity.ParseID(caller)
	if err != nil {
		home, err := a.IdentityDir()
		if err != nil {
			return nil, err
		}
		if self, err := home.Open(caller); err == nil {
			id = self.ID()
		} else {
			other, err := c.ShowVacant(ctx, caller)
			if err != nil {
				return nil, err
			}
			id = other.ID
		}
	}
	t, err := admin.GetToolTexts.Call(ctx, c, admin.ToolTextsRequest{VacantRef: admin.VacantRef{Vacant: v.ID.String()}, Caller: id})
	return &t, err
}

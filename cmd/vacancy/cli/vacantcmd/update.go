package vacantcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func updateCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var noCheck bool
	var agent AgentFlags
	var copiedVersion int
	var substrate, capability string
	cmd := &cobra.Command{
		Use:   "update VACANT [KEY=VALUE...]",
		Short: "Change a vacant's name, capability, substrate or agent",
		Long: `Change a hosted vacant, or make the next version of its agent.

To change the vacant, give any of name=NAME, capability=TEXT, substrate=SUBSTRATE and work=TIME.
work lets an answer take 1s to 14m; an empty TIME sets the host's. Above 25s each answer is made in
the background: callers wait, poll or retry ("vacancy help create").

To make the next version of the agent, use one of these:

  --from FILE   reads the agent from a file ("vacancy help agent-files")
  KEY=VALUE...  changes settings of the current version, such as model=NAME or max_turns=8; an empty
                VALUE sets the default
  --to N        copies version N

Versions never change. Changing the substrate resets the agent's settings to their defaults.

A new capability, or another kind of substrate, makes a new card, which the vacant signs. If the
vacant is published, the new card is published too. After a new name, the old name stays reserved:
only the tenant and the operator may use it again ("vacancy help names"). Calls that were accepted
before the change are answered by the old substrate and agent.

If somebody else changes the vacant at the same time, this command changes nothing.`,
		Example: `  vacancy update clerk substrate=http://127.0.0.1:9001/answer
  vacancy update clerk name=secretary capability="answers letters and calls"
  vacancy update clerk work=5m
  vacancy update sage model=qwen3 max_turns=8
  vacancy update sage --from agents/sage.md
  vacancy update sage --to 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("capability") {
				args = append(args, "capability="+capability)
			}
			if substrate != "" && agent.From == "" {
				args = append(args, "substrate="+substrate)
			}
			isAgentUpdate, err := areAgentSettings(args[1:])
			if err != nil {
				return err
			}
			modeCount := 0
			for _, isGiven := range []bool{agent.From != "", copiedVersion > 0, len(args) > 1} {
				if isGiven {
					modeCount++
				}
			}
			if modeCount != 1 || copiedVersion < 0 {
				return kit.WithHint(problem.New(problem.Usage, "expected one of: settings KEY=VALUE, --from FILE, --to N from 1"), "%s --help", cmd.CommandPath())
			}
			if isAgentUpdate || len(args) == 1 {
				file, err := agent.Read(substrate)
				if err != nil {
					return err
				}
				return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
					return updateAgent(a, cmd.Context(), c, args, file, copiedVersion, noCheck)
				})
			}
			u, err := parseUpdate(args[1:])
			if err != nil {
				return err
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
				return updateVacant(a, cmd.Context(), c, args[0], u, noCheck || u.Substrate == nil)
			})
		},
	}
	agent.Register(cmd.Flags())
	cmd.Flags().StringVar(&capability, "capability", "", "what the vacant can do, the same as capability=TEXT")
	cmd.Flags().StringVar(&substrate, "substrate", "", "the vacant's substrate, the same as substrate=SUBSTRATE; with --from it replaces the substrate in the file")
	cmd.Flags().IntVar(&copiedVersion, "to", 0, "the version of its agent to go back to")
	AddNoCheckFlag(cmd.Flags(), &noCheck)
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

// updateVacant changes the settings of a vacant that do not belong to its agent.
func updateVacant(a *kit.App, ctx context.Context, c *kit.AdminAPI, name string, u admin.Update, noCheck bool) error {
	before, err := c.ShowVacant(ctx, name)
	if err != nil {
		return err
	}
	u.BasedOn = &before.ChangedAt
	after, err := admin.UpdateVacant.Call(ctx, c, admin.NewVacantRequest(before.ID.String(), u))
	if err != nil {
		if u.Substrate != nil {
			err = hintMissingSecret(err, nil, *u.Substrate, before.Tenant)
		}
		return err
	}
	return a.PrintResult(vacantResult{Vacant: after, AgentCheck: CheckAgent(a, ctx, c, &after, noCheck), hasPrintedWarnings: true})
}

// updateAgent creates the next version of a vacant's agent. If copiedVersion is positive, it copies
// that version. Otherwise it uses file, or the settings in args[1:] if file is zero.
func updateAgent(a *kit.App, ctx context.Context, c *kit.AdminAPI, args []string, file agentfile.File, copiedVersion int, noCheck bool) error {
	current, err := admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: args[0]}})
	if err != nil {
		return err
	}
	next := file.Agent.Blob()
	switch {
	case copiedVersion > 0:
		source, err := admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: current.Vacant.ID.String()}, Version: admin.Version(copiedVersion)})
		if err != nil {
			return err
		}
		next = source.Agent
	case file.Name == "":
		if next, err = agentfile.ApplySettings(current.Agent, args[1:]); err != nil {
			return err
		}
	}
	after, err := admin.SetAgent.Call(ctx, c, admin.NewSetAgentRequest(&current, next))
	if err != nil {
		return hintMissingSecret(err, next, "", current.Vacant.Tenant)
	}
	PrintVersionWarnings(a, &after.Vacant, file)
	return a.PrintResult(vacantResult{Vacant: after.Vacant, Agent: newAgentResult(&after), AgentCheck: CheckAgent(a, ctx, c, &after.Vacant, noCheck), hasPrintedWarnings: true})
}

func settingKey(setting string) string {
	key, _, _ := strings.Cut(setting, "=")
	return key
}

func parseUpdate(settings []string) (u admin.Update, err error) {
	const want = "name=NAME, capability=TEXT, substrate=SUBSTRATE, work=TIME or settings of its agent"
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		target := map[string]**string{"name": &u.Name, "capability": &u.Capability, "substrate": &u.Substrate, "work": &u.CallTimeout}[key]
		switch {
		case !ok || target == nil:
			err := problem.New(problem.Usage, "expected %s, got %s", want, fmt.Sprintf("%.80q", s))
			if suggestion := nearest.Name(key, append(agentfile.SettingNames(), "name", "capability", "substrate", "work")); suggestion != "" {
				return u, kit.WithHint(err, "%s=VALUE", suggestion)
			}
			return u, err
		case *target != nil:
			return u, problem.New(problem.Usage, "%s: expected once, got it twice", key)
		}
		*target = &value
	}
	return u, nil
}

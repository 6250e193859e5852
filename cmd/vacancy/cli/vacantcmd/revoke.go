package vacantcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func revokeCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var registry, reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a vacant's key",
		Long: `Revoke the key of a vacant. Use this command if somebody else may have the key. A revocation cannot
be undone.

The revocation is the last event that the key signs. From the next request on, searches do not list
the vacant. Its calls and publications are refused, and calls to it are refused too. Its page by id
shows the revocation.`,
		Example: `  vacancy revoke scribe --reason "its backup was stolen"
  vacancy revoke alice --reason "lost laptop" --registry https://vacancy.example`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return kit.WithHint(problem.New(problem.Usage, "--reason: expected a reason, which will be public, got none"), `vacancy revoke %s --reason "TEXT"`, args[0])
			}
			if registry != "" {
				self, err := openIdentity(a, cmd.Context(), registry, args[0])
				if err != nil {
					return err
				}
				if err := confirmRevocation(a, cmd.Context(), self.Name, yes); err != nil {
					return err
				}
				r, err := self.Registry.RevokeAs(cmd.Context(), self.Key, reason, a.Rand)
				if err != nil {
					return err
				}
				return a.PrintResult(publishedResult{
					ID: self.ID(), Name: self.Name, Visibility: r.Visibility, Seq: r.Seq, CardHash: r.CardHash,
					Registry: self.Registry.URL, Unchanged: r.Replayed, Revoked: true,
				})
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
				v, err := c.ShowVacant(cmd.Context(), args[0])
				if err != nil {
					return hintLocalIdentity(a, err, "revoke", args[0])
				}
				if err := confirmRevocation(a, cmd.Context(), v.Name, yes); err != nil {
					return err
				}
				// Revoke by id, because the name may belong to another vacant by now.
				revoked, err := admin.RevokeVacant.Call(cmd.Context(), c, admin.NewVacantRequest(v.ID.String(), admin.Revocation{Reason: reason}))
				if err != nil {
					return err
				}
				r := NewPublishedResult(&revoked)
				r.Revoked = true
				return a.PrintResult(r)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is public (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	addRegistryFlag(cmd.Flags(), &registry)
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

func confirmRevocation(a *kit.App, ctx context.Context, name string, yes bool) error {
	if yes {
		return nil
	}
	err := a.AskToConfirm(ctx, fmt.Sprintf("The key of %[1]s will be refused for ever. Type its name, %[1]s, to revoke it:", name), name)
	if err != nil {
		return kit.WithHint(err, "vacancy revoke %s --reason … --yes", name)
	}
	return nil
}

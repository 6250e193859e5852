package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) updateCommand() *cobra.Command {
	var w where
	var noCheck bool
	cmd := &cobra.Command{
		Use:   "update VACANT KEY=VALUE...",
		Short: "Change a vacant's name, capability or substrate",
		Long: `Change a hosted vacant: name=NAME, capability=TEXT and substrate=SUBSTRATE, any of them.

A new capability, or another kind of substrate, makes a new card, which the vacant signs;
if it is published, the new card is published with it. A new name frees the old one. Calls
that were accepted before are answered by the old substrate. If somebody else changes the
vacant meanwhile, nothing is changed.`,
		Example: `  vacancy update clerk substrate=http:http://127.0.0.1:9001/answer
  vacancy update clerk name=secretary capability="answers letters and calls"`,
		Args: arguments(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := updateOf(args[1:])
			if err != nil {
				return err
			}
			return a.withAdmin(w, false, func(c *adminAPI) error {
				before, err := c.Show(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				u.Seen = before.Changed
				after, err := c.Update(cmd.Context(), before.ID.String(), u)
				if err != nil {
					return err
				}
				if u.Substrate == nil {
					noCheck = true
				}
				return a.show(vacantResult{Vacant: after, Failure: a.checkAgent(cmd.Context(), c, &after, noCheck)})
			})
		},
	}
	noCheckFlag(cmd.Flags(), &noCheck)
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// updateOf parses KEY=VALUE arguments.
func updateOf(settings []string) (u admin.Update, err error) {
	const want = "name=NAME, capability=TEXT or substrate=SUBSTRATE"
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		to := map[string]**string{"name": &u.Name, "capability": &u.Capability, "substrate": &u.Substrate}[key]
		switch {
		case !ok || to == nil:
			return u, problem.New(problem.Usage, "expected %s, got %s", want, fmt.Sprintf("%.80q", s))
		case *to != nil:
			return u, problem.New(problem.Usage, "%s: expected once, got it twice", key)
		}
		*to = &value
	}
	return u, nil
}

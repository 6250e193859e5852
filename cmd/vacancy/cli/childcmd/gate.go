package childcmd

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func gateCommand(a *kit.App) *cobra.Command {
	return a.Parent(&cobra.Command{
		Use:   "gate",
		Short: "Show or set the policy of the gate",
		Long: `A closed child becomes public through a gate of three checks: parent and child consent,
the parent has graduated fewer children than its limit within 24 hours, and the host's
own observations do not show that one operator runs the child and its parent or a
sibling.`,
		Example: `  vacancy gate show
  vacancy gate set --limit 5 --mode strict`,
	}, gateShowCommand(a), gateSetCommand(a))
}

const gateTenant = "the policy of a tenant, instead of the host's"

func gateShowCommand(a *kit.App) *cobra.Command {
	return kit.Operation[admin.OfTenant, admin.GatePolicy]{
		Use:     "show",
		Short:   "Show the policy of the gate",
		Example: "  vacancy gate show\n  vacancy gate show --tenant acme --json",
		Op:      admin.GetGate,
		API:     kit.TenantAPI(gateTenant),
		Request: func(q kit.Asked) (admin.OfTenant, error) { return q.OfTenant(), nil },
		Result:  func(p admin.GatePolicy) kit.Result { return gateResult{p} },
	}.Command(a)
}

func gateSetCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	var mode, detector string
	var limit int
	var threshold float64
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Set the policy of the gate",
		Long: `Set the policy of the gate, for the host or for a tenant. Values that are not given are
left unchanged. Each attempt keeps the policy under which it began.

--mode default ignores missing evidence. strict refuses when evidence is missing, and
also counts a common tenant or owner, and a substrate shared with a sibling. strict
therefore refuses every child of a composite whose plan has no combining substrate
(neither substrate nor style of such a parent is known), and every child with fewer than
50 answers. reference compares the child with its parent only, as the reference does.
--detector zeros switches the collusion check off; the host warns about it at every start.`,
		Example: `  vacancy gate set --limit 5
  vacancy gate set --mode strict --threshold 0.5
  vacancy gate set --tenant acme --limit 1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fs := cmd.Flags()
			if err := f.Check(cmd); err != nil {
				return err
			}
			if !fs.Changed("limit") && !fs.Changed("threshold") && mode == "" && detector == "" {
				return kit.WithHint(problem.New(problem.Usage, "nothing is given to set"), "vacancy gate show, or vacancy gate set --limit 5")
			}
			return a.WithAdmin(f.Where, false, func(c *kit.AdminAPI) error {
				now, err := admin.GetGate.Call(cmd.Context(), c, admin.OfTenant{Tenant: f.Tenant})
				if err != nil {
					return err
				}
				p := now.Policy
				if fs.Changed("limit") {
					p.Limit = limit
				}
				if fs.Changed("threshold") {
					p.Threshold = threshold
				}
				if mode != "" {
					p.Mode = gate.Mode(mode)
				}
				if detector != "" {
					p.Detector = detector
				}
				if err := p.Check(); err != nil {
					return err
				}
				set, err := admin.SetGate.Call(cmd.Context(), c, admin.ForTenant(f.Tenant, op.Encode(p)))
				if err != nil {
					return err
				}
				return a.Show(gateResult{set})
			})
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&limit, "limit", 0, "how many children of one parent graduate within 24 hours, at least 1")
	fs.Float64Var(&threshold, "threshold", 0, "the signal strength that refuses, from 0 to 1")
	fs.StringVar(&mode, "mode", "", "default, strict or reference")
	fs.StringVar(&detector, "detector", "", "observed, or zeros to switch the collusion check off")
	f.Add(cmd, gateTenant)
	return cmd
}

// gateResult is the policy of the gate.
type gateResult struct{ admin.GatePolicy }

// MarshalJSON marshals the whole page: the embedded policy has a MarshalJSON of its own.
func (r gateResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.GatePolicy) }

func (r gateResult) Print(w io.Writer) {
	whose := map[string]string{"tenant": "of tenant " + r.Tenant, "host": "of this host", "default": "that every host has by default"}[r.From]
	if r.Tenant != "" && r.From != "tenant" {
		fmt.Fprintf(w, "tenant %s has no policy of its own: ", kit.Printable(r.Tenant))
	}
	fmt.Fprintf(w, "graduations are judged by the policy %s\n", kit.Printable(whose))
	fmt.Fprintf(w, "  limit      %d of one parent within 24 hours\n  threshold  %g\n  mode       %s\n  detector   %s\n",
		r.Policy.Limit, r.Policy.Threshold, kit.Printable(string(r.Policy.Mode)), kit.Printable(r.Policy.Detector))
	if r.Policy.Detector == gate.ByZeros {
		fmt.Fprintln(w, "  nothing is checked for collusion")
	}
}

package childcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func gateCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "gate",
		Short: "Show or set the policy of the gate",
		Long: `A closed child becomes public if it passes the three checks of the gate:

  - Parent and child consent.
  - The parent has graduated fewer children than its limit within 24 hours.
  - The host's observations do not show that one operator runs the child and its parent or a
    sibling.`,
		Example: `  vacancy gate show
  vacancy gate set --limit 5 --mode strict`,
	},
		kit.Operation[admin.TenantRef, admin.GatePolicy]{
			Use:     "show",
			Short:   "Show the policy of the gate",
			Example: "  vacancy gate show\n  vacancy gate show --tenant acme --json",
			Op:      admin.GetGate,
			API:     kit.NewTenantAPI(gateTenantUsage),
			Request: func(q kit.Request) (admin.TenantRef, error) { return q.TenantRef(), nil },
			Print:   printGate,
		}.Command(a),
		gateSetCommand(a),
	)
}

const gateTenantUsage = "the policy of a tenant, instead of the host's"

func gateSetCommand(a *kit.App) *cobra.Command {
	var mode, detector string
	var limit int
	var threshold float64
	var request kit.Request
	return kit.Operation[admin.TenantRef, admin.GatePolicy]{
		Use:   "set",
		Short: "Set the policy of the gate",
		Long: `Set the policy of the gate, for the host or for a tenant. Values that are not
given stay unchanged. An attempt uses the policy with which it began.

--mode default ignores missing evidence. --mode strict refuses a child if evidence is missing. It also
uses as evidence a common tenant or owner, and a substrate shared with a sibling. It therefore refuses
every child with fewer than 50 answers. It also refuses every child of a composite whose plan has no
combining substrate, because the substrate and the style of such a parent are unknown. --mode
reference compares the child only with its parent, as the reference does.

--detector zeros switches the collusion check off. The host warns about this at every start.`,
		Example: `  vacancy gate set --limit 5
  vacancy gate set --mode strict --threshold 0.5
  vacancy gate set --tenant acme --limit 1`,
		API: kit.NewTenantAPI(gateTenantUsage),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.IntVar(&limit, "limit", 0, "how many children of one parent may graduate within 24 hours, at least 1")
			fs.Float64Var(&threshold, "threshold", 0, "the signal strength at which the gate refuses a child, from 0 to 1")
			fs.StringVar(&mode, "mode", "", "default, strict or reference")
			fs.StringVar(&detector, "detector", "", "observed, or zeros to switch the collusion check off")
		},
		Request: func(q kit.Request) (admin.TenantRef, error) {
			request = q
			if !q.Changed("limit") && !q.Changed("threshold") && mode == "" && detector == "" {
				return q.TenantRef(), kit.WithHint(problem.New(problem.Usage, "expected a value to set, for example --limit 5, got none"), "vacancy gate show, or vacancy gate set --limit 5")
			}
			return q.TenantRef(), nil
		},
		Op: kit.CallerFunc[admin.TenantRef, admin.GatePolicy](func(ctx context.Context, c op.Client, in admin.TenantRef) (admin.GatePolicy, error) {
			current, err := admin.GetGate.Call(ctx, c, in)
			if err != nil {
				return current, err
			}
			p := current.Policy
			if request.Changed("limit") {
				p.DailyLimit = limit
			}
			if request.Changed("threshold") {
				p.Threshold = threshold
			}
			p.Mode, p.Detector = cmp.Or(gate.Mode(mode), p.Mode), cmp.Or(detector, p.Detector)
			if err := p.Check(); err != nil {
				return current, err
			}
			return admin.SetGate.Call(ctx, c, admin.NewTenantRequest(in.Tenant, op.EncodeRaw(p)))
		}),
		Print: printGate,
	}.Command(a)
}

func printGate(w io.Writer, r admin.GatePolicy) {
	policyOwner := map[string]string{"tenant": "of tenant " + r.Tenant, "host": "of this host", "default": "that applies by default"}[r.Source]
	if r.Tenant != "" && r.Source != "tenant" {
		fmt.Fprintf(w, "tenant %s has no policy of its own: ", kit.EscapeLine(r.Tenant))
	}
	fmt.Fprintf(w, "graduations are judged by the policy %s\n", kit.EscapeLine(policyOwner))
	kit.PrintFields(w, "limit", fmt.Sprintf("%d of one parent within 24 hours", r.Policy.DailyLimit), "threshold", r.Policy.Threshold, "mode", r.Policy.Mode, "detector", r.Policy.Detector)
	if r.Policy.Detector == gate.DetectorZeros {
		fmt.Fprintln(w, "  the collusion check is switched off")
	}
}

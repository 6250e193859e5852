package hostcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func doctorCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var simulate bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the host on this machine, or a stage on AWS and the tools to deploy one",
		Long: `Check the host in a data directory: who can read it, the disk, whether the host answers
at its public URL, its certificate, and its vacants' agents, which are asked one question
each.

With --host aws it checks what a deployment needs (tools, credentials, Region, clock,
bootstrap, quotas) and the state of a stage: its stacks, the settings of its tables,
versions, the edge, the host's answers, the operator key, the host's keys, what agents need
(secrets, models at Bedrock), the subscription to alarms by mail, and whether a row was
changed by hand.

With --simulate it also asks AWS's policy simulator whether the roles of this release allow
each call that their functions make, and deny others. This takes a minute or two, needs
iam:SimulateCustomPolicy and no stage, and deploys nothing.

Each check prints one line: ok, warn, FAIL, or n/a if it does not apply; checks that do
not apply for the same reason share a line. A warning or failure comes with its cause
and the command that fixes it. Doctor changes nothing.

It runs every check and exits with 1 if one says FAIL.`,
		Example: `  vacancy doctor
  vacancy doctor --data /srv/vacancy
  vacancy doctor --host aws --stage prod --json
  vacancy doctor --host aws --simulate`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := examine(a, cmd.Context(), w, simulate)
			if err != nil {
				return err
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := a.Show(r); err != nil || r.OK {
				return err
			}
			return &kit.Reported{}
		},
	}
	kit.MachineFlags(cmd.Flags(), &w)
	kit.CAFlag(cmd.Flags())
	cmd.Flags().BoolVar(&simulate, "simulate", false, "ask AWS's policy simulator about the roles of the functions")
	return cmd
}

func examine(a *kit.App, ctx context.Context, w kit.Where, simulate bool) (doctorResult, error) {
	onAWS, err := w.IsAWS(a)
	if err != nil {
		return doctorResult{}, err
	}
	if !onAWS && simulate {
		return doctorResult{}, kit.WithHint(problem.New(problem.Usage, "--simulate: not supported without --host aws"), "%s", a.CommandLineWith("--host", kit.HostAWS))
	}
	if !onAWS {
		l, err := localFacts(a, ctx, w.Data)
		return doctorResult{doctor.ExamineLocal(l)}, err
	}
	if err := a.NeedAWS(); err != nil {
		return doctorResult{}, err
	}
	rec, err := a.RecordOrName(w.Stage)
	if err != nil {
		return doctorResult{}, err
	}
	return doctorResult{doctor.Examine(facts(a, ctx, rec, simulate))}, nil
}

// visitTime limits the time for a host's answer.
const visitTime = 20 * time.Second

func facts(a *kit.App, ctx context.Context, rec stage.Record, simulate bool) doctor.Facts {
	var f doctor.Facts
	c, err := a.OpenCloud(ctx, "")
	if err != nil && rec.Region != "" {
		c, err = a.OpenCloud(ctx, rec.Region)
	}
	if err != nil {
		f = cloud.CannotRead(rec.Stage, err)
	} else {
		f = c.Examine(ctx, rec.Stage, a.Now)
		if simulate && f.Account.Trouble == doctor.NoTrouble {
			f.Roles = c.Simulate(ctx)
		}
	}
	chosen := findSettings(f, rec)
	f.Version, f.Region = kit.BuiltOf(), rec.Region
	_ = f.Want(chosen, cmp.Or(rec.Region, f.Account.Region)) // the next deploy reports invalid values
	f.Tools = doctor.Tools(ctx, doctor.Run)
	web := a.WebClient(visitTime)
	defer web.CloseIdleConnections()
	urls := endpoints(a, f, rec)
	f.Visit = doctor.Look(ctx, web, urls, a.Rand)
	if f.Visit.HasOperatorAccess() {
		operated := &admin.Client{HTTP: a.KeyedClient(stage.Key(urls.Key)), URL: urls.Admin}
		f.Models, f.Issuers = doctor.LookModels(ctx, operated), reachIssuers(a, ctx, operated)
		f.Models.Unknown, f.Models.Mock = chosen == nil, chosen["mock"] == "true"
		f.Models.Granted = strings.FieldsFunc(chosen["bedrockModels"], func(r rune) bool { return r == ',' })
	}
	return f
}

// endpoints returns the URLs of a stage's host from its stacks, or from the record if the stacks
// are unknown. It omits the operator's key if the connection to the admin API would not be
// encrypted.
func endpoints(a *kit.App, f doctor.Facts, rec stage.Record) doctor.URLs {
	d := doctor.URLs{URL: rec.URL, Admin: rec.AdminURL, Key: string(rec.OperatorKey)}
	if key := a.Env["VACANCY_OPERATOR_KEY"]; key != "" {
		d.Key = key
	}
	d.Raw = map[string]string{}
	outputs := f.Stacks["functions"].Outputs
	for _, function := range functions.All() {
		if rawURL := outputs[function.URLOutput()]; rawURL != "" {
			d.Raw[function.Name] = strings.TrimRight(rawURL, "/")
		}
	}
	// If the stacks are unknown, Edge is false, because the URLs of the functions are unknown too.
	d.Edge = outputs["EdgeSecret"] != ""
	public := strings.TrimRight(f.Stacks["edge"].Outputs["Url"], "/")
	d.URL = strings.TrimRight(cmp.Or(public, d.URL), "/")
	d.Registry, d.Search = cmp.Or(public, d.Raw["registry"], rec.RegistryURL), cmp.Or(public, d.Raw["search"], rec.SearchURL)
	d.Graduate, d.Gateway = cmp.Or(public, d.Raw["graduate"], rec.GraduateURL), cmp.Or(public, d.Raw["gateway"], rec.GatewayURL)
	d.Admin = cmp.Or(d.Admin, public, d.Raw["admin"])
	if u, err := url.Parse(d.Admin); err != nil || kit.IsUnencrypted(u) {
		d.Key = ""
	}
	return d
}

// findSettings returns the settings that a stage stores. For a stage of an earlier release, it
// returns the settings in the record. If both are missing, it returns nil.
func findSettings(f doctor.Facts, rec stage.Record) map[string]string {
	for _, stack := range []string{"functions", "data"} {
		if stored, err := setting.ParseStored(f.Stacks[stack].Outputs[setting.StoredOutput]); err == nil {
			return stored
		}
	}
	return rec.Context
}

type doctorResult struct{ doctor.Report }

func (r doctorResult) Print(w io.Writer) {
	if r.Data != "" {
		fmt.Fprintf(w, "the host in %s\n", kit.Printable(r.Data))
	} else {
		fmt.Fprintf(w, "stage %s\n", r.Stage)
	}
	alike := map[string]int{} // checks that do not apply, grouped by reason
	for _, c := range r.Checks {
		if c.Verdict == doctor.NotApplicable {
			alike[c.Detail]++
		}
	}
	for _, c := range r.Checks {
		verdict, name := string(c.Verdict), c.Name
		if c.Verdict == doctor.NotApplicable {
			n := alike[c.Detail]
			if n == 0 {
				continue
			}
			if verdict = "n/a"; n > 1 {
				name = fmt.Sprintf("%s and %d more", name, n-1)
			}
			alike[c.Detail] = 0
		}
		shade := map[doctor.Verdict]kit.Shade{doctor.OK: kit.Good, doctor.Warn: kit.Caution, doctor.Fail: kit.Bad, doctor.NotApplicable: kit.Dim}[c.Verdict]
		fmt.Fprintf(w, "  %s  %-25s %s\n", kit.Paint(w, shade, fmt.Sprintf("%-4s", verdict)), name, kit.Printable(c.Detail))
		if c.Fix != "" {
			fmt.Fprintf(w, "        %-25s %s %s\n", "", kit.Paint(w, kit.Bold, "fix:"), kit.Printable(c.Fix))
		}
	}
	n := r.Count(doctor.Warn)
	warned := kit.FormatIf(n > 0, ", %s", kit.Plural(n, "warning"))
	if r.OK {
		fmt.Fprintf(w, "%s%s\n", kit.Verdict(w, true, "all checks passed"), warned)
		return
	}
	fmt.Fprintf(w, "%s%s\n", kit.Verdict(w, false, fmt.Sprintf("%d failed", r.Count(doctor.Fail))), warned)
}

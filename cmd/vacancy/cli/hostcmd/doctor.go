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
	var where kit.HostFlags
	var simulate bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the host on this machine, or a stage on AWS and the tools to deploy one",
		Long: `Check the host in a data directory: who can read its files, the disk, the answer at its public URL,
its certificate, and the agents of its vacants. The command asks each agent one question.

With --host aws it checks what a deployment needs (tools, credentials, Region, clock,
bootstrap, quotas) and the state of a stage: its stacks, the settings of its tables,
versions, the edge, the host's answers, the operator key, the host's keys, what agents need
(secrets, models at Bedrock), the subscription to alarms by mail, and whether a row was
changed by hand.

--simulate also asks the AWS policy simulator about the roles of this release. The roles must allow
each call that their functions make, and deny other calls. This takes a minute or two and needs the
permission iam:SimulateCustomPolicy. It needs no stage and deploys nothing.

Each check prints one line with ok, warn, FAIL or n/a (not applicable). Checks that do not apply for
the same reason share a line. A warning or failure has its cause and the command that fixes it. Doctor
changes nothing.

Doctor runs all checks, and exits with 1 if a check fails.`,
		Example: `  vacancy doctor
  vacancy doctor --data /srv/vacancy
  vacancy doctor --host aws --stage prod --json
  vacancy doctor --host aws --simulate`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := examineHost(a, cmd.Context(), where, simulate)
			if err != nil {
				return err
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := a.PrintResult(r); err != nil || r.OK {
				return err
			}
			return &kit.ReportedError{}
		},
	}
	kit.AddMachineFlags(cmd.Flags(), &where)
	kit.AddCAFlag(cmd.Flags())
	cmd.Flags().BoolVar(&simulate, "simulate", false, "ask AWS's policy simulator about the roles of the functions")
	return cmd
}

func examineHost(a *kit.App, ctx context.Context, where kit.HostFlags, simulate bool) (doctorResult, error) {
	onAWS, err := where.IsAWS(a)
	if err != nil {
		return doctorResult{}, err
	}
	if !onAWS && simulate {
		return doctorResult{}, kit.WithHint(problem.New(problem.Usage, "--simulate: not supported without --host aws"), "%s", a.CommandLineWithFlag("--host", kit.HostAWS))
	}
	if !onAWS {
		local, err := collectLocalFacts(a, ctx, where.Data)
		return doctorResult{doctor.ExamineLocal(local)}, err
	}
	if err := a.RequireAWS(); err != nil {
		return doctorResult{}, err
	}
	rec, err := a.FindStageRecord(where.Stage)
	if err != nil {
		return doctorResult{}, err
	}
	return doctorResult{doctor.Examine(collectStageFacts(a, ctx, rec, simulate))}, nil
}

const answerTimeout = 20 * time.Second

func collectStageFacts(a *kit.App, ctx context.Context, rec stage.Record, simulate bool) doctor.Facts {
	var stageFacts doctor.Facts
	cloudAccount, err := a.OpenCloud(ctx, "")
	if err != nil && rec.Region != "" {
		cloudAccount, err = a.OpenCloud(ctx, rec.Region)
	}
	if err != nil {
		stageFacts = cloud.FactsFromOpenError(rec.Stage, err)
	} else {
		stageFacts = cloudAccount.CollectFacts(ctx, rec.Stage, a.Now)
		if simulate && stageFacts.Account.CredentialProblem == doctor.CredentialsOK {
			stageFacts.Roles = cloudAccount.SimulatePolicies(ctx)
		}
	}
	settings := findSettings(stageFacts, rec)
	stageFacts.Version, stageFacts.Region = kit.BuildID(), rec.Region
	_ = stageFacts.SetContext(settings, cmp.Or(rec.Region, stageFacts.Account.Region)) // the next deploy reports invalid values
	stageFacts.Tools = doctor.FindTools(ctx, doctor.RunProgram)
	client := a.HTTPClient(answerTimeout)
	defer client.CloseIdleConnections()
	urls := stageURLs(a, stageFacts, rec)
	stageFacts.HostAnswers = doctor.AskHost(ctx, client, urls, a.Rand)
	if stageFacts.HostAnswers.HasOperatorAccess() {
		adminClient := &admin.Client{HTTP: a.KeyedClient(stage.Key(urls.OperatorKey)), URL: urls.Admin}
		stageFacts.Models, stageFacts.Issuers = doctor.ReadModels(ctx, adminClient), collectIssuers(a, ctx, adminClient)
		stageFacts.Models.ContextUnknown, stageFacts.Models.MockAllowed = settings == nil, settings["mock"] == "true"
		stageFacts.Models.BedrockModels = strings.FieldsFunc(settings["bedrockModels"], func(r rune) bool { return r == ',' })
	}
	return stageFacts
}

// stageURLs returns the URLs of a stage from its stacks, or from the record if the stacks are
// unknown. It omits the operator's key if the connection would not be encrypted.
func stageURLs(a *kit.App, f doctor.Facts, rec stage.Record) doctor.URLs {
	urls := doctor.URLs{Public: rec.URL, Admin: rec.AdminURL, OperatorKey: string(rec.OperatorKey)}
	if key := a.Env["VACANCY_OPERATOR_KEY"]; key != "" {
		urls.OperatorKey = key
	}
	urls.FunctionURLs = map[string]string{}
	outputs := f.Stacks["functions"].Outputs
	for _, function := range functions.All() {
		if rawURL := outputs[function.URLOutput()]; rawURL != "" {
			urls.FunctionURLs[function.Name] = strings.TrimRight(rawURL, "/")
		}
	}
	// Edge is false if the stacks are unknown, because the check of the edge needs their outputs.
	urls.Edge = outputs["EdgeSecret"] != ""
	publicURL := strings.TrimRight(f.Stacks["edge"].Outputs["Url"], "/")
	urls.Public = strings.TrimRight(cmp.Or(publicURL, urls.Public), "/")
	urls.Registry, urls.Search = cmp.Or(publicURL, urls.FunctionURLs["registry"], rec.RegistryURL), cmp.Or(publicURL, urls.FunctionURLs["search"], rec.SearchURL)
	urls.Graduate, urls.Gateway = cmp.Or(publicURL, urls.FunctionURLs["graduate"], rec.GraduateURL), cmp.Or(publicURL, urls.FunctionURLs["gateway"], rec.GatewayURL)
	urls.Admin = cmp.Or(urls.Admin, publicURL, urls.FunctionURLs["admin"])
	if u, err := url.Parse(urls.Admin); err != nil || kit.IsInsecureURL(u) {
		urls.OperatorKey = ""
	}
	return urls
}

// findSettings returns the settings that a stage stores, or nil. A stage of an earlier release has
// its settings in the record.
func findSettings(f doctor.Facts, rec stage.Record) map[string]string {
	for _, stack := range []string{"functions", "data"} {
		if settings, err := setting.ParseStored(f.Stacks[stack].Outputs[setting.StoredOutput]); err == nil {
			return settings
		}
	}
	return rec.Context
}

type doctorResult struct{ doctor.Report }

func (r doctorResult) Print(w io.Writer) {
	if r.Data != "" {
		fmt.Fprintf(w, "the host in %s\n", kit.EscapeLine(r.Data))
	} else {
		fmt.Fprintf(w, "stage %s\n", r.Stage)
	}
	sameReason := map[string]int{} // keyed by reason
	for _, c := range r.Checks {
		if c.Verdict == doctor.NotApplicable {
			sameReason[c.Detail]++
		}
	}
	for _, c := range r.Checks {
		verdict, name := string(c.Verdict), c.Name
		if c.Verdict == doctor.NotApplicable {
			n := sameReason[c.Detail]
			if n == 0 {
				continue
			}
			if verdict = "n/a"; n > 1 {
				name = fmt.Sprintf("%s and %d more", name, n-1)
			}
			sameReason[c.Detail] = 0
		}
		shade := map[doctor.Verdict]kit.Shade{doctor.OK: kit.Good, doctor.Warn: kit.Caution, doctor.Fail: kit.Bad, doctor.NotApplicable: kit.Dim}[c.Verdict]
		fmt.Fprintf(w, "  %s  %-25s %s\n", kit.Paint(w, shade, fmt.Sprintf("%-4s", verdict)), name, kit.EscapeLine(c.Detail))
		if c.Fix != "" {
			fmt.Fprintf(w, "        %-25s %s %s\n", "", kit.Paint(w, kit.Bold, "fix:"), kit.EscapeLine(c.Fix))
		}
	}
	n := r.Count(doctor.Warn)
	warnings := kit.FormatIf(n > 0, ", %s", kit.Plural(n, "warning"))
	if r.OK {
		fmt.Fprintf(w, "%s%s\n", kit.PaintVerdict(w, true, "all checks passed"), warnings)
		return
	}
	fmt.Fprintf(w, "%s%s\n", kit.PaintVerdict(w, false, fmt.Sprintf("%d failed", r.Count(doctor.Fail))), warnings)
}

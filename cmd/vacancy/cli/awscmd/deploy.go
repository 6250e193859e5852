// Package awscmd implements the commands for a host on AWS: deploy, destroy, tail, invoke, cost,
// and the operator's key of a stage. A stage is one deployment of a host, such as dev or prod.
package awscmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

var Group = kit.Group{
	Topic: "aws",
	Title: "A host on AWS:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			deployCommand(a), destroyCommand(a), tailCommand(a), invokeCommand(a), costCommand(a),
		}
	},
}

type deployFlags struct {
	stage, email                    string
	noEdge, bootstrap, skipQuestion bool
	plan                            bool
	contextPairs                    []string
}

func deployCommand(a *kit.App) *cobra.Command {
	var f deployFlags
	cmd := &cobra.Command{
		Use:   "deploy",
		Short: "Deploy a host to AWS, from a checkout of the project",
		Long: `Build the functions, show what would change in your AWS account, ask, and deploy the stacks of
a stage. Then create the operator key if the host has none, and call the new host. The command
needs Go, Node 22 or newer with npm, and AWS credentials that may deploy.

With --plan the command shows what it would create, the settings and the costs. This needs no
AWS account. It creates nothing and sends nothing.

Before the command creates anything, it checks the account: the CDK's bootstrap, the quota of
concurrent executions, the resource types and the kind of host key that the Region supports,
and the mail address for alarms. A new account often has a quota of 10, which is too small. In
this case, --context reserve=false deploys without reservations. CloudFront refuses accounts
that AWS has not verified. In this case, --no-edge deploys without CloudFront, and --context
edge=true adds it later.

The command refuses a template that would replace or delete a table, a key or the bucket. It
also upgrades the documents of an earlier release. The stage is paused during the upgrade, and
the command says for how long.

--context sets a context value of cdk.json, for example domain, certificate, budget or keep.
The stage stores the values of your flags. A later deploy uses them, also from another
machine.`,
		Example: `  vacancy deploy --plan
  vacancy deploy
  vacancy deploy --stage prod --email ops@example.org --context budget=50
  vacancy deploy --stage try --no-edge --context keep=false --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error { return deploy(a, cmd.Context(), f) },
	}
	fs := cmd.Flags()
	kit.AddStageFlag(fs, &f.stage)
	fs.StringVar(&f.email, "email", "", "mail address for alarms and warnings about the budget (the first deploy asks for it)")
	fs.BoolVar(&f.noEdge, "no-edge", false, "deploy without CloudFront; the Function URL is public")
	fs.BoolVar(&f.bootstrap, "bootstrap", false, "create the CDK bootstrap in the account and Region without asking, if it is missing")
	fs.StringArrayVar(&f.contextPairs, "context", nil, "a context value, as NAME=VALUE; may be repeated")
	fs.BoolVar(&f.plan, "plan", false, "show what would be created, the settings and the costs; create nothing")
	fs.BoolVar(&f.skipQuestion, "yes", false, "do not ask for confirmation")
	return cmd
}

// deployment is the state of one run of deploy.
type deployment struct {
	*kit.App
	flags       deployFlags
	checkoutDir string
	cdk         *cdk.CLI
	cloud       cloud.Cloud
	rec         stage.Record // Context has the values of this run
	// storedSettings is nil if the stage is not deployed, or if an earlier release did not store
	// its settings.
	storedSettings map[string]string

	regionalContext map[string]string
	accountWarnings []doctor.Check
}

func (f deployFlags) contextOverrides() (map[string]string, error) {
	// The stacks validate the values.
	overrides := map[string]string{}
	for _, kv := range f.contextPairs {
		name, value, ok := strings.Cut(kv, "=")
		names := strings.Join(setting.OperatorContexts(), ", ")
		switch {
		case !ok || name == "":
			return nil, &problem.Error{Kind: problem.Usage, Field: "--context", Want: "NAME=VALUE with one of " + names, Got: fmt.Sprintf("%.40q", kv)}
		case name == "stage":
			return nil, kit.WithHint(problem.New(problem.Usage, "--context stage is set by deploy itself; expected one of %s", names), "--stage %s", kit.EscapeLine(value))
		case slices.Contains(setting.DeployContexts(), name):
			return nil, problem.New(problem.Usage, "--context %s is set by deploy itself; expected one of %s", name, names)
		case !slices.Contains(setting.OperatorContexts(), name):
			err := error(&problem.Error{Kind: problem.Usage, Field: "--context", Want: "one of " + names, Got: fmt.Sprintf("%.40q", name)})
			if suggestion := nearest.Name(name, setting.OperatorContexts()); suggestion != "" {
				err = kit.WithHint(err, "--context %s", kit.ShellWord(suggestion+"="+value))
			}
			return nil, err
		}
		overrides[name] = value
	}
	if f.noEdge {
		overrides["edge"] = "false"
	}
	if f.email != "" {
		overrides["email"] = f.email
	}
	return overrides, nil
}

func deploy(a *kit.App, ctx context.Context, f deployFlags) error {
	if _, err := f.contextOverrides(); err != nil {
		return err
	}
	name, err := a.StageName(f.stage)
	if err != nil {
		return err
	}
	d := &deployment{App: a, flags: f}
	if d.checkoutDir, err = a.FindCheckout(); err != nil {
		return err
	}
	if f.plan {
		return d.showPlan(ctx, name)
	}
	// These checks precede the builds and installs, which take a minute.
	if err := a.CheckRegion(name); err != nil {
		return err
	}
	if err := a.RequireAWS(); err != nil {
		return err
	}
	if d.rec, d.cloud, err = a.OpenStage(ctx, name); err != nil { // also checks the credentials
		return err
	}
	if err := checkGo(); err != nil {
		return err
	}
	tools, err := cache.Dir(func(name string) string { return a.Env[name] })
	if err != nil {
		return err
	}
	progress := io.Discard
	if !a.JSON {
		progress = a.Err
	}
	if d.cdk, err = cdk.Install(ctx, tools, progress); err != nil {
		return err
	}
	if err := d.awaitIdle(ctx); err != nil { // a running deploy may change the settings
		return err
	}
	if err := d.chooseSettings(ctx); err != nil {
		return err
	}
	if err := d.checkAccount(ctx); err != nil {
		return err
	}
	if err := d.ensureBootstrap(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "vacancy-deploy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	u, err := d.planUpgrade(ctx)
	if err != nil {
		return err
	}
	changes, err := d.rollOut(ctx, dir, &u)
	if err != nil {
		return err
	}
	if err := u.upgradeDocuments(ctx); err != nil {
		return err
	}
	return d.setUpHost(ctx, changes)
}

func checkGo() error {
	if _, err := exec.LookPath("go"); err != nil {
		return problem.Wrap(problem.NotFound, err, "go was not found, but it is needed to build the functions: install Go from https://go.dev/dl and add it to PATH")
	}
	return nil
}

// ensureBootstrap creates CDK's bootstrap stack if it is missing. The stack belongs to the account
// and not to this project, so its creation needs a confirmation or a flag.
func (d *deployment) ensureBootstrap(ctx context.Context) error {
	s, err := d.cloud.Stack(ctx, "CDKToolkit")
	if err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	if s.IsDeployed() {
		return nil
	}
	target := "aws://" + d.rec.Account + "/" + d.rec.Region
	if !d.flags.bootstrap {
		missingErr := problem.New(problem.Conflict, "account %s has no CDK bootstrap in Region %s", d.rec.Account, d.rec.Region)
		withHint := func(err error) error { return kit.WithHint(err, "vacancy deploy --stage %s --bootstrap", d.rec.Stage) }
		if d.flags.skipQuestion {
			return withHint(missingErr)
		}
		d.PrintNote("CDK needs a bucket for uploads and roles for deployments. They are created once per account and Region, in the stack CDKToolkit.\n%s.", missingErr.Text())
		if err := d.AskToConfirm(ctx, "Create it? Type yes:", "yes"); err != nil {
			return withHint(err)
		}
	}
	// In a directory with cdk.json, the CDK would build the stacks first.
	dir, err := os.MkdirTemp("", "vacancy-bootstrap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return d.runCDK(ctx, dir, []string{"CDKToolkit"}, "bootstrap", target)
}

// awaitIdle waits until CloudFormation has finished an earlier deploy.
func (d *deployment) awaitIdle(ctx context.Context) error {
	for _, name := range kit.StackNames(d.rec.Stage) {
		s, err := d.cloud.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if s.IsBusy() {
			d.PrintNote("%s is %s: waiting for an earlier deploy to end", name, s.Status)
			watch, err := d.cloud.WatchStacks(ctx, s.ID)
			if err != nil {
				return err
			}
			if s, _, err = cloud.AwaitStack(ctx, d.cloud, watch, s.ID, func(e cloud.Event) { printEvent(d.App, e) }); err != nil {
				return err
			}
		}
		if remedy := stuckHint(s); remedy != "" {
			return kit.WithHint(problem.New(problem.Conflict, "%s is %s, which prevents a deployment", name, s.Status), "%s", remedy)
		}
	}
	return nil
}

// stuckHint returns the remedy for a stack in a state that no deployment can leave, or "".
func stuckHint(s cloud.Stack) string {
	switch s.Status {
	case "UPDATE_ROLLBACK_FAILED":
		return "aws cloudformation continue-update-rollback --stack-name " + s.Name
	case "DELETE_FAILED", "ROLLBACK_FAILED":
		return "aws cloudformation delete-stack --stack-name " + s.Name + " (resources with the policy Retain stay)"
	}
	return ""
}

func (d *deployment) environ() []string {
	env := maps.Clone(d.Env)
	// The CDK must not get the operator's key.
	delete(env, "VACANCY_OPERATOR_KEY")
	env["AWS_REGION"] = d.rec.Region
	if env["AWS_ENDPOINT_URL"] != "" && env["AWS_ENDPOINT_URL_S3"] == "" {
		env["AWS_ENDPOINT_URL_S3"] = env["AWS_ENDPOINT_URL"]
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

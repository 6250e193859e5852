// Package stacks defines the host on AWS as CDK constructs: the stacks data, watch, functions and
// edge, in the order of deployment.
//
// The stacks have no custom resources, because a custom resource would run a third party's
// function. This package lists the rights of every role, and does not use the grant methods of the
// CDK. Resources of two stages never have the same name. Templates contain the secret of
// the edge (CloudFront) only as a reference that CloudFormation resolves.
package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/vacancy-host/vacancy/infra/settings"
)

type Input struct {
	Settings settings.Settings
	Region   string
	Version  string
	ZipPath  func(string) string
}

// Stacks contains the stacks of a stage. Edge may be nil.
type Stacks struct {
	Data, Watch, Functions, Edge awscdk.Stack
}

// NewApp returns an app without traces, tree and metrics, so that its synthesis is reproducible.
// If dir is "", the CDK's command line chooses the output directory.
func NewApp(dir string) awscdk.App {
	props := &awscdk.AppProps{
		AnalyticsReporting: jsii.Bool(false), PerformanceReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false), StackTraces: jsii.Bool(false),
		// Strong references prevent the removal of values that another stack imports. This protects
		// the tables in particular.
		PostCliContext: &map[string]any{"@aws-cdk/core:defaultCrossStackReferences": "strong"},
	}
	if dir != "" {
		props.Outdir = str(dir)
	}
	return awscdk.NewApp(props)
}

func New(app constructs.Construct, in Input) Stacks {
	data := newDataStack(app, in)
	watch := newWatchStack(app, in, data)
	functions := newFunctionStack(app, in, data)
	functions.stack.AddDependency(watch, str("its functions write into the log groups of watch"))
	out := Stacks{Data: data.stack, Watch: watch, Functions: functions.stack}
	if in.Settings.HasEdge {
		out.Edge = newEdgeStack(app, in, functions)
	}
	return out
}

func newStack(app constructs.Construct, in Input, name, description string) awscdk.Stack {
	s := awscdk.NewStack(app, str(in.Settings.ResourceName(name)), &awscdk.StackProps{
		Description: str(description),
		// Table encryption must know the Region.
		Env:  &awscdk.Environment{Region: str(in.Region)},
		Tags: &map[string]*string{"vacancy-stage": str(in.Settings.Stage)},
	})
	addOutput(s, "Version", str(in.Version), "the checkout that was deployed")
	return s
}

func addOutput(s awscdk.Stack, name string, value *string, description string) {
	// The CDK refuses an output that has the name of a resource, for example Rows.
	o := awscdk.NewCfnOutput(s, str("Output"+name), &awscdk.CfnOutputProps{Value: value, Description: str(description)})
	o.OverrideLogicalId(str(name))
}

const storedOutputDescription = "settings other than the defaults, with which the next deployment begins"

func setLogicalID(c constructs.Construct, id string) {
	c.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(str(id))
}

func removalPolicy(s settings.Settings) awscdk.RemovalPolicy {
	if s.RetainData {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

// emptyRemovalPolicy returns a policy that deletes keys and bucket if a first deployment fails,
// because they contain no data yet and a key costs a dollar a month.
func emptyRemovalPolicy(s settings.Settings) awscdk.RemovalPolicy {
	if s.RetainData {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}

func suppressRule(c constructs.Construct, rule, reason string) {
	cdknag.NagSuppressions_AddResourceSuppressions(c, &[]*cdknag.NagPackSuppression{{Id: str(rule), Reason: str(reason)}}, jsii.Bool(true))
}

func str(s string) *string        { return jsii.String(s) }
func num(n int) *float64          { return jsii.Number(n) }
func yes() *bool                  { return jsii.Bool(true) }
func flag(b bool) *bool           { return jsii.Bool(b) }
func strs(s ...string) *[]*string { return jsii.Strings(s...) }

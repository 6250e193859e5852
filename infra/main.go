// Command infra is the CDK app of a host on AWS, which cdk.json runs. It reads the context values
// that package setting lists, builds the functions and assembles the stacks.
//
// Functions recognise the edge (CloudFront) by a secret. During a rotation, functions accept the
// versions edgeSecretVersion and edgeSecretBefore.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/jsii-runtime-go"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/infra/stacks"
	"github.com/vacancy-host/vacancy/infra/stored"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() {
	plan := flag.Bool("plan", false, "write templates for display only, without building the functions")
	flag.Parse()
	if err := run(context.Background(), *plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plan bool) (err error) {
	defer jsii.Close()
	defer func() {
		if cause := recover(); cause != nil { // the CDK panics if a construct is wrong
			err = fmt.Errorf("%v", cause)
		}
	}()
	app := stacks.NewApp("")
	contextValues, _ := app.Node().GetAllContext(nil).(map[string]any)
	// The CDK has the same default Region.
	region := cmp.Or(os.Getenv("CDK_DEFAULT_REGION"), os.Getenv("AWS_REGION"), "us-east-1")
	stageSettings, err := settings.Read(contextValues, region)
	if err != nil {
		return err
	}
	if err := stageSettings.CheckRegion(region); err != nil {
		return err
	}
	if err := stored.Check(ctx, stageSettings, region, os.Getenv("CDK_DEFAULT_ACCOUNT"), awscloud.Open, os.Stderr); err != nil {
		return err
	}
	checkoutDir, err := bundle.FindCheckout(".")
	if err != nil {
		return err
	}
	zipDir, err := os.MkdirTemp("", "vacancy-zips-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(zipDir)) }()
	zipPath := func(name string) string { return filepath.Join(zipDir, name+".zip") }
	if plan {
		placeholder := filepath.Join(zipDir, "plan.zip")
		if err := os.WriteFile(placeholder, []byte("plan"), 0o600); err != nil {
			return err
		}
		zipPath = func(string) string { return placeholder }
	} else if err := bundle.BuildFunctions(ctx, checkoutDir, stageSettings.Arch, functions.Names(), zipDir, os.Environ()); err != nil {
		return err
	}
	stacks.New(app, stacks.Input{
		Settings: stageSettings, Region: region, Version: checkoutVersion(ctx, checkoutDir), ZipPath: zipPath,
	})
	app.Synth(nil)
	return nil
}

func checkoutVersion(ctx context.Context, checkoutDir string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	cmd.Dir = checkoutDir
	out, err := cmd.Output()
	if err != nil {
		return "unknown" // a copy without git history
	}
	return string(bytes.TrimSpace(out))
}

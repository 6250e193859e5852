// Command infra is the CDK app of a host on AWS. cdk.json runs it; nobody
// imports it. It reads what the operator chose, builds the functions and puts
// the stacks together: data, watch, functions, edge.
//
// What can be chosen, by `cdk deploy -c NAME=VALUE` or in cdk.json, which holds
// the defaults:
//
//	stage          part of every name; several stages live side by side
//	arch           arm64 or amd64: what the functions run on
//	edge           true: CloudFront before the functions
//	domain         host name of the edge; needs certificate
//	certificate    ARN of the domain's certificate, in us-east-1
//	waf            true: a web ACL before the edge, in us-east-1
//	concurrency    instances reserved for message; 0 reserves none at all
//	readCeiling    read units a second of docs; rows have three fifths, the
//	               index a fifth; registry and search take half at most
//	writeCeiling   write units a second of rows; docs have two fifths, the
//	               index a fifth
//	rate           requests of an address, tokens-per-second:burst; empty: any
//	pairRate       of these, ones that open a pair
//	email          whom alarms and the budget write to
//	budget         USD a day of the account above which mail is sent
//	keep           true: data outlives its stack, tables refuse deletion
//	indexSeconds   from a change of a registration to a new search index
//	hostKey        kms, or software where KMS has no Ed25519
//	dashboard      true: a CloudWatch dashboard
//	retentionDays  of logs
//
// edgeSecretVersion and edgeSecretBefore are for `vacancy deploy`: the versions
// of the edge's secret that are sent, and still accepted.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/jsii-runtime-go"

	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/infra/stacks"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	defer jsii.Close()
	defer func() {
		if cause := recover(); cause != nil { // how the CDK says that a construct is wrong
			err = fmt.Errorf("%v", cause)
		}
	}()
	app := stacks.NewApp("")
	given, _ := app.Node().GetAllContext(nil).(map[string]any)
	chosen, err := settings.Read(given)
	if err != nil {
		return err
	}
	region := cmp.Or(os.Getenv("CDK_DEFAULT_REGION"), os.Getenv("AWS_REGION"), "us-east-1") // the CDK's own fallback
	if err := chosen.InRegion(region); err != nil {
		return err
	}
	top, err := bundle.Top(".")
	if err != nil {
		return err
	}
	zips, err := os.MkdirTemp("", "vacancy-zips-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(zips)) }()
	if err := bundle.Functions(ctx, top, chosen.Arch, stacks.Names(), zips, os.Environ()); err != nil {
		return err
	}
	stacks.New(app, stacks.Input{
		Settings: chosen, Region: region, Version: version(ctx, top),
		Zip: func(name string) string { return filepath.Join(zips, name+".zip") },
	})
	app.Synth(nil)
	return nil
}

// version names the checkout: its tag or commit, and whether it was changed.
func version(ctx context.Context, top string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		return "unknown" // a copy without its history
	}
	return string(bytes.TrimSpace(out))
}

// Package cdk is the command line of AWS's CDK as this project uses it: one
// pinned version, installed once by npm into the cache directory and run from a
// checkout, without telemetry and without notices.
//
// The invariant: what runs is the package whose digest stands in
// package-lock.json, never another one that happens to be on the machine.
package cdk

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"
)

// Version is the release of npm's aws-cdk that Install lays down.
const Version = "2.1126.0"

// CLI is an installed command line.
type CLI struct {
	node   string // Node's program
	script string // CDK's entry point
}

// quiet turns off what the command line does besides its work: telemetry, a
// look at npm for a newer release, and warnings among its output: Node's, and
// those of the app's runtime about the CDK's own parts and the age of Node.
var quiet = []string{
	"CDK_DISABLE_CLI_TELEMETRY=true", "CDK_DISABLE_VERSION_CHECK=true", "NODE_NO_WARNINGS=1",
	"JSII_DEPRECATED=quiet", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20",
}

// Command is a run of `cdk ARGS` in dir, a checkout's top. env is its whole
// environment but for the variables that keep CDK quiet; it needs PATH with Go
// in it and, for a server other than AWS, AWS_ENDPOINT_URL and
// AWS_ENDPOINT_URL_S3. When ctx ends the run is interrupted, so that CDK ends
// the app it started, and killed ten seconds later.
func (c *CLI) Command(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.node, slices.Concat([]string{c.script, "--no-notices"}, args)...)
	cmd.Dir, cmd.Env = dir, slices.Concat(env, quiet)
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil { // Windows knows no interrupt
			return cmd.Process.Kill()
		}
		return nil
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

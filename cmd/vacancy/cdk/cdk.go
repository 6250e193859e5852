// Package cdk runs the CDK's command line. One pinned version is installed by npm into the cache
// directory and run from a checkout, without telemetry and notices.
//
// Only the package whose digest is in package-lock.json runs, never another version on the machine.
package cdk

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"
)

// Version is the release of the npm package aws-cdk that Install installs.
const Version = "2.1126.0"

type CLI struct {
	node   string // path of Node
	script string // entry point of the CDK
}

// quietEnv disables telemetry, the check for a newer release, and warnings about CDK's own parts
// and the age of Node.
var quietEnv = []string{
	"CDK_DISABLE_CLI_TELEMETRY=true", "CDK_DISABLE_VERSION_CHECK=true", "NODE_NO_WARNINGS=1",
	"JSII_DEPRECATED=quiet", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20",
}

// Command returns the command `cdk ARGS` in dir, the top of a checkout. env is its environment, to
// which quietEnv is added. env must contain a PATH with Go. For a server other than AWS, it must
// also contain AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3. When ctx ends, the command is interrupted,
// so that CDK stops the app that it started. If the command still runs ten seconds later, it is
// killed.
func (c *CLI) Command(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.node, slices.Concat([]string{c.script, "--no-notices"}, args)...)
	cmd.Dir, cmd.Env = dir, slices.Concat(env, quietEnv)
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil { // Windows has no interrupt signal
			return cmd.Process.Kill()
		}
		return nil
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

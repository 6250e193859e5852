// Package cdk installs and runs one pinned version of the CDK's command line. Only the package
// whose digest is in package-lock.json runs.
package cdk

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"time"
)

const Version = "2.1126.0"

type CLI struct {
	node   string
	script string
}

var quietEnv = []string{
	"CDK_DISABLE_CLI_TELEMETRY=true", "CDK_DISABLE_VERSION_CHECK=true", "NODE_NO_WARNINGS=1",
	"JSII_DEPRECATED=quiet", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20",
}

// Command returns the command `cdk ARGS` for a checkout. env must contain a PATH with Go. If ctx
// ends, the command is interrupted, and is killed ten seconds later.
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

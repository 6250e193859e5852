package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// deploy deploys a stage to the local server with the command `vacancy deploy`. contextArgs contains
// the flags --context, which override the defaults of local stages.
func (l laptop) deploy(ctx context.Context, name string, contextArgs []string) error {
	// The name is checked before slow steps.
	if err := stage.CheckName(name); err != nil {
		return err
	}
	s, err := l.runningServer(ctx)
	if err != nil {
		return err
	}
	startTime := time.Now()
	if err := l.bootstrap(ctx, s); err != nil {
		return err
	}
	args := append([]string{"deploy", "--stage", name, "--yes", "--no-edge", "--context", "keep=false", "--context", "arch=" + runtime.GOARCH}, contextArgs...)
	if err := l.runVacancy(ctx, s, args...); err != nil {
		return errors.Join(err, l.restartIfStuck(ctx, s, name))
	}
	url, err := hostURL(ctx, s, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(l.out, "\nstage %s is up after %.0f s. To call it:\n  export VACANCY_HOME=%s VACANCY_HOST=%s\n  go run ./cmd/vacancy help\n",
		name, time.Since(startTime).Seconds(), operatorHome(s), strings.TrimSuffix(url, "/"))
	fmt.Fprintf(l.out, "For commands that read AWS directly (--host aws), also:\n  export %s\n", strings.Join(s.Env(), " "))
	return nil
}

// operatorHome returns the directory with the records and keys of local stages. Stopping the server
// removes it. Stages on AWS have another directory.
func operatorHome(s *server.Server) string { return filepath.Join(s.Dir, "operator") }

func commandEnv(s *server.Server) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "VACANCY_HOST=") || strings.HasPrefix(v, "VACANCY_STAGE=")
	})
	return slices.Concat(env, s.Env(), []string{"VACANCY_HOME=" + operatorHome(s)})
}

func (l laptop) runVacancy(ctx context.Context, s *server.Server, args ...string) error {
	program := filepath.Join(s.Dir, "vacancy")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/vacancy-aws")
	build.Dir = l.checkoutDir
	if out, err := build.CombinedOutput(); err != nil {
		return problem.Wrap(problem.Internal, err, "the command was not built: %s", out)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.checkoutDir, commandEnv(s), l.out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	var exitErr *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	case errors.As(err, &exitErr): // the command has printed the cause
		return problem.New(problem.Internal, "the deployment failed; the cause is above")
	}
	return err
}

func (l laptop) bootstrap(ctx context.Context, s *server.Server) error {
	stacks, err := listStacks(ctx, s)
	if err != nil {
		return err
	}
	// Only a new account needs the bootstrap.
	if slices.Contains(stacks, stack{"CDKToolkit", string(types.StackStatusCreateComplete)}) {
		return nil
	}
	fmt.Fprintln(l.out, "preparing the account for the CDK, once")
	cli, err := cdk.Install(ctx, l.cacheDir, l.out)
	if err != nil {
		return err
	}
	cmd := cli.Command(ctx, l.checkoutDir, commandEnv(s), "bootstrap", "aws://"+server.Account+"/"+server.Region)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cdk bootstrap: %w: %s", err, out)
	}
	return nil
}

// restartIfStuck restarts the server if a stack can no longer be deployed. On LocalStack, a failed
// update of a stack has no other remedy.
func (l laptop) restartIfStuck(ctx context.Context, s *server.Server, stageName string) error {
	stacks, err := listStacks(ctx, s)
	if err != nil {
		return err
	}
	isStuck := slices.ContainsFunc(stacks, func(candidate stack) bool {
		return strings.HasPrefix(candidate.name, stage.FullName(stageName, "")) && (strings.Contains(candidate.status, "FAILED") || strings.Contains(candidate.status, "ROLLBACK"))
	})
	if !isStuck {
		return nil
	}
	if err := s.Stop(); err != nil {
		return err
	}
	installed, err := server.Install(ctx, l.cacheDir, l.out)
	if err != nil {
		return err
	}
	if _, err := l.start(ctx, installed); err != nil {
		return err
	}
	fmt.Fprintln(l.out, "The server was started again and is empty: a stack whose update failed cannot be deployed again. Deploy again when the cause is fixed.")
	return nil
}

func hostURL(ctx context.Context, s *server.Server, stageName string) (string, error) {
	name := stage.FullName(stageName, "functions")
	out, err := cloudformation.NewFromConfig(awsConfig(s)).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		return "", err
	}
	for _, o := range out.Stacks[0].Outputs {
		if *o.OutputKey == "AgentUrl" {
			return *o.OutputValue, nil
		}
	}
	return "", fmt.Errorf("the stack %s has no output AgentUrl", name)
}

package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// awsProgram is the program with the AWS SDK, cmd/vacancy-aws.
const awsProgram = "vacancy-aws"

// errNeedsAWS makes App.Run replace this program by awsProgram, which runs the command again. A
// command must therefore return errNeedsAWS before it reads or changes anything.
var errNeedsAWS = errors.New("this program has no AWS SDK")

func (a *App) RequireAWS() error {
	if a.Seams.OpenCloud == nil {
		return errNeedsAWS
	}
	return checkSameBuild(a.Env[buildIDEnv], BuildID())
}

// CheckRegion returns an error if this program lacks the AWS SDK, and neither a Region nor an AWS
// config file exists. It saves the build of awsProgram, which would report the same error.
func (a *App) CheckRegion(stageName string) error {
	if a.Seams.OpenCloud != nil {
		return nil
	}
	rec, err := a.readStageRecord(stageName)
	if err == nil && rec.Region != "" || a.Env["AWS_REGION"] != "" || a.Env["AWS_DEFAULT_REGION"] != "" {
		return nil
	}
	home := cmp.Or(a.Env["HOME"], a.Env["USERPROFILE"])
	for variable, file := range map[string]string{"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"} {
		if standalone.FileExists(cmp.Or(a.Env[variable], filepath.Join(home, ".aws", file))) {
			return nil
		}
	}
	err = problem.New(problem.Usage, "no AWS Region is set: set AWS_REGION, or region in ~/.aws/config")
	return WithHint(err, "export AWS_REGION=us-east-1, and credentials as for the AWS CLI; then vacancy doctor --host aws")
}

// OpenCloud opens an AWS account. A command must call RequireAWS before other work.
func (a *App) OpenCloud(ctx context.Context, region string) (cloud.Cloud, error) {
	if err := a.RequireAWS(); err != nil {
		return nil, err
	}
	c, err := a.Seams.OpenCloud(ctx, region)
	if err != nil {
		return nil, WithHint(err, "vacancy doctor --host aws")
	}
	return c, nil
}

// replaceWithAWSProgram replaces this process by awsProgram. It returns only after an error, or
// with an exit code on a system that cannot replace a process.
func (a *App) replaceWithAWSProgram(ctx context.Context, args []string) (int, error) {
	name := awsProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if !standalone.FileExists(path) {
		checkoutDir, err := a.FindCheckout()
		if err != nil {
			err := problem.New(problem.NotFound, "the AWS commands need the program %s, but it is not next to %s, and the current directory is not in a checkout", name, filepath.Base(self))
			return 0, WithHint(err, "go install ./cmd/... in a checkout's folder")
		}
		if path, err = a.buildAWSProgram(ctx, checkoutDir, name); err != nil {
			return 0, err
		}
	}
	return replaceProcess(path, append([]string{path}, args...), append(slices.Clone(a.envList), buildIDEnv+"="+BuildID(), programEnv+"="+a.startCommand))
}

// buildIDEnv names the variable that tells awsProgram the build of the program that it replaces.
const buildIDEnv = "VACANCY_BUILT"

func checkSameBuild(replacedBuild, ownBuild string) error {
	if replacedBuild == "" || ownBuild == "" || replacedBuild == ownBuild {
		return nil
	}
	err := problem.New(problem.Conflict, "vacancy was built from %.40s, but %s next to it was built from %.40s", replacedBuild, awsProgram, ownBuild)
	return WithHint(err, "go install ./cmd/... in a checkout's folder")
}

func (a *App) buildAWSProgram(ctx context.Context, checkoutDir, name string) (path string, err error) {
	dir, err := cache.Dir(func(name string) string { return a.Env[name] })
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(checkoutDir))
	path = filepath.Join(dir, fmt.Sprintf("%x-%s", h.Sum64(), name))
	if !standalone.FileExists(path) {
		a.PrintNote("building %s for the AWS commands; the first build takes a minute", awsProgram)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Build in a temporary directory, because another command may be running the program at path.
	tempDir, err := os.MkdirTemp(dir, awsProgram+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tempDir)
	tempPath := filepath.Join(tempDir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", tempPath, "./cmd/"+awsProgram)
	cmd.Dir, cmd.Env = checkoutDir, a.envList
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", problem.Wrap(problem.Internal, err, "building %s failed: %.2000s", awsProgram, out)
	}
	return path, os.Rename(tempPath, path)
}

func (a *App) FindCheckout() (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if standalone.FileExists(filepath.Join(dir, "cdk.json")) && standalone.FileExists(filepath.Join(dir, "infra")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err := problem.New(problem.NotFound, "no cdk.json in %s or its parent directories; a deploy needs a checkout of the project", cwd)
			return "", WithHint(err, "vacancy deploy, in the checkout's folder")
		}
	}
}

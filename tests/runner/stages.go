package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/localstack/server"
)

func format(ctx context.Context, c *counts, _ depth) error {
	out, err := output(ctx, "gofmt", "-l", "cmd", "functions", "infra", "localstack", "shared", "tests")
	if err == nil && out != "" {
		err = fmt.Errorf("gofmt would change:\n%s", out)
	}
	return c.one(err)
}

func vet(ctx context.Context, c *counts, d depth) error {
	errs := []error{c.one(command(ctx, nil, "go", append([]string{"vet"}, packages...)...))}
	for _, target := range targets {
		fmt.Println("   compiles for", target)
		errs = append(errs, c.one(compiles(ctx, target, d)))
	}
	return errors.Join(errs...)
}

// deployable compiles the CDK and the functions, so that no stage does it within the limit
// of a deployment. Without a cache the CDK takes a core for more than a minute.
func deployable(ctx context.Context, c *counts, _ depth) error {
	return errors.Join(
		c.one(command(ctx, nil, "go", "build", "-o", os.DevNull, "./infra")),
		c.one(bundle.WarmBuildCache(ctx, ".", runtime.GOARCH, os.Environ())),
	)
}

func lint(ctx context.Context, c *counts, _ depth) error {
	return c.one(command(ctx, nil, staticcheckPath(), packages...))
}

// heavy packages have a stage of their own, or run without the race detector
// because they only read source files (tests/layers).
var heavy = regexp.MustCompile(`/(tests/layers|shared/store/dynamo|shared/host/registry/search/opensearch|tests/(e2e|peers|interop|dynamolocal|opensearch|release|faultproxy|roundtrips|lambda|faults|kills|simulation|localstack|integration|web))(/|$)`)

func unit(ctx context.Context, c *counts, d depth) error {
	all, err := output(ctx, "go", append([]string{"list"}, packages...)...)
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(strings.Fields(all), heavy.MatchString)
	read := goTest(ctx, c, d.args("./tests/layers")...)
	args := d.args("-race", "-skip="+onAWS)
	if d == deep {
		return errors.Join(read, goTest(ctx, c, append(args, list...)...))
	}
	// Property tests draw a random seed unless they are given one.
	seeded, err := packagesOf(propertyTests)
	if err != nil {
		return err
	}
	var fixed []string
	list = slices.DeleteFunc(list, func(pkg string) bool {
		dir := "./" + strings.TrimPrefix(pkg, module)
		if slices.Contains(seeded, dir) {
			fixed = append(fixed, dir)
			return true
		}
		return false
	})
	return errors.Join(
		read,
		goTest(ctx, c, append(args, list...)...),
		goTest(ctx, c, append(append(args, fixed...), "-rapid.seed=1")...),
	)
}

const module = "github.com/vacancy-host/vacancy/"

// propertyTests matches the import of the library for property tests.
var propertyTests = regexp.MustCompile(`"pgregory\.net/rapid"`)

func e2e(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "./tests/e2e/...", "./tests/peers/...")...)
}

func interop(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "./tests/interop/...")...)
}

func web(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "./tests/web/...")...)
}

func storeContract(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "-p=1", "-skip="+onAWS, "./shared/store/...", "./tests/dynamolocal/...", "./tests/faultproxy/...", "./tests/roundtrips/...")...)
}

func searchContract(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "-p=1", "./shared/host/registry/search/opensearch/...", "./tests/opensearch/...")...)
}

func faults(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "-p=1", "./tests/lambda/...", "./tests/faults/...", "./tests/kills/...", "./tests/simulation/...")...)
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// parsers are the directories and files that parse input from callers.
var parsers = []string{
	"shared/vacant", "shared/front/registryapi", "shared/host/registry/translog/checkpoint_test.go",
	"shared/host/registry/search/words_test.go", "shared/host/registry/search/service_test.go",
	"shared/host/family/graduation/parse_test.go", "shared/host/substrate/plan/plan_test.go",
	"shared/host/substrate/think", "shared/host/substrate/bedrock", "shared/host/a2a/a2awire", "shared/host/client/agents",
}

// fuzz runs every fuzz target of the parsers for 10 s. They are found in the
// source, so that none can be forgotten.
func fuzz(ctx context.Context, c *counts, _ depth) error {
	var errs []error
	for _, top := range parsers {
		err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range fuzzTarget.FindAllSubmatch(src, -1) {
				name, dir := string(m[1]), "./"+filepath.ToSlash(filepath.Dir(path))
				fmt.Println("   fuzz", dir, name)
				errs = append(errs, c.one(fuzzOne(ctx, dir, name)))
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// fuzzOne runs one target. At its time limit Go's fuzzer sometimes fails with
// "context deadline exceeded" and no failing input. Because nothing was found,
// fuzzOne then runs it again. A finding is never retried.
func fuzzOne(ctx context.Context, dir, name string) error {
	run := func() error {
		return command(ctx, nil, "go", "test", "-run=^$", "-fuzz=^"+name+"$", "-fuzztime=10s", "-parallel=2", "-fuzzminimizetime=5s", dir)
	}
	err := run()
	if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "context deadline exceeded") && !strings.Contains(err.Error(), "Failing input") {
		fmt.Println("   fuzz", dir, name, "ended without a finding; again")
		err = run()
	}
	return err
}

// command runs a program and prints its output if it fails.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// infra is vetted, linted and tested apart from the other packages.
func infra(ctx context.Context, c *counts, d depth) error {
	return errors.Join(
		c.one(command(ctx, nil, "go", "vet", "./infra/...")),
		c.one(command(ctx, nil, staticcheckPath(), "./infra/...")),
		goTest(ctx, c, d.args("./infra/...")...),
	)
}

// release links the programs for all systems, which takes minutes.
func release(ctx context.Context, c *counts, d depth) error {
	return goTest(ctx, c, d.args("-count=1", "./tests/release/...")...)
}

// onAWS are the tests that need an AWS server, given by the variable
// awsEndpoint.
const (
	onAWS       = "^TestOnAWS"
	awsEndpoint = "VACANCY_TEST_AWS"
)

// aws starts LocalStack for the packages that need it, and then runs the
// packages that start their own.
func aws(ctx context.Context, c *counts, d depth) error {
	return errors.Join(
		adaptersOnAWS(ctx, c, d),
		goTest(ctx, c, d.args("-count=1", "-p=1", "./tests/localstack/...", "./tests/integration/...")...),
	)
}

func adaptersOnAWS(ctx context.Context, c *counts, d depth) error {
	installed, err := server.Install(ctx, cacheDir(), os.Stdout)
	if err != nil {
		return err
	}
	s, err := installed.Start(ctx, server.Options{})
	if err != nil {
		return err
	}
	if err := os.Setenv(awsEndpoint, s.URL); err != nil {
		return errors.Join(err, s.Stop())
	}
	dirs, err := packagesOf(regexp.MustCompile(awsEndpoint))
	if err == nil {
		err = goTest(ctx, c, d.args(append([]string{"-count=1", "-p=1", "-run=" + onAWS}, dirs...)...)...)
	}
	// Concurrent stages must not find the address of a stopped server.
	return errors.Join(err, os.Unsetenv(awsEndpoint), s.Stop())
}

// packagesOf returns the packages whose tests match, found in the source so that
// none can be forgotten.
func packagesOf(match *regexp.Regexp) (dirs []string, err error) {
	for _, top := range []string{"cmd", "shared"} {
		err = errors.Join(err, filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if dir := "./" + filepath.ToSlash(filepath.Dir(path)); match.Match(src) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
			return err
		}))
	}
	return dirs, err
}

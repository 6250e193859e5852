// Command realaws tests a host in an AWS account. It deploys a stage with the command vacancy,
// checks it, runs the tests of tests/integration that need no local AWS, estimates the cost, and
// destroys the stage, also after a failure or an interrupt.
//
//	go run ./tests/realaws                    asks, then deploys the stage smoke without CloudFront
//	go run ./tests/realaws -edge              with CloudFront
//	go run ./tests/realaws -local             the same on LocalStack, for free
//	go run ./tests/realaws -- --bootstrap     with more flags of vacancy deploy
//
// A person runs it, not CI. It needs an AWS account for trials, credentials with
// AdministratorAccess, a Region, a Lambda quota of at least 500 concurrent executions (or --
// --context reserve=false), Go, Node 22, and what tests/run needs for tests/interop. It takes about
// 40 minutes, or 60 with CloudFront, and costs less than a dollar. AWS deletes the keys only after
// some days, which is free. The bootstrap of the CDK remains.
//
// Two tests exist only for this run: twenty paid tasks on one slow vacant, and a turn of ten
// minutes (-turn) whose events are pushed. On LocalStack no receiver gets the pushes, because
// functions send nothing to addresses of this machine.
//
// A stage that existed before is neither changed nor destroyed. The operator's own home directory
// is not changed.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// trial is one run.
type trial struct {
	stage       string
	edge, local bool
	yes         bool
	turn        time.Duration
	tests       string   // regular expression of the tests to run
	more        []string // flags of vacancy deploy

	cloud   cloud.Cloud
	dir     string // temporary, with the program and the operator's home
	env     []string
	destroy string // the command that destroys the stage by hand
	began   time.Time
}

// interrupts end the steps, after which the stage is destroyed.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func main() {
	var t trial
	flag.StringVar(&t.stage, "stage", "smoke", "the stage, which must not exist yet")
	region := flag.String("region", "", "the Region, by default that of the credentials")
	flag.BoolVar(&t.edge, "edge", false, "deploy CloudFront, too")
	flag.BoolVar(&t.local, "local", false, "use a LocalStack of this run instead of an account")
	flag.DurationVar(&t.turn, "turn", 10*time.Minute, "the turn whose events are pushed, at most 13m")
	flag.StringVar(&t.tests, "run", "", "only the tests of tests/integration whose names match")
	flag.BoolVar(&t.yes, "yes", false, "do not ask for confirmation")
	flag.Parse()
	t.more = flag.Args()
	if *region != "" {
		os.Setenv("AWS_REGION", *region)
	}
	ctx, stop := signal.NotifyContext(context.Background(), interrupts...)
	defer stop()
	if err := t.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "realaws:", err)
		os.Exit(problem.AsError(err).Kind.Forms().ExitCode)
	}
}

func (t *trial) run(ctx context.Context) (err error) {
	if err := stage.CheckName(t.stage); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "vacancy-realaws-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	if t.local {
		s, err := startLocal(ctx)
		if err != nil {
			return err
		}
		defer s.Stop() // with everything that was deployed to it
		t.more = append([]string{"--bootstrap", "--context", "arch=" + runtime.GOARCH}, t.more...)
	}
	if t.cloud, err = awscloud.Open(ctx, ""); err != nil {
		return err
	}
	if err := t.confirm(ctx); err != nil {
		return err
	}
	t.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "VACANCY_") && !strings.HasPrefix(v, "VACANCY_CACHE=")
	}),
		"VACANCY_HOME="+filepath.Join(t.dir, "home"), "AWS_REGION="+t.cloud.Region())
	const tests = "tests/integration"
	suite := filepath.Join(t.dir, "integration.test")
	err = cmp.Or(
		t.step(ctx, "build the command", ".", "go", "build", "-o", t.program(), "./cmd/vacancy-aws"),
		t.step(ctx, "build the tests", ".", "go", "test", "-c", "-o", suite, "./"+tests),
	)
	if err != nil {
		return err
	}

	t.began = time.Now()
	defer func() {
		// An interrupt has ended the steps before; the next one ends this.
		ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), interrupts...)
		defer stop()
		gone := t.step(ctx, "destroy", ".", t.program(), "destroy", "--stage", t.stage, "--yes")
		if gone != nil && !t.local {
			fmt.Printf("\nTHE STAGE %s MAY STILL EXIST AND COST MONEY in Region %s. Destroy it:\n  %s\n", t.stage, t.cloud.Region(), t.destroy)
		}
		err = errors.Join(err, gone)
	}()
	if err := t.step(ctx, "deploy", ".", t.program(), t.deployment()...); err != nil {
		return err
	}
	checks := []string{"doctor", "--host", "aws", "--stage", t.stage}
	if !t.local { // which has no policy simulator
		checks = append(checks, "--simulate")
	}
	err = errors.Join(
		t.step(ctx, "doctor", ".", t.program(), checks...),
		t.step(ctx, "tests", tests, suite, "-test.v", "-test.run="+t.tests, "-test.timeout=2h", "-turn="+t.turn.String()),
	)
	if ctx.Err() == nil {
		err = errors.Join(err, t.report(ctx))
	}
	return err
}

// startLocal starts a LocalStack and makes it the account of this process and of its commands.
func startLocal(ctx context.Context) (*server.Server, error) {
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	installed, err := server.Install(ctx, cache, os.Stderr)
	if err != nil {
		return nil, err
	}
	s, err := installed.Start(ctx, server.Options{Freeze: true})
	if err != nil {
		return nil, err
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	for _, v := range s.Env() {
		name, value, _ := strings.Cut(v, "=")
		os.Setenv(name, value)
	}
	return s, nil
}

// confirm refuses a stage that exists, and asks the person before anything costs money.
func (t *trial) confirm(ctx context.Context) error {
	who, err := t.cloud.CallerIdentity(ctx)
	if err != nil {
		return err
	}
	t.destroy = fmt.Sprintf("AWS_REGION=%s go run ./cmd/vacancy destroy --stage %s", t.cloud.Region(), t.stage)
	for _, short := range stage.StackNames() {
		name := stage.FullName(t.stage, short)
		switch _, err := t.cloud.Stack(ctx, name); {
		case err == nil:
			return problem.New(problem.Conflict, "stage %s exists, with the stack %s: use another -stage, or destroy it: %s", t.stage, name, t.destroy)
		case !problem.Is(err, problem.NotFound):
			return err
		}
	}
	fmt.Printf("account %s, Region %s, as %s: stage %s is deployed, tested and destroyed\n", who.Account, t.cloud.Region(), who.ARN, t.stage)
	if t.yes || t.local {
		return nil
	}
	fmt.Print("Type the stage's name to continue: ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != t.stage {
		return problem.Wrap(problem.Canceled, err, "nothing was deployed")
	}
	return nil
}

func (t *trial) program() string { return filepath.Join(t.dir, "vacancy") }

// deployment lists the arguments of deploy. The tests need scripts instead of models, limits that
// they do not reach, and a worker that runs one slow turn of a vacant at a time, as on a stage of
// the default worst day.
func (t *trial) deployment() []string {
	args := []string{"deploy", "--stage", t.stage, "--yes"}
	if !t.edge {
		args = append(args, "--no-edge")
	}
	for _, value := range []string{"keep=false", "mock=true", "indexSeconds=1", "worstDay=500", "rate=100000:100000", "pairRate=100000:100000",
		"limits=message:64,registry:16,search:16,worker:4,rowsReads:4800,rowsWrites:6000,docsReads:8000,docsWrites:3000"} {
		args = append(args, "--context", value)
	}
	return append(args, t.more...)
}

// step runs a program in a directory of the checkout, with its output, and prints how long that took.
func (t *trial) step(ctx context.Context, what, dir, program string, args ...string) error {
	fmt.Printf("\n== %s: %s %s\n", what, filepath.Base(program), strings.Join(args, " "))
	began := time.Now()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(t.env, "VACANCY_TEST_STAGE="+t.stage)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	fmt.Printf("== %s: %.0f s\n", what, time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return problem.Wrap(problem.Canceled, ctx.Err(), "%s was interrupted", what)
	case err != nil:
		return problem.Wrap(problem.Internal, err, "%s failed; the cause is above", what)
	}
	return nil
}

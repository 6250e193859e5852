package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// neighbourStage is a stage beside the main one: it keeps its data and has the
// default limits. Its first deployment was killed half way.
var neighbourStage = sync.OnceValues(func() (*deployed, error) {
	s, err := aws()
	if err != nil {
		return nil, err
	}
	if _, err := bootstrapped(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	top, err := snapshot()
	if err != nil {
		return nil, err
	}
	next := &deployed{Record: stage.Record{Stage: "next"}, dataHome: filepath.Join(scratch, "next"), aws: s}
	began := time.Now()
	if err := next.interrupted(ctx, top); err != nil {
		return nil, err
	}
	fmt.Printf("deployment of stage next, until it was killed: %.1f s\n", time.Since(began).Seconds())
	ctx, cancel = context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	cmd, err := next.deployment(ctx, top)
	if err != nil {
		return nil, err
	}
	if _, err := timed("deployment of stage next, after one that was killed", cmd); err != nil {
		return nil, err
	}
	return known(s, next.dataHome, "next")
})

func neighbour(t *testing.T) *deployed {
	t.Helper()
	s, err := neighbourStage()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deployment is the command that deploys the stage from a checkout.
func (s *deployed) deployment(ctx context.Context, checkout string) (*exec.Cmd, error) {
	return command(ctx, s.aws, checkout, s.dataHome, "deploy", "--stage", s.Stage, "--yes", "--bootstrap",
		"--no-edge", "--context", "arch="+runtime.GOARCH, "--context", "worstDay=200", "--context", "keep=true")
}

// interrupted starts a deployment and kills it, with all its processes, when
// the first of its stacks exists and the second has begun.
func (s *deployed) interrupted(ctx context.Context, checkout string) error {
	cmd, err := s.deployment(ctx, checkout)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			return fmt.Errorf("the deployment ended before it could be killed: %w\n%s", err, said.String())
		case <-time.After(100 * time.Millisecond):
		}
		watch, err := s.stack(ctx, "watch")
		if err != nil || watch != nil && watch.StackStatus == types.StackStatusCreateInProgress {
			err = errors.Join(err, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
			<-done
			return err
		}
	}
}

// A deployment that was killed half way is repeated by the same command, and
// the host answers.
func TestADeploymentThatWasKilledIsRepeated(t *testing.T) {
	s := secondStage(t)
	for _, part := range []string{"data", "watch", "functions"} {
		if got, err := s.stack(t.Context(), part); err != nil || got == nil || !strings.HasSuffix(string(got.StackStatus), "_COMPLETE") {
			t.Errorf("stack %s: %v, %v; want it complete", part, got, err)
		}
	}
	s.pair(t, s.vacant(t)).say("hello")
	s.whole(t)
}

func TestTwoStagesDoNotSeeEachOther(t *testing.T) {
	one, two := shared(t), secondStage(t)
	p := one.pair(t, one.vacant(t))
	e, _ := p.say("to the one")
	p.url = two.URL
	p.refused("a vacant of the one at the other", p.send(p.Call("hello", time.Now())), http.StatusMisdirectedRequest, "misdirected")
	p.refused("what the one has answered, at the other", p.send(e), http.StatusMisdirectedRequest, "misdirected")
	if _, err := admin.ShowVacant.Call(t.Context(), two.admin(t), admin.VacantRef{Vacant: p.To.String()}); err == nil {
		t.Errorf("the admin socket of the other shows %s", p.To.Short())
	}
	for _, part := range []string{"data", "functions"} {
		a, b := one.outputs(t, part), two.outputs(t, part)
		for key, value := range a {
			if key != "Version" && key != setting.StoredOutput && b[key] == value {
				t.Errorf("output %s of %s is %q in both stages", key, part, value)
			}
		}
	}
}

// condition is everything that a deployment can change.
func (s *deployed) condition(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, part := range []string{"data", "watch", "functions"} {
		got, err := s.stack(t.Context(), part)
		if err != nil || got == nil {
			t.Fatalf("stack %s: %v, %v", part, got, err)
		}
		all[part] = fmt.Sprint(got.StackStatus, awssdk.ToTime(got.LastUpdatedTime))
	}
	for _, f := range functions.Names() {
		c := s.configuration(t, f)
		all[f] = fmt.Sprint(awssdk.ToString(c.CodeSha256), awssdk.ToString(c.RevisionId), awssdk.ToString(c.LastModified))
	}
	return all
}

func TestASecondDeploymentWithoutAChangeChangesNothing(t *testing.T) {
	s := secondStage(t)
	before := s.condition(t)
	cmd, err := s.deployment(t.Context(), checkout(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := timed("second deployment of stage next", cmd)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.condition(t)); diff != "" {
		t.Errorf("what a second deployment changed (-before +after):\n%s\n%s", diff, out)
	}
}

// The stage stores its settings, so a home that never deployed it needs no flags.
func TestADeploymentFromAnotherHomeKeepsTheSettings(t *testing.T) {
	s := secondStage(t)
	before := s.condition(t)
	cmd, err := command(t.Context(), s.aws, checkout(t), t.TempDir(), "deploy", "--stage", s.Stage, "--yes")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "VACANCY_OPERATOR_KEY="+string(s.OperatorKey))
	out, err := timed("deployment of stage next from another home", cmd)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.condition(t)); diff != "" {
		t.Errorf("what a deployment from another home changed (-before +after):\n%s\n%s", diff, out)
	}
	reset, err := plainly(t.Context(), s.aws, checkout(t), s.Stage, []string{"--all"}, "arch="+runtime.GOARCH)
	for _, want := range []string{"edge: from false to true", "worstDay: from 200 to 20", "To keep them, add: --context edge=false --context worstDay=200"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("cdk deploy without the settings = %v, want an error that says %q\n%s", err, want, reset)
		}
	}
	if diff := cmp.Diff(before, s.condition(t)); diff != "" {
		t.Errorf("what the refused deployment changed (-before +after):\n%s", diff)
	}
}

// snapshot is a copy of the checkout, from which the neighbour is deployed:
// tests may change it, and work in the checkout changes no outcome.
var snapshot = sync.OnceValues(func() (string, error) {
	from, to := filepath.Join("..", ".."), filepath.Join(scratch, "checkout")
	for _, part := range []string{"cmd", "functions", "infra", "localstack", "shared", "tests"} {
		if err := os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(from, part))); err != nil {
			return "", err
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "cdk.json"} {
		b, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, file), b, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	return to, nil
})

// checkout is the copy.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit replaces a text that occurs once in a file of the copy, until the test
// ends.
func edit(t *testing.T, file, from, to string) {
	t.Helper()
	path := filepath.Join(checkout(t), filepath.FromSlash(file))
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(was, []byte(from)); n != 1 {
		t.Fatalf("%s has %q %d times, want once", file, from, n)
	}
	if err := os.WriteFile(path, bytes.Replace(was, []byte(from), []byte(to), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, was, 0o644); err != nil {
			t.Error(err)
		}
	})
}

// Functions get new code during calls: each call is answered, by the old code
// or the new, and no chain breaks.
func TestARedeploymentUnderTrafficLosesNoCall(t *testing.T) {
	s := secondStage(t)
	edit(t, "shared/front/message/message.go", `"no such path; a call is`, `"no such path here; a call is`)
	page := func(p *pair) string { return p.get("/nosuch").Detail }
	v := s.vacant(t)
	if p := s.pair(t, v); strings.Contains(page(p), "no such path here") {
		t.Fatal("the new code is there before it was deployed")
	}

	over, end := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	counts := make([]int, 3)
	for i := range counts {
		p := s.pair(t, v)
		p.http = web(t, s.aws, fmt.Sprintf("127.0.0.%d", 31+i)) // each with its own limits
		callers.Go(func() {
			for ; over.Err() == nil; counts[i]++ {
				e := p.Call(fmt.Sprintf("caller %d, call %d", i, counts[i]), time.Now())
				a := p.send(e)
				for try := 0; a.Status == 0 || a.Status >= 500; try++ { // as a caller does: the same bytes again
					if try == 20 {
						t.Errorf("caller %d, call %d: %v to the end", i, counts[i], a)
						return
					}
					time.Sleep(200 * time.Millisecond)
					a = p.send(e)
				}
				if a.Reply == nil {
					t.Errorf("caller %d, call %d: %v, want it answered", i, counts[i], a)
					return
				}
				p.Accepted(e)
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	cmd, err := s.deployment(t.Context(), checkout(t))
	if err == nil {
		_, err = timed("deployment of changed code to stage next", cmd)
	}
	end()
	callers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if got := page(s.pair(t, v)); !strings.Contains(got, "no such path here") {
		t.Errorf("after the deployment the page says %q, want the new code's words", got)
	}
	t.Logf("calls answered meanwhile, by caller: %v", counts)
	for i, n := range counts {
		if n < 10 {
			t.Errorf("caller %d made %d calls, want traffic", i, n)
		}
	}
	s.whole(t)
}

// A template that would replace a table with data is refused before anything is
// changed.
func TestATemplateThatWouldReplaceATableIsRefused(t *testing.T) {
	s := secondStage(t)
	edit(t, "infra/stacks/data.go", `Name: str("sk"), Type: ddb.AttributeType_NUMBER`, `Name: str("position"), Type: ddb.AttributeType_NUMBER`)
	before := s.condition(t)
	cmd, err := s.deployment(t.Context(), checkout(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || !strings.Contains(string(out), "Rows") {
		t.Errorf("deploy = %v, want a refusal that names the table\n%s", err, out)
	}
	t.Logf("%s", out)
	if diff := cmp.Diff(before, s.condition(t)); diff != "" {
		t.Errorf("what was touched (-before +after):\n%s", diff)
	}
	s.pair(t, s.vacant(t)).say("still there")
}

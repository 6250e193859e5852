package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// deployed is a stage, as its operator knows it.
type deployed struct {
	stage.Record
	dataHome string         // the operator's $VACANCY_HOME
	aws      *server.Server // nil if the stage was deployed before the tests
}

// command is the vacancy command in a process of its own: in a checkout, with
// an operator's home directory.
func command(ctx context.Context, s *server.Server, checkout, home string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = checkout
	cmd.Env = append(environment(s), asCommand+"=1", "VACANCY_HOME="+home)
	return cmd, nil
}

// vacancy runs a command on a stage, and returns its output and exit code.
func (s *deployed) vacancy(t *testing.T, args ...string) (stdout []byte, exit int) {
	t.Helper()
	out, errs, exit := s.try(t, root(t), args...)
	if exit != 0 {
		t.Logf("vacancy %s: exit %d\n%s%s", strings.Join(args, " "), exit, out, errs)
	}
	return out, exit
}

// try runs vacancy in a checkout, quietly.
func (s *deployed) try(t *testing.T, checkout string, args ...string) (stdout, stderr []byte, exit int) {
	t.Helper()
	// Commands about a long load's calls take longer by these.
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit+time.Duration(*calls)*100*time.Millisecond)
	defer cancel()
	cmd, err := command(ctx, s.aws, checkout, s.dataHome, args...)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "VACANCY_STAGE="+s.Stage)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var status *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &status) {
		t.Fatalf("vacancy %s: %v", strings.Join(args, " "), err)
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}

// chosen are the settings of the main stage: what the local AWS has, the
// machine's architecture, and limits that no test reaches.
func chosen() []string {
	return []string{"edge=false", "keep=false", "arch=" + runtime.GOARCH, "worstDay=500", "rate=100000:100000", "pairRate=100000:100000",
		"mock=true", "tenantFunctions=acme=" + heardARN,
		"limits=message:64,registry:16,search:16,rowsReads:4800,rowsWrites:6000,docsReads:8000,docsWrites:3000", "indexSeconds=1"}
}

// bootstrapped prepares the account of the local AWS for the CDK, once.
var bootstrapped = sync.OnceValues(func() (*cdk.CLI, error) {
	s, err := aws()
	if err != nil {
		return nil, err
	}
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	tool, err := cdk.Install(ctx, cache, os.Stderr)
	if err != nil {
		return nil, err
	}
	_, err = timed("bootstrap", tool.Command(ctx, scratch, environment(s), "bootstrap", "aws://"+server.Account+"/"+server.Region))
	return tool, err
})

// environment of a command that uses the local AWS only, or the account of a deployed stage.
func environment(s *server.Server) []string {
	if s == nil {
		return os.Environ()
	}
	env := s.Env()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCACHE", "GOPATH", "GOMODCACHE", "GOFLAGS", "GOPROXY", "VACANCY_CACHE", "XDG_CACHE_HOME"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// timed runs a command, and logs how long it took or what it printed.
func timed(what string, cmd *exec.Cmd) (string, error) {
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", what, err, out)
	}
	fmt.Printf("%s: %.1f s\n", what, time.Since(began).Seconds())
	return string(out), nil
}

// plainly deploys a stage with plain CDK, from a checkout. The CDK app compares the settings with the settings that the stage stores.
func plainly(ctx context.Context, aws *server.Server, checkout, name string, stacks []string, context ...string) (string, error) {
	tool, err := bootstrapped()
	if err != nil {
		return "", err
	}
	args := append([]string{"deploy", "--require-approval", "never", "--output", filepath.Join(scratch, "out-"+name), "--context", "stage=" + name}, stacks...)
	for _, value := range context {
		args = append(args, "--context", value)
	}
	return timed("deployment of stage "+name, tool.Command(ctx, checkout, environment(aws), args...))
}

// mainStage is the stage of all tests that do not change stages. On the local AWS it is deployed
// without the vacancy command, which then learns of it.
var mainStage = sync.OnceValues(func() (*deployed, error) {
	if deployedName != "" {
		return known(nil, os.Getenv("VACANCY_HOME"), deployedName)
	}
	s, err := aws()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	if _, err := plainly(ctx, s, top, "main", []string{"--all"}, chosen()...); err != nil {
		return nil, err
	}
	home := filepath.Join(scratch, "main")
	cmd, err := command(ctx, s, top, home, "keys", "rotate-operator", "--stage", "main")
	if err != nil {
		return nil, err
	}
	if _, err := timed("a first operator key", cmd); err != nil {
		return nil, err
	}
	return known(s, home, "main")
})

// known is a stage that its operator has a record of.
func known(aws *server.Server, home, name string) (*deployed, error) {
	rec, err := stage.Records{Dir: filepath.Join(home, "stages")}.Read(name)
	return &deployed{rec, home, aws}, err
}

// shared is the stage of all tests that do not change stages.
func shared(t *testing.T) *deployed {
	t.Helper()
	s, err := mainStage()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// function is the physical name of one of the stage's functions.
func (s *deployed) function(name string) string { return "vacancy-" + s.Stage + "-" + name }

// bearer adds the operator key to requests.
type bearer struct {
	key  string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.next.RoundTrip(r)
}

// admin is the stage's admin API with the operator's key.
func (s *deployed) admin(t *testing.T) *admin.Client {
	t.Helper()
	client := web(t, s.aws, "")
	client.Transport = bearer{string(s.OperatorKey), client.Transport}
	return &admin.Client{HTTP: client, URL: s.AdminURL}
}

// vacant makes a vacant that echoes.
func (s *deployed) vacant(t *testing.T) identity.ID {
	t.Helper()
	name := make([]byte, 6)
	rand.Read(name)
	return s.named(t, "v"+hex.EncodeToString(name))
}

func (s *deployed) named(t *testing.T, name string) identity.ID {
	t.Helper()
	v, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: name, Capability: "echoes", Substrate: "echo"}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v.ID
}

// forget waits until no instance has a changed state in its cache.
func (s *deployed) forget() { time.Sleep(1100 * time.Millisecond) }

// kill ends all processes of a function, so that the next call is a cold one.
func (s *deployed) kill(t *testing.T, function string) {
	t.Helper()
	if _, err := local(t).Kill(t.Context(), s.function(function), server.Immediately()); err != nil {
		t.Fatal(err)
	}
}

// instances is a function's number of execution environments.
func (s *deployed) instances(t *testing.T, function string) (n int) {
	t.Helper()
	all, err := local(t).Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Function == s.function(function) {
			n++
		}
	}
	return n
}

// faultless requires the planned fault to have happened, and ends it.
func (s *deployed) faultless(t *testing.T) {
	t.Helper()
	if err := s.aws.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// nothingPlanned requires every planned fault and kill to have happened.
func (s *deployed) nothingPlanned(t *testing.T) {
	t.Helper()
	n, err := s.aws.CountFaults(t.Context())
	if err != nil || n != 0 {
		t.Errorf("%d faults and kills have not happened, %v; want 0", n, err)
	}
	s.faultless(t)
}

// verifiedOverHTTP is set once verify has read the stage through its export
// function, which takes a second for every three streams.
var verifiedOverHTTP bool

// wholeOverHTTP is whole through the export function, once in a run.
func (s *deployed) wholeOverHTTP(t *testing.T) {
	t.Helper()
	if verifiedOverHTTP {
		return
	}
	if v := s.verify(t, s.URL); !v.OK {
		t.Errorf("verify: %s", v.List)
	}
	verifiedOverHTTP = true
}

// verified is verify's report about a host.
type verified struct {
	OK bool `json:"ok"`
	fsck.Result
	List []json.RawMessage `json:"findings"`
}

// verify runs verify on a host.
func (s *deployed) verify(t *testing.T, host string) (v verified) {
	t.Helper()
	out, errs, exit := s.try(t, root(t), "verify", "--host", host, "--json")
	if err := json.Unmarshal(out, &v); err != nil || (exit == 0) != v.OK {
		t.Fatalf("verify --host %s: exit %d, %v\n%s%s", host, exit, err, out, errs)
	}
	return v
}

// whole requires verify to find nothing. It reads everything that earlier tests
// left, which takes up to 17 s, so a default run verifies once at its end
// (wholeAtLast) and a deep run after each test.
func (s *deployed) whole(t *testing.T) {
	t.Helper()
	if !testing.Short() {
		s.wholeAtLast(t)
	}
}

func (s *deployed) wholeAtLast(t *testing.T) {
	t.Helper()
	if v := s.verify(t, "aws"); !v.OK {
		t.Errorf("verify: %s", v.List)
	}
}

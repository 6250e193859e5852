package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// checkout copies what is deployed into a checkout without history, which does
// not change while others work on this one.
func checkout(t *testing.T) string {
	t.Helper()
	top, err := bundle.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, folder := range []string{"cmd", "functions", "infra", "shared"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(top, folder))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"cdk.json", "go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// synth runs `cdk synth` in a checkout as a person without AWS credentials would. It
// builds for amd64, like the tests of other packages.
func synth(t *testing.T, top, out string, args ...string) (string, error) {
	t.Helper()
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	cli, err := cdk.Install(t.Context(), cache, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"synth", "--quiet", "--output", out, "-c", "arch=amd64"}, args...)
	none := filepath.Join(t.TempDir(), "none")
	env := append(os.Environ(), "AWS_CONFIG_FILE="+none, "AWS_SHARED_CREDENTIALS_FILE="+none, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_PROFILE=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=", "AWS_CONTAINER_CREDENTIALS_FULL_URI=", "AWS_WEB_IDENTITY_TOKEN_FILE=")
	text, err := cli.Command(t.Context(), top, env, args...).CombinedOutput()
	return string(text), err
}

var deployed = regexp.MustCompile(`\.(template\.json|assets\.json|zip)$|/manifest\.json$`)

// digests covers the deployed files only: other files beside them, such as
// traces, contain names of the run's directories.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !deployed.MatchString(path) {
			return err
		}
		b, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// A digest that is deployed already is not deployed again: the second
// deployment of a checkout changes nothing.
func TestASecondSynthesisOfACheckoutIsTheSameToTheByte(t *testing.T) {
	top, first, second := checkout(t), t.TempDir(), t.TempDir()
	for _, out := range []string{first, second} {
		text, err := synth(t, top, out)
		if err != nil {
			t.Fatalf("cdk synth: %v\n%s", err, text)
		}
		if want := "the settings are not compared with the settings of the deployed stage dev\n"; !strings.Contains(text, want) {
			t.Errorf("cdk synth without credentials says %q, want %q", text, want)
		}
	}
	one := digests(t, first)
	if diff := cmp.Diff(one, digests(t, second)); diff != "" {
		t.Errorf("files (-first +second):\n%s", diff)
	}
	zips := 0
	for name := range one {
		if strings.HasSuffix(name, ".zip") {
			zips++
		}
	}
	if zips != len(functions.Names()) {
		t.Errorf("there are %d zips, want one for each function", zips)
	}
}

func TestAWrongContextValueIsNamedBeforeAnythingIsBuilt(t *testing.T) {
	text, err := synth(t, checkout(t), t.TempDir(), "-c", "stage=Prod", "-c", "budget=ten")
	for _, want := range []string{`context value stage: expected 1 to 20 characters`, `context value budget: expected a whole number`} {
		if err == nil || !strings.Contains(text, want) {
			t.Errorf("cdk synth = %v\n%s\nwant %s", err, text, want)
		}
	}
	if strings.Contains(text, "goroutine") {
		t.Errorf("a trace is no word to an operator:\n%s", text)
	}
}

// vacancy deploy --plan runs the app like this: without the CDK's command line, credentials and code.
func TestAPlanHasTheTemplatesOfADeploy(t *testing.T) {
	top, err := bundle.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./infra", "-plan")
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "CDK_OUTDIR="+out, `CDK_CONTEXT_JSON={"stage":"dev","email":"ops@example.org"}`, "AWS_REGION=eu-west-1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go run ./infra -plan: %v: %s", err, text)
	}
	built, err := assembly.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	for i, short := range stage.StackNames() {
		want, err := os.ReadFile(filepath.Join("testdata", short+".json"))
		if err != nil {
			t.Fatal(err)
		}
		counts := func(template []byte) []assembly.Count {
			parsed, err := assembly.Parse(template)
			if err != nil {
				t.Fatal(err)
			}
			return parsed.CountTypes()
		}
		if diff := cmp.Diff(counts(want), counts(built.Stacks[i].Template)); diff != "" {
			t.Errorf("the plan of stack %s (-golden +plan):\n%s", short, diff)
		}
	}
}

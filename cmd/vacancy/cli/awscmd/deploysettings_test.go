package awscmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// asCDK makes a process of this test binary the CDK.
const asCDK = "VACANCY_TEST_CDK"

func TestMain(m *testing.M) {
	if os.Getenv(asCDK) == "" {
		os.Exit(m.Run())
	}
	if err := runCDK(os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// cdkStacks lists the stacks that the fake CDK makes.
var cdkStacks = []string{"vacancy-dev-data", "vacancy-dev-functions"}

// runCDK stands in for the CDK. Its templates have the settings only, and a deployment sends each template to the server in
// one request, because a change set of several requests would test the CDK.
func runCDK(args []string) error {
	switch args[0] {
	case "synth":
		context := map[string]string{}
		for i := range args {
			if args[i] == "--context" {
				name, value, _ := strings.Cut(args[i+1], "=")
				context[name] = value
			}
		}
		if context["stage"] != "dev" || context["changes"] != "all" {
			return fmt.Errorf("Error: stage=%s changes=%s", context["stage"], context["changes"])
		}
		dir := args[slices.Index(args, "--output")+1]
		artifacts := map[string]any{}
		for _, name := range cdkStacks {
			artifacts[name] = map[string]any{"type": "aws:cloudformation:stack", "properties": map[string]string{"templateFile": name + ".json"}}
			if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(settingsTemplate(setting.OmitDefaults(context))), 0o600); err != nil {
				return err
			}
		}
		manifest, err := json.Marshal(map[string]any{"artifacts": artifacts})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o600)
	case "deploy":
		for _, name := range cdkStacks {
			template, err := os.ReadFile(filepath.Join(args[slices.Index(args, "--app")+1], name+".json"))
			if err != nil {
				return err
			}
			res, err := http.PostForm(os.Getenv("AWS_ENDPOINT_URL"), url.Values{"Action": {"UpdateStack"}, "StackName": {name}, "TemplateBody": {string(template)}})
			if err != nil {
				return err
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("%s failed: %s, %v", name, body, err)
			}
		}
	}
	return nil
}

func settingsTemplate(stored map[string]string) string {
	b, _ := json.Marshal(map[string]any{"Resources": map[string]any{}, "Outputs": map[string]any{setting.StoredOutput: map[string]string{"Value": setting.FormatStored(stored)}}})
	return string(b)
}

// account is an AWS account to which persons deploy the stage dev.
type account struct {
	*cloudtest.AWS
	t         *testing.T
	templates map[string]string // templates of the deployed stacks
	status    map[string]string // status of each stack that differs from UPDATE_COMPLETE
	update    func(stack string) error
	cdk       *cdk.CLI
}

func newAccount(t *testing.T) *account {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs that stand in for Node and npm are shell scripts")
	}
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"npm":  "mkdir -p node_modules/aws-cdk/bin; : > node_modules/aws-cdk/bin/cdk",
		"node": `[ "$1" = --version ] && echo v22.0.0 && exit; shift; ` + asCDK + "=1 exec '" + self + `' "$@"`,
	} {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	a := &account{AWS: cloudtest.NewWithEnv(t), t: t, templates: map[string]string{}, status: map[string]string{}, update: func(string) error { return nil }}
	if a.cdk, err = cdk.Install(t.Context(), t.TempDir(), io.Discard); err != nil {
		t.Fatal(err)
	}
	a.show()
	a.SetResponder("GetTemplate", func(r cloudtest.Request) cloudtest.Reply {
		return cloudtest.Reply{Body: "<GetTemplateResponse><GetTemplateResult><TemplateBody>" + html.EscapeString(a.templates[r.Form.Get("StackName")]) + "</TemplateBody></GetTemplateResult></GetTemplateResponse>"}
	})
	a.SetResponder("UpdateStack", func(r cloudtest.Request) cloudtest.Reply {
		name := r.Form.Get("StackName")
		if err := a.update(name); err != nil {
			return cloudtest.Reply{Code: "ValidationError", Message: err.Error()}
		}
		if a.status[name] == "UPDATE_IN_PROGRESS" {
			return cloudtest.Reply{Code: "ValidationError", Message: "Stack " + name + " is in UPDATE_IN_PROGRESS state and can not be updated."}
		}
		delete(a.status, name)
		a.templates[name] = r.Form.Get("TemplateBody")
		a.show()
		return cloudtest.Reply{}
	})
	a.SetResponse("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>")
	a.SetError("GetItem", "AccessDeniedException", "this account has no tables")
	return a
}

// show lets the server describe the stacks.
func (a *account) show() {
	var all []cloudtest.Stack
	for _, name := range slices.Sorted(maps.Keys(a.templates)) {
		var template struct {
			Outputs map[string]struct{ Value string }
		}
		if err := json.Unmarshal([]byte(a.templates[name]), &template); err != nil {
			a.t.Error(err)
		}
		s := cloudtest.Stack{Name: name, Status: "UPDATE_COMPLETE", Outputs: map[string]string{"AgentUrl": "https://agent.example", "AdminUrl": "https://admin.example"}}
		if is := a.status[name]; is != "" {
			s.Status = is
		}
		for output, o := range template.Outputs {
			s.Outputs[output] = o.Value
		}
		all = append(all, s)
	}
	a.SetStacks(all...)
}

// settings returns what a stack stores in its output Settings.
func (a *account) settings(stack string) string {
	var template struct {
		Outputs map[string]struct{ Value string }
	}
	if err := json.Unmarshal([]byte(a.templates[stack]), &template); err != nil {
		a.t.Errorf("stack %s: %v", stack, err)
	}
	return template.Outputs[setting.StoredOutput].Value
}

// deployFrom deploys the stage dev from a home. It ends before the operator key, which needs a host.
func (a *account) deployFrom(home string, answers io.Reader, f deployFlags) (said string, changed bool, err error) {
	a.t.Helper()
	d, errs := deploying(a.t, "", f)
	d.In, d.Seams.OpenCloud, d.cdk, d.checkoutDir = bufio.NewReader(answers), awscloud.Open, a.cdk, a.t.TempDir()
	d.Env["VACANCY_HOME"], d.Env["AWS_ENDPOINT_URL"] = home, a.URL
	must(a.t, os.WriteFile(filepath.Join(d.checkoutDir, "cdk.json"), []byte(`{"context":{"edge":false}}`), 0o600))
	if d.rec, d.cloud, err = d.OpenStage(a.t.Context(), "dev"); err != nil {
		a.t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return d.awaitIdle(a.t.Context()) },
		func() error { return d.chooseSettings(a.t.Context()) },
		func() error {
			changes, err := d.rollOut(a.t.Context(), a.t.TempDir(), &documentUpgrade{deployment: d})
			changed = len(changes) > 0
			return err
		},
	} {
		if err := step(); err != nil {
			return errs.String(), changed, err
		}
	}
	if err := d.setUpHost(a.t.Context(), nil); !strings.Contains(fmt.Sprint(err), "no tables") {
		a.t.Errorf("finish() = %v, want it to end at the operator key", err)
	}
	return errs.String(), changed, nil
}

// mustDeploy deploys with --yes.
func (a *account) mustDeploy(home string, context ...string) (said string, changed bool) {
	a.t.Helper()
	said, changed, err := a.deployFrom(home, strings.NewReader(""), deployFlags{skipQuestion: true, contextPairs: context})
	if err != nil {
		a.t.Fatalf("deploy %v: %v\n%s", context, err, said)
	}
	return said, changed
}

func (a *account) wantSettings(data, functions string) {
	a.t.Helper()
	for name, want := range map[string]string{cdkStacks[0]: data, cdkStacks[1]: functions} {
		if got := a.settings(name); got != want {
			a.t.Errorf("%s stores %s, want %s", name, got, want)
		}
	}
}

func wantSaid(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, want := range want {
		if !strings.Contains(said, want) {
			t.Errorf("deploy said %q, want %q in it", said, want)
		}
	}
}

// record writes the record of a deploy by an earlier release.
func record(t *testing.T, home string, context map[string]string) {
	t.Helper()
	rec := cloudtest.DevRecord()
	rec.Context = context
	must(t, (stage.Records{Dir: filepath.Join(home, "stages")}).Write(rec))
}

func TestADeployFromAnotherHomeKeepsTheSettings(t *testing.T) {
	a, one, two := newAccount(t), t.TempDir(), t.TempDir()
	a.mustDeploy(one, "worstDay=50", "rate=", "email=ops@example.org")
	const chosen = `{"email":"ops@example.org","rate":"","worstDay":"50"}`
	a.wantSettings(chosen, chosen)
	if said, changed := a.mustDeploy(two); changed || !strings.Contains(said, "nothing changes") {
		t.Errorf("a deploy from another home changed the stage: %s", said)
	}
	if _, err := os.Stat(filepath.Join(one, "stages", "dev.json")); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{one, two} {
		if rec, err := (stage.Records{Dir: filepath.Join(home, "stages")}).Read("dev"); err != nil || rec.Context != nil {
			t.Errorf("the record has the settings %v, %v; want none, because the stage has them", rec.Context, err)
		}
	}
	said, _ := a.mustDeploy(two, "worstDay=30", "rate=20:40")
	wantSaid(t, said, "setting rate: from nothing to 20:40\n", "setting worstDay: from 50 to 30\n")
	if strings.Contains(said, "email") {
		t.Errorf("deploy said %q, want it silent about what stays", said)
	}
	if said, changed := a.mustDeploy(one); changed {
		t.Errorf("a deploy from the first home changed the stage back: %s", said)
	}
	const after = `{"email":"ops@example.org","worstDay":"30"}`
	a.wantSettings(after, after)
	must(t, os.Remove(filepath.Join(one, "stages", "dev.json")))
	if said, changed := a.mustDeploy(one); changed {
		t.Errorf("a deploy after the loss of the record changed the stage: %s", said)
	}
}

func TestAStageOfAnEarlierReleaseGetsTheSettingsOfTheRecord(t *testing.T) {
	a, home := newAccount(t), t.TempDir()
	a.templates[cdkStacks[0]], a.templates[cdkStacks[1]] = `{"Resources":{}}`, `{"Resources":{}}`
	a.show()
	record(t, home, map[string]string{"worstDay": "50", "email": "", "concurrency": "5"})
	said, _ := a.mustDeploy(home)
	wantSaid(t, said, "does not store its settings yet", "record on this machine: concurrency=5 email= worstDay=50")
	a.wantSettings(`{"worstDay":"50"}`, `{"worstDay":"50"}`)
}

func TestAStageOfUnknownSettingsGetsTheDefaultsOnlyIfAPersonAgrees(t *testing.T) {
	a, home := newAccount(t), t.TempDir()
	a.templates[cdkStacks[0]], a.templates[cdkStacks[1]] = `{"Resources":{}}`, `{"Resources":{}}`
	a.show()
	for answers, f := range map[string]deployFlags{"yes\nyes\nyes\n": {skipQuestion: true}, "no\n": {}, "": {}} {
		said, _, err := a.deployFrom(home, strings.NewReader(answers), f)
		h := new(kit.HintedError)
		if !errors.As(err, &h) || f.skipQuestion == !problem.Is(err, problem.Conflict) || len(a.Requests("UpdateStack")) > 0 {
			t.Errorf("deploy with %+v and %q = %v, want it refused with a hint\n%s", f, answers, err, said)
		}
		if !f.skipQuestion {
			wantSaid(t, said, "the settings of stage dev are unknown", "becomes the default", "Continue with the defaults? Type yes:")
		}
	}
	said, _, err := a.deployFrom(home, strings.NewReader("yes\nops@example.org\nyes\n"), deployFlags{contextPairs: []string{"budget=9"}})
	if err != nil {
		t.Fatal(err, said)
	}
	a.wantSettings(`{"budget":"9","email":"ops@example.org"}`, `{"budget":"9","email":"ops@example.org"}`)
}

func TestTheSettingsOfAFailedDeployAreNotTheStages(t *testing.T) {
	a, home := newAccount(t), t.TempDir()
	a.mustDeploy(home, "worstDay=50")
	a.update = func(stack string) error {
		if stack == cdkStacks[1] {
			return errors.New("a function was not created")
		}
		return nil
	}
	if said, _, err := a.deployFrom(home, strings.NewReader(""), deployFlags{skipQuestion: true, contextPairs: []string{"worstDay=30"}}); err == nil {
		t.Fatal(said)
	}
	a.wantSettings(`{"worstDay":"30"}`, `{"worstDay":"50"}`)
	a.update = func(string) error { return nil }
	said, _ := a.mustDeploy(home)
	wantSaid(t, said, "ignored worstDay=30 in the record on this machine: stage dev has worstDay=50")
	a.wantSettings(`{"worstDay":"50"}`, `{"worstDay":"50"}`)
}

func TestAFirstDeployThatFailedIsContinuedFromAnotherHome(t *testing.T) {
	a := newAccount(t)
	a.update = func(stack string) error {
		if stack == cdkStacks[1] {
			a.templates[stack], a.status[stack] = `{"Resources":{}}`, "ROLLBACK_COMPLETE"
			a.show()
			return errors.New("the quota is too small")
		}
		return nil
	}
	if said, _, err := a.deployFrom(t.TempDir(), strings.NewReader(""), deployFlags{skipQuestion: true, contextPairs: []string{"keep=false"}}); err == nil {
		t.Fatal(said)
	}
	a.update = func(string) error { return nil }
	a.mustDeploy(t.TempDir(), "reserve=false")
	a.wantSettings(`{"keep":"false","reserve":"false"}`, `{"keep":"false","reserve":"false"}`)
}

// answering is a person who types yes after another person has done something.
type answering struct {
	meanwhile func()
	io.Reader
}

func (r *answering) Read(p []byte) (int, error) {
	if r.meanwhile != nil {
		r.meanwhile()
		r.meanwhile = nil
	}
	return r.Reader.Read(p)
}

func TestOfTwoDeploysAtOnceTheSettingsAreThoseOfTheOneThatDeployed(t *testing.T) {
	const before, other = `{"worstDay":"50"}`, `{"budget":"9","worstDay":"50"}`
	for name, tc := range map[string]struct {
		meanwhile func(*account) // while the second person reads the changes
		data      string         // settings in the stack data after the second deploy
		want      []string
	}{
		"the other has ended": {func(a *account) { a.mustDeploy(a.t.TempDir(), "budget=9") }, other, []string{"another deploy of stage dev has ended since this deploy began; nothing was started"}},
		"the other is under way": {func(a *account) {
			a.status[cdkStacks[1]] = "UPDATE_IN_PROGRESS"
			a.show()
		}, before, []string{"another deploy of stage dev is running; nothing was started"}},
		"the other begins later": {func(a *account) {
			a.update = func(string) error { // CloudFormation has begun with the other's functions
				a.status[cdkStacks[1]] = "UPDATE_IN_PROGRESS"
				a.show()
				return nil
			}
		}, `{"worstDay":"30"}`, []string{"vacancy-dev-functions is in UPDATE_IN_PROGRESS state and can not be updated", "vacancy-dev-data is UPDATE_COMPLETE", "vacancy-dev-functions is UPDATE_IN_PROGRESS by another deploy"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, home := newAccount(t), t.TempDir()
			a.mustDeploy(home, "worstDay=50")
			said, _, err := a.deployFrom(home, &answering{func() { tc.meanwhile(a) }, strings.NewReader("yes\n")}, deployFlags{contextPairs: []string{"worstDay=30"}})
			h := new(kit.HintedError)
			if !errors.As(err, &h) || !strings.HasPrefix(h.Hint, "run the same command again") {
				t.Fatalf("deploy = %v, want a hint at the same command\n%s", err, said)
			}
			wantSaid(t, err.Error(), tc.want...)
			if got := a.settings(cdkStacks[0]); got != tc.data {
				t.Errorf("stack data stores %s, want %s", got, tc.data)
			}
			// The other deploy ends.
			a.update, a.status = func(string) error { return nil }, map[string]string{}
			a.templates[cdkStacks[1]] = settingsTemplate(map[string]string{"budget": "9", "worstDay": "50"})
			a.show()
			if said, _ := a.mustDeploy(home); strings.Contains(said, "setting ") {
				t.Errorf("the next deploy changes settings: %s", said)
			}
			a.wantSettings(other, other)
		})
	}
}

func TestARotatedSecretIsNotASettingThatAPersonChose(t *testing.T) {
	a := newAccount(t)
	version := strings.Repeat("a", 32)
	a.templates[cdkStacks[1]] = settingsTemplate(map[string]string{"edgeSecretVersion": version, "edgeSecretBefore": version, "later": "1", "worstDay": "50"})
	a.show()
	d, errs := deploying(t, "", deployFlags{})
	d.rec.Context = nil
	must(t, d.chooseSettings(t.Context()))
	if diff := gocmp.Diff(map[string]string{"worstDay": "50"}, d.rec.Context); diff != "" {
		t.Errorf("choose() (-want +got):\n%s", diff)
	}
	d.printSettingChanges()
	if got, want := errs.String(), "setting later: from 1 to nothing\n"; got != want {
		t.Errorf("the plan says %q, want %q", got, want)
	}
	if err := d.checkUnchanged(t.Context()); err != nil {
		t.Errorf("checkUnchanged() = %v", err)
	}
	// A deploy that only rotated the secret has ended since this deploy began. A second rotation would begin with the wrong version.
	a.templates[cdkStacks[1]] = settingsTemplate(map[string]string{"edgeSecretVersion": strings.Repeat("b", 32), "edgeSecretBefore": version, "later": "1", "worstDay": "50"})
	a.show()
	if err := d.checkUnchanged(t.Context()); !problem.Is(err, problem.Conflict) {
		t.Errorf("checkUnchanged() after another rotation = %v, want Conflict", err)
	}
}

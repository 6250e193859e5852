package cli

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// account is an AWS account without a stage, and a CDK that creates stacks in it. The templates
// are the project's golden files.
type account struct {
	*shell
	*cloudtest.AWS
	t      *testing.T
	mu     sync.Mutex // guards stacks
	stacks map[string]cloudtest.Stack
	dir    string // of the CDK's script, templates and log

	limit      int    // concurrent executions that the account may have
	lacks      string // type of resource that the Region does not have
	specs      string // key specs of KMS in the Region
	unverified bool   // CloudFront refuses the account
}

func newAccount(t *testing.T) *account {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs that stand in for Node and npm are shell scripts")
	}
	a := &account{shell: newShell(t), AWS: cloudtest.NewWithEnv(t), t: t, dir: t.TempDir(), limit: 1000, specs: `"ECC_NIST_EDWARDS25519"`}
	a.stacks = map[string]cloudtest.Stack{"CDKToolkit": {Name: "CDKToolkit", Status: "CREATE_COMPLETE", Outputs: map[string]string{"BootstrapVersion": "28"}}}
	a.env["VACANCY_CACHE"] = t.TempDir()
	a.installCDK()
	a.answer()
	t.Chdir(filepath.Join("..", "..", ".."))
	return a
}

// installCDK puts a node, an npm and a go into PATH, of which the last only makes plans. The node stands in for the CDK: it copies the
// templates, writes its arguments to a log, and fails in deploy if a file says so.
func (a *account) installCDK() {
	bin := filepath.Join(a.dir, "bin")
	a.write("bin/go", `#!/bin/sh
[ "$*" = "run ./infra -plan" ] && env > '`+a.dir+`/env' && cp '`+a.dir+`'/edged/* "$CDK_OUTDIR"
`)
	a.write("bin/npm", "#!/bin/sh\nmkdir -p node_modules/aws-cdk/bin && : > node_modules/aws-cdk/bin/cdk\n")
	a.write("bin/node", `#!/bin/sh
[ "$1" = --version ] && echo v22.1.0 && exit
shift 2
echo "$*" >> '`+a.dir+`/log'
case "$1 $*" in
synth*edge=false*) cp '`+a.dir+`'/alone/* "$4" ;;
synth*) cp '`+a.dir+`'/edged/* "$4" ;;
deploy*) [ ! -e '`+a.dir+`/fails' ] ;;
esac
`)
	a.t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for name, shorts := range map[string][]string{"edged": stage.StackNames(), "alone": {"data", "watch", "functions"}} {
		artifacts, needs := map[string]any{}, []string{}
		for _, short := range shorts {
			whole := stage.FullName("dev", short)
			artifacts[whole] = map[string]any{"type": "aws:cloudformation:stack", "dependencies": needs, "properties": map[string]string{"templateFile": short + ".json"}}
			needs = []string{whole}
			template := golden(a.t, short)
			if name == "alone" { // functions differ by the edge's secret
				template = strings.ReplaceAll(template, "VACANCY_EDGE_SECRET", "VACANCY_NO_SECRET")
			}
			a.write(filepath.Join(name, short+".json"), template)
		}
		manifest, err := json.Marshal(map[string]any{"artifacts": artifacts})
		must(a.t, err)
		a.write(filepath.Join(name, "manifest.json"), string(manifest))
	}
}

func golden(t *testing.T, short string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", short+".json"))
	must(t, err)
	return string(b)
}

func (a *account) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	must(a.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(a.t, os.WriteFile(path, []byte(text), 0o755))
}

// runs returns the runs of a command of the CDK.
func (a *account) runs(command string) (found []string) {
	a.t.Helper()
	log, err := os.ReadFile(filepath.Join(a.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, command+" ") {
			found = append(found, line)
		}
	}
	return found
}

// answer sets the answers of AWS. All others fail the test, so a test that creates anything by
// another way than the CDK fails.
func (a *account) answer() {
	a.SetStacks(slices.Collect(maps.Values(a.stacks))...)
	a.SetResponder("GET /2016-08-19/account-settings", func(cloudtest.Request) cloudtest.Reply {
		return cloudtest.Reply{Body: fmt.Sprintf(`{"AccountLimit":{"ConcurrentExecutions":%d,"UnreservedConcurrentExecutions":%d}}`, a.limit, a.limit)}
	})
	a.SetResponder("DescribeType", func(r cloudtest.Request) cloudtest.Reply {
		if name := r.Form.Get("TypeName"); name == a.lacks {
			return cloudtest.Reply{Code: "TypeNotFoundException", Message: "The type " + name + " cannot be found."}
		}
		return cloudtest.Reply{Body: `<DescribeTypeResponse><DescribeTypeResult><Schema>{"properties":{"KeySpec":{"enum":[` + a.specs + `]}}}</Schema></DescribeTypeResult></DescribeTypeResponse>`}
	})
	a.SetResponder("DescribeStackEvents", func(r cloudtest.Request) cloudtest.Reply {
		event := ""
		if a.unverified && strings.HasSuffix(r.Form.Get("StackName"), "-edge") && len(a.runs("deploy")) == 1 {
			event = "<member><StackId>s</StackId><StackName>vacancy-dev-edge</StackName><EventId>e1</EventId><LogicalResourceId>Distribution</LogicalResourceId>" +
				"<ResourceType>AWS::CloudFront::Distribution</ResourceType><Timestamp>2026-05-06T00:00:00Z</Timestamp><ResourceStatus>CREATE_FAILED</ResourceStatus>" +
				"<ResourceStatusReason>Access denied for operation 'AWS::CloudFront::Distribution: Your account must be verified before you can add new CloudFront resources. " +
				"To verify your account, please contact AWS Support (https://console.aws.amazon.com/support/home#/) and include this error message.'</ResourceStatusReason></member>"
		}
		return cloudtest.Reply{Body: "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents>" + event + "</StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>"}
	})
	a.SetResponder("GetTemplate", func(r cloudtest.Request) cloudtest.Reply {
		b, err := os.ReadFile(filepath.Join(a.dir, "edged", strings.TrimPrefix(r.Form.Get("StackName"), "vacancy-dev-")+".json"))
		if err != nil {
			return cloudtest.Reply{Code: "ValidationError", Message: err.Error()}
		}
		var text strings.Builder
		_ = xml.EscapeText(&text, b)
		return cloudtest.Reply{Body: "<GetTemplateResponse><GetTemplateResult><TemplateBody>" + text.String() + "</TemplateBody></GetTemplateResult></GetTemplateResponse>"}
	})
	a.SetResponse("ListSubscriptionsByTopic", "<ListSubscriptionsByTopicResponse><ListSubscriptionsByTopicResult><Subscriptions></Subscriptions></ListSubscriptionsByTopicResult></ListSubscriptionsByTopicResponse>")
	a.SetResponse("GET concurrency", `{"ReservedConcurrentExecutions":2}`)
	a.SetResponse("PUT concurrency", `{}`)
	a.SetResponse("DELETE concurrency", ``)
	items := map[string]any{} // documents by key
	key := func(of any) string {
		m, _ := of.(map[string]any)
		return fmt.Sprint(m["pk"], m["sk"])
	}
	a.SetResponder("Invoke", func(cloudtest.Request) cloudtest.Reply { // admin upgrades the documents
		version := fmt.Sprintf(`{"format":1,"version":%d,"current":%[1]d}`, upgrade.CurrentVersion)
		at := upgrade.VersionDocs.Key()
		item := map[string]any{
			"pk": map[string]any{"S": at.Partition}, "sk": map[string]any{"S": at.Sort}, "v": map[string]any{"N": "1"},
			"a": map[string]any{"B": make([]byte, 16)}, "d": map[string]any{"B": []byte(version)},
		}
		items[key(item)] = item
		return cloudtest.Reply{Body: version}
	})
	a.SetResponder("PutItem", func(r cloudtest.Request) cloudtest.Reply {
		items[key(r.JSON["Item"])] = r.JSON["Item"]
		return cloudtest.Reply{Body: `{}`}
	})
	a.SetResponder("GetItem", func(r cloudtest.Request) cloudtest.Reply {
		item, ok := items[key(r.JSON["Key"])]
		if !ok {
			return cloudtest.Reply{Body: `{}`}
		}
		b, _ := json.Marshal(map[string]any{"Item": item})
		return cloudtest.Reply{Body: string(b)}
	})
	a.SetResponder("DeleteStack", func(r cloudtest.Request) cloudtest.Reply {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.stacks, strings.TrimPrefix(r.Form.Get("StackName"), "arn:"))
		a.SetStacks(slices.Collect(maps.Values(a.stacks))...)
		return cloudtest.Reply{Body: "<DeleteStackResponse></DeleteStackResponse>"}
	})
}

// have puts stacks of stage dev into the account. The outputs lead to url.
func (a *account) have(url string, statuses map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for short, status := range statuses {
		name := stage.FullName("dev", short)
		outputs := map[string]string{"Rows": "rows-1", "Docs": "docs-1", "SealKey": "key-1"}
		switch short {
		case "functions":
			outputs = map[string]string{"AgentUrl": url, "AdminUrl": url}
		case "edge":
			outputs = map[string]string{"Url": url}
		}
		outputs[setting.StoredOutput] = setting.FormatStored(map[string]string{"email": "ops@example.org"})
		a.stacks[name] = cloudtest.Stack{Name: name, Status: status, Outputs: outputs}
	}
	a.SetStacks(slices.Collect(maps.Values(a.stacks))...)
}

func TestADeployThatAWSWouldRefuseCreatesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*account)
		flags  string
		want   []string
	}{
		"quota 10": {func(a *account) { a.limit = 10 }, "", []string{"quota: the stage must reserve ", "Lambda requires that 10 of the account's 10",
			"--context reserve=false (then only the account's quota limits", "https://eu-west-1.console.aws.amazon.com/servicequotas/home/services/lambda/quotas/L-B99A9384", "--desired-value 1000"}},
		"quota 50":                       {func(a *account) { a.limit = 50 }, "", []string{"Lambda requires that 50 of the account's 50", "--context reserve=false"}},
		"a quota that the standard fits": {func(a *account) { a.limit = 150 }, "--context worstDay=200", []string{"quota: ", "or reserve less: vacancy deploy --stage dev --context worstDay=20"}},
		"no Function URLs":               {func(a *account) { a.lacks = "AWS::Lambda::Url" }, "", []string{"resource types: CloudFormation has no AWS::Lambda::Url in Region eu-west-1", "export AWS_REGION=us-east-1"}},
		"no CloudFront":                  {func(a *account) { a.lacks = "AWS::CloudFront::Distribution" }, "", []string{"AWS::CloudFront::Distribution", "vacancy deploy --stage dev --no-edge"}},
		"no Ed25519":                     {func(a *account) { a.specs = `"RSA_2048"` }, "", []string{"key spec: KMS has no keys of the spec ECC_NIST_EDWARDS25519", "--context hostKey=software"}},
		"an old bootstrap": {func(a *account) { a.stacks["CDKToolkit"].Outputs["BootstrapVersion"] = "5" }, "",
			[]string{"bootstrap: CDKToolkit has version 5", "bootstrap aws://123456789012/eu-west-1"}},
		"two of them": {func(a *account) { a.limit, a.lacks = 10, "AWS::Lambda::Url" }, "", []string{"quota: ", "resource types: ", "reserve=false", "AWS_REGION"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			tc.change(a)
			code, out, errs := a.run("", append(strings.Fields("deploy --yes --email ops@example.org"), strings.Fields(tc.flags)...)...)
			if code != problem.ExitConflict || out != "" {
				t.Errorf("deploy = exit %d, %q, want it refused", code, out)
			}
			for _, want := range append(tc.want, "nothing was created") {
				if !strings.Contains(errs, want) {
					t.Errorf("deploy does not say %q:\n%s", want, errs)
				}
			}
			for _, command := range []string{"bootstrap", "synth", "deploy"} {
				if runs := a.runs(command); runs != nil {
					t.Errorf("deploy ran the CDK: %s", runs)
				}
			}
			for _, operation := range []string{"PUT concurrency", "DELETE concurrency", "Invoke", "PutItem", "DeleteStack"} {
				if n := len(a.Requests(operation)); n > 0 {
					t.Errorf("deploy asked AWS %d times for %s", n, operation)
				}
			}
			if _, err := (stage.Records{Dir: filepath.Join(a.dataHome, "stages")}).Read("dev"); !problem.Is(err, problem.NotFound) {
				t.Errorf("a refused deploy left a record (%v), which would keep the stage in this Region", err)
			}
		})
	}
}

func TestLimitsOfADayThatCostsMoreAreRefusedBeforeTheBuilds(t *testing.T) {
	a := newAccount(t)
	code, out, errs := a.run("", strings.Fields("deploy --yes --no-edge --context worstDay=5")...)
	if code != problem.ExitUsage || out != "" || !strings.Contains(errs, "nothing was created. Context value worstDay: expected at least ") {
		t.Errorf("deploy = exit %d, %q, %q", code, out, errs)
	}
	for _, command := range []string{"bootstrap", "synth", "deploy"} {
		if runs := a.runs(command); runs != nil {
			t.Errorf("deploy ran the CDK: %s", runs)
		}
	}
}

// After the stacks the stage has no outputs here, which ends the deploy. The CDK was asked to deploy.
func TestADeployGoesOnWhereTheAccountAllowsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*account)
		flags  string
		said   string
		synth  string // in the CDK's arguments
	}{
		"a good account":             {func(*account) {}, "--email ops@example.org", "", "--context stage=dev"},
		"quota 10 without reserving": {func(a *account) { a.limit = 10 }, "--email ops@example.org --context reserve=false", "", "--context reserve=false"},
		"no address":                 {func(*account) {}, "", "warning, mail address: no mail address is set", ""},
		"no budgets": {func(a *account) { a.lacks = "AWS::Budgets::Budget" }, "--email ops@example.org",
			"warning, resource types: CloudFormation has no AWS::Budgets::Budget in Region eu-west-1", "--context lacksBudgets=true"},
		"denied": {func(a *account) {
			a.SetError("DescribeType", "AccessDenied", "not you")
			a.SetError("GET /2016-08-19/account-settings", "AccessDeniedException", "not you")
		}, "--email ops@example.org", "warning, quota: it was not checked: AWS denies these credentials Lambda:GetAccountSettings: not you", ""},
		"an unknown operation": {func(a *account) { a.SetError("DescribeType", "InvalidAction", "no such action") }, "--email ops@example.org",
			"warning, resource types: it was not checked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			tc.change(a)
			_, _, errs := a.run("", append(strings.Fields("deploy --yes"), strings.Fields(tc.flags)...)...)
			if !strings.Contains(errs, tc.said) || tc.said == "" && strings.Contains(errs, "warning, ") {
				t.Errorf("deploy says %q, want %q", errs, tc.said)
			}
			if runs := a.runs("synth"); len(runs) != 1 || !strings.Contains(runs[0], tc.synth) || strings.Contains(runs[0], "lacksBudgets") != (name == "no budgets") {
				t.Errorf("the CDK ran as %q, want %q", runs, tc.synth)
			}
			if len(a.runs("deploy")) != 1 {
				t.Errorf("the CDK was not run to deploy; deploy says %s", errs)
			}
			if denied := name == "denied" || name == "an unknown operation"; denied && len(a.Requests("DescribeType")) > 3 { // with the SDK's retries
				t.Errorf("%d types were asked after the first question was not answered", len(a.Requests("DescribeType")))
			}
		})
	}
}

// A new account: CloudFront refuses the last stack. The stage is then deployed without it, and gets
// it when AWS has verified the account.
func TestAStageOfAnUnverifiedAccountGetsItsEdgeLater(t *testing.T) {
	a := newAccount(t)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer vop_"):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/admin/vacants/hello": // which deploy does not call
			fmt.Fprint(w, `{"name":"hello","state":"HIBERNATING"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	defer host.Close()
	record := func() stage.Record {
		t.Helper()
		rec, err := (stage.Records{Dir: filepath.Join(a.dataHome, "stages")}).Read("dev")
		must(t, err)
		return rec
	}

	a.unverified = true
	a.write("fails", "")
	a.SetResponder("DescribeStacks", func(r cloudtest.Request) cloudtest.Reply { // the stacks appear with the run of the CDK
		if len(a.runs("deploy")) > 0 {
			a.have(host.URL, map[string]string{"data": "CREATE_COMPLETE", "watch": "CREATE_COMPLETE", "functions": "CREATE_COMPLETE", "edge": "ROLLBACK_COMPLETE"})
		} else {
			a.have(host.URL, nil)
		}
		return cloudtest.Reply{Code: "ValidationError", Message: "Stack with id " + r.Form.Get("StackName") + " does not exist"}
	})
	code, out, errs := a.run("", strings.Fields("deploy --yes --email ops@example.org")...)
	if code == 0 || out != "" {
		t.Fatalf("deploy = exit %d, %q, %q, want it to fail", code, out, errs)
	}
	for _, want := range []string{"Your account must be verified", "https://console.aws.amazon.com/support/home#/", "--context edge=true", "try: vacancy deploy --stage dev --no-edge"} {
		if !strings.Contains(errs, want) {
			t.Errorf("deploy does not say %q:\n%s", want, errs)
		}
	}

	must(t, os.Remove(filepath.Join(a.dir, "fails")))
	a.have(host.URL, map[string]string{"data": "CREATE_COMPLETE", "watch": "CREATE_COMPLETE", "functions": "CREATE_COMPLETE", "edge": "ROLLBACK_COMPLETE"})
	code, out, errs = a.run("", strings.Fields("deploy --yes --no-edge")...)
	if strings.Contains(errs, "pauses the stage") {
		t.Errorf("a stage that was never used is paused: %s", errs)
	}
	if code != 0 || !strings.Contains(out, "stage dev is at "+host.URL) || !strings.Contains(out, "operator key of stage dev") {
		t.Fatalf("deploy --no-edge = exit %d, %q, %q, want the URL and an operator key", code, out, errs)
	}
	if _, left := a.stacks["vacancy-dev-edge"]; left {
		t.Error("the stack of the edge that CloudFront refused is still there")
	}
	now := record()
	if now.Edge || now.OperatorKey == "" || now.URL != host.URL {
		t.Errorf("the record has edge %t, URL %s, and key: %v", now.Edge, now.URL, now.OperatorKey)
	}

	a.SetResponder("DescribeStackEvents", func(cloudtest.Request) cloudtest.Reply { // the CDK's run, during which this is asked, creates the edge
		if len(a.runs("deploy")) == 3 {
			a.have(host.URL, map[string]string{"edge": "CREATE_COMPLETE"})
		}
		return cloudtest.Reply{Body: "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>"}
	})
	code, out, errs = a.run("", strings.Fields("deploy --yes --context edge=true")...)
	if code != 0 || strings.Contains(out, "operator key of") {
		t.Fatalf("deploy with the edge = exit %d, %q, %q, want no new key", code, out, errs)
	}
	if after := record(); !after.Edge || after.OperatorKey != now.OperatorKey {
		t.Errorf("the record has edge %t, and the same key: %t", after.Edge, after.OperatorKey == now.OperatorKey)
	}
	for i, edge := range []string{"", "--context edge=false", "--context edge=true"} {
		if made := a.runs("synth")[i]; !strings.Contains(made, edge) || !strings.Contains(made, "--context email=ops@example.org") {
			t.Errorf("deploy %d made the templates with %q, want %q and the address", i+1, made, edge)
		}
	}
	if n := len(a.runs("deploy")); n != 3 {
		t.Errorf("the CDK deployed %d times, want 3", n)
	}
}

func TestAPlanShowsTheStageAndAsksNobody(t *testing.T) {
	a := newAccount(t)
	t.Setenv("AWS_REGION", "") // and the command line has no Region either
	a.env["AWS_SECRET_ACCESS_KEY"], a.env["AWS_PROFILE"] = "secret", "prod"
	code, out, errs := a.run("", strings.Fields("deploy --plan --context worstDay=30")...)
	if code != 0 {
		t.Fatalf("deploy --plan = exit %d, %q", code, errs)
	}
	t.Chdir(filepath.Join("cmd", "vacancy", "cli"))
	clitest.CompareGolden(t, "deploy-plan", out)
	env, err := os.ReadFile(filepath.Join(a.dir, "env"))
	must(t, err)
	for _, secret := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		if strings.Contains(string(env), secret) {
			t.Errorf("the CDK app has %s", secret)
		}
	}
	if !strings.Contains(string(env), `"worstDay":"30"`) || !strings.Contains(string(env), "AWS_REGION=us-east-1") {
		t.Errorf("the CDK app has the environment %s, want the settings and a Region", env)
	}
	for _, operation := range []string{"GetCallerIdentity", "DescribeStacks", "DescribeType"} {
		if len(a.Requests(operation)) > 0 {
			t.Errorf("a plan asked AWS for %s", operation)
		}
	}
	if _, err := (stage.Records{Dir: filepath.Join(a.dataHome, "stages")}).Read("dev"); !problem.Is(err, problem.NotFound) {
		t.Errorf("a plan left a record (%v)", err)
	}
	if runs := a.runs("synth"); runs != nil {
		t.Errorf("a plan ran the CDK: %s", runs)
	}
	must(t, (stage.Records{Dir: filepath.Join(a.dataHome, "stages")}).Write(stage.Record{Stage: "dev", URL: "https://agents.example"}))
	t.Chdir(filepath.Join("..", "..", ".."))
	if _, _, errs := a.run("", "deploy", "--plan"); !strings.Contains(errs, "A plan does not read the settings that the stage stores") {
		t.Errorf("the plan of a deployed stage says %q", errs)
	}
}

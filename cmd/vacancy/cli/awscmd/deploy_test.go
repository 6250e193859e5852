package awscmd

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// deploying is a deployment of stage dev by a person who types answers.
func deploying(t *testing.T, answers string, f deployFlags) (*deployment, *bytes.Buffer) {
	t.Helper()
	var errs bytes.Buffer
	c, err := awscloud.Open(t.Context(), "")
	must(t, err)
	a := &kit.App{
		In: bufio.NewReader(strings.NewReader(answers)), Out: &bytes.Buffer{}, Err: &errs, Env: map[string]string{"VACANCY_HOME": t.TempDir()},
		Now: func() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) }, Rand: rand.Reader,
	}
	return &deployment{App: a, flags: f, checkoutDir: filepath.Join("..", "..", "..", ".."), cloud: c, rec: cloudtest.DevRecord()}, &errs
}

func TestTheAddressForAlarmsIsAskedOnce(t *testing.T) {
	cloudtest.NewWithEnv(t).SetStacks()
	for name, tc := range map[string]struct {
		answers string
		flags   deployFlags
		before  map[string]string
		want    map[string]string
		asked   bool
	}{
		"asked":           {"ops@example.org\n", deployFlags{}, nil, map[string]string{"email": "ops@example.org"}, true},
		"nobody":          {"\n", deployFlags{}, nil, map[string]string{"email": ""}, true},
		"not asked again": {"", deployFlags{}, map[string]string{"email": ""}, map[string]string{"email": ""}, false},
		"by flag":         {"", deployFlags{email: "a@b.org"}, map[string]string{"email": ""}, map[string]string{"email": "a@b.org"}, false},
		"with --yes":      {"", deployFlags{skipQuestion: true}, nil, map[string]string{}, false},
		"other choices": {"", deployFlags{skipQuestion: true, noEdge: true, contextPairs: []string{"keep=false", "domain=a=b"}}, map[string]string{"keep": "true", "waf": "true"},
			map[string]string{"keep": "false", "waf": "true", "domain": "a=b", "edge": "false"}, false},
		"values of an earlier release": {"", deployFlags{skipQuestion: true}, map[string]string{"concurrency": "5", "worstDay": "50"}, map[string]string{"worstDay": "50"}, false},
	} {
		d, errs := deploying(t, tc.answers, tc.flags)
		d.rec.Context = maps.Clone(tc.before)
		err := d.chooseSettings(t.Context())
		if diff := gocmp.Diff(tc.want, d.rec.Context); diff != "" || err != nil || (errs.Len() > 0) != tc.asked {
			t.Errorf("%s: choose() = %v, asked %q (-want +got):\n%s", name, err, errs, diff)
		}
	}
}

func TestAValueThatTheStacksRefuseIsATypingError(t *testing.T) {
	for out, want := range map[string]string{
		"context value budget: expected a whole number from 1 to 1000000, got \"ten\"\nexit status 1\ngo run ./infra: Subprocess exited with error 1\n": `--context budget: expected a whole number from 1 to 1000000, got "ten"`,
		"context value keep: expected true or false, got \"\"\r\ndomain: needs context value certificate, the ARN\n":                                    `--context keep: expected true or false, got ""; --context domain: needs context value certificate, the ARN`,
		"waitid: no child processescontext value pairRate: expected x, got \"y\"\n":                                                                     `--context pairRate: expected x, got "y"`,
		"waf: expected a stage in us-east-1, got Region \"eu-west-1\"":                                                                                  `--context waf: expected a stage in us-east-1, got Region "eu-west-1"`,
		"context value edgeSecretVersion: expected a version id":                                                                                        "", // which deploy sets itself
		"walk.go:3: expected ';'": "", "Error: needs more": "", "": "",
	} {
		got := ""
		if err := refusedValuesError([]byte(out)); err != nil {
			if got = err.Error(); !problem.Is(err, problem.Usage) {
				t.Errorf("refusedValues(%q) is a %v, want Usage", out, problem.AsError(err).Kind)
			}
		}
		if got != want {
			t.Errorf("refusedValues(%q) = %q, want %q", out, got, want)
		}
	}
}

func TestAnAccountIsNeverPreparedSilently(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks()
	for name, tc := range map[string]struct {
		answer string
		flags  deployFlags
		kind   problem.Kind
	}{
		"no answer": {"", deployFlags{}, problem.Usage}, "another word": {"no\n", deployFlags{}, problem.Usage}, "only --yes": {"yes\n", deployFlags{skipQuestion: true}, problem.Conflict},
	} {
		d, _ := deploying(t, tc.answer, tc.flags) // its CDK is nil: running it would panic
		err := d.ensureBootstrap(t.Context())
		h := new(kit.HintedError)
		if !problem.Is(err, tc.kind) || !errors.As(err, &h) || h.Hint != "vacancy deploy --stage dev --bootstrap" {
			t.Errorf("%s: bootstrapped() = %v, want %v with a hint at the flag", name, err, tc.kind)
		}
	}
	server.SetStacks(cloudtest.Stack{Name: "CDKToolkit", Status: "CREATE_COMPLETE"})
	d, errs := deploying(t, "", deployFlags{})
	if err := d.ensureBootstrap(t.Context()); err != nil || errs.Len() > 0 {
		t.Errorf("bootstrapped() of a prepared account = %v, %q, want silence", err, errs)
	}
}

func TestAStackThatCannotBeDeployedOverIsNamedWithTheWayOut(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	for status, want := range map[string]string{
		"UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name vacancy-dev-data",
		"DELETE_FAILED":          "aws cloudformation delete-stack --stack-name vacancy-dev-data",
		"ROLLBACK_COMPLETE":      "", "UPDATE_ROLLBACK_COMPLETE": "", "UPDATE_COMPLETE": "", "REVIEW_IN_PROGRESS": "",
	} {
		server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: status})
		d, _ := deploying(t, "", deployFlags{})
		err := d.awaitIdle(t.Context())
		h := new(kit.HintedError)
		if want == "" && err != nil || want != "" && (!problem.Is(err, problem.Conflict) || !errors.As(err, &h) || !strings.Contains(h.Hint, want)) {
			t.Errorf("%s: quiet() = %v, want %q", status, err, want)
		}
	}
}

func TestAnEarlierDeployThatIsUnderWayIsWaitedFor(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	looks := 0
	server.SetResponder("DescribeStacks", func(r cloudtest.Request) cloudtest.Reply {
		if !strings.Contains(r.Form.Get("StackName"), "data") {
			return cloudtest.Reply{Code: "ValidationError", Message: "Stack does not exist"}
		}
		looks++
		status := "UPDATE_IN_PROGRESS"
		if looks > 1 {
			status = "UPDATE_COMPLETE"
		}
		return cloudtest.Reply{Body: "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackId>arn:vacancy-dev-data</StackId><StackName>vacancy-dev-data</StackName><CreationTime>2026-05-06T00:00:00Z</CreationTime><StackStatus>" + status + "</StackStatus></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"}
	})
	server.SetResponse("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>")
	d, errs := deploying(t, "", deployFlags{})
	if err := d.awaitIdle(t.Context()); err != nil || !strings.Contains(errs.String(), "waiting for an earlier deploy to end") {
		t.Errorf("quiet() = %v, %q, want it to wait", err, errs)
	}
}

// built is an assembly of one stack with a changed copy of the project's data
// template.
func built(t *testing.T, change ...string) *assembly.Assembly {
	t.Helper()
	return &assembly.Assembly{Stacks: []assembly.Stack{{ID: "vacancy-dev-data", Name: "vacancy-dev-data", Template: []byte(strings.NewReplacer(change...).Replace(dataTemplate(t)))}}}
}

func dataTemplate(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "infra", "testdata", "data.json"))
	must(t, err)
	return string(b)
}

func TestTheProjectsOwnTemplateIsRefusedWhereItWouldLoseData(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"})
	var escaped strings.Builder
	for _, r := range dataTemplate(t) {
		escaped.WriteString(map[rune]string{'<': "&lt;", '>': "&gt;", '&': "&amp;"}[r])
		if !strings.ContainsRune("<>&", r) {
			escaped.WriteRune(r)
		}
	}
	server.SetResponse("GetTemplate", "<GetTemplateResponse><GetTemplateResult><TemplateBody>"+escaped.String()+"</TemplateBody></GetTemplateResult></GetTemplateResponse>")
	d, _ := deploying(t, "", deployFlags{})
	for name, tc := range map[string]struct {
		change []string
		losses int
	}{
		"as deployed":              {nil, 0},
		"a table renamed":          {[]string{`"Rows": {`, `"Rows2": {`}, 1},
		"all keys of another kind": {[]string{`AWS::KMS::Key"`, `AWS::KMS::Alias"`}, 3},
		"another sort key":         {[]string{`"KeyType": "RANGE"`, `"KeyType": "HASH"`}, 2},
		"the bucket gone":          {[]string{`"AWS::S3::Bucket"`, `"AWS::S3::Nothing"`}, 1},
		"data no longer kept":      {[]string{`"Retain"`, `"Delete"`}, 0},
	} {
		changes, losses, err := d.compareTemplates(t.Context(), built(t, tc.change...))
		if err != nil || len(losses) != tc.losses || (len(changes) == 0) != (len(tc.change) == 0) {
			t.Errorf("%s: compare() = %d changes, losses %q, %v; want %d losses", name, len(changes), losses, err, tc.losses)
		}
	}
	if err := d.lossError([]string{"x"}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "nothing was started") {
		t.Errorf("refuse() = %v", err)
	}
}

func TestAnExchangeOfTheEdgesSecretBeginsWithWhatTheEdgeSends(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	const pinned = "11111111-2222-4333-8444-555555555555"
	for name, tc := range map[string]struct {
		edge, current, want string
		promoted            int
	}{
		"after the first deploy":   {`{"a":"{{resolve:secretsmanager:arn:SecretString:::}}"}`, "v0", "v0", 0},
		"after a later one":        {`{"a":"{{resolve:secretsmanager:arn:SecretString:::` + pinned + `}}"}`, pinned, pinned, 0},
		"after one that broke off": {`{"a":"{{resolve:secretsmanager:arn:SecretString:::` + pinned + `}}"}`, "v0", pinned, 1},
	} {
		server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-edge", Status: "CREATE_COMPLETE"}, cloudtest.Stack{Name: "vacancy-dev-functions", Status: "CREATE_COMPLETE", Outputs: map[string]string{"EdgeSecret": "arn"}})
		server.SetResponse("GetTemplate", "<GetTemplateResponse><GetTemplateResult><TemplateBody>"+tc.edge+"</TemplateBody></GetTemplateResult></GetTemplateResponse>")
		server.SetResponse("DescribeSecret", `{"VersionIdsToStages":{"`+tc.current+`":["AWSCURRENT"]}}`)
		server.SetResponse("UpdateSecretVersionStage", `{}`)
		before := len(server.Requests("UpdateSecretVersionStage"))
		d, _ := deploying(t, "", deployFlags{})
		d.rec.Context["edge"] = "true"
		r, err := d.planRotation(t.Context())
		if err != nil || r.oldVersion != tc.want || len(r.newVersion) != 36 || r.newVersion == r.oldVersion || len(server.Requests("UpdateSecretVersionStage"))-before != tc.promoted {
			t.Errorf("%s: rotation() = %+v, %v, want before %s and %d promoted", name, r, err, tc.want, tc.promoted)
		}
		if diff := gocmp.Diff(map[string]string{"edgeSecretVersion": r.newVersion, "edgeSecretBefore": tc.want}, r.contextValues()); diff != "" {
			t.Errorf("%s: context() (-want +got):\n%s", name, diff)
		}
	}
	server.SetStacks()
	d, _ := deploying(t, "", deployFlags{})
	d.rec.Context["edge"] = "true"
	if r, err := d.planRotation(t.Context()); err != nil || r != (rotation{}) || r.contextValues() != nil {
		t.Errorf("rotation() of a first deploy = %+v, %v, want none", r, err)
	}
}

func TestAFailedDeployTellsCauseAndState(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"}, cloudtest.Stack{Name: "vacancy-dev-functions", Status: "UPDATE_ROLLBACK_FAILED"})
	d, _ := deploying(t, "", deployFlags{})
	events := []cloud.Event{{ID: "1", Stack: "vacancy-dev-functions", Resource: "Account", Type: "AWS::Lambda::Function", Status: "UPDATE_FAILED", Reason: "Resource update cancelled"},
		{ID: "2", Stack: "vacancy-dev-functions", Resource: "Message", Type: "AWS::Lambda::Function", Status: "UPDATE_FAILED", Reason: "no memory.\nat all."}}
	err := d.explainFailure(t.Context(), false, "deploy", kit.StackNames("dev"), events, nil)
	const want = "deploy failed: vacancy-dev-functions: Message (AWS::Lambda::Function): no memory. at all. Rollback: vacancy-dev-data is CREATE_COMPLETE; " +
		"vacancy-dev-watch was never created; vacancy-dev-functions is UPDATE_ROLLBACK_FAILED; vacancy-dev-edge was never created"
	h := new(kit.HintedError)
	if err.Error() != want || !errors.As(err, &h) || !strings.Contains(h.Hint, "continue-update-rollback") {
		t.Errorf("failed() = %q with %+v, want %q and the way out", err, h, want)
	}
	if err := d.explainFailure(t.Context(), true, "deploy", nil, events, nil); !problem.Is(err, problem.Canceled) {
		t.Errorf("failed() of an interrupted run = %v, want Canceled", err)
	}
}

// AWS tells these refusals only when it creates a resource.
func TestARefusalThatNoCheckForeseesIsExplained(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks()
	d, _ := deploying(t, "", deployFlags{})
	for _, tt := range []struct{ kind, reason, says, hint string }{
		{"AWS::CloudFront::Distribution", "Resource handler returned message: \"Access denied for operation 'AWS::CloudFront::Distribution: Your account must be verified before you can add new CloudFront resources. To verify your account, please contact AWS Support'\"",
			"Open a case at https://console.aws.amazon.com/support/home#/", "vacancy deploy --stage dev --no-edge"},
		{"AWS::Lambda::Function", "Resource handler returned message: \"Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below its minimum value of [50]. (Service: Lambda, Status Code: 400)\"",
			"below its minimum value of [50]", "vacancy deploy --stage dev --context reserve=false"},
		{"AWS::KMS::Key", "Properties validation failed: #/KeySpec: #: only 1 subschema matches out of 2", "KMS in this Region", "vacancy deploy --stage dev --context hostKey=software"},
	} {
		event := cloud.Event{ID: "1", Stack: "vacancy-dev-x", Resource: "X", Type: tt.kind, Status: "CREATE_FAILED", Reason: tt.reason}
		err := d.explainFailure(t.Context(), false, "deploy", kit.StackNames("dev"), []cloud.Event{event}, nil)
		h := new(kit.HintedError)
		if !strings.Contains(err.Error(), tt.says) || !errors.As(err, &h) || h.Hint != tt.hint {
			t.Errorf("failed() = %v with %+v, want %q and %q", err, h, tt.says, tt.hint)
		}
	}
}

func TestTheCauseOfARunIsItsLastWordThatIsOne(t *testing.T) {
	for out, want := range map[string]string{
		"":                                 "it printed nothing",
		"a\nb\n\n":                         "b",
		"Error: no bucket\nsee the docs\n": "Error: no bucket",
		"walk.go:3: undefined: x\ngo run ./infra: Subprocess exited with error 1\n": "walk.go:3: undefined: x",
		"Subprocess exited with error 1":                                            "Subprocess exited with error 1",
		"x failed: \x1b[31mred\n":                                                   `x failed: \u001b[31mred`,
	} {
		if got := findErrorLine([]byte(out)); got != want {
			t.Errorf("lastError(%q) = %q, want %q", out, got, want)
		}
	}
}

func TestEveryEventThatIsNamedIsThere(t *testing.T) {
	top := filepath.Join("..", "..", "..", "..")
	readme, err := os.ReadFile(filepath.Join(top, "infra", "README.md"))
	must(t, err)
	cmd := invokeCommand(&kit.App{})
	named := regexp.MustCompile(`events/[a-z-]+\.json`).FindAllString(string(readme)+cmd.Long+cmd.Example, -1)
	if len(named) < 3 {
		t.Fatalf("found %q, want the events that infra/README.md and the help name", named)
	}
	for _, path := range named {
		if _, err := os.Stat(filepath.Join(top, path)); err != nil {
			t.Errorf("a text names %s: %v", path, err)
		}
	}
}

func TestTheToolsOfADeployGetNoOperatorKey(t *testing.T) {
	cloudtest.NewWithEnv(t)
	d, _ := deploying(t, "", deployFlags{skipQuestion: true})
	d.Env["VACANCY_OPERATOR_KEY"] = "vop_secret"
	for _, v := range d.environ() {
		if strings.Contains(v, "vop_secret") || strings.HasPrefix(v, "VACANCY_OPERATOR_KEY=") {
			t.Errorf("environ() has %s", v)
		}
	}
	if d.Env["VACANCY_OPERATOR_KEY"] != "vop_secret" {
		t.Error("environ() changed the environment of the command itself")
	}
}

func TestALineWithoutAStatusIsFoundByItsVerdict(t *testing.T) {
	done := map[string]any{"verdict": "unavailable"} // of a function that runs in the background
	for want, fits := range map[string]bool{"unavailable": true, "ok": false, "5xx": false, "503": false} {
		if got := matchesStatus(want, done); got != fits {
			t.Errorf("statusFits(%s) = %t, want %t", want, got, fits)
		}
	}
}

// AWS sends no alarm to an address until its owner has opened the link in AWS's mail.
func TestAMailSubscriptionNeverConfirmedIsReported(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-watch", Status: "CREATE_COMPLETE", Outputs: map[string]string{"AlarmTopic": "arn:aws:sns:eu-west-1:123456789012:alarms"}})
	member := func(protocol, address, arn string) string {
		return "<member><TopicArn>t</TopicArn><Protocol>" + protocol + "</Protocol><Endpoint>" + address + "</Endpoint><SubscriptionArn>" + arn + "</SubscriptionArn></member>"
	}
	for name, tc := range map[string]struct {
		subscriptions string
		want          []string
	}{
		"never confirmed":         {member("email", "ops@example.org", "PendingConfirmation"), []string{"ops@example.org"}},
		"removed by AWS":          {"", []string{"ops@example.org"}},
		"unsubscribed":            {member("email", "ops@example.org", "Deleted"), []string{"ops@example.org"}},
		"confirmed":               {member("email", "ops@example.org", "arn:aws:sns:eu-west-1:123456789012:alarms:1"), nil},
		"confirmed, and again":    {member("email", "ops@example.org", "arn:1") + member("email", "ops@example.org", "PendingConfirmation"), nil},
		"another address as well": {member("email", "ops@example.org", "arn:1") + member("email", "b@example.org", "PendingConfirmation") + member("https", "https://x.example", "PendingConfirmation"), []string{"b@example.org"}},
	} {
		server.SetResponse("ListSubscriptionsByTopic", "<ListSubscriptionsByTopicResponse><ListSubscriptionsByTopicResult><Subscriptions>"+tc.subscriptions+"</Subscriptions></ListSubscriptionsByTopicResult></ListSubscriptionsByTopicResponse>")
		d, _ := deploying(t, "", deployFlags{})
		got, err := d.findUnconfirmedMail(t.Context(), "ops@example.org")
		if err != nil || (got == nil) != (tc.want == nil) {
			t.Fatalf("%s: unconfirmedMail() = %+v, %v, want %q", name, got, err, tc.want)
		}
		if got == nil {
			continue
		}
		fix := "aws sns subscribe --topic-arn arn:aws:sns:eu-west-1:123456789012:alarms --protocol email --notification-endpoint " + tc.want[0]
		var printed bytes.Buffer
		deployResult{Stage: "dev", URL: "https://dev.example", UnconfirmedMail: got, NoCallReason: "x"}.Print(&printed)
		if diff := gocmp.Diff(tc.want, got.Addresses); diff != "" || !strings.Contains(printed.String(), "alarms do not reach "+tc.want[0]+" yet: to confirm the subscription, open the link") || !strings.Contains(printed.String(), fix) {
			t.Errorf("%s: unconfirmedMail() (-want +got):\n%s\nprinted %s", name, diff, &printed)
		}
	}
	server.SetError("ListSubscriptionsByTopic", "AuthorizationError", "User is not authorized to perform: SNS:ListSubscriptionsByTopic")
	d, _ := deploying(t, "", deployFlags{})
	if got, err := d.findUnconfirmedMail(t.Context(), ""); got != nil || err != nil {
		t.Errorf("unconfirmedMail() without an address = %+v, %v, want AWS not asked", got, err)
	}
	if got, err := d.findUnconfirmedMail(t.Context(), "ops@example.org"); got != nil || !problem.Is(err, problem.Forbidden) {
		t.Errorf("unconfirmedMail() without the right to list = %+v, %v, want Forbidden", got, err)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

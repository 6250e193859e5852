package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
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
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// onAWS is a shell whose AWS is a server with recorded responses, with a record of
// stage dev.
func onAWS(t *testing.T) (*shell, *cloudtest.AWS) {
	t.Helper()
	server := cloudtest.Here(t)
	s := newShell(t)
	if err := (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(cloudtest.Dev()); err != nil {
		t.Fatal(err)
	}
	return s, server
}

// deploying is a deployment of stage dev by a person who types answers.
func deploying(t *testing.T, answers string, f deployFlags) (*deployment, *bytes.Buffer) {
	t.Helper()
	var errs bytes.Buffer
	c, err := awscloud.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{
		in: bufio.NewReader(strings.NewReader(answers)), out: &bytes.Buffer{}, err: &errs, env: map[string]string{"VACANCY_HOME": t.TempDir()},
		now: func() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) }, rand: rand.Reader,
	}
	return &deployment{app: a, flags: f, cloud: c, rec: cloudtest.Dev()}, &errs
}

func TestAnEmptyContextValueIsGivenOn(t *testing.T) {
	got := contextArgs(map[string]string{"rate": "", "keep": "false"}, map[string]string{"edgeSecretVersion": "v"})
	want := []string{"--context", "keep=false", "--context", "rate=", "--context", "edgeSecretVersion=v"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("contextArgs() (-want +got):\n%s", diff)
	}
}

func TestADeployOutsideACheckoutSaysSo(t *testing.T) {
	s := newShell(t)
	t.Chdir(t.TempDir())
	code, out, errs := s.run("", "deploy")
	if code != problem.ExitNotFound || out != "" || !strings.Contains(errs, "there is no cdk.json in") {
		t.Errorf("deploy = exit %d, %q, %q; want it refused for want of a checkout", code, out, errs)
	}
}

func TestTheAddressForAlarmsIsAskedOnce(t *testing.T) {
	cloudtest.Here(t)
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
		"with --yes":      {"", deployFlags{yes: true}, nil, map[string]string{}, false},
		"other choices": {"", deployFlags{yes: true, noEdge: true, context: []string{"keep=false", "domain=a=b"}}, map[string]string{"keep": "true", "waf": "true"},
			map[string]string{"keep": "false", "waf": "true", "domain": "a=b", "edge": "false"}, false},
		"values of an earlier release": {"", deployFlags{yes: true}, map[string]string{"concurrency": "5", "worstDay": "50"}, map[string]string{"worstDay": "50"}, false},
	} {
		d, errs := deploying(t, tc.answers, tc.flags)
		d.rec.Context = maps.Clone(tc.before)
		err := d.choose(t.Context())
		if diff := gocmp.Diff(tc.want, d.rec.Context); diff != "" || err != nil || (errs.Len() > 0) != tc.asked {
			t.Errorf("%s: choose() = %v, asked %q (-want +got):\n%s", name, err, errs, diff)
		}
	}
}

func TestAContextValueOfAnotherNameIsRefusedBeforeAnythingElse(t *testing.T) {
	s := newShell(t)
	t.Chdir(t.TempDir()) // no checkout, which is the next thing that deploy checks
	names := strings.Join(setting.Chosen(), ", ")
	for bad, want := range map[string]string{
		"x": "NAME=VALUE with one of " + names, "=x": "NAME=VALUE", "edeg=false": "--context: expected one of " + names,
		"stage=prod": "try: --stage prod", "edgeSecretVersion=1": "--context edgeSecretVersion is set by deploy itself; expected one of " + names, "Keep=true": "one of " + names,
	} {
		code, out, errs := s.run("", "deploy", "--yes", "--context", bad)
		if code != problem.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("deploy --context %s = exit %d, %q, %q; want it refused with %q", bad, code, out, errs, want)
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
		if err := refusedValues([]byte(out)); err != nil {
			if got = err.Error(); !problem.Is(err, problem.Usage) {
				t.Errorf("refusedValues(%q) is a %v, want Usage", out, problem.Of(err).Kind)
			}
		}
		if got != want {
			t.Errorf("refusedValues(%q) = %q, want %q", out, got, want)
		}
	}
}

func TestAnAccountIsNeverPreparedSilently(t *testing.T) {
	server := cloudtest.Here(t)
	server.Stacks()
	for name, tc := range map[string]struct {
		answer string
		flags  deployFlags
		kind   problem.Kind
	}{
		"no answer": {"", deployFlags{}, problem.Usage}, "another word": {"no\n", deployFlags{}, problem.Usage}, "only --yes": {"yes\n", deployFlags{yes: true}, problem.Conflict},
	} {
		d, _ := deploying(t, tc.answer, tc.flags) // its CDK is nil: running it would panic
		err := d.bootstrapped(t.Context())
		h := new(hinted)
		if !problem.Is(err, tc.kind) || !errors.As(err, &h) || h.hint != "vacancy deploy --stage dev --bootstrap" {
			t.Errorf("%s: bootstrapped() = %v, want %v with a hint at the flag", name, err, tc.kind)
		}
	}
	server.Stacks(cloudtest.Stack{Name: "CDKToolkit", Status: "CREATE_COMPLETE"})
	d, errs := deploying(t, "", deployFlags{})
	if err := d.bootstrapped(t.Context()); err != nil || errs.Len() > 0 {
		t.Errorf("bootstrapped() of a prepared account = %v, %q, want silence", err, errs)
	}
}

func TestAStackThatCannotBeDeployedOverIsNamedWithTheWayOut(t *testing.T) {
	server := cloudtest.Here(t)
	for status, want := range map[string]string{
		"UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name vacancy-dev-data",
		"DELETE_FAILED":          "aws cloudformation delete-stack --stack-name vacancy-dev-data",
		"ROLLBACK_COMPLETE":      "", "UPDATE_ROLLBACK_COMPLETE": "", "UPDATE_COMPLETE": "", "REVIEW_IN_PROGRESS": "",
	} {
		server.Stacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: status})
		d, _ := deploying(t, "", deployFlags{})
		err := d.quiet(t.Context())
		h := new(hinted)
		if want == "" && err != nil || want != "" && (!problem.Is(err, problem.Conflict) || !errors.As(err, &h) || !strings.Contains(h.hint, want)) {
			t.Errorf("%s: quiet() = %v, want %q", status, err, want)
		}
	}
}

func TestAnEarlierDeployThatIsUnderWayIsWaitedFor(t *testing.T) {
	server := cloudtest.Here(t)
	looks := 0
	server.On("DescribeStacks", func(r cloudtest.Request) cloudtest.Reply {
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
	server.Always("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>")
	d, errs := deploying(t, "", deployFlags{})
	if err := d.quiet(t.Context()); err != nil || !strings.Contains(errs.String(), "an earlier deploy is under way, waiting for it") {
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
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", "data.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheProjectsOwnTemplateIsRefusedWhereItWouldLoseData(t *testing.T) {
	server := cloudtest.Here(t)
	server.Stacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"})
	var escaped strings.Builder
	for _, r := range dataTemplate(t) {
		escaped.WriteString(map[rune]string{'<': "&lt;", '>': "&gt;", '&': "&amp;"}[r])
		if !strings.ContainsRune("<>&", r) {
			escaped.WriteRune(r)
		}
	}
	server.Always("GetTemplate", "<GetTemplateResponse><GetTemplateResult><TemplateBody>"+escaped.String()+"</TemplateBody></GetTemplateResult></GetTemplateResponse>")
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
		changes, losses, err := d.compare(t.Context(), built(t, tc.change...))
		if err != nil || len(losses) != tc.losses || (len(changes) == 0) != (len(tc.change) == 0) {
			t.Errorf("%s: compare() = %d changes, losses %q, %v; want %d losses", name, len(changes), losses, err, tc.losses)
		}
	}
	if err := d.refuse([]string{"x"}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "nothing was started") {
		t.Errorf("refuse() = %v", err)
	}
}

func TestAnExchangeOfTheEdgesSecretBeginsWithWhatTheEdgeSends(t *testing.T) {
	server := cloudtest.Here(t)
	const pinned = "11111111-2222-4333-8444-555555555555"
	for name, tc := range map[string]struct {
		edge, current, want string
		promoted            int
	}{
		"after the first deploy":   {`{"a":"{{resolve:secretsmanager:arn:SecretString:::}}"}`, "v0", "v0", 0},
		"after a later one":        {`{"a":"{{resolve:secretsmanager:arn:SecretString:::` + pinned + `}}"}`, pinned, pinned, 0},
		"after one that broke off": {`{"a":"{{resolve:secretsmanager:arn:SecretString:::` + pinned + `}}"}`, "v0", pinned, 1},
	} {
		server.Stacks(cloudtest.Stack{Name: "vacancy-dev-edge", Status: "CREATE_COMPLETE"}, cloudtest.Stack{Name: "vacancy-dev-functions", Status: "CREATE_COMPLETE", Outputs: map[string]string{"EdgeSecret": "arn"}})
		server.Always("GetTemplate", "<GetTemplateResponse><GetTemplateResult><TemplateBody>"+tc.edge+"</TemplateBody></GetTemplateResult></GetTemplateResponse>")
		server.Always("DescribeSecret", `{"VersionIdsToStages":{"`+tc.current+`":["AWSCURRENT"]}}`)
		server.Always("UpdateSecretVersionStage", `{}`)
		before := len(server.Requests("UpdateSecretVersionStage"))
		d, _ := deploying(t, "", deployFlags{})
		d.rec.Context["edge"] = "true"
		r, err := d.rotation(t.Context())
		if err != nil || r.before != tc.want || len(r.next) != 36 || r.next == r.before || len(server.Requests("UpdateSecretVersionStage"))-before != tc.promoted {
			t.Errorf("%s: rotation() = %+v, %v, want before %s and %d promoted", name, r, err, tc.want, tc.promoted)
		}
		if diff := gocmp.Diff(map[string]string{"edgeSecretVersion": r.next, "edgeSecretBefore": tc.want}, r.context()); diff != "" {
			t.Errorf("%s: context() (-want +got):\n%s", name, diff)
		}
	}
	server.Stacks()
	d, _ := deploying(t, "", deployFlags{})
	d.rec.Context["edge"] = "true"
	if r, err := d.rotation(t.Context()); err != nil || r != (rotation{}) || r.context() != nil {
		t.Errorf("rotation() of a first deploy = %+v, %v, want none", r, err)
	}
}

func TestAFailedDeployTellsCauseAndState(t *testing.T) {
	server := cloudtest.Here(t)
	server.Stacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"}, cloudtest.Stack{Name: "vacancy-dev-functions", Status: "UPDATE_ROLLBACK_FAILED"})
	d, _ := deploying(t, "", deployFlags{})
	events := []cloud.Event{{ID: "1", Stack: "vacancy-dev-functions", Resource: "Account", Type: "AWS::Lambda::Function", Status: "UPDATE_FAILED", Reason: "Resource update cancelled"},
		{ID: "2", Stack: "vacancy-dev-functions", Resource: "Message", Type: "AWS::Lambda::Function", Status: "UPDATE_FAILED", Reason: "no memory.\nat all."}}
	err := d.failed(t.Context(), false, "deploy", stackNames("dev"), events, nil)
	const want = "deploy failed: vacancy-dev-functions: Message (AWS::Lambda::Function): no memory. at all. Rollback: vacancy-dev-data is CREATE_COMPLETE; " +
		"vacancy-dev-watch was never made; vacancy-dev-functions is UPDATE_ROLLBACK_FAILED; vacancy-dev-edge was never made"
	h := new(hinted)
	if err.Error() != want || !errors.As(err, &h) || !strings.Contains(h.hint, "continue-update-rollback") {
		t.Errorf("failed() = %q with %+v, want %q and the way out", err, h, want)
	}
	if err := d.failed(t.Context(), true, "deploy", nil, events, nil); !problem.Is(err, problem.Canceled) {
		t.Errorf("failed() of an interrupted run = %v, want Canceled", err)
	}
}

func TestTheCauseOfARunIsItsLastWordThatIsOne(t *testing.T) {
	for out, want := range map[string]string{
		"":                                 "it said nothing",
		"a\nb\n\n":                         "b",
		"Error: no bucket\nsee the docs\n": "Error: no bucket",
		"walk.go:3: undefined: x\ngo run ./infra: Subprocess exited with error 1\n": "walk.go:3: undefined: x",
		"Subprocess exited with error 1":                                            "Subprocess exited with error 1",
		"x failed: \x1b[31mred\n":                                                   `x failed: \u001b[31mred`,
	} {
		if got := lastWord([]byte(out)); got != want {
			t.Errorf("lastWord(%q) = %q, want %q", out, got, want)
		}
	}
}

// stacksToDestroy is a stage of two stacks. Its bucket is deleted with the
// stack and its table is kept.
func stacksToDestroy(server *cloudtest.AWS) (deleted *[]string) {
	gone := map[string]bool{}
	deleted = &[]string{}
	both := []cloudtest.Stack{{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"}, {Name: "vacancy-dev-functions", Status: "CREATE_COMPLETE"}}
	server.Stacks(both...)
	server.On("ListStackResources", func(r cloudtest.Request) cloudtest.Reply {
		member := func(id, physical, kind string) string {
			return "<member><LogicalResourceId>" + id + "</LogicalResourceId><PhysicalResourceId>" + physical + "</PhysicalResourceId><ResourceType>" + kind + "</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
		}
		all := member("F", "f", "AWS::Lambda::Function")
		if r.Form.Get("StackName") == "vacancy-dev-data" {
			all = member("Rows", "rows-1", "AWS::DynamoDB::GlobalTable") + member("Blobs", "blobs-1", "AWS::S3::Bucket")
		}
		return cloudtest.Reply{Body: "<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries>" + all + "</StackResourceSummaries></ListStackResourcesResult></ListStackResourcesResponse>"}
	})
	server.Always("GetTemplate", `<GetTemplateResponse><GetTemplateResult><TemplateBody>{"Resources":{"Rows":{"Type":"AWS::DynamoDB::GlobalTable","DeletionPolicy":"Retain"},"Blobs":{"Type":"AWS::S3::Bucket"}}}</TemplateBody></GetTemplateResult></GetTemplateResponse>`)
	objects := true
	server.On("ListObjectVersions", func(cloudtest.Request) cloudtest.Reply {
		if objects {
			return cloudtest.Reply{Body: "<ListVersionsResult><Version><Key>a</Key><VersionId>1</VersionId></Version></ListVersionsResult>"}
		}
		return cloudtest.Reply{Body: "<ListVersionsResult></ListVersionsResult>"}
	})
	server.On("DeleteObjects", func(cloudtest.Request) cloudtest.Reply {
		objects = false
		return cloudtest.Reply{Body: "<DeleteResult></DeleteResult>"}
	})
	server.Always("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>")
	server.On("DeleteStack", func(r cloudtest.Request) cloudtest.Reply {
		name := strings.TrimPrefix(r.Form.Get("StackName"), "arn:")
		gone[name] = true
		*deleted = append(*deleted, name)
		var left []cloudtest.Stack
		for _, s := range both {
			if !gone[s.Name] {
				left = append(left, s)
			}
		}
		server.Stacks(left...)
		return cloudtest.Reply{Body: "<DeleteStackResponse></DeleteStackResponse>"}
	})
	return deleted
}

func TestDestroyTellsAndAsksBeforeAnythingGoes(t *testing.T) {
	s, server := onAWS(t)
	deleted := stacksToDestroy(server)
	for _, answer := range []string{"", "yes\n", "prod\n", "Dev\n"} {
		code, out, errs := s.run(answer, "destroy", "--stage", "dev")
		if code != problem.ExitUsage || out != "" || len(*deleted) > 0 {
			t.Errorf("destroy answered %q = exit %d, %q, deleted %v; want nothing done", answer, code, out, *deleted)
		}
		for _, want := range []string{"goes   AWS::S3::Bucket blobs-1", "stays  AWS::DynamoDB::GlobalTable rows-1", "The deletion includes data", "nothing was done", "try: vacancy destroy --stage dev --yes"} {
			if !strings.Contains(errs, want) {
				t.Errorf("destroy does not say %q:\n%s", want, errs)
			}
		}
	}
	if n := len(server.Requests("DeleteObjects")); n > 0 {
		t.Errorf("destroy emptied a bucket before it was confirmed")
	}
	code, out, errs := s.run("dev\n", "destroy", "--stage", "dev")
	const want = "stage dev is gone: vacancy-dev-functions, vacancy-dev-data\nkept  AWS::DynamoDB::GlobalTable  rows-1\n"
	if code != 0 || out != want {
		t.Errorf("destroy answered with the name = exit %d, %q, %q; want %q", code, out, errs, want)
	}
	if standalone.IsThere(filepath.Join(s.dataHome, "stages", "dev.json")) {
		t.Error("the record of the stage is still there")
	}
	if code, out, _ := s.run("", "destroy", "--stage", "dev"); code != 0 || out != "stage dev had no stacks\n" {
		t.Errorf("destroy of nothing = exit %d, %q", code, out)
	}
}

func TestDestroyNamesWhatItCouldNotDelete(t *testing.T) {
	s, server := onAWS(t)
	stacksToDestroy(server)
	server.On("DeleteStack", func(cloudtest.Request) cloudtest.Reply {
		server.Stacks(cloudtest.Stack{Name: "vacancy-dev-functions", Status: "DELETE_FAILED"})
		server.Always("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents><member><StackId>arn</StackId><StackName>vacancy-dev-functions</StackName><EventId>9</EventId><LogicalResourceId>Role</LogicalResourceId><ResourceType>AWS::IAM::Role</ResourceType><Timestamp>2026-05-06T00:00:00Z</Timestamp><ResourceStatus>DELETE_FAILED</ResourceStatus><ResourceStatusReason>it is in use</ResourceStatusReason></member></StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>")
		return cloudtest.Reply{Body: "<DeleteStackResponse></DeleteStackResponse>"}
	})
	code, out, errs := s.run("", "destroy", "--stage", "dev", "--yes")
	if code != problem.ExitConflict || out != "" || !strings.Contains(errs, "not deleted: Role (AWS::IAM::Role): it is in use") {
		t.Errorf("destroy = exit %d, %q, %q; want it to name the role", code, out, errs)
	}
	if !standalone.IsThere(filepath.Join(s.dataHome, "stages", "dev.json")) {
		t.Error("the record went before the stacks did")
	}
}

func TestDestroyWantsItsStageByFlag(t *testing.T) {
	s, _ := onAWS(t)
	s.env["VACANCY_STAGE"] = "dev"
	if code, _, errs := s.run("dev\n", "destroy"); code != problem.ExitUsage || !strings.Contains(errs, "--stage is missing") {
		t.Errorf("destroy without --stage = exit %d, %q; want it refused", code, errs)
	}
}

func TestAFunctionOfNoSuchNameIsATypingError(t *testing.T) {
	s, server := onAWS(t)
	for _, args := range []string{"invoke mesage -", "tail --function mesage", "tail --function mess --once"} {
		code, _, errs := s.run("{}", strings.Fields(args)...)
		if code != problem.ExitUsage || !strings.Contains(errs, "one of agent, message, "+strings.Join(functions.Names()[2:], ", ")) {
			t.Errorf("%s = exit %d, %q; want the names there are", args, code, errs)
		}
	}
	if sent := server.Requests("Invoke"); len(sent) > 0 {
		t.Errorf("%d functions were invoked, want none", len(sent))
	}
}

func TestEveryEventThatIsNamedIsThere(t *testing.T) {
	top := filepath.Join("..", "..", "..")
	readme, err := os.ReadFile(filepath.Join(top, "infra", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := (&app{}).invokeCommand()
	named := regexp.MustCompile(`events/[a-z-]+\.json`).FindAllString(string(readme)+cmd.Long+cmd.Example, -1)
	if len(named) < 3 {
		t.Fatalf("found %q, want those of infra/README.md and of the help", named)
	}
	for _, path := range named {
		if _, err := os.Stat(filepath.Join(top, path)); err != nil {
			t.Errorf("a text names %s: %v", path, err)
		}
	}
}

func TestInvokeExitsByItsOutcome(t *testing.T) {
	s, server := onAWS(t)
	event := filepath.Join(t.TempDir(), "e.json")
	if err := os.WriteFile(event, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reply cloudtest.Reply
		code  int
		out   string
	}{
		"an answer":          {cloudtest.Reply{Body: `{"statusCode":200}`}, 0, `{"statusCode":200}`},
		"no HTTP answer":     {cloudtest.Reply{Body: `null`}, 0, `null`},
		"a refusal":          {cloudtest.Reply{Body: `{"statusCode":409}`}, problem.ExitRefused, `{"statusCode":409}`},
		"a fault":            {cloudtest.Reply{Body: `{"statusCode":503}`}, problem.ExitFailed, `{"statusCode":503}`},
		"a function's death": {cloudtest.Reply{Body: `{"errorMessage":"exit status 1"}`, Header: map[string]string{"X-Amz-Function-Error": "Unhandled"}}, problem.ExitFailed, `{"errorMessage":"exit status 1"}`},
		"text":               {cloudtest.Reply{Body: `plain`}, 0, `"plain"`},
		"a stream":           {cloudtest.Reply{Body: `{"statusCode":404}` + strings.Repeat("\x00", 8) + `data: "a"`}, problem.ExitRefused, `{"body":"data: \"a\"","statusCode":404}`},
	} {
		server.On("Invoke", func(cloudtest.Request) cloudtest.Reply { return tc.reply })
		code, out, errs := s.run("", "invoke", "message", event)
		if code != tc.code || out != tc.out+"\n" {
			t.Errorf("%s: invoke = exit %d, %q, %q; want %d, %q", name, code, out, errs, tc.code, tc.out)
		}
	}
	sent := server.Requests("Invoke")[0]
	if sent.Path != "/2015-03-31/functions/vacancy-dev-message/invocations" || string(sent.Body) != `{"a":1}` {
		t.Errorf("invoke sent %s to %s", sent.Body, sent.Path)
	}
	server.Fails("Invoke", "ResourceNotFoundException", "Function not found")
	if code, _, errs := s.run("", "invoke", "export", event); code != problem.ExitNotFound || !strings.Contains(errs, "no function vacancy-dev-export") {
		t.Errorf("invoke of a function that is not there = exit %d, %q", code, errs)
	}
	if code, _, _ := s.run("no json", "invoke", "message", "-"); code != problem.ExitUsage {
		t.Errorf("invoke with no JSON = exit %d, want 2", code)
	}
}

func TestInvokeShowsTheLogAsTailDoes(t *testing.T) {
	s, server := onAWS(t)
	const log = `{"level":"INFO","msg":"send","stage":"dev","function":"message","request":"r","pair":"a>b","verdict":"ok","status":200,"ms":3.5,"calls":1,"_aws":{"Timestamp":1777939200123,"CloudWatchMetrics":[]}}
{"time":"2026-05-05T00:00:01.5Z","level":"WARN","msg":"slow","cause":"a\u001b[2J"}
panic: out of memory
`
	server.On("Invoke", func(cloudtest.Request) cloudtest.Reply {
		return cloudtest.Reply{Body: `null`, Header: map[string]string{"X-Amz-Log-Result": base64.StdEncoding.EncodeToString([]byte(log))}}
	})
	const want = "00:00:00.123 message  send pair=a>b status=200 verdict=ok ms=3.5\n" +
		"00:00:01.500 message  WARN slow cause=a\\u001b[2J\n" +
		"             message  panic: out of memory\n"
	code, out, errs := s.run("{}", "invoke", "message", "-")
	if diff := gocmp.Diff(want, errs); diff != "" || code != 0 || out != "null\n" {
		t.Errorf("invoke = exit %d, %q (-want +got):\n%s", code, out, diff)
	}
	if _, out, errs := s.run("{}", "invoke", "message", "-", "--json"); !strings.Contains(out, `"panic: out of memory"`) || errs != "" {
		t.Errorf("invoke --json = %q, %q; want the lines as they are", out, errs)
	}
}

func TestARotatedKeyIsShownOnceAndKept(t *testing.T) {
	s, server := onAWS(t)
	server.Stacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE", Outputs: map[string]string{"Rows": "rows-1", "Docs": "docs-1"}})
	server.Always("GetItem", `{}`)
	server.Always("PutItem", `{}`)
	code, out, errs := s.run("", "keys", "rotate-operator")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	key := lines[len(lines)-1]
	if code != 0 || !strings.HasPrefix(key, "vop_") || len(key) != 47 || strings.Contains(errs, "vop_") {
		t.Fatalf("keys rotate-operator = exit %d, %q, %q; want a key, on standard output alone", code, out, errs)
	}
	rec, err := (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Read("dev")
	if err != nil || string(rec.OperatorKey) != key {
		t.Errorf("the record has another key, or none: %v", err)
	}
	for _, r := range server.Requests("PutItem") {
		if bytes.Contains(r.Body, []byte(key)) {
			t.Error("the key itself went into the table")
		}
	}
	server.Fails("PutItem", "AccessDeniedException", "User is not authorized to perform: dynamodb:PutItem")
	code, out, errs = s.run("", "keys", "rotate-operator")
	if code == 0 || out != "" || strings.Contains(errs, "vop_") {
		t.Errorf("keys rotate-operator without the right = exit %d, %q, %q; want an error and no key", code, out, errs)
	}
	if again, err := (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Read("dev"); err != nil || again.OperatorKey != rec.OperatorKey {
		t.Errorf("a rotation that failed changed the record (%v)", err)
	}
}

func TestAStageIsNotTakenForThatOfAnotherAccount(t *testing.T) {
	s, server := onAWS(t)
	server.Account("999999999999")
	for _, args := range []string{"tail --once", "destroy --stage dev --yes", "keys rotate-operator"} {
		code, out, errs := s.run("", strings.Fields(args)...)
		if code != problem.ExitConflict || out != "" || !strings.Contains(errs, "was deployed in account 123456789012") {
			t.Errorf("vacancy %s with another account's credentials = exit %d, %q, %q; want it refused", args, code, out, errs)
		}
	}
}

func TestTroubleWithCredentialsIsSaidWithItsFix(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *cloudtest.AWS)
		code   int
		want   string
	}{
		"none":    {func(t *testing.T, _ *cloudtest.AWS) { t.Setenv("AWS_ACCESS_KEY_ID", "") }, problem.ExitRefused, "no AWS credentials were found: set AWS_PROFILE"},
		"profile": {func(t *testing.T, _ *cloudtest.AWS) { t.Setenv("AWS_PROFILE", "absent") }, problem.ExitUsage, `the profile "absent"`},
		"expired": {func(_ *testing.T, s *cloudtest.AWS) {
			s.Fails("GetCallerIdentity", "ExpiredToken", "The token is expired")
		}, problem.ExitRefused, "have expired"},
		"denied":  {func(_ *testing.T, s *cloudtest.AWS) { s.Fails("DescribeLogGroups", "AccessDeniedException", "not you") }, problem.ExitRefused, "denies these credentials"},
		"Region":  {func(t *testing.T, _ *cloudtest.AWS) { t.Setenv("AWS_REGION", "") }, problem.ExitUsage, "set AWS_REGION"},
		"network": {func(t *testing.T, _ *cloudtest.AWS) { t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") }, problem.ExitUnavailable, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			s, server := onAWS(t)
			tc.change(t, server)
			args := []string{"tail", "--once", "--stage", "dev"}
			if name == "Region" {
				args[3] = "other" // dev's record knows its Region
			}
			code, out, errs := s.run("", args...)
			if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("tail = exit %d, %q, %q; want %d with %q", code, out, errs, tc.code, tc.want)
			}
		})
	}
}

func TestTailShowsLinesByPairAndStatus(t *testing.T) {
	s, server := onAWS(t)
	server.Always("DescribeLogGroups", `{"logGroups":[{"logGroupName":"/vacancy/dev/message"}]}`)
	server.Always("FilterLogEvents", `{"events":[
{"eventId":"1","timestamp":1777939200123,"message":"{\"level\":\"INFO\",\"msg\":\"send\",\"stage\":\"dev\",\"function\":\"message\",\"pair\":\"aaaaaaaaaaaa>bbbbbbbbbbbb\",\"seq\":1,\"verdict\":\"ok\",\"status\":200,\"ms\":3.5,\"trips\":3,\"calls\":1,\"_aws\":{}}\n"},
{"eventId":"2","timestamp":1777939201000,"message":"{\"level\":\"INFO\",\"msg\":\"send\",\"pair\":\"cccccccccccc>bbbbbbbbbbbb\",\"seq\":7,\"verdict\":\"replay\",\"status\":409,\"ms\":1}"},
{"eventId":"3","timestamp":1777939202000,"message":"{\"level\":\"ERROR\",\"msg\":\"fault\",\"calls\":40,\"status\":503,\"verdict\":\"unavailable\",\"cause\":\"a\\u001b[2J\"}"},
{"eventId":"4","timestamp":1777939203000,"message":"panic: out of memory"}]}`)
	const (
		first  = "00:00:00.123 message  send pair=aaaaaaaaaaaa>bbbbbbbbbbbb seq=1 status=200 verdict=ok ms=3.5 trips=3\n"
		second = "00:00:01.000 message  send pair=cccccccccccc>bbbbbbbbbbbb seq=7 status=409 verdict=replay ms=1\n"
		third  = "00:00:02.000 message  ERROR fault calls=40 status=503 verdict=unavailable cause=a\\u001b[2J\n"
		fourth = "00:00:03.000 message  panic: out of memory\n"
	)
	for args, want := range map[string]string{
		"": first + second + third + fourth, "--pair aaaa": first, "--pair bbbbbbbbbbbb": first + second, "--pair cccccccccccc1234>bbbb": second,
		"--pair bbbb>cccc": "", "--status 200": first, "--status 4xx": second, "--status 5XX": third, "--status replay": second, "--status 301": "",
		"--pair bbbb --status 409": second,
	} {
		code, out, errs := s.run("", append([]string{"tail", "--once"}, strings.Fields(args)...)...)
		if diff := gocmp.Diff(want, out); code != 0 || diff != "" {
			t.Errorf("tail %s = exit %d, %q (-want +got):\n%s", args, code, errs, diff)
		}
	}
	_, out, _ := s.run("", "tail", "--once", "--json", "--status", "409")
	const object = `{"at":"2026-05-05T00:00:01Z","level":"INFO","log_group":"/vacancy/dev/message","ms":1,"msg":"send","pair":"cccccccccccc>bbbbbbbbbbbb","seq":7,"status":409,"verdict":"replay"}` + "\n"
	if diff := gocmp.Diff(object, out); diff != "" {
		t.Errorf("tail --json (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"abc", "2", "600", "6xx", "4x", "Replay", "replay,gap"} {
		code, out, errs := s.run("", "tail", "--once", "--status", bad)
		if code != problem.ExitUsage || out != "" || !strings.Contains(errs, "--status: expected 100 to 599, 1xx to 5xx, or one of ok, refused, failed, internal, usage, ") {
			t.Errorf("tail --status %s = exit %d, %q, %q; want it refused with the words there are", bad, code, out, errs)
		}
	}
	if code, _, errs := s.run("", "tail", "--since", "-1s"); code != problem.ExitUsage || !strings.Contains(errs, "--since") {
		t.Errorf("tail --since -1s = exit %d, %q", code, errs)
	}
}

func TestATailEndsWellWhenItIsInterrupted(t *testing.T) {
	s, server := onAWS(t)
	ctx, interrupt := context.WithCancel(t.Context())
	server.Always("DescribeLogGroups", `{"logGroups":[{"logGroupName":"/vacancy/dev/message"}]}`)
	server.On("FilterLogEvents", func(cloudtest.Request) cloudtest.Reply {
		interrupt()
		return cloudtest.Reply{Body: `{"events":[]}`}
	})
	if code, _, errs := s.runContext(ctx, "", "tail"); code != 0 {
		t.Errorf("tail, interrupted = exit %d, %q; want 0", code, errs)
	}
}

func TestTheToolsOfADeployGetNoOperatorKey(t *testing.T) {
	cloudtest.Here(t)
	d, _ := deploying(t, "", deployFlags{yes: true})
	d.env["VACANCY_OPERATOR_KEY"] = "vop_secret"
	for _, v := range d.environ() {
		if strings.Contains(v, "vop_secret") || strings.HasPrefix(v, "VACANCY_OPERATOR_KEY=") {
			t.Errorf("environ() has %s", v)
		}
	}
	if d.env["VACANCY_OPERATOR_KEY"] != "vop_secret" {
		t.Error("environ() changed the environment of the command itself")
	}
}

func TestALineWithoutAStatusIsFoundByItsVerdict(t *testing.T) {
	done := map[string]any{"verdict": "unavailable"} // of a function that runs in the background
	for want, fits := range map[string]bool{"unavailable": true, "ok": false, "5xx": false, "503": false} {
		if got := statusFits(want, done); got != fits {
			t.Errorf("statusFits(%s) = %t, want %t", want, got, fits)
		}
	}
}

package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
	server := cloudtest.NewWithEnv(t)
	s := newShell(t)
	must(t, (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(cloudtest.DevRecord()))
	return s, server
}

func TestAContextValueOfAnotherNameIsRefusedBeforeAnythingElse(t *testing.T) {
	s := newShell(t)
	t.Chdir(t.TempDir()) // no checkout, which is the next thing that deploy checks
	names := strings.Join(setting.OperatorContexts(), ", ")
	for bad, want := range map[string]string{
		"x": "NAME=VALUE with one of " + names, "=x": "NAME=VALUE", "edeg=false": "--context: expected one of " + names,
		"stage=prod": "try: --stage prod", "edgeSecretVersion=1": "--context edgeSecretVersion is set by deploy itself; expected one of " + names, "Keep=true": "one of " + names,
	} {
		s.fails(problem.ExitUsage, want, "deploy", "--yes", "--context", bad)
	}
}

// stacksToDestroy is a stage of two stacks. Its bucket is deleted with the
// stack and its table is kept.
func stacksToDestroy(server *cloudtest.AWS) (deleted *[]string) {
	gone := map[string]bool{}
	deleted = &[]string{}
	both := []cloudtest.Stack{{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE"}, {Name: "vacancy-dev-functions", Status: "CREATE_COMPLETE"}}
	server.SetStacks(both...)
	server.SetResponder("ListStackResources", func(r cloudtest.Request) cloudtest.Reply {
		member := func(id, physical, kind string) string {
			return "<member><LogicalResourceId>" + id + "</LogicalResourceId><PhysicalResourceId>" + physical + "</PhysicalResourceId><ResourceType>" + kind + "</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
		}
		all := member("F", "f", "AWS::Lambda::Function")
		if r.Form.Get("StackName") == "vacancy-dev-data" {
			all = member("Rows", "rows-1", "AWS::DynamoDB::GlobalTable") + member("Blobs", "blobs-1", "AWS::S3::Bucket")
		}
		return cloudtest.Reply{Body: "<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries>" + all + "</StackResourceSummaries></ListStackResourcesResult></ListStackResourcesResponse>"}
	})
	server.SetResponse("GetTemplate", `<GetTemplateResponse><GetTemplateResult><TemplateBody>{"Resources":{"Rows":{"Type":"AWS::DynamoDB::GlobalTable","DeletionPolicy":"Retain"},"Blobs":{"Type":"AWS::S3::Bucket"}}}</TemplateBody></GetTemplateResult></GetTemplateResponse>`)
	objects := true
	server.SetResponder("ListObjectVersions", func(cloudtest.Request) cloudtest.Reply {
		if objects {
			return cloudtest.Reply{Body: "<ListVersionsResult><Version><Key>a</Key><VersionId>1</VersionId></Version></ListVersionsResult>"}
		}
		return cloudtest.Reply{Body: "<ListVersionsResult></ListVersionsResult>"}
	})
	server.SetResponder("DeleteObjects", func(cloudtest.Request) cloudtest.Reply {
		objects = false
		return cloudtest.Reply{Body: "<DeleteResult></DeleteResult>"}
	})
	server.SetResponse("GetResources", `{"ResourceTagMappingList":[{"ResourceARN":"arn:aws:dynamodb:eu-west-1:123456789012:table/rows-1"},{"ResourceARN":"arn:aws:s3:::blobs-1"}]}`)
	server.SetResponse("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult></DescribeStackEventsResult></DescribeStackEventsResponse>")
	server.SetResponder("DeleteStack", func(r cloudtest.Request) cloudtest.Reply {
		name := strings.TrimPrefix(r.Form.Get("StackName"), "arn:")
		gone[name] = true
		*deleted = append(*deleted, name)
		var left []cloudtest.Stack
		for _, s := range both {
			if !gone[s.Name] {
				left = append(left, s)
			}
		}
		server.SetStacks(left...)
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
		for _, want := range []string{"delete  AWS::S3::Bucket blobs-1", "keep    AWS::DynamoDB::GlobalTable rows-1", "The deletion includes data", "nothing was done", "try: vacancy destroy --stage dev --yes"} {
			if !strings.Contains(errs, want) {
				t.Errorf("destroy does not say %q:\n%s", want, errs)
			}
		}
	}
	if n := len(server.Requests("DeleteObjects")); n > 0 {
		t.Errorf("destroy emptied a bucket before it was confirmed")
	}
	code, out, errs := s.run("dev\n", "destroy", "--stage", "dev")
	const want = "stage dev is removed: vacancy-dev-functions, vacancy-dev-data\nkept  AWS::DynamoDB::GlobalTable  rows-1\n" +
		"a new stage of this name gets new tables, a new bucket and new keys; it does not use the kept resources\n"
	if code != 0 || out != want {
		t.Errorf("destroy answered with the name = exit %d, %q, %q; want %q", code, out, errs, want)
	}
	if standalone.FileExists(filepath.Join(s.dataHome, "stages", "dev.json")) {
		t.Error("the record of the stage is still there")
	}
	server.SetResponse("GetResources", `{"ResourceTagMappingList":[]}`)
	if code, out, _ := s.run("", "destroy", "--stage", "dev"); code != 0 || out != "stage dev had no stacks\n" {
		t.Errorf("destroy of nothing = exit %d, %q", code, out)
	}
}

// Kept tables and the data of a first deploy that failed belong to no stack.
func TestDestroyListsOrphans(t *testing.T) {
	s, server := onAWS(t)
	stacksToDestroy(server)
	pages := []string{
		`{"PaginationToken":"more","ResourceTagMappingList":[{"ResourceARN":"arn:aws:dynamodb:eu-west-1:123456789012:table/rows-1"},{"ResourceARN":"arn:aws:dynamodb:eu-west-1:123456789012:table/rows-0"}]}`,
		`{"PaginationToken":"","ResourceTagMappingList":[{"ResourceARN":"arn:aws:kms:eu-west-1:123456789012:key/key-0"},{"ResourceARN":"arn:aws:kms:eu-west-1:123456789012:key/dying"},{"ResourceARN":"arn:aws:s3:::blobs-0"},{"ResourceARN":"arn:aws:s3:::blobs-1"}]}`,
	}
	server.SetResponder("GetResources", func(r cloudtest.Request) cloudtest.Reply {
		if !strings.Contains(string(r.Body), `"Key":"vacancy-stage","Values":["dev"]`) {
			t.Errorf("GetResources was asked %s", r.Body)
		}
		if r.JSON["PaginationToken"] == "more" {
			return cloudtest.Reply{Body: pages[1]}
		}
		return cloudtest.Reply{Body: pages[0]}
	})
	server.SetResponder("DescribeKey", func(r cloudtest.Request) cloudtest.Reply {
		state := "Enabled"
		if r.JSON["KeyId"] == "dying" {
			state = "PendingDeletion"
		}
		return cloudtest.Reply{Body: `{"KeyMetadata":{"KeyId":"k","KeyState":"` + state + `"}}`}
	})
	const orphans = "orphan  AWS::DynamoDB::GlobalTable  rows-0\norphan  AWS::KMS::Key  key-0\norphan  AWS::S3::Bucket  blobs-0\norphans are data of earlier deploys that no stack owns"
	code, out, errs := s.run("", "destroy", "--stage", "dev", "--yes")
	if code != 0 || !strings.Contains(out, orphans) || strings.Contains(out, "orphan  AWS::DynamoDB::GlobalTable  rows-1") {
		t.Errorf("destroy = exit %d, %q, %q; want %q", code, out, errs, orphans)
	}
	// The stage is gone; what was kept is an orphan now.
	if code, out, _ := s.run("", "destroy", "--stage", "dev"); code != 0 || !strings.Contains(out, "stage dev had no stacks\norphan  AWS::DynamoDB::GlobalTable  rows-1\n") {
		t.Errorf("destroy of nothing = exit %d, %q; want the kept table", code, out)
	}
	server.SetError("GetResources", "AccessDeniedException", "User is not authorized to perform: tag:GetResources")
	if code, out, errs := s.run("", "destroy", "--stage", "dev"); code != 0 || out != "stage dev had no stacks\n" || !strings.Contains(errs, "Data of earlier deploys could not be listed") {
		t.Errorf("destroy without the right to list = exit %d, %q, %q; want it to go on", code, out, errs)
	}
}

func TestDestroyNamesWhatItCouldNotDelete(t *testing.T) {
	s, server := onAWS(t)
	stacksToDestroy(server)
	server.SetResponder("DeleteStack", func(cloudtest.Request) cloudtest.Reply {
		server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-functions", Status: "DELETE_FAILED"})
		server.SetResponse("DescribeStackEvents", "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents><member><StackId>arn</StackId><StackName>vacancy-dev-functions</StackName><EventId>9</EventId><LogicalResourceId>Role</LogicalResourceId><ResourceType>AWS::IAM::Role</ResourceType><Timestamp>2026-05-06T00:00:00Z</Timestamp><ResourceStatus>DELETE_FAILED</ResourceStatus><ResourceStatusReason>it is in use</ResourceStatusReason></member></StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>")
		return cloudtest.Reply{Body: "<DeleteStackResponse></DeleteStackResponse>"}
	})
	s.fails(problem.ExitConflict, "not deleted: Role (AWS::IAM::Role): it is in use", "destroy", "--stage", "dev", "--yes")
	if !standalone.FileExists(filepath.Join(s.dataHome, "stages", "dev.json")) {
		t.Error("the record went before the stacks did")
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

func TestInvokeExitsByItsOutcome(t *testing.T) {
	s, server := onAWS(t)
	event := filepath.Join(t.TempDir(), "e.json")
	must(t, os.WriteFile(event, []byte(`{"a":1}`), 0o600))
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
		server.SetResponder("Invoke", func(cloudtest.Request) cloudtest.Reply { return tc.reply })
		code, out, errs := s.run("", "invoke", "message", event)
		if code != tc.code || out != tc.out+"\n" {
			t.Errorf("%s: invoke = exit %d, %q, %q; want %d, %q", name, code, out, errs, tc.code, tc.out)
		}
	}
	sent := server.Requests("Invoke")[0]
	if sent.Path != "/2015-03-31/functions/vacancy-dev-message/invocations" || string(sent.Body) != `{"a":1}` {
		t.Errorf("invoke sent %s to %s", sent.Body, sent.Path)
	}
	server.SetError("Invoke", "ResourceNotFoundException", "Function not found")
	s.fails(problem.ExitNotFound, "no function vacancy-dev-export", "invoke", "export", event)
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
	server.SetResponder("Invoke", func(cloudtest.Request) cloudtest.Reply {
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
	server.SetStacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "CREATE_COMPLETE", Outputs: map[string]string{"Rows": "rows-1", "Docs": "docs-1"}})
	server.SetResponse("GetItem", `{}`)
	server.SetResponse("PutItem", `{}`)
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
	server.SetError("PutItem", "AccessDeniedException", "User is not authorized to perform: dynamodb:PutItem")
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
	server.SetAccount("999999999999")
	for _, args := range []string{"tail --host aws --once", "destroy --stage dev --yes", "keys rotate-operator"} {
		s.fails(problem.ExitConflict, "was deployed in account 123456789012", strings.Fields(args)...)
	}
}

func TestTailShowsLinesByPairAndStatus(t *testing.T) {
	s, server := onAWS(t)
	server.SetResponse("DescribeLogGroups", `{"logGroups":[{"logGroupName":"/vacancy/dev/message"}]}`)
	server.SetResponse("FilterLogEvents", `{"events":[
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
		code, out, errs := s.run("", append([]string{"tail", "--once", "--host", "aws"}, strings.Fields(args)...)...)
		if diff := gocmp.Diff(want, out); code != 0 || diff != "" {
			t.Errorf("tail %s = exit %d, %q (-want +got):\n%s", args, code, errs, diff)
		}
	}
	_, out, _ := s.run("", "tail", "--once", "--host", "aws", "--json", "--status", "409")
	const object = `{"at":"2026-05-05T00:00:01Z","level":"INFO","log_group":"/vacancy/dev/message","ms":1,"msg":"send","pair":"cccccccccccc>bbbbbbbbbbbb","seq":7,"status":409,"verdict":"replay"}` + "\n"
	if diff := gocmp.Diff(object, out); diff != "" {
		t.Errorf("tail --json (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"abc", "2", "600", "6xx", "4x", "Replay", "replay,gap"} {
		s.fails(problem.ExitUsage, "--status: expected 100 to 599, 1xx to 5xx, or one of ok, refused, failed, internal, usage, ", "tail", "--once", "--status", bad)
	}
	s.fails(problem.ExitUsage, "--since", "tail", "--since", "-1s")
}

func TestATailEndsWellWhenItIsInterrupted(t *testing.T) {
	s, server := onAWS(t)
	ctx, interrupt := context.WithCancel(t.Context())
	server.SetResponse("DescribeLogGroups", `{"logGroups":[{"logGroupName":"/vacancy/dev/message"}]}`)
	server.SetResponder("FilterLogEvents", func(cloudtest.Request) cloudtest.Reply {
		interrupt()
		return cloudtest.Reply{Body: `{"events":[]}`}
	})
	if code, _, errs := s.runContext(ctx, "", "tail", "--host", "aws"); code != 0 {
		t.Errorf("tail, interrupted = exit %d, %q; want 0", code, errs)
	}
}

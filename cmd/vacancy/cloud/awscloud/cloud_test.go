package awscloud_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// recorded is a Cloud over a server with recorded responses, without retries.
func recorded(t *testing.T) (*cloudtest.AWS, *awscloud.Cloud) {
	t.Helper()
	server := cloudtest.New(t)
	return server, awscloud.New(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

func TestErrorsOfAWSSayWhatToDo(t *testing.T) {
	api := func(code, message string) error {
		return &smithy.OperationError{ServiceID: "Lambda", OperationName: "Invoke", Err: &smithy.GenericAPIError{Code: code, Message: message}}
	}
	for _, tc := range []struct {
		err  error
		kind problem.Kind
		want string
	}{
		{api("ExpiredTokenException", "The security token included in the request is expired"), problem.Unauthorized, "have expired: get new ones"},
		{api("InvalidClientTokenId", "x"), problem.Unauthorized, "does not know these credentials (InvalidClientTokenId)"},
		{api("SignatureDoesNotMatch", "Signature expired: 2026 is now earlier than 2027"), problem.ClockSkew, "set the clock of this machine"},
		{api("SignatureDoesNotMatch", "x"), problem.Unauthorized, "does not know these credentials"},
		{api("AccessDeniedException", "User is not authorized to perform: lambda:InvokeFunction"), problem.Forbidden, "denies these credentials Lambda:Invoke: User is not authorized"},
		{api("ThrottlingException", "Rate exceeded"), problem.Unavailable, "throttles Lambda:Invoke"},
		{api("LimitExceededException", "too many"), problem.Unavailable, "Lambda:Invoke needs more than a quota of this account allows"},
		{api("ValidationError", "Stack with id x does not exist"), problem.NotFound, "does not exist"},
		{api("ResourceNotFoundException", "Function not found"), problem.NotFound, "Function not found"},
		{api("Odd", "who knows."), problem.Internal, "Lambda:Invoke: Odd: who knows"},
		{&smithy.GenericAPIError{Code: "Broken", Fault: smithy.FaultServer}, problem.Unavailable, "run the same command again"},
		{&aws.MissingRegionError{}, problem.Usage, "set AWS_REGION"},
		{config.SharedConfigProfileNotExistError{Profile: "absent"}, problem.Usage, `no profile "absent"`},
		{errors.New("get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"), problem.Unauthorized, "no AWS credentials were found"},
		{errors.New("get credentials: the SSO session has expired or is invalid"), problem.Unauthorized, "aws sso login"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, problem.Unavailable, "AWS_ENDPOINT_URL"},
		{context.Canceled, problem.Canceled, "interrupted"},
		{problem.New(problem.Gone, "as it was"), problem.Gone, "as it was"},
	} {
		got := awscloud.ToProblem(tc.err)
		if !problem.Is(got, tc.kind) || !strings.Contains(got.Error(), tc.want) {
			t.Errorf("ToProblem(%v) = %v (%v), want %v with %q", tc.err, got, problem.AsError(got).Kind, tc.kind, tc.want)
		}
		if strings.Contains(got.Error(), "IMDS") {
			t.Errorf("ToProblem(%v) = %v, which speaks of machines of EC2", tc.err, got)
		}
	}
	if awscloud.ToProblem(nil) != nil {
		t.Error("ToProblem(nil) is an error")
	}
}

func events(ids ...int) string {
	var b strings.Builder
	for _, id := range ids { // newest first, like CloudFormation
		fmt.Fprintf(&b, "<member><StackId>arn:s</StackId><StackName>s</StackName><EventId>%d</EventId><LogicalResourceId>R%d</LogicalResourceId><ResourceType>AWS::X</ResourceType><Timestamp>2026-05-06T00:00:%02dZ</Timestamp><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>", id, id, id)
	}
	return b.String()
}

func page(members, next string) cloudtest.Reply {
	return cloudtest.Reply{Body: "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents>" + members + "</StackEvents>" + next + "</DescribeStackEventsResult></DescribeStackEventsResponse>"}
}

func TestEventsAreToldOnceAndOldestFirst(t *testing.T) {
	server, c := recorded(t)
	seen := page(events(2, 1), "")
	server.SetResponder("DescribeStackEvents", func(r cloudtest.Request) cloudtest.Reply {
		if r.Form.Get("NextToken") != "" {
			return page(events(3, 2, 1), "")
		}
		return seen
	})
	watch, err := c.WatchStacks(t.Context(), "s")
	must(t, err)
	var got []string
	for _, reply := range []cloudtest.Reply{page(events(5, 4), "<NextToken>more</NextToken>"), page(events(5, 4), "<NextToken>more</NextToken>"), page(events(6, 5), "")} {
		seen = reply
		fresh, err := watch.Next(t.Context())
		must(t, err)
		for _, e := range fresh {
			got = append(got, e.Resource)
		}
	}
	if diff := cmp.Diff([]string{"R3", "R4", "R5", "R6"}, got); diff != "" {
		t.Errorf("Next() (-want +got):\n%s", diff)
	}
}

func TestABucketIsEmptiedPageByPageWithItsVersions(t *testing.T) {
	server, c := recorded(t)
	pages := []string{
		"<ListVersionsResult><Version><Key>a</Key><VersionId>1</VersionId></Version><DeleteMarker><Key>a</Key><VersionId>2</VersionId></DeleteMarker><IsTruncated>true</IsTruncated></ListVersionsResult>",
		"<ListVersionsResult><Version><Key>b</Key><VersionId>null</VersionId></Version></ListVersionsResult>",
		"<ListVersionsResult></ListVersionsResult>",
	}
	server.SetResponder("ListObjectVersions", func(cloudtest.Request) cloudtest.Reply {
		p := pages[0]
		pages = pages[1:]
		return cloudtest.Reply{Body: p}
	})
	server.SetResponse("DeleteObjects", "<DeleteResult></DeleteResult>")
	var told []int
	must(t, c.EmptyBucket(t.Context(), "blobs", func(n int) { told = append(told, n) }))
	if diff := cmp.Diff([]int{2, 3}, told); diff != "" {
		t.Errorf("EmptyBucket() told (-want +got):\n%s", diff)
	}
	sent := server.Requests("DeleteObjects")
	if len(sent) != 2 || !strings.Contains(string(sent[0].Body), "<VersionId>2</VersionId>") || !strings.Contains(string(sent[1].Body), "<Key>b</Key>") {
		t.Errorf("EmptyBucket() deleted %s", sent)
	}
}

func TestAnObjectThatStaysEndsTheEmptying(t *testing.T) {
	server, c := recorded(t)
	server.SetResponse("ListObjectVersions", "<ListVersionsResult><Version><Key>a</Key><VersionId>1</VersionId></Version></ListVersionsResult>")
	server.SetResponse("DeleteObjects", "<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>")
	if err := c.EmptyBucket(t.Context(), "blobs", func(int) {}); !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("EmptyBucket() = %v, want Forbidden with the reason", err)
	}
	server.SetError("ListObjectVersions", "NoSuchBucket", "gone")
	if err := c.EmptyBucket(t.Context(), "blobs", func(int) {}); err != nil {
		t.Errorf("EmptyBucket() of no bucket = %v, want nil", err)
	}
}

func identifiedLine(id string, second int, text string) string {
	return fmt.Sprintf(`{"eventId":%q,"timestamp":%d,"message":%q}`, id, time.Date(2026, 5, 6, 0, 0, second, 0, time.UTC).UnixMilli(), text)
}

func TestLinesOfAllGroupsComeInTimeOrderAndOnce(t *testing.T) {
	server, c := recorded(t)
	logs := map[string][]string{
		"/a":       {identifiedLine("1", 1, "first"), identifiedLine("3", 3, "third")},
		"/a after": {identifiedLine("4", 5, "fifth")},
		"/b":       {identifiedLine("2", 2, "second"), identifiedLine("5", 4, "fourth")},
	}
	server.SetResponder("FilterLogEvents", func(r cloudtest.Request) cloudtest.Reply {
		group := r.JSON["logGroupName"].(string)
		if token, ok := r.JSON["nextToken"].(string); ok {
			return cloudtest.Reply{Body: `{"events":[` + strings.Join(logs[group+" "+token], ",") + `]}`}
		}
		next := ""
		if logs[group+" after"] != nil {
			next = `,"nextToken":"after"`
		}
		return cloudtest.Reply{Body: `{"events":[` + strings.Join(logs[group], ",") + `]` + next + `}`}
	})
	tail := c.TailLogs([]string{"/a", "/b"}, time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC))
	var got []string
	show := func(l cloud.LogLine) error { got = append(got, l.Text); return nil }
	must(t, tail.Next(t.Context(), show))
	logs["/b"] = append(logs["/b"], identifiedLine("6", 4, "late"))
	must(t, tail.Next(t.Context(), show))
	if diff := cmp.Diff([]string{"first", "second", "third", "fourth", "fifth", "late"}, got); diff != "" {
		t.Errorf("Next() (-want +got):\n%s", diff)
	}
}

func TestATailGoesOnAfterThrottlingWithoutSayingThingsTwice(t *testing.T) {
	server, c := recorded(t)
	throttled := false
	server.SetResponder("FilterLogEvents", func(r cloudtest.Request) cloudtest.Reply {
		if r.JSON["nextToken"] == nil {
			return cloudtest.Reply{Body: `{"events":[` + identifiedLine("1", 1, "first") + `],"nextToken":"more"}`}
		}
		if throttled = !throttled; throttled {
			return cloudtest.Reply{Code: "ThrottlingException", Message: "Rate exceeded"}
		}
		return cloudtest.Reply{Body: `{"events":[` + identifiedLine("2", 2, "second") + `]}`}
	})
	tail := c.TailLogs([]string{"/a"}, time.Time{}.AddDate(2000, 0, 0))
	var got []string
	show := func(l cloud.LogLine) error { got = append(got, l.Text); return nil }
	if err := tail.Next(t.Context(), show); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Next() while throttled = %v, want Unavailable", err)
	}
	must(t, tail.Next(t.Context(), show))
	if diff := cmp.Diff([]string{"first", "second"}, got); diff != "" {
		t.Errorf("Next() (-want +got):\n%s", diff)
	}
}

func TestARotationLeavesTheCurrentVersionUntilItIsPromoted(t *testing.T) {
	server, c := recorded(t)
	labels := map[string][]string{"v0": {"AWSCURRENT"}}
	server.SetResponder("DescribeSecret", func(cloudtest.Request) cloudtest.Reply {
		var all []string
		for v, names := range labels {
			all = append(all, fmt.Sprintf(`%q:[%q]`, v, names[0]))
		}
		return cloudtest.Reply{Body: `{"VersionIdsToStages":{` + strings.Join(all, ",") + `}}`}
	})
	server.SetResponse("GetRandomPassword", `{"RandomPassword":"0123456789012345678901234567890123456789abc"}`)
	server.SetResponse("PutSecretValue", `{}`)
	server.SetResponse("UpdateSecretVersionStage", `{}`)
	must(t, c.PutSecretVersion(t.Context(), "arn:s", "11111111-2222-4333-8444-555555555555"))
	put := server.Requests("PutSecretValue")[0].JSON
	if diff := cmp.Diff([]any{"VACANCY_COMING"}, put["VersionStages"]); diff != "" || put["ClientRequestToken"] != "11111111-2222-4333-8444-555555555555" {
		t.Errorf("PutSecretVersion() sent %v, want a label of its own and the chosen id", put)
	}
	if v, err := c.CurrentSecretVersion(t.Context(), "arn:s"); v != "v0" || err != nil {
		t.Errorf("CurrentSecretVersion() = %q, %v, want v0", v, err)
	}
	labels["v1"] = []string{"VACANCY_COMING"}
	must(t, c.PromoteSecretVersion(t.Context(), "arn:s", "v1"))
	moved := server.Requests("UpdateSecretVersionStage")[0].JSON
	if moved["MoveToVersionId"] != "v1" || moved["RemoveFromVersionId"] != "v0" || moved["VersionStage"] != "AWSCURRENT" {
		t.Errorf("PromoteSecretVersion() sent %v, want AWSCURRENT moved from v0 to v1", moved)
	}
	if err := c.PromoteSecretVersion(t.Context(), "arn:s", "v0"); err != nil || len(server.Requests("UpdateSecretVersionStage")) != 1 {
		t.Errorf("PromoteSecretVersion() of the current version = %v, and was sent", err)
	}
}

func TestAStackIsKnownByItsState(t *testing.T) {
	server, c := recorded(t)
	server.SetStacks(cloudtest.Stack{Name: "gone", Status: "DELETE_COMPLETE"}, cloudtest.Stack{Name: "s", Status: "UPDATE_COMPLETE", Outputs: map[string]string{"Url": "https://x"}})
	if s, err := c.Stack(t.Context(), "s"); err != nil || s.Outputs["Url"] != "https://x" || !s.IsDeployed() || s.IsBusy() {
		t.Errorf("Stack() = %+v, %v, want it deployed with its output", s, err)
	}
	for _, name := range []string{"gone", "never"} {
		if _, err := c.Stack(t.Context(), name); !problem.Is(err, problem.NotFound) {
			t.Errorf("Stack(%s) = %v, want NotFound", name, err)
		}
	}
	for status, want := range map[string]struct{ deployed, busy bool }{
		"CREATE_IN_PROGRESS": {true, true}, "REVIEW_IN_PROGRESS": {false, false}, "ROLLBACK_COMPLETE": {false, false},
		"UPDATE_ROLLBACK_COMPLETE": {true, false}, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": {true, true}, "DELETE_FAILED": {true, false},
	} {
		s := cloud.Stack{Status: status}
		if s.IsDeployed() != want.deployed || s.IsBusy() != want.busy {
			t.Errorf("%s: Deployed() = %t, Busy() = %t, want %v", status, s.IsDeployed(), s.IsBusy(), want)
		}
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

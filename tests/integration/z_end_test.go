package integration

import (
	"context"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// left counts the remains of a stage.
type left struct {
	Stacks, Functions, LogGroups int
	Tables, Buckets, Keys        int // of the outputs of data
}

// left looks for everything that a stage with those outputs may have left.
func (s *deployed) left(t *testing.T, out map[string]string) (l left) {
	t.Helper()
	ctx, cfg := t.Context(), operator(s.aws)
	for _, part := range []string{"data", "watch", "functions"} {
		if got, err := s.stack(ctx, part); err != nil || got != nil && !strings.HasPrefix(string(got.StackStatus), "DELETE_COMPLETE") {
			l.Stacks++
		}
	}
	for _, f := range functions.Names() {
		name := s.function(f)
		if _, err := lambda.NewFromConfig(cfg).GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name}); err == nil {
			l.Functions++
		}
	}
	groups, err := cloudwatchlogs.NewFromConfig(cfg).DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: awssdk.String("/vacancy/" + s.Stage + "/")})
	if err != nil {
		t.Fatal(err)
	}
	l.LogGroups = len(groups.LogGroups)
	for _, table := range []string{out["Rows"], out["Docs"]} {
		if _, err := dynamodb.NewFromConfig(cfg).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table}); err == nil {
			l.Tables++
		}
	}
	if _, err := bucket(s).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: awssdk.String(out["Blobs"])}); err == nil {
		l.Buckets++
	}
	for _, key := range []string{out["SealKey"], out["HostKey"]} {
		got, err := kms.NewFromConfig(cfg).DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &key})
		if err == nil && got.KeyMetadata.KeyState == kmstypes.KeyStateEnabled {
			l.Keys++
		}
	}
	return l
}

func bucket(s *deployed) *s3.Client {
	return s3.NewFromConfig(operator(s.aws), func(o *s3.Options) { o.UsePathStyle = true })
}

// A stage that keeps its data is deleted when its name is typed. Only tables,
// bucket and keys stay, with their content.
func TestAStageThatKeepsItsDataGoesAndLeavesIt(t *testing.T) {
	s := secondStage(t)
	s.pair(t, s.vacant(t)).say("to be kept")
	out := s.outputs(t, "data")
	for _, typed := range []string{"", "y\n", "nxt\n"} {
		if exit := s.destroy(t, typed); exit == 0 {
			t.Fatalf("destroy went on when %q was typed, want the stage's name", typed)
		}
	}
	if got := s.left(t, out); got.Stacks != 3 || got.Functions != len(functions.All()) {
		t.Fatalf("after destroy was not confirmed there are %+v, want all", got)
	}
	if exit := s.destroy(t, s.Stage+"\n"); exit != 0 {
		t.Fatalf("destroy with the stage's name typed: exit %d", exit)
	}
	if got, want := s.left(t, out), (left{Tables: 2, Buckets: 1, Keys: 2}); got != want {
		t.Errorf("after destroy there are %+v, want %+v", got, want)
	}
	items, err := dynamodb.NewFromConfig(operator(s.aws)).Scan(t.Context(), &dynamodb.ScanInput{TableName: awssdk.String(out["Rows"])})
	if err != nil || items.Count == 0 {
		t.Errorf("the kept table has %d rows, %v; want them all", items.Count, err)
	}
}

// destroy runs destroy with a person's input.
func (s *deployed) destroy(t *testing.T, typed string) int {
	t.Helper()
	cmd, err := command(t.Context(), s.aws, root(t), s.dataHome, "destroy", "--stage", s.Stage)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(typed)
	out, err := cmd.CombinedOutput()
	t.Logf("destroy, %q typed: %v\n%s", typed, err, out)
	return cmd.ProcessState.ExitCode()
}

// A stage that keeps nothing leaves nothing, whatever its tables and bucket
// contain; its keys are scheduled for deletion.
func TestAStageThatKeepsNothingLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a second stage: tests/run deep")
	}
	s := &deployed{Record: stage.Record{Stage: "gone"}, dataHome: t.TempDir(), aws: local(t)}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if _, err := plainly(ctx, s.aws, root(t), s.Stage, []string{"vacancy-gone-data"}, chosen()...); err != nil {
		t.Fatal(err)
	}
	out := s.outputs(t, "data")
	for _, key := range []string{"one", "two"} {
		for range 2 { // two versions of each
			if _, err := bucket(s).PutObject(ctx, &s3.PutObjectInput{Bucket: awssdk.String(out["Blobs"]), Key: &key, Body: strings.NewReader(key)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if exit := s.destroy(t, "gone\n"); exit != 0 {
		t.Fatalf("destroy: exit %d", exit)
	}
	if got := s.left(t, out); got != (left{}) {
		t.Errorf("after destroy there are %+v, want nothing", got)
	}
}

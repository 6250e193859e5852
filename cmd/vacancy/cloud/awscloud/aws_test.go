package awscloud_test

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
)

func TestOnAWSABucketOfManyVersionsIsEmptied(t *testing.T) {
	l := newLab(t)
	bucket := l.stage + "-many"
	client := s3.NewFromConfig(l.cfg, func(o *s3.Options) { o.UsePathStyle = true; o.BaseEndpoint = aws.String(os.Getenv("VACANCY_TEST_AWS")) })
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	l.must(err)
	_, err = client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	l.must(err)
	const objects = 1050 // more than a page
	var wg sync.WaitGroup
	gate := make(chan struct{}, 16)
	for i := range objects {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			key := fmt.Sprint(i % 700) // some of them twice
			if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(nil)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, err = client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("1")})
	l.must(err)
	if full, err := l.cloud.HasObjects(t.Context(), bucket); !full || err != nil {
		t.Errorf("HasObjects() = %t, %v, want some", full, err)
	}
	var told []int
	l.must(l.cloud.EmptyBucket(t.Context(), bucket, func(n int) { told = append(told, n) }))
	if len(told) < 2 || told[len(told)-1] != objects+1 {
		t.Errorf("EmptyBucket() told %v, want several pages up to %d versions and a marker", told, objects+1)
	}
	_, err = client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &bucket})
	l.must(err) // AWS refuses to delete a bucket that is not empty
}

func TestOnAWSTheEdgesSecretIsExchangedOverThreeDeploys(t *testing.T) {
	l := newLab(t)
	client := secretsmanager.NewFromConfig(l.cfg)
	made, err := client.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String(l.stage + "-edge"), SecretString: aws.String("first")})
	l.must(err)
	arn := aws.ToString(made.ARN)
	sent, err := l.cloud.CurrentSecretVersion(t.Context(), arn)
	l.must(err)
	for i, next := range []string{"11111111-2222-4333-8444-555555555501", "11111111-2222-4333-8444-555555555502"} {
		l.must(l.cloud.PutSecretVersion(t.Context(), arn, next))
		if now, err := l.cloud.CurrentSecretVersion(t.Context(), arn); now != sent || err != nil {
			t.Errorf("deploy %d: the current version before the edge changed = %s, %v, want %s", i, now, err, sent)
		}
		for _, version := range []string{sent, next} { // functions accept both now
			v, err := client.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &arn, VersionId: aws.String(version)})
			l.must(err)
			if version == next && len(aws.ToString(v.SecretString)) != 43 {
				t.Errorf("deploy %d: the new value has %d characters, want 43", i, len(aws.ToString(v.SecretString)))
			}
		}
		l.must(l.cloud.PromoteSecretVersion(t.Context(), arn, next))
		sent = next
	}
	if now, err := l.cloud.CurrentSecretVersion(t.Context(), arn); now != sent || err != nil {
		t.Errorf("CurrentSecretVersion() = %s, %v, want %s", now, err, sent)
	}
}

func TestOnAWSLinesOfRealGroupsAreTailed(t *testing.T) {
	l := newLab(t)
	client := cloudwatchlogs.NewFromConfig(l.cfg)
	prefix, stream := "/vacancy/"+l.stage+"/", "s"
	began := time.Now().Add(-time.Minute)
	for g, name := range []string{"message", "admin"} {
		group := prefix + name
		_, err := client.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &group})
		l.must(err)
		_, err = client.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
		l.must(err)
		var batch []logtypes.InputLogEvent
		for i := range 600 { // more than a page
			at := began.Add(time.Duration(2*i+g) * time.Millisecond).UnixMilli()
			batch = append(batch, logtypes.InputLogEvent{Timestamp: &at, Message: aws.String(fmt.Sprint(2*i + g))})
		}
		_, err = client.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: batch})
		l.must(err)
	}
	groups, err := l.cloud.LogGroups(t.Context(), prefix)
	l.must(err)
	var got, want []string
	tail := l.cloud.TailLogs(groups, began.Add(-time.Second))
	for range 2 {
		l.must(tail.Next(t.Context(), func(line cloud.LogLine) error { got = append(got, line.Text); return nil }))
	}
	for i := range 1200 {
		want = append(want, fmt.Sprint(i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Next() of two groups (-want +got):\n%.2000s", diff)
	}
}

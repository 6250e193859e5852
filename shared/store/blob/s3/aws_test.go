package s3_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/blobtest"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
)

// serverURL is the URL of an S3 for tests: LocalStack, which tests/run starts
// and names here.
const serverURL = "VACANCY_TEST_AWS"

func clientAt(url string) *awss3.Client {
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	return s3.NewClient(cfg, func(o *awss3.Options) {
		o.BaseEndpoint = &url
		o.UsePathStyle = true
		// Pauses between tries are the SDK's, and not tested here.
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, time.Millisecond })
	})
}

// bucket makes a bucket that is deleted with the test.
func bucket(t *testing.T, c *awss3.Client) string {
	t.Helper()
	var random [8]byte
	rand.Read(random[:])
	name := "blobs-" + hex.EncodeToString(random[:])
	if _, err := c.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { empty(t, c, name) })
	return name
}

func empty(t *testing.T, c *awss3.Client, bucket string) {
	ctx := context.WithoutCancel(t.Context())
	b := s3.New(c, bucket, rand.Reader)
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := b.List(ctx, "", blob.MaxPage, cursor)
		if err != nil {
			t.Errorf("bucket %s stays: %v", bucket, err)
			return
		}
		for _, o := range page {
			if err := b.Delete(ctx, o.Key); err != nil {
				t.Errorf("bucket %s stays: %v", bucket, err)
			}
		}
		cursor = next
	}
	if _, err := c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &bucket}); err != nil {
		t.Errorf("bucket %s stays: %v", bucket, err)
	}
}

func server(t *testing.T) *awss3.Client {
	t.Helper()
	url := os.Getenv(serverURL)
	if url == "" {
		t.Skip("no S3: " + serverURL + " is not set; tests/run sets it in its LocalStack stage")
	}
	return clientAt(url)
}

func TestOnAWSALargeObjectIsReadWhole(t *testing.T) {
	c := server(t)
	readsWhole(t, s3.New(c, bucket(t, c), rand.Reader))
}

func TestOnAWSABucketKeepsTheContract(t *testing.T) {
	c := server(t)
	blobtest.Run(t, func(t *testing.T) blob.Blobs { return s3.New(c, bucket(t, c), rand.Reader) })
}

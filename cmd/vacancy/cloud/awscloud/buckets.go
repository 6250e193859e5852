package awscloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) EmptyBucket(ctx context.Context, bucket string, reportDeleted func(objects int)) error {
	total := 0
	for {
		page, err := c.buckets.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &bucket})
		if err = ToProblem(err); problem.Is(err, problem.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		ids := make([]types.ObjectIdentifier, 0, len(page.Versions)+len(page.DeleteMarkers))
		for _, v := range page.Versions {
			ids = append(ids, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			ids = append(ids, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if len(ids) == 0 {
			return nil
		}
		out, err := c.buckets.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}})
		if err != nil {
			return ToProblem(err)
		}
		// Each listing starts at the beginning, so an object that cannot be deleted would be listed
		// forever.
		if len(out.Errors) > 0 {
			e := out.Errors[0]
			return problem.New(problem.Forbidden, "%d objects of bucket %s cannot be deleted; the first is %s: %s", len(out.Errors), bucket, aws.ToString(e.Key), aws.ToString(e.Message))
		}
		total += len(ids)
		reportDeleted(total)
	}
}

func (c *Cloud) HasObjects(ctx context.Context, bucket string) (bool, error) {
	page, err := c.buckets.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &bucket, MaxKeys: aws.Int32(1)})
	if err = ToProblem(err); problem.Is(err, problem.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(page.Versions)+len(page.DeleteMarkers) > 0, nil
}

// HasItems implements cloud.Cloud. It searches for one item, because AWS's item count may be hours
// old.
func (c *Cloud) HasItems(ctx context.Context, table string) (bool, error) {
	page, err := c.tables.Scan(ctx, &dynamodb.ScanInput{TableName: &table, Limit: aws.Int32(1), ConsistentRead: aws.Bool(true)})
	if err = ToProblem(err); problem.Is(err, problem.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(page.Items) > 0, nil
}

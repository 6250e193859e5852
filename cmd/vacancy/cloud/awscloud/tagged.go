package awscloud

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
)

func (c *Cloud) TaggedResources(ctx context.Context, stageName string) ([]cloud.Resource, error) {
	var resources []cloud.Resource
	pages := resourcegroupstaggingapi.NewGetResourcesPaginator(resourcegroupstaggingapi.NewFromConfig(c.cfg), &resourcegroupstaggingapi.GetResourcesInput{
		TagFilters:          []types.TagFilter{{Key: aws.String("vacancy-stage"), Values: []string{stageName}}},
		ResourceTypeFilters: []string{"dynamodb:table", "kms:key", "s3"},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, ToProblem(err)
		}
		for _, m := range page.ResourceTagMappingList {
			arn := aws.ToString(m.ResourceARN)
			_, id, _ := strings.Cut(arn[strings.LastIndex(arn, ":")+1:], "/")
			switch {
			case strings.Contains(arn, ":s3:::"):
				resources = append(resources, cloud.Resource{Type: "AWS::S3::Bucket", PhysicalID: arn[strings.LastIndex(arn, ":")+1:]})
			case strings.Contains(arn, ":dynamodb:"):
				resources = append(resources, cloud.Resource{Type: "AWS::DynamoDB::GlobalTable", PhysicalID: id})
			// If a stage with keep=false is deleted, its keys stay in the state PendingDeletion for
			// a week.
			case strings.Contains(arn, ":kms:") && c.fetchSealingKey(ctx, id).State != "PendingDeletion":
				resources = append(resources, cloud.Resource{Type: "AWS::KMS::Key", PhysicalID: id})
			}
		}
	}
	return resources, nil
}

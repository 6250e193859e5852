package awscloud

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) fetchTable(ctx context.Context, name string) doctor.Table {
	if name == "" {
		return doctor.Table{NameUnknown: true}
	}
	out, err := c.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err = ToProblem(err); err != nil {
		missing := problem.Is(err, problem.NotFound)
		if missing {
			err = nil
		}
		return doctor.Table{Name: name, Missing: missing, Err: err}
	}
	t := convertTable(out.Table)
	t.Name = name
	backups, err := c.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil {
		t.Err = ToProblem(err)
		return t
	}
	if d := backups.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil {
		t.PITR = d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
	}
	return t
}

func convertTable(d *types.TableDescription) doctor.Table {
	t := doctor.Table{Status: string(d.TableStatus), DeletionProtection: aws.ToBool(d.DeletionProtectionEnabled)}
	kinds := map[string]string{}
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	for _, k := range d.KeySchema {
		name := aws.ToString(k.AttributeName)
		t.Keys = append(t.Keys, strings.Join([]string{name, kinds[name], string(k.KeyType)}, " "))
	}
	if s := d.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		t.StreamView = string(s.StreamViewType)
	}
	if s := d.SSEDescription; s != nil && s.SSEType == types.SSETypeKms && s.Status != types.SSEStatusDisabled {
		t.KeyARN = aws.ToString(s.KMSMasterKeyArn)
	}
	t.ReadLimit, t.WriteLimit = throughputLimits(d.OnDemandThroughput)
	for _, i := range d.GlobalSecondaryIndexes {
		read, write := throughputLimits(i.OnDemandThroughput)
		t.Indexes = append(t.Indexes, doctor.Index{Name: aws.ToString(i.IndexName), ReadLimit: read, WriteLimit: write})
	}
	return t
}

// throughputLimits returns the throughput limits of a table or an index. Zero means no limit, for
// which AWS uses -1.
func throughputLimits(o *types.OnDemandThroughput) (read, write int) {
	if o == nil {
		return 0, 0
	}
	return max(0, int(aws.ToInt64(o.MaxReadRequestUnits))), max(0, int(aws.ToInt64(o.MaxWriteRequestUnits)))
}

package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CreateTables creates missing tables for tests and local adapters.
func CreateTables(ctx context.Context, client *dynamodb.Client, tables TableNames) error {
	for _, in := range tableInputs(tables) {
		_, err := client.CreateTable(ctx, in)
		if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
			return fmt.Errorf("creating table %s: %w", *in.TableName, err)
		}
		waiter := dynamodb.NewTableExistsWaiter(client)
		if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, time.Minute); err != nil {
			return fmt.Errorf("waiting for table %s: %w", *in.TableName, err)
		}
	}
	return nil
}

func tableInputs(tables TableNames) []*dynamodb.CreateTableInput {
	attribute := func(name string, t types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: t}
	}
	key := func(pk, sk string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
		}
	}
	return []*dynamodb.CreateTableInput{{
		TableName:   &tables.Rows,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			attribute(attrPK, types.ScalarAttributeTypeB), attribute(attrSK, types.ScalarAttributeTypeN)},
		KeySchema: key(attrPK, attrSK),
	}, {
		TableName:   &tables.Docs,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			attribute(attrPK, types.ScalarAttributeTypeS), attribute(attrSK, types.ScalarAttributeTypeS),
			attribute(attrIndexPK, types.ScalarAttributeTypeS), attribute(attrIndexSK, types.ScalarAttributeTypeS)},
		KeySchema: key(attrPK, attrSK),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String(docsIndex),
			KeySchema:  key(attrIndexPK, attrIndexSK),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}}
}

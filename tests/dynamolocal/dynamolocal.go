// Package dynamolocal runs Amazon's DynamoDB Local for tests, on a free port of 127.0.0.1, so that
// the DynamoDB adapter can be tested without an AWS account.
//
// A server ends with the process that started it.
package dynamolocal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/javaserver"
)

// server is the one server of a test binary. Every test creates its own tables,
// so nothing is reset between tests. A start takes a second.
var server = sync.OnceValues(func() (*javaserver.Server, error) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	// The limit includes the download of a first run.
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	return StartProcess(ctx, dir)
})

// Start returns the endpoint of the test binary's DynamoDB Local, which ends
// with the binary. Missing requirements fail the test; they never skip it.
func Start(t testing.TB) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("dynamolocal.Start() = %v", err)
	}
	return s.Endpoint
}

// Client returns a client of the server, or of a proxy, at endpoint.
func Client(endpoint string, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamo.NewClient(aws.Config{}, append([]func(*dynamodb.Options){dynamo.WithDynamoDBLocal(endpoint)}, opts...)...)
}

// Tables creates two tables that are deleted when the test ends.
func Tables(t testing.TB, endpoint string) dynamo.TableNames {
	t.Helper()
	var id [6]byte
	rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	tables := dynamo.TableNames{Rows: "rows-" + name, Docs: "docs-" + name}
	client := Client(endpoint)
	if err := dynamo.CreateTables(t.Context(), client, tables); err != nil {
		t.Fatalf("CreateTables() = %v", err)
	}
	t.Cleanup(func() {
		for _, table := range []string{tables.Rows, tables.Docs} {
			_, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &table})
			if err != nil {
				t.Errorf("DeleteTable(%s) = %v", table, err)
			}
		}
	})
	return tables
}

// Store opens a store on new tables for the duration of the test.
func Store(t testing.TB, opts ...func(*dynamodb.Options)) *dynamo.Store {
	t.Helper()
	endpoint := Start(t)
	s := dynamo.New(Client(endpoint, opts...), Tables(t, endpoint))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return s
}

// Stream gives the table of rows a stream, as deployed tables have one, and returns its ARN.
func Stream(t testing.TB, endpoint string, tables dynamo.TableNames) string {
	t.Helper()
	out, err := Client(endpoint).UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &tables.Rows,
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}})
	if err != nil {
		t.Fatalf("UpdateTable() = %v", err)
	}
	return *out.TableDescription.LatestStreamArn
}

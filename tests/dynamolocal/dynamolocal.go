// Package dynamolocal runs Amazon's DynamoDB Local for tests, on a free port
// of 127.0.0.1: the real adapter against the real engine, no account and no
// fake.
//
// It may import the dynamo adapter, cmd/vacancy/cache, localstack/ddb and
// tests/javaserver. The invariant: a server never outlives the process that
// started it.
package dynamolocal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/javaserver"
)

// server is the one server of a test binary. Every test makes tables of its
// own, so there is nothing to reset between them, and a start costs a second.
var server = sync.OnceValues(func() (*javaserver.Server, error) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	// The download of a first run is in here.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return StartProcess(ctx, dir)
})

// Start returns the endpoint of the test binary's own DynamoDB Local, which
// ends with the binary. What is missing to run it fails the test; it is never
// skipped.
func Start(t testing.TB) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("dynamolocal.Start() = %v", err)
	}
	return s.Endpoint
}

// Client speaks to the server, or to a proxy before it, at endpoint.
func Client(endpoint string, opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamo.NewClient(aws.Config{}, append([]func(*dynamodb.Options){dynamo.Local(endpoint)}, opts...)...)
}

// Tables makes a fresh pair of tables that go away with the test.
func Tables(t testing.TB, endpoint string) dynamo.Tables {
	t.Helper()
	var id [6]byte
	rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	tables := dynamo.Tables{Rows: "rows-" + name, Docs: "docs-" + name}
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

// Store opens a store on fresh tables for the length of the test.
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

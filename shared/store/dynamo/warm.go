package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Warm sends four reads, because the first step of a call has four concurrent requests.
const readsPerTable = 2

// Warm reads absent items to open the connections that a call needs. The role must be allowed to
// read key in the docs table. If the rows table has no name, Warm skips it.
func (s *Store) Warm(ctx context.Context, key store.Key) error {
	if err := s.beginCall(ctx); err != nil {
		return err
	}
	defer s.endCall()
	tables := []struct {
		name string
		key  item
	}{{s.tables.Rows, rowItemKey("warm", 0)}, {s.tables.Docs, docItemKey(key)}}
	if s.tables.Rows == "" {
		tables = tables[1:]
	}
	errs := make([]error, len(tables)*readsPerTable)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			t := &tables[i/readsPerTable]
			_, errs[i] = s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: t.key})
		})
	}
	wg.Wait()
	var faults []string
	for i, t := range tables {
		if err := errors.Join(errs[i*readsPerTable : (i+1)*readsPerTable]...); err != nil {
			faults = append(faults, fmt.Sprintf("table %s: %s", t.name, describeFault(err)))
		}
	}
	if faults == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, errors.Join(errs...), "%s", strings.Join(faults, "; "))
}

func describeFault(err error) string {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return "it is missing, or still being created"
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return "DynamoDB cannot be reached"
	}
	switch code := api.ErrorCode(); code {
	case "ValidationException":
		return "its key attributes are not pk and sk, which this version needs; is this the right table?"
	case "AccessDeniedException":
		return "the function's role may not read it"
	case "ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException",
		"MissingAuthenticationTokenException", "IncompleteSignatureException":
		return "the credentials are expired or wrong (" + code + ")"
	default:
		return "DynamoDB answers " + code
	}
}

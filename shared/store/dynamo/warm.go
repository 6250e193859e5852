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

// warmReads is how many reads Warm sends to each table. A call's first step
// has four requests under way, and each takes a connection of its own.
const warmReads = 2

// Warm opens the connections that a call needs, by reading items that are not
// there: half a read unit each. Of documents it reads the one of key, which need
// not be there but must be one that the role may read. A table without a name is
// passed over. Warm writes nothing, and whatever it meets, the store may be
// used: every call asks the tables again.
//
// The error is a problem of kind Unavailable that says of each table what is
// wrong, as far as the answer to a read tells: that it is missing or still
// being created, that its key is another, that access is refused, that the
// credentials are expired or wrong, or that DynamoDB cannot be reached.
func (s *Store) Warm(ctx context.Context, key store.Key) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	tables := []struct {
		name string
		key  item
	}{{s.tables.Rows, rowKey("warm", 0)}, {s.tables.Docs, docItemKey(key)}}
	if s.tables.Rows == "" {
		tables = tables[1:]
	}
	errs := make([]error, len(tables)*warmReads)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			t := &tables[i/warmReads]
			_, errs[i] = s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: t.key})
		})
	}
	all.Wait()
	var told []string
	for i, t := range tables {
		if err := errors.Join(errs[i*warmReads : (i+1)*warmReads]...); err != nil {
			told = append(told, fmt.Sprintf("table %s: %s", t.name, diagnosis(err)))
		}
	}
	if told == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, errors.Join(errs...), "%s", strings.Join(told, "; "))
}

// diagnosis is what an operator can do something about.
func diagnosis(err error) string {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return "it is missing, or still being created"
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return "DynamoDB cannot be reached"
	}
	switch code := api.ErrorCode(); code {
	case "ValidationException":
		return "its key is another than pk and sk as this version has them; is it the right table?"
	case "AccessDeniedException":
		return "the function's role may not read it"
	case "ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException",
		"MissingAuthenticationTokenException", "IncompleteSignatureException":
		return "the credentials are expired or wrong (" + code + ")"
	default:
		return "DynamoDB answers " + code
	}
}

// Package dynamo is a store in two Amazon DynamoDB tables: rows, whose items are only ever created,
// and docs.
//
// Each commit is one request: a conditional put or delete for a single write, and a transaction for
// several writes. Streams have no head item. Instead, a row is put only if its position is free and
// the row below it is known to exist. A process knows this if it has read or written that row or a
// later one (knowntips.go). Otherwise it reads that row first. The knowledge remains valid until
// the table is restored from a backup, because rows are never deleted.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/store"
)

// TableNames names the two tables. A missing table is detected by the first call or by Warm.
type TableNames struct{ Rows, Docs string }

type Store struct {
	client    *dynamodb.Client
	tables    TableNames
	knownTips knownTips

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // running calls
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Walker = (*Store)(nil)
)

// New returns a store in the given tables. The client should come from NewClient, because of its
// retries and timeouts. Its role needs GetItem, Query and PutItem on both tables, UpdateItem and
// DeleteItem on docs, Query on the index of docs, and Scan on rows for Walk, which only operators
// use. Transactions need no further permissions.
func New(client *dynamodb.Client, tables TableNames) *Store {
	return &Store{client: client, tables: tables, knownTips: knownTips{limit: maxGenerationStreams}}
}

func (s *Store) ClearCache() { s.knownTips.reset() }

func (s *Store) beginCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return store.NotAppliedError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.NotAppliedError(store.ErrClosed)
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) endCall() { s.calls.Done() }

// Close implements store.Store. It does not close the client.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	return nil
}

func unavailableError(ctx context.Context, operation string, err error) error {
	err = shortenThrottling(err)
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", ctxErr, err)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, operation, err)
}

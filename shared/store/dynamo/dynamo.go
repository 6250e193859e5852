// Package dynamo is a store in two Amazon DynamoDB tables: rows, whose items are only ever created,
// and docs.
//
// A row is put only if its position is free and the row below it is known to exist. A process
// records the highest position that it has read or written in each stream (knowntips.go). If it
// does not know the row below, it reads that row first.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/store"
)

type TableNames struct{ Rows, Docs string }

type Store struct {
	client    *dynamodb.Client
	tables    TableNames
	knownTips knownTips

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Walker = (*Store)(nil)
)

// New returns a store in the given tables. The client should come from NewClient. Its role needs
// GetItem, Query and PutItem on both tables, UpdateItem and DeleteItem on docs, Query on the index
// of docs, and Scan on rows for Walk, which only operators use.
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

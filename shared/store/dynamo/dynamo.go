// Package dynamo is the store over two Amazon DynamoDB tables: rows, which are
// only ever put, and docs.
//
// Each commit is one request: a conditional put or delete for a single write, a
// transaction for several. The contract that no position is written before the
// one below it is kept without a head item: a row is put only where no row is,
// and only with proof that the row below exists. Rows are never deleted, so a
// proof never expires: this process has read or written such a row
// (lengths.go), or reads it first.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Tables names the two tables. They are not checked at the start: a missing
// table shows at the first call, or in Warm's error.
type Tables struct{ Rows, Docs string }

// Store is a store in DynamoDB.
type Store struct {
	client  *dynamodb.Client
	tables  Tables
	lengths lengths

	mu     sync.Mutex
	closed bool
	under  sync.WaitGroup // running calls
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Walker = (*Store)(nil)
)

// New returns the store in those tables. The client should come from NewClient,
// for its retries and timeouts. Its role needs GetItem, Query and PutItem on
// both tables, UpdateItem and DeleteItem on docs, Query on the index of docs,
// and for Walk, which only operators use, Scan on rows. A transaction needs
// only the rights of its writes.
func New(client *dynamodb.Client, tables Tables) *Store {
	return &Store{client: client, tables: tables, lengths: lengths{most: knownStreams}}
}

// Forget clears the cached tips of the table's streams. A table that came back
// from a backup may lack their rows.
func (s *Store) Forget() { s.lengths.forget() }

// enter begins a call; every call that entered must leave.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return store.NotApplied(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.NotApplied(store.ErrClosed)
	}
	s.under.Add(1)
	return nil
}

func (s *Store) leave() { s.under.Done() }

// Close implements store.Store. It does not close the client.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.under.Wait()
	return nil
}

// unavailable is the error of every failure of network or service: the outcome
// is unknown. A request that ended with its context has the context's error in
// the chain.
func unavailable(ctx context.Context, doing string, err error) error {
	err = shortened(err)
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

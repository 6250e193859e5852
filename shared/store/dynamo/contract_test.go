package dynamo_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// fixture opens DynamoDB Local for the contract suite: new tables for each
// store, which can be opened again.
type fixture struct {
	client *dynamodb.Client
	tables sync.Map // of each *dynamo.Store
}

func newFixture(tb testing.TB) (*fixture, storetest.Adapter) {
	h := &fixture{client: dynamolocal.Client(dynamolocal.Start(tb))}
	return h, storetest.Adapter{
		Open: func(tb testing.TB) store.Store {
			return h.open(tb, dynamolocal.Tables(tb, dynamolocal.Start(tb)))
		},
		Reopen: func(tb testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			tables, _ := h.tables.Load(s)
			return h.open(tb, tables.(dynamo.TableNames))
		},
		IndexLag:      2 * time.Second,
		HasMovingView: true,
		Load:          h.load,
	}
}

func (h *fixture) open(tb testing.TB, tables dynamo.TableNames) store.Store {
	s := dynamo.New(h.client, tables)
	h.tables.Store(s, tables)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return s
}

// load writes rows in batches, without the adapter's conditions.
func (h *fixture) load(tb testing.TB, s store.Store, name store.Stream, n int) {
	tables, _ := h.tables.Load(s)
	table := tables.(dynamo.TableNames).Rows
	const batch = 25
	for next := 1; next <= n; {
		var puts []types.WriteRequest
		for ; next <= n && len(puts) < batch; next++ {
			row := store.Append{Stream: name, Position: uint64(next), WriteID: store.WriteID{1}, Data: make([]byte, 500)}
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: dynamo.RowItem(row)}})
		}
		out, err := h.client.BatchWriteItem(tb.Context(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table: puts}})
		if err != nil || len(out.UnprocessedItems) > 0 {
			tb.Fatalf("BatchWriteItem() = %v, %v", out, err)
		}
	}
}

func TestContractHoldsOnDynamoDBLocal(t *testing.T) {
	_, fixture := newFixture(t)
	storetest.Run(t, fixture)
}

func BenchmarkDynamoDBLocal(b *testing.B) {
	_, fixture := newFixture(b)
	storetest.Benchmark(b, fixture, 1, 10_000)
}

// Without write ids two such commits have equal bytes, and DynamoDB's
// idempotency must not swallow the second.
func TestDeletesTogetherWorkAgainOnDocumentsMadeFresh(t *testing.T) {
	s := dynamolocal.Store(t)
	a, b := store.Key{Partition: "p", Sort: "a"}, store.Key{Partition: "p", Sort: "b"}
	for range 2 {
		for _, commit := range [][]store.Write{
			{store.Put{Key: a, WriteID: newAttempt()}, store.Put{Key: b, WriteID: newAttempt()}},
			{store.Delete{Key: a, IfVersion: 1}, store.Delete{Key: b, IfVersion: 1}},
		} {
			if err := s.Commit(t.Context(), commit...); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range []store.Key{a, b} {
			if doc, err := s.Doc(t.Context(), k); err != nil || doc.Version != 0 {
				t.Errorf("Doc(%v) is at version %d, %v, want it deleted", k, doc.Version, err)
			}
		}
	}
}

func TestTablesAreMadeOnce(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables, client := dynamolocal.Tables(t, endpoint), dynamolocal.Client(endpoint)
	s := dynamo.New(client, tables)
	if err := s.Commit(t.Context(), store.Append{Stream: "s", Position: 1, WriteID: newAttempt()}); err != nil {
		t.Fatal(err)
	}
	if err := dynamo.CreateTables(t.Context(), client, tables); err != nil {
		t.Errorf("CreateTables() = %v, want nil for tables that are there", err)
	}
	if tip, err := s.Tip(t.Context(), "s"); err != nil || tip.Position != 1 {
		t.Errorf("Tip() = %d, %v, want what was there", tip.Position, err)
	}
}

func TestMissingTableIsUnavailable(t *testing.T) {
	s := dynamo.New(dynamolocal.Client(dynamolocal.Start(t)), dynamo.TableNames{Rows: "missing-rows", Docs: "missing-docs"})
	if _, err := s.Tip(t.Context(), "s"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Tip() = %v, want ErrUnavailable", err)
	}
	err := s.Commit(t.Context(), store.Append{Stream: "s", Position: 1, WriteID: newAttempt()})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit() = %v, want ErrUnavailable", err)
	}
}

func TestCommitAboveATransactionsSizeIsTooLarge(t *testing.T) {
	s := dynamolocal.Store(t)
	var writes []store.Write
	for i := range 12 {
		writes = append(writes, store.Append{Stream: store.Stream(rune('a' + i)), Position: 1, WriteID: newAttempt(),
			Data: make([]byte, store.MaxData)})
	}
	if err := s.Commit(t.Context(), writes...); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("Commit() of %d rows of %d bytes = %v, want ErrTooLarge", len(writes), store.MaxData, err)
	}
	if err := s.Commit(t.Context(), writes[:11]...); err != nil {
		t.Errorf("Commit() of 11 such rows = %v, want nil", err)
	}
}

package dynamo_test

import (
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

// home is DynamoDB Local as the contract suite needs it: fresh tables per
// store, and a memory of which, to open them again.
type home struct {
	client *dynamodb.Client
	tables sync.Map // of each *dynamo.Store
}

func newHome(tb testing.TB) (*home, storetest.Home) {
	h := &home{client: dynamolocal.Client(dynamolocal.Start(tb))}
	return h, storetest.Home{
		Open: func(tb testing.TB) store.Store {
			return h.open(tb, dynamolocal.Tables(tb, dynamolocal.Start(tb)))
		},
		Reopen: func(tb testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			tables, _ := h.tables.Load(s)
			return h.open(tb, tables.(dynamo.Tables))
		},
		Lag:    2 * time.Second,
		Moving: true,
		Load:   h.load,
	}
}

func (h *home) open(tb testing.TB, tables dynamo.Tables) store.Store {
	s := dynamo.New(h.client, tables)
	h.tables.Store(s, tables)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return s
}

// load writes rows in batches, past the adapter's conditions.
func (h *home) load(tb testing.TB, s store.Store, name store.Stream, n int) {
	tables, _ := h.tables.Load(s)
	table := tables.(dynamo.Tables).Rows
	const batch = 25
	for next := 1; next <= n; {
		var puts []types.WriteRequest
		for ; next <= n && len(puts) < batch; next++ {
			row := store.Append{Stream: name, Position: uint64(next), Attempt: store.Attempt{1}, Data: make([]byte, 500)}
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
	_, home := newHome(t)
	storetest.Run(t, home)
}

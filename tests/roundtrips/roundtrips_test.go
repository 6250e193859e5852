package roundtrips_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

func TestCallsAtOnceAreOneRoundTrip(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	counter := &roundtrips.Counter{Hold: 20 * time.Millisecond}
	s := dynamo.New(dynamolocal.Client(endpoint, counter.Option), dynamolocal.Tables(t, endpoint))
	tip := func() {
		if _, err := s.Tip(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	}
	together := func(n int) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(tip)
		}
		wg.Wait()
	}
	together(5)
	if got := counter.Trips(); got != 1 {
		t.Errorf("Trips() = %d after 5 calls at once, want 1", got)
	}
	tip()
	together(2)
	if got := counter.Trips(); got != 3 {
		t.Errorf("Trips() = %d after 5 calls at once, 1, and 2 at once, want 3", got)
	}
	if got := len(counter.Calls()); got != 8 {
		t.Errorf("Calls() = %d calls, want 8", got)
	}
	counter.Reset()
	if got := counter.Trips(); got != 0 {
		t.Errorf("Trips() = %d after Reset(), want 0", got)
	}
}

func TestUnitsAreDynamoDBsAndComputedForTransactions(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	counter := &roundtrips.Counter{}
	s := dynamo.New(dynamolocal.Client(endpoint, counter.Option), dynamolocal.Tables(t, endpoint))
	row := func(stream store.Stream, size int) store.Append {
		return store.Append{Stream: stream, Position: 1, WriteID: store.WriteID{1}, Data: make([]byte, size)}
	}
	commit := func(writes ...store.Write) {
		t.Helper()
		if err := s.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	commit(row("a", 100))
	commit(row("b", 2100))
	commit(row("c", 100), row("d", 2100))
	if _, err := s.Tip(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var writes, reads []float64
	for _, c := range counter.Calls() {
		writes, reads = append(writes, c.WriteUnits), append(reads, c.ReadUnits)
	}
	// A transaction costs twice per item; DynamoDB Local reports 4 for every
	// one.
	if diff := cmp.Diff([]float64{1, 3, 2*1 + 2*3, 0}, writes); diff != "" {
		t.Errorf("write units (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0, 0, 0, 1}, reads); diff != "" {
		t.Errorf("read units (-want +got):\n%s", diff)
	}
	want := []string{"PutItem", "PutItem", "TransactWriteItems", "Query"}
	if got := counter.Operations(); !slices.Equal(got, want) || counter.WriteUnits() != 12 || counter.ReadUnits() != 1 {
		t.Errorf("Operations() = %v at %v write and %v read units, want %v at 12 and 1",
			got, counter.WriteUnits(), counter.ReadUnits(), want)
	}
}

package dynamo_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

func metered(t *testing.T) (context.Context, *obs.Usage) {
	return obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
}

func TestTheMeterCountsWhatEachOperationCosts(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	s := dynamo.New(dynamolocal.Client(endpoint), dynamolocal.Tables(t, endpoint))
	row := func(stream store.Stream, p uint64, size int) store.Append {
		return store.Append{Stream: stream, Position: p, WriteID: newAttempt(), Data: make([]byte, size)}
	}
	doc := store.Key{Partition: "p", Sort: "s"}
	put := func(version uint64) store.Put { return store.Put{Key: doc, IfVersion: version, WriteID: newAttempt()} }
	for _, step := range []struct {
		fact string
		do   func(context.Context)
		want obs.Counts
	}{
		{"a small row is one unit", func(ctx context.Context) { s.Commit(ctx, row("a", 1, 100)) }, obs.Counts{Trips: 1, Writes: 1}},
		{"a row of 2,100 bytes is three", func(ctx context.Context) { s.Commit(ctx, row("a", 2, 2100)) }, obs.Counts{Trips: 1, Writes: 3}},
		{"a row refused costs what it would have", func(ctx context.Context) { s.Commit(ctx, row("a", 1, 2100)) }, obs.Counts{Trips: 1, Writes: 3}},
		{"or what the row in its way is", func(ctx context.Context) { s.Commit(ctx, row("a", 2, 1)) }, obs.Counts{Trips: 1, Writes: 3}},
		{"a tip is one unit to read", func(ctx context.Context) { s.Tip(ctx, "a") }, obs.Counts{Trips: 1, Reads: 1}},
		{"a document is one unit each way", func(ctx context.Context) {
			s.Commit(ctx, put(0))
			s.Doc(ctx, doc)
		}, obs.Counts{Trips: 2, Writes: 1, Reads: 1}},
		{"a page of documents", func(ctx context.Context) { s.Docs(ctx, store.Range{Partition: "p"}, 10, "") }, obs.Counts{Trips: 1, Reads: 1}},
		{"a document refused", func(ctx context.Context) { s.Commit(ctx, put(7)) }, obs.Counts{Trips: 1, Writes: 1}},
		{"a deletion refused, and one done", func(ctx context.Context) {
			s.Commit(ctx, store.Delete{Key: doc, IfVersion: 9})
			s.Commit(ctx, store.Delete{Key: doc, IfVersion: 1})
		}, obs.Counts{Trips: 2, Writes: 2}},
		// DynamoDB Local reports four units for each table, whatever the items.
		{"a transaction", func(ctx context.Context) { s.Commit(ctx, put(0), row("b", 1, 1)) }, obs.Counts{Trips: 1, Writes: 8}},
	} {
		ctx, u := metered(t)
		step.do(ctx)
		if diff := cmp.Diff(step.want, u.Counts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.fact, diff)
		}
	}
}

func TestOperationsAtOnceAreOneTrip(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	proxy := faultproxy.Start(t, endpoint)
	proxy.Set(faultproxy.Rule{Fault: faultproxy.Delay, For: 20 * time.Millisecond}) // so that they certainly overlap
	s := dynamo.New(dynamolocal.Client(proxy.URL), dynamolocal.Tables(t, endpoint))
	ctx, u := metered(t)
	for range 2 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := s.Tip(ctx, "a"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if c := u.Counts(); c.Trips != 2 {
		t.Errorf("Counts() = %+v after twice four at once, want 2 trips", c)
	}
}

func TestFailedRequestIsARoundTripWithoutUnits(t *testing.T) {
	s := dynamo.New(dynamolocal.Client("http://127.0.0.1:1"), dynamo.TableNames{Rows: "rows", Docs: "docs"})
	ctx, u := metered(t)
	if _, err := s.Tip(ctx, "a"); err == nil {
		t.Error("Tip() = nil without a server")
	}
	if diff := cmp.Diff(obs.Counts{Trips: 1}, u.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

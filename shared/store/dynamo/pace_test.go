package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// slowed is a clock that advances only by waiting.
type slowed struct {
	mu     sync.Mutex
	at     time.Time
	waited int
}

func (c *slowed) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *slowed) wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.waited = c.at.Add(d), c.waited+1
	return ctx.Err()
}

func TestAPacedReaderKeepsItsRate(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	direct := dynamo.New(dynamolocal.Client(endpoint), tables)
	for p := uint64(1); p <= 40; p++ {
		err := direct.Commit(t.Context(), store.Append{Stream: "s", Position: p, WriteID: newAttempt(), Data: make([]byte, 10_000)})
		if err != nil {
			t.Fatal(err)
		}
	}
	const rate = 10
	began := time.Unix(1e9, 0)
	clock := &slowed{at: began}
	s := dynamo.New(dynamolocal.Client(endpoint, dynamo.WithReadRate(rate, clock.now, clock.wait)), tables)
	ctx, used := obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
	for range 5 {
		err := s.Walk(ctx, func(v store.View) error {
			if _, _, err := v.Streams(ctx, "", 10, ""); err != nil {
				return err
			}
			_, err := v.Rows(ctx, "s", 1, 40, store.Ascending)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	units := used.Counts().Reads
	// There is no pause after the last read.
	if took := clock.now().Sub(began).Seconds(); units < 400 || took < (units-120)/rate || took > units/rate {
		t.Errorf("%v units were read in %v s, want %d a second", units, took, rate)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Doc(cancelled, store.Key{Partition: "p", Sort: "s"}); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Doc() cancelled = %v, want ErrUnavailable with the context's error", err)
	}
}

func TestAPacedReaderWaitsWhileItIsThrottled(t *testing.T) {
	l := newLine(t)
	p := l.newPlace(t)
	s := dynamo.New(dynamolocal.Client(l.proxy.URL, dynamo.WithReadRate(1000, time.Now, retry.Sleep)), l.tables)
	for _, f := range []faultproxy.Fault{faultproxy.Throttle, faultproxy.Exceed, faultproxy.Internal, faultproxy.Drop} {
		var rules []faultproxy.Rule
		for nth := 1; nth <= 5; nth++ { // more than a caller's client tries
			rules = append(rules, faultproxy.Rule{Operation: "Query", Nth: nth, Fault: f})
		}
		l.proxy.Set(rules...)
		if rows, err := s.Rows(t.Context(), p.stream, 1, 10, store.Ascending); err != nil || len(rows) != 1 {
			t.Errorf("Rows() after %v five times = %d rows, %v, want the one there is", f, len(rows), err)
		}
	}
}

// The cost of a list grows with the number of streams, not with their rows.
func TestAListOfStreamsReadsLittleOfLongOnes(t *testing.T) {
	h, fixture := newFixture(t)
	s := fixture.Open(t).(*dynamo.Store)
	want := []store.Stream{"long", "longer", "short"}
	h.load(t, s, "long", 2000)
	h.load(t, s, "longer", 4000)
	h.load(t, s, "short", 1)
	ctx, used := obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
	var got []store.Stream
	err := s.Walk(ctx, func(v store.View) error {
		for cursor, more := "", true; more; more = cursor != "" {
			page, next, err := v.Streams(ctx, "", store.MaxPage, cursor)
			if err != nil {
				return err
			}
			got, cursor = append(got, page...), next
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Streams() (-want +got):\n%s", diff)
	}
	// 6,001 rows of 600 bytes are some 880 units.
	if c := used.Counts(); c.Reads > 100 || c.Trips > 8 {
		t.Errorf("the list cost %+v, want what 128 rows a stream cost", c)
	}
}

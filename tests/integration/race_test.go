package integration

import (
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/hammer"
)

// calls of the load test: 200 by default, enough to meet on many instances;
// more by hand.
var calls = flag.Int("calls", 1000, "calls of the load test")

// Thirty-two writers sign for one position and send at once, each on its own
// connection; the functions run them in parallel.
func TestOneOfThirtyTwoWritersTakesAPosition(t *testing.T) {
	const writers = 32
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	handlers := make([]*pair, writers)
	var cut atomic.Int64
	for i := range handlers {
		handlers[i] = &pair{Caller: p.Caller, t: t, url: p.url, http: web(t, s.aws, "")}
	}
	for round := range rounds {
		sent := make([]*envelope.Envelope, writers)
		heard := make([]heard, writers)
		for i := range sent {
			sent[i] = p.Call(fmt.Sprintf("round %d, writer %d", round, i), time.Now())
		}
		gun := make(chan struct{})
		var all sync.WaitGroup
		for i, handler := range handlers {
			all.Go(func() {
				<-gun
				heard[i] = handler.send(sent[i])
				// A machine that is slow for 32 writers cuts some of them off. The outcome of
				// their calls is unknown until they send the same request again.
				for heard[i].Status == http.StatusServiceUnavailable && t.Context().Err() == nil {
					cut.Add(1)
					heard[i] = handler.send(sent[i])
				}
			})
		}
		close(gun)
		all.Wait()
		won := -1
		for i, a := range heard {
			switch {
			case a.Status == http.StatusOK && won < 0:
				won = i
			case a.Status == http.StatusOK:
				t.Errorf("round %d: writers %d and %d were both accepted", round, won, i)
			case a.Status != http.StatusConflict || a.Code != "replay":
				t.Errorf("round %d, writer %d: %v, want 409 replay", round, i, a)
			}
		}
		if won < 0 {
			t.Fatalf("round %d: nobody was accepted", round)
		}
		p.Accepted(sent[won])
	}
	t.Logf("%d answers were 503, and their calls were sent again", cut.Load())
	if s.aws != nil && s.instances(t, "message") < 2 {
		t.Error("one instance of the function answered, want several")
	}
	s.whole(t)
}

// Calls at full speed from many callers at once; then every link, hash and
// signature is checked in both of the operator's ways.
func TestCallsUnderLoadLeaveNoBreak(t *testing.T) {
	s := shared(t)
	v := s.vacant(t)
	if testing.Short() {
		*calls = min(*calls, 200)
	}
	target, err := hammer.Find(t.Context(), s.messageURL(t), v)
	if err != nil {
		t.Fatal(err)
	}
	load, err := hammer.Run(t.Context(), hammer.Config{
		Target: target, Pairs: 8, For: 15 * time.Minute, Calls: *calls, Size: 100, Now: time.Now, Rand: rand.Reader,
	})
	if err != nil || load.Calls != uint64(*calls) || len(load.Errors) > 0 {
		t.Fatalf("hammer: %+v, %v; want %d calls and no error", load, err, *calls)
	}
	t.Logf("%d calls, %.0f/s, p50 %v, p99 %v, %d sent again", load.Calls, load.PerSecond, load.P50, load.P99, load.Resent)
	if testing.Short() {
		return // verified at the end of the run
	}
	for _, host := range []string{"aws", s.URL} {
		began := time.Now()
		r := s.verify(t, host)
		t.Logf("verify --host %s: %d rows in %d streams, %.1f s", host, r.Rows, r.Streams, time.Since(began).Seconds())
		if !r.OK || r.Findings != 0 || r.Rows < uint64(2**calls) {
			t.Errorf("verify --host %s = %+v, want %d rows or more and no finding", host, r, 2**calls)
		}
	}
}

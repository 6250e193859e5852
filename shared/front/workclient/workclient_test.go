package workclient

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// host is a host by its operations. Its clock is the one of a synctest bubble.
type host struct {
	mu     sync.Mutex
	turns  int // that it still has
	asked  []time.Time
	signs  []time.Time // heartbeats and reports of a worker with a lease
	away   func() bool
	text   string
	result *Answer
}

// Call implements op.Client.
func (h *host) Call(_ context.Context, _, path string, _ http.Header, body []byte, into any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away != nil && h.away() {
		return problem.New(problem.Unavailable, "connection refused")
	}
	if o, ok := into.(*workapi.Offer); ok {
		h.asked = append(h.asked, time.Now())
		if o.RetryAfter = 2; h.turns > 0 {
			h.turns--
			o.Turn = &Turn{Lease: "00.1", Seconds: 60, DeadlineMS: 600_000, Question: json.RawMessage(`{}`)}
		}
		return nil
	}
	h.signs = append(h.signs, time.Now())
	switch {
	case strings.HasSuffix(path, "/events"):
		var b workapi.Batch
		if err := json.Unmarshal(body, &b); err != nil {
			return err
		}
		for _, e := range b.Events {
			h.text += e.Text
		}
	case strings.HasSuffix(path, "/result"):
		h.result = new(Answer)
		return json.Unmarshal(body, h.result)
	}
	return nil
}

func TestAnIdleWorkerSlowsToARequestInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := &host{}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := (&Worker{Client: h}).Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
		var at []float64
		for _, when := range h.asked {
			at = append(at, when.Sub(began).Seconds())
		}
		if diff := cmp.Diff([]float64{0, 2, 6, 14, 24, 34, 44, 54}, at); diff != "" {
			t.Errorf("seconds of requests (-want +got):\n%s", diff)
		}
	})
}

// The host is away for 30 s in the middle of a turn, and for 30 s at its end. The worker gives the host a sign of life
// before a lease of a minute is lost, and no text is lost or repeated.
func TestATurnSurvivesAHostThatIsAwayForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := &host{turns: 1, away: func() bool {
			s := time.Since(began).Seconds()
			return s > 5 && s < 35 || s > 58 && s < 88
		}}
		var status []string
		w := &Worker{Client: h, Observe: func(s Status) {
			said := map[bool]string{true: "connected", false: "away"}[s.Connected]
			if n := len(status); n == 0 || status[n-1] != said {
				status = append(status, said)
			}
		}, Handle: func(_ context.Context, _ *Turn, emit func(Event)) (Answer, error) {
			for range 60 {
				emit(Event{Type: worker.TypeText, Text: "."})
				time.Sleep(time.Second)
			}
			return Answer{Text: "!"}, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
		if want := strings.Repeat(".", 60); h.text != want || h.result == nil || h.result.Text != "!" || h.result.Error != "" {
			t.Errorf("the host has %q and %+v", h.text, h.result)
		}
		last := began
		for _, at := range h.signs {
			if silence := at.Sub(last); silence > 40*time.Second {
				t.Errorf("the worker is silent for %s", silence)
			}
			last = at
		}
		if n := len(status); n == 0 || status[n-1] != "connected" {
			t.Errorf("the status was %v", status)
		}
	})
}

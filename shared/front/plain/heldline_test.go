package plain

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// completes runs a request of an account that waits in line.
func completes(ctx context.Context, h *RequestLimiter, account string, run func()) error {
	c := &Caller{Sender: Sender{Payer: &call.Payer{Account: strings.Repeat(account, 64)}}}
	return h.RunOrWait(ctx, c, func() error { run(); return nil })
}

// waitingIn returns how many requests of all accounts wait.
func (h *RequestLimiter) waitingIn() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, waiting := range h.waitingCounts {
		n += waiting
	}
	return n
}

// 24 requests at once of an account that may have 16 are all answered, and never more than 16 run.
func TestRequestsWaitInLine(t *testing.T) {
	h := newRequestLimiter(streamLimit)
	h.maxAcquireWait = time.Hour
	release := make(chan struct{})
	var mu sync.Mutex
	running, most := 0, 0
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			err := completes(t.Context(), h, "a", func() {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-release
				mu.Lock()
				running--
				mu.Unlock()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	await.Until(t, "eight requests wait", func() bool { return h.waitingIn() == 8 })
	if err := completes(t.Context(), h, "b", func() {}); err != nil {
		t.Errorf("another account: %v", err)
	}
	close(release)
	all.Wait()
	if most != 16 || len(h.activeCounts) != 0 || len(h.waitingCounts) != 0 {
		t.Errorf("%d ran at once; %d and %d holders stay in memory; want 16, and none", most, len(h.activeCounts), len(h.waitingCounts))
	}
}

// A request that has waited in vain, finds the line full, or is left by its client is refused.
func TestALineHasAnEnd(t *testing.T) {
	h := newRequestLimiter(requestLimit{perSender: 1, perVacant: 8})
	refused := func(what string, ctx context.Context) {
		t.Helper()
		err := completes(ctx, h, "a", func() { t.Error(what + " ran") })
		var r *retryableError
		if !problem.Is(err, problem.TooManyRequests) || !errors.As(err, &r) || r.retryAfter != "1" || !strings.Contains(problem.AsError(err).Text(), "1 of your requests are in progress") {
			t.Errorf("%s: %v, may be retried %+v", what, err, r)
		}
	}
	err := completes(t.Context(), h, "a", func() {
		h.maxAcquireWait = time.Millisecond
		refused("a request that waits in vain", t.Context())
		h.maxAcquireWait = time.Hour
		ctx, hangUp := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { refused("a request whose client hangs up", ctx) })
		await.Until(t, "a request waits", func() bool { return h.waitingIn() == 1 })
		refused("a request that finds the line full", t.Context())
		hangUp()
		waiting.Wait()
	})
	if err != nil {
		t.Error(err)
	}
}

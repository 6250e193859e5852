package local_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call/queue/local"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func queueOver(s store.Store) *local.Queue {
	return local.New(store.Updater{Store: s, Rand: rand.Reader}, time.Now)
}

// handled notes messages.
type handled struct {
	mu  sync.Mutex
	all []string
}

func (h *handled) add(m string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m)
}

func (h *handled) read() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

func TestMessagesOutliveTheProcessAndAreDeliveredOnceDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		first := queueOver(s)
		for i := range 3 {
			if _, err := first.Send(t.Context(), fmt.Sprint(i)); err != nil { // and the process ends
				t.Fatal(err)
			}
		}
		var got handled
		for range 2 { // the second start finds nothing
			ctx, end := context.WithCancel(t.Context())
			go queueOver(s).Run(ctx, 2, slog.New(slog.DiscardHandler), func(_ context.Context, m string) error { got.add(m); return nil })
			time.Sleep(time.Minute)
			end()
			synctest.Wait()
		}
		if all := got.read(); len(all) != 3 {
			t.Errorf("handled %v, want each of three once", all)
		}
	})
}

func TestARefusedMessageComesAgainUntilItIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueOver(memory.New())
		var got handled
		ctx, end := context.WithCancel(t.Context())
		go q.Run(ctx, 4, slog.New(slog.DiscardHandler), func(_ context.Context, m string) error {
			got.add(m)
			if m == "later" && len(got.read()) > 3 {
				return nil
			}
			return errors.New("not yet")
		})
		settle, err := q.Send(t.Context(), "later")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		settle(t.Context(), true)
		time.Sleep(10 * time.Second)
		if n := len(got.read()); n != 4 || time.Since(began) > 11*time.Second {
			t.Errorf("handled %d times in 10 s, want 4", n)
		}
		settle, err = q.Send(t.Context(), "never")
		if err != nil {
			t.Fatal(err)
		}
		settle(t.Context(), true)
		time.Sleep(2 * local.Patience)
		n := len(got.read())
		time.Sleep(local.Patience)
		if after := len(got.read()); after != n || n < 10 {
			t.Errorf("handled %d times, and %d times after it was to be dropped", n, after-n)
		}
		end()
		synctest.Wait()
	})
}

func TestASlowMessageKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueOver(memory.New())
		block := make(chan bool)
		var got handled
		ctx, end := context.WithCancel(t.Context())
		go q.Run(ctx, 4, slog.New(slog.DiscardHandler), func(_ context.Context, m string) error {
			if m == "slow" {
				<-block
			}
			got.add(m)
			return nil
		})
		for _, m := range []string{"slow", "a", "b"} {
			settle, err := q.Send(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			settle(t.Context(), true)
		}
		time.Sleep(time.Second)
		if all := got.read(); len(all) != 2 {
			t.Errorf("handled %v, want a and b", all)
		}
		close(block)
		end() // Run waits for the slow one
		synctest.Wait()
		if all := got.read(); len(all) != 3 {
			t.Errorf("handled %v, want all", all)
		}
	})
}

func TestTheMessageOfARefusedTaskIsDeleted(t *testing.T) {
	s := memory.New()
	q := queueOver(s)
	settle, err := q.Send(t.Context(), "refused")
	if err != nil {
		t.Fatal(err)
	}
	settle(t.Context(), false)
	left, _, err := s.Docs(t.Context(), store.Range{Partition: "queue#tasks"}, 10, "")
	if err != nil || len(left) != 0 {
		t.Errorf("%d messages are left, %v", len(left), err)
	}
}

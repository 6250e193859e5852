package local_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call/queue"
	"github.com/vacancy-host/vacancy/shared/host/call/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/call/queue/queuetest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func queueOver(s store.Store) *local.Queue {
	return local.New(store.Updater{Store: s, Rand: rand.Reader}, time.Now)
}

func TestContract(t *testing.T) {
	queuetest.Contract(t, synctest.Test, func(*testing.T) queuetest.Subject {
		q := queueOver(memory.New())
		return queuetest.Subject{Queue: q, Patience: queue.Patience, Late: time.Minute, Run: func(ctx context.Context, handle func(context.Context, string) error) {
			q.Run(ctx, 4, slog.New(slog.DiscardHandler), handle)
		}}
	})
}

func TestMessagesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		first := queueOver(s)
		for i := range 3 {
			if _, err := first.Send(t.Context(), fmt.Sprint(i)); err != nil { // and the process ends
				t.Fatal(err)
			}
		}
		got := make(chan string, 10)
		for range 2 { // the second start finds nothing
			ctx, end := context.WithCancel(t.Context())
			go queueOver(s).Run(ctx, 2, slog.New(slog.DiscardHandler), func(_ context.Context, m string) error { got <- m; return nil })
			time.Sleep(time.Minute)
			end()
			synctest.Wait()
		}
		if len(got) != 3 {
			t.Errorf("%d messages were handled, want 3", len(got))
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

package local_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/queue/queuetest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func queueOver(s store.Store) *local.Queue {
	return local.New(store.Updater{Store: s, Rand: rand.Reader}, time.Now)
}

func atOnce(n int) func(string, task.Sender) []task.Share {
	return func(string, task.Sender) []task.Share { return []task.Share{{Key: "all", Max: n}} }
}

// A share that is used up keeps messages of other shares waiting for nothing, and goes on
// once one of its messages is done.
func TestSharesKeepNobodyElseWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueOver(memory.New())
		for i := range 20 {
			for _, who := range []string{"greedy", "other"} {
				if who == "other" && i > 0 {
					continue // its message comes after all of the first ones
				}
				settle, err := q.Send(t.Context(), fmt.Sprint(who, " ", i), task.Sender(who))
				if err != nil {
					t.Fatal(err)
				}
				settle(t.Context(), true)
			}
			time.Sleep(time.Millisecond) // the order of sending
		}
		release, done := make(chan bool), make(chan string, 100)
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		count := func(who string, n int) {
			mu.Lock()
			defer mu.Unlock()
			running[who] += n
			most[who] = max(most[who], running[who])
		}
		share := func(_ string, of task.Sender) []task.Share {
			return []task.Share{{Key: "all", Max: 8}, {Key: string(of), Max: 3}}
		}
		ctx, end := context.WithCancel(t.Context())
		go q.Run(ctx, slog.New(slog.DiscardHandler), share, func(_ context.Context, m string) error {
			who, _, _ := strings.Cut(m, " ")
			count(who, 1)
			defer count(who, -1)
			if who == "greedy" {
				<-release
			}
			done <- m
			return nil
		})
		synctest.Wait()
		if got := <-done; got != "other 0" {
			t.Errorf("first done is %q, want the other's, although three of the greedy run", got)
		}
		for range 20 {
			release <- true
			synctest.Wait()
		}
		end()
		synctest.Wait()
		if len(done) != 20 || most["greedy"] != 3 || running["greedy"] != 0 {
			t.Errorf("%d of 20 done, at most %d at once, %d left", len(done), most["greedy"], running["greedy"])
		}
	})
}

func TestContract(t *testing.T) {
	queuetest.RunContract(t, synctest.Test, func(*testing.T) queuetest.Subject {
		q := queueOver(memory.New())
		return queuetest.Subject{Queue: q, RetryTime: queue.RetryTime, MaxDelay: time.Minute, Run: func(ctx context.Context, handle func(context.Context, string) error) {
			q.Run(ctx, slog.New(slog.DiscardHandler), atOnce(4), handle)
		}}
	})
}

func TestMessagesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		first := queueOver(s)
		for i := range 3 {
			if _, err := first.Send(t.Context(), fmt.Sprint(i), ""); err != nil { // and the process ends
				t.Fatal(err)
			}
		}
		got := make(chan string, 10)
		for range 2 { // the second start finds nothing
			ctx, end := context.WithCancel(t.Context())
			go queueOver(s).Run(ctx, slog.New(slog.DiscardHandler), atOnce(2), func(_ context.Context, m string) error { got <- m; return nil })
			time.Sleep(time.Minute)
			end()
			synctest.Wait()
		}
		if len(got) != 3 {
			t.Errorf("%d messages were handled, want 3", len(got))
		}
	})
}

// A message that waited for its share, or whose handler worked for minutes, before it is refused
// comes again like any other.
func TestAnOldMessageThatIsRefusedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		if _, err := queueOver(s).Send(t.Context(), "old", ""); err != nil { // and the process ends
			t.Fatal(err)
		}
		time.Sleep(10 * queue.RetryTime)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		again := time.Now().Add(queue.RetryTime / 2)
		handled, refused := 0, 0
		go queueOver(s).Run(ctx, slog.New(slog.DiscardHandler), atOnce(1), func(context.Context, string) error {
			if time.Now().Before(again) {
				if refused++; refused > 1000 {
					again = time.Now() // it is in a loop
				}
				return task.ErrRetryLater
			}
			handled++
			return nil
		})
		time.Sleep(2 * queue.RetryTime)
		end()
		synctest.Wait()
		if handled != 1 || refused > 1000 {
			t.Errorf("handled %d times after %d refusals, want once, and two refusals a second", handled, refused)
		}
	})
}

func TestTheMessageOfARefusedTaskIsDeleted(t *testing.T) {
	s := memory.New()
	q := queueOver(s)
	settle, err := q.Send(t.Context(), "refused", "")
	if err != nil {
		t.Fatal(err)
	}
	settle(t.Context(), false)
	left, _, err := s.Docs(t.Context(), store.Range{Partition: "queue#tasks"}, 10, "")
	if err != nil || len(left) != 0 {
		t.Errorf("%d messages are left, %v", len(left), err)
	}
}

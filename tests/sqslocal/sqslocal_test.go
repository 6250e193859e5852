package sqslocal_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/host/queue/queuetest"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

func open(s *sqslocal.Server) *sqs.Queue {
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	return sqs.New(sqs.Config{
		Client: sqs.NewClient(cfg), URL: s.Queue("tasks"), Log: slog.New(slog.DiscardHandler), Now: time.Now, RetryTime: 2 * time.Second,
	})
}

func TestContractOfSQS(t *testing.T) {
	alone := func(t *testing.T, test func(*testing.T)) { t.Parallel(); test(t) }
	queuetest.RunContract(t, alone, func(t *testing.T) queuetest.Subject {
		s := sqslocal.Start(t)
		q := open(s)
		return queuetest.Subject{Queue: q, RetryTime: q.RetryTime, MaxDelay: 20 * time.Second, Run: func(ctx context.Context, handle func(context.Context, string) error) {
			var running sync.WaitGroup
			defer running.Wait()
			for ctx.Err() == nil {
				for _, m := range s.Receive("tasks", 10, time.Minute) {
					running.Go(func() {
						got := sqs.Message{Body: m.Body, ReceiptHandle: m.ID, FirstDelivery: m.First, DeliveryCount: m.Count}
						if done, _ := q.Handle(context.WithoutCancel(ctx), got, handle); done {
							s.Delete("tasks", m.ID)
						}
					})
				}
				time.Sleep(20 * time.Millisecond)
			}
		}}
	})
}

// A message that meets a fault is not dropped, however old: it goes to the dead letters.
func TestAFaultIsNeverDropped(t *testing.T) {
	s := sqslocal.Start(t)
	q := open(s)
	if err := q.SendAfter(t.Context(), "m", "", 0); err != nil {
		t.Fatal(err)
	}
	m := s.Receive("tasks", 1, time.Minute)[0]
	broken := problem.New(problem.Unavailable, "the store is away")
	for count, hidden := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 30 * time.Second, 60: 30 * time.Second} {
		old := sqs.Message{Body: m.Body, ReceiptHandle: m.ID, FirstDelivery: time.Now().Add(-time.Hour), DeliveryCount: count}
		done, err := q.Handle(t.Context(), old, func(context.Context, string) error { return broken })
		if done || err == nil {
			t.Errorf("received %d times: done %t, %v; want the fault", count, done, err)
		}
		if again := s.Hidden("tasks", m.ID); (again - hidden).Abs() > 500*time.Millisecond {
			t.Errorf("received %d times: hidden for %v, want %v", count, again, hidden)
		}
	}
}

// A turn whose shares have no room waits, however old its message is.
func TestATurnWithoutRoomIsNeverDropped(t *testing.T) {
	for refusal, wait := range map[error]time.Duration{task.ErrFull: queue.FullRetryDelay, task.ErrUndecided: queue.UndecidedWait} {
		s := sqslocal.Start(t)
		q := open(s)
		if err := q.SendAfter(t.Context(), "m", "", 0); err != nil {
			t.Fatal(err)
		}
		m := s.Receive("tasks", 1, time.Minute)[0]
		old := sqs.Message{Body: m.Body, ReceiptHandle: m.ID, FirstDelivery: time.Now().Add(-time.Hour), DeliveryCount: 1}
		if done, err := q.Handle(t.Context(), old, func(context.Context, string) error { return refusal }); done || !errors.Is(err, refusal) {
			t.Errorf("%v: done %t, %v; want the message kept", refusal, done, err)
		}
		if again := s.Hidden("tasks", m.ID); (again - wait).Abs() > 500*time.Millisecond {
			t.Errorf("%v: hidden for %v, want %v", refusal, again, wait)
		}
	}
}

// A task waits for as long as it must: before its message is received too often, a new message replaces it, unless the
// queue takes none now.
func TestAWaitingTaskIsNeverDropped(t *testing.T) {
	for _, tt := range []struct {
		count  int
		isAway bool
		want   int // messages
	}{{1, false, 1}, {queue.MaxFullRetries - 1, false, 1}, {queue.MaxFullRetries, false, 2}, {queue.MaxFullRetries, true, 1}} {
		s := sqslocal.Start(t)
		q := open(s)
		if err := q.SendAfter(t.Context(), "m", "", 0); err != nil {
			t.Fatal(err)
		}
		m := s.Receive("tasks", 1, time.Minute)[0]
		s.Watch(func(operation, _ string, _ bool) bool { return !tt.isAway || operation != "SendMessage" })
		old := sqs.Message{Body: m.Body, ReceiptHandle: m.ID, FirstDelivery: time.Now().Add(-time.Hour), DeliveryCount: tt.count}
		done, _ := q.Handle(t.Context(), old, func(context.Context, string) error { return errors.Join(task.ErrWaiting, task.ErrFullForAccount) })
		if n := len(s.Waiting("tasks")); n != tt.want || done != (tt.want == 2) {
			t.Errorf("received %d times, away %t: done %t with %d messages, want %d", tt.count, tt.isAway, done, n, tt.want)
		}
		if again := s.Hidden("tasks", m.ID); !done && (again-queue.FullRetryDelay).Abs() > 3*time.Second {
			t.Errorf("received %d times, away %t: hidden for %v, want %v", tt.count, tt.isAway, again, queue.FullRetryDelay)
		}
	}
}

// The lines of accounts share one rate, and no account waits in the line of another.
func TestAccountsWaitInLinesOfTheirOwn(t *testing.T) {
	s, now := sqslocal.Start(t), time.Now()
	q := open(s)
	q.Now = func() time.Time { return now }
	wait := func(account string) time.Duration {
		t.Helper()
		body := strings.Repeat("1", 64) + "#" + call.AccountOwner(account, "").String() + "#" + strings.Repeat("0", 32)
		if err := q.SendAfter(t.Context(), body, "", 0); err != nil {
			t.Fatal(err)
		}
		m := s.Receive("tasks", 1, time.Hour)[0]
		_, _ = q.Handle(t.Context(), sqs.Message{Body: body, ReceiptHandle: m.ID, FirstDelivery: now, DeliveryCount: 1}, func(context.Context, string) error { return task.ErrWaiting })
		return s.Hidden("tasks", m.ID).Round(time.Second)
	}
	for n := range 20 {
		if got, want := wait("busy"), queue.FullRetryDelay+time.Duration(n)*queue.FullRetryInterval; got != want {
			t.Errorf("task %d of an account waits for %v, want %v", n, got, want)
		}
	}
	for n := range 3 {
		if got, want := wait("other"), queue.FullRetryDelay+time.Duration(n)*2*queue.FullRetryInterval; got != want {
			t.Errorf("task %d of another account waits for %v, want %v", n, got, want)
		}
	}
}

// However many turns wait for room, their messages come again one after another, each at the latest
// when its turn has failed. A long line is forgotten with its turns, and accounts do not wait in it.
func TestTurnsWithoutRoomComeAgainInALine(t *testing.T) {
	s, now := sqslocal.Start(t), time.Now()
	q := open(s)
	q.Now = func() time.Time { return now }
	handle := func(first time.Time, refusal error) time.Duration {
		t.Helper()
		if err := q.SendAfter(t.Context(), "m", "", 0); err != nil {
			t.Fatal(err)
		}
		m := s.Receive("tasks", 1, time.Hour)[0]
		_, _ = q.Handle(t.Context(), sqs.Message{Body: m.Body, ReceiptHandle: m.ID, FirstDelivery: first, DeliveryCount: 1}, func(context.Context, string) error { return refusal })
		return s.Hidden("tasks", m.ID).Round(time.Second)
	}
	for n := range 1000 {
		want := min(queue.FullRetryDelay+time.Duration(n)*queue.FullRetryInterval, call.MaxQueueDuration+queue.FullRetryDelay)
		if again := handle(now, task.ErrFull); again != want {
			t.Fatalf("message %d is hidden for %v, want %v", n, again, want)
		}
	}
	if again := handle(now.Add(-call.MaxQueueDuration/2), task.ErrFull); again != call.MaxQueueDuration/2+queue.FullRetryDelay {
		t.Errorf("an old message is hidden for %v", again)
	}
	if again := handle(now, task.ErrFullForAccount); again != queue.FullRetryDelay {
		t.Errorf("the message of an account is hidden for %v", again)
	}
	now = now.Add(call.MaxQueueDuration + queue.FullRetryInterval)
	if again := handle(now, task.ErrFull); again != queue.FullRetryDelay {
		t.Errorf("once the others have failed, a message is hidden for %v", again)
	}
}

func TestAQueueThatIsAwayRefusesTheTask(t *testing.T) {
	s := sqslocal.Start(t)
	var tried atomic.Int32
	s.Watch(func(string, string, bool) bool { tried.Add(1); return false })
	if _, err := open(s).Send(t.Context(), "m", ""); !problem.Is(err, problem.Unavailable) || tried.Load() < 2 {
		t.Errorf("Send() = %v after %d tries, want it unavailable after some", err, tried.Load())
	}
}

// SQS shares a queue out by the senders of messages. A message without a sender has no group.
func TestMessagesNameTheirSender(t *testing.T) {
	s := sqslocal.Start(t)
	q := open(s)
	senders := []task.Sender{"address-1", "account-1", "address-1", ""}
	for _, of := range senders {
		if err := q.SendAfter(t.Context(), "m", of, 0); err != nil {
			t.Fatalf("SendAfter() of %q = %v", of, err)
		}
	}
	if _, err := q.Send(t.Context(), "m", "address-2"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"address-1", "account-1", "address-1", "", "address-2"}, s.Groups("tasks")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// Package sqs implements a queue with Amazon SQS. It is for a host whose workers are Lambda
// functions, which messages start.
//
// Each message is handled at least once. It is deleted only after its handler has returned nil, or
// after it was refused for longer than Patience. The message of a turn that cannot start because
// too many turns are running is redelivered until the turn starts or fails. If a task may wait for
// longer than SQS redelivers a message, a new message replaces the old one. A message whose
// handling fails is redelivered until SQS moves it to the dead-letter queue.
package sqs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type Config struct {
	Client *sqs.Client
	URL    string // URL of the queue
	Log    *slog.Logger
	Now    func() time.Time
	// Patience is the time after the first delivery for which a message is retried if its handler
	// returns task.ErrAgain. If it is zero, queue.RetryTime is used.
	Patience time.Duration
}

// Queue implements task.Queue and task.Notices. A Lambda function passes its messages to Handle.
type Queue struct {
	Config

	mu sync.Mutex
	// nextRoom contains, for each account, the earliest time for the next redelivery of a message
	// without room. All callers without an account share the key "".
	nextRoom map[task.Sender]time.Time
}

func New(c Config) *Queue {
	c.Patience = cmp.Or(c.Patience, queue.RetryTime)
	return &Queue{Config: c, nextRoom: map[task.Sender]time.Time{}}
}

const (
	perTry = 3 * time.Second
	// idleTime is short because connections break while a function is frozen.
	idleTime = 20 * time.Second
	maxTries = 3
)

func NewClient(cfg aws.Config) *sqs.Client {
	// A message that is sent twice is handled twice, which handlers tolerate, so retries are safe.
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(perTry).WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idleTime })
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = maxTries, time.Second
		})
	})
}

func (q *Queue) Send(ctx context.Context, message string, sender task.Sender) (settle func(context.Context, bool), err error) {
	// If the task is never stored, the handler refuses the message until it is dropped.
	return func(context.Context, bool) {}, q.SendAfter(ctx, message, sender, 0)
}

// maxDelay is the maximum delay of a message in SQS.
const maxDelay = 15 * time.Minute

func (q *Queue) SendAfter(ctx context.Context, message string, sender task.Sender, after time.Duration) error {
	in := &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: &message, DelaySeconds: int32(min(after, maxDelay) / time.Second)}
	// The sender is the message group. If one sender keeps the consumers busy, SQS delivers the
	// messages of other senders first.
	if sender != "" {
		in.MessageGroupId = aws.String(string(sender))
	}
	if _, err := q.Client.SendMessage(ctx, in); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the queue does not accept messages now")
	}
	return nil
}

type Message struct {
	Body    string
	Receipt string
	First   time.Time // time of the first delivery
	Count   int       // number of deliveries, including this one
}

// longestWait is the maximum time before a message is redelivered.
const longestWait = 30 * time.Second

func retryDelay(n int) time.Duration { return min(time.Second<<min(max(n, 1)-1, 6), longestWait) }

// roomWait returns the time for which a message stays hidden because its turn cannot start. This
// process spaces the messages of an account by FullRetryInterval times the number of waiting
// accounts, so that all accounts share one rate and none waits behind another. It spaces the
// messages of all callers without an account by FullRetryInterval. The time ends at most
// FullRetryDelay after the turn has failed.
func (q *Queue) roomWait(message string, first time.Time, account bool) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, sender, lines := q.Now(), task.Sender(""), time.Duration(1)
	if account {
		sender = "account " + task.SenderOfMessage(message)
	}
	for other, next := range q.nextRoom {
		switch {
		case !next.After(now):
			delete(q.nextRoom, other)
		case account && other != sender && other != "":
			lines++
		}
	}
	wait := max(queue.FullRetryDelay, q.nextRoom[sender].Sub(now))
	if last := max(queue.FullRetryDelay, first.Add(call.MaxQueued+queue.FullRetryDelay).Sub(now)); wait > last {
		return last
	}
	q.nextRoom[sender] = now.Add(wait + lines*queue.FullRetryInterval)
	return wait
}

// Handle passes a message to handle. It reports whether the message may be deleted. For any other
// message, Handle shortens the visibility timeout, so that the message is redelivered soon.
func (q *Queue) Handle(ctx context.Context, m Message, handle func(context.Context, string) error) (done bool, err error) {
	err = handle(ctx, m.Body)
	hidden := retryDelay(m.Count)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, task.ErrWaiting):
		hidden = q.roomWait(m.Body, q.Now(), true)
		if m.Count >= queue.MaxFullRetries && q.SendAfter(ctx, m.Body, task.SenderOfMessage(m.Body), hidden) == nil {
			return true, nil
		}
	case errors.Is(err, task.ErrFull):
		hidden = q.roomWait(m.Body, m.First, errors.Is(err, task.ErrAccountFull))
	case errors.Is(err, task.ErrUndecided):
		hidden = queue.UndecidedWait
	case errors.Is(err, task.ErrAgain) && q.Now().Sub(m.First) > q.Patience:
		q.Log.LogAttrs(ctx, slog.LevelWarn, "a message of the queue is dropped", slog.String("cause", err.Error()))
		return true, nil
	}
	in := &sqs.ChangeMessageVisibilityInput{QueueUrl: &q.URL, ReceiptHandle: &m.Receipt, VisibilityTimeout: int32(hidden / time.Second)}
	// If this fails, the message is redelivered after the queue's own visibility timeout.
	if _, failed := q.Client.ChangeMessageVisibility(ctx, in); failed != nil {
		q.Log.LogAttrs(ctx, slog.LevelWarn, "a queue message is redelivered late", slog.String("cause", failed.Error()))
	}
	return false, err
}

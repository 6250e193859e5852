// Package sqs implements a queue with Amazon SQS, for a host whose workers are Lambda functions.
// Each message is handled at least once.
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
	Client    *sqs.Client
	URL       string
	Log       *slog.Logger
	Now       func() time.Time
	RetryTime time.Duration
}

// Queue implements task.Queue and task.Notices. A Lambda function passes its messages to Handle.
type Queue struct {
	Config

	mu sync.Mutex
	// nextRedelivery contains the earliest time for the next redelivery of each account, or of all
	// callers without an account.
	nextRedelivery map[task.Sender]time.Time
}

func New(c Config) *Queue {
	c.RetryTime = cmp.Or(c.RetryTime, queue.RetryTime)
	return &Queue{Config: c, nextRedelivery: map[task.Sender]time.Time{}}
}

const (
	tryTimeout = 3 * time.Second
	// idleTimeout is short because connections break while a function is frozen.
	idleTimeout = 20 * time.Second
	maxTries    = 3
)

func NewClient(cfg aws.Config) *sqs.Client {
	// Handlers tolerate that a message is sent twice.
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout).WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idleTimeout })
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = maxTries, time.Second
		})
	})
}

func (q *Queue) Send(ctx context.Context, message string, sender task.Sender) (settle func(context.Context, bool), err error) {
	// If the task is never stored, the handler refuses the message until it is dropped.
	return func(context.Context, bool) {}, q.SendAfter(ctx, message, sender, 0)
}

const maxDelay = 15 * time.Minute

func (q *Queue) SendAfter(ctx context.Context, message string, sender task.Sender, delay time.Duration) error {
	input := &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: &message, DelaySeconds: int32(min(delay, maxDelay) / time.Second)}
	// SQS delivers messages of other groups first if one group keeps the consumers busy.
	if sender != "" {
		input.MessageGroupId = aws.String(string(sender))
	}
	if _, err := q.Client.SendMessage(ctx, input); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the queue does not accept messages now")
	}
	return nil
}

type Message struct {
	Body          string
	ReceiptHandle string
	FirstDelivery time.Time
	DeliveryCount int
}

const maxRetryDelay = 30 * time.Second

func retryDelay(deliveryCount int) time.Duration {
	return min(time.Second<<min(max(deliveryCount, 1)-1, 6), maxRetryDelay)
}

func (q *Queue) redeliveryDelay(message string, firstDelivery time.Time, hasAccount bool) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, sender, waitingAccounts := q.Now(), task.Sender(""), time.Duration(1)
	if hasAccount {
		sender = "account " + task.SenderOfQueueMessage(message)
	}
	for other, next := range q.nextRedelivery {
		switch {
		case !next.After(now):
			delete(q.nextRedelivery, other)
		case hasAccount && other != sender && other != "":
			waitingAccounts++
		}
	}
	wait := max(queue.FullRetryDelay, q.nextRedelivery[sender].Sub(now))
	if maxWait := max(queue.FullRetryDelay, firstDelivery.Add(call.MaxQueueDuration+queue.FullRetryDelay).Sub(now)); wait > maxWait {
		return maxWait
	}
	q.nextRedelivery[sender] = now.Add(wait + waitingAccounts*queue.FullRetryInterval)
	return wait
}

// Handle reports whether the message may be deleted.
func (q *Queue) Handle(ctx context.Context, m Message, handle func(context.Context, string) error) (canDelete bool, err error) {
	err = handle(ctx, m.Body)
	delay := retryDelay(m.DeliveryCount)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, task.ErrWaiting):
		// A new message replaces the old message, because SQS limits the deliveries of a message.
		delay = q.redeliveryDelay(m.Body, q.Now(), true)
		if m.DeliveryCount >= queue.MaxFullRetries && q.SendAfter(ctx, m.Body, task.SenderOfQueueMessage(m.Body), delay) == nil {
			return true, nil
		}
	case errors.Is(err, task.ErrFull):
		delay = q.redeliveryDelay(m.Body, m.FirstDelivery, errors.Is(err, task.ErrFullForAccount))
	case errors.Is(err, task.ErrUndecided):
		delay = queue.UndecidedWait
	case errors.Is(err, task.ErrRetryLater) && q.Now().Sub(m.FirstDelivery) > q.RetryTime:
		q.Log.LogAttrs(ctx, slog.LevelWarn, "a message of the queue is dropped", slog.String("cause", err.Error()))
		return true, nil
	}
	input := &sqs.ChangeMessageVisibilityInput{QueueUrl: &q.URL, ReceiptHandle: &m.ReceiptHandle, VisibilityTimeout: int32(delay / time.Second)}
	// If this fails, the message is redelivered after the queue's own visibility timeout.
	if _, visibilityErr := q.Client.ChangeMessageVisibility(ctx, input); visibilityErr != nil {
		q.Log.LogAttrs(ctx, slog.LevelWarn, "a queue message is redelivered late", slog.String("cause", visibilityErr.Error()))
	}
	return false, err
}

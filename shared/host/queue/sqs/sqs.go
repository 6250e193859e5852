// Package sqs is a queue at Amazon SQS, for a host whose workers are started by their
// messages.
//
// The invariants: a message is handled at least once, and deleted only after its handler
// returned nil or after it was refused for longer than Patience. The message of a turn whose shares have
// no room comes again until the turn begins or fails. If its task may wait for longer than the queue delivers a message, a
// new message replaces it. A message that meets a fault comes again until the queue gives it to its queue of dead letters.
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

// Config holds a queue and its client.
type Config struct {
	Client *sqs.Client
	URL    string // of the queue
	Log    *slog.Logger
	Now    func() time.Time
	// Patience is the time after its first delivery for which a message is tried again if its handler
	// refuses it with task.ErrAgain. Zero means queue.Patience.
	Patience time.Duration
}

// Queue implements task.Queue and task.Notices. Its messages reach Handle by way of Lambda.
type Queue struct {
	Config

	mu       sync.Mutex
	nextRoom map[task.Sender]time.Time // time of the next free place in the line of an account; "" is the line of other callers
}

// New returns a Queue.
func New(c Config) *Queue {
	c.Patience = cmp.Or(c.Patience, queue.Patience)
	return &Queue{Config: c, nextRoom: map[task.Sender]time.Time{}}
}

const (
	perTry = 3 * time.Second
	// idleTime is short, because connections die while a function is frozen.
	idleTime = 20 * time.Second
	maxTries = 3
)

// NewClient makes a client with timeouts and retries that suit a call: what is sent twice
// is handled twice, which handlers bear.
func NewClient(cfg aws.Config) *sqs.Client {
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(perTry).WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = idleTime })
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = maxTries, time.Second
		})
	})
}

// Send implements task.Queue. A message whose task is never stored is refused by its
// handler until it is dropped.
func (q *Queue) Send(ctx context.Context, message string, of task.Sender) (settle func(context.Context, bool), err error) {
	return func(context.Context, bool) {}, q.SendAfter(ctx, message, of, 0)
}

// maxDelay is the longest delay of a message at SQS.
const maxDelay = 15 * time.Minute

// SendAfter stores a message that is delivered after a while, in whole seconds. The sender is
// the message's group: if a sender keeps the consumers busy, SQS delivers the messages of
// other senders first. The sender "" has no group.
func (q *Queue) SendAfter(ctx context.Context, message string, of task.Sender, after time.Duration) error {
	in := &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: &message, DelaySeconds: int32(min(after, maxDelay) / time.Second)}
	if of != "" {
		in.MessageGroupId = aws.String(string(of))
	}
	if _, err := q.Client.SendMessage(ctx, in); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the queue does not take messages now")
	}
	return nil
}

// Message is a message as it was received.
type Message struct {
	Body    string
	Receipt string
	First   time.Time // time of the first delivery
	Count   int       // how often it was received, this time included
}

// longestWait is the longest time before a message comes again.
const longestWait = 30 * time.Second

// wait is the time before a message that was received n times comes again.
func wait(n int) time.Duration { return min(time.Second<<min(max(n, 1)-1, 6), longestWait) }

// roomWait returns the time for which the message of a turn without room is hidden: until its place in
// the line of such messages of this process, or until the turn has failed. Each account has a line, so that it does not
// wait behind others. The lines of accounts share one rate. Callers without an account have one line together.
func (q *Queue) roomWait(message string, first time.Time, account bool) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, of, lines := q.Now(), task.Sender(""), time.Duration(1)
	if account {
		of = "account " + task.SenderOfMessage(message)
	}
	for other, next := range q.nextRoom {
		switch {
		case !next.After(now):
			delete(q.nextRoom, other)
		case account && other != of && other != "":
			lines++
		}
	}
	wait := max(queue.RoomWait, q.nextRoom[of].Sub(now))
	if last := max(queue.RoomWait, first.Add(call.MaxQueued+queue.RoomWait).Sub(now)); wait > last {
		return last
	}
	q.nextRoom[of] = now.Add(wait + lines*queue.RoomGap)
	return wait
}

// Handle passes a message to handle and reports whether it is done with. Otherwise it
// comes again: soon, because Handle shortens the time for which it is hidden.
func (q *Queue) Handle(ctx context.Context, m Message, handle func(context.Context, string) error) (done bool, err error) {
	err = handle(ctx, m.Body)
	hidden := wait(m.Count)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, task.ErrWaiting):
		hidden = q.roomWait(m.Body, q.Now(), true)
		if m.Count >= queue.MaxRoomWaits && q.SendAfter(ctx, m.Body, task.SenderOfMessage(m.Body), hidden) == nil {
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
	if _, failed := q.Client.ChangeMessageVisibility(ctx, in); failed != nil { // it comes later
		q.Log.LogAttrs(ctx, slog.LevelWarn, "a message of the queue comes late", slog.String("cause", failed.Error()))
	}
	return false, err
}

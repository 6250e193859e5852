// Package cloudtask implements functions/worker, which runs turns and notifications that outlive
// the requests of functions/agent. Two queues connect the functions. A turn is one run of an agent
// for a message.
package cloudtask

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudfiles"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func OpenA2A(env *onlambda.Env) *serve.A2A { return openQueuedA2A(env).a2a }

func RunWorker() {
	onlambda.Receive(functions.Worker, func(env *onlambda.Env) (onlambda.Receiver, func()) {
		w := openQueuedA2A(env)
		w.a2a.Bookings = env.Server.OpenBookings(w.taskQueue, nil)
		return w.handleMessage, w.a2a.Tasks.Wait
	}, thinkclient.AddThinker, cloudfiles.AddFiles, func(env *onlambda.Env, c *serve.Config) {
		// Venues send answers to bookings to this URL.
		if url := strings.TrimSuffix(env.GatewayURL, "/"); url != "" {
			c.GatewayURL = func(context.Context) (string, error) { return url, nil }
		}
	})
}

type queuedA2A struct {
	a2a                  *serve.A2A
	taskQueue, pushQueue *sqs.Queue
}

func openQueuedA2A(env *onlambda.Env) *queuedA2A {
	client := sqs.NewClient(env.AWS)
	newQueue := func(url string) *sqs.Queue {
		return sqs.New(sqs.Config{Client: client, URL: url, Log: env.Log, Now: time.Now})
	}
	w := &queuedA2A{taskQueue: newQueue(env.TaskQueueURL), pushQueue: newQueue(env.PushQueueURL)}
	w.a2a = env.Server.OpenQueuedA2A(serve.Queues{Tasks: w.taskQueue, Notices: w.pushQueue, MaxTurns: env.MaxTurns})
	return w
}

func (w *queuedA2A) handleMessage(ctx context.Context, m events.SQSMessage) (done bool, err error) {
	queueMessage := sqs.Message{Body: m.Body, ReceiptHandle: m.ReceiptHandle, FirstDelivery: time.Now()}
	if ms, err := strconv.ParseInt(m.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64); err == nil {
		queueMessage.FirstDelivery = time.UnixMilli(ms)
	}
	queueMessage.DeliveryCount, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	switch onlambda.QueueName(m.EventSourceARN) {
	case onlambda.QueueName(w.taskQueue.URL):
		done, err = w.taskQueue.Handle(ctx, queueMessage, w.a2a.HandleMessage)
	case onlambda.QueueName(w.pushQueue.URL):
		done, err = w.pushQueue.Handle(ctx, queueMessage, w.a2a.Push.Handle)
	default:
		return false, problem.New(problem.Malformed, "the message does not come from a queue of this stage")
	}
	if errors.Is(err, task.ErrRetryLater) || errors.Is(err, task.ErrFull) || errors.Is(err, task.ErrWaiting) || errors.Is(err, task.ErrUndecided) {
		err = nil // redelivery is not a fault
	}
	return done, err
}

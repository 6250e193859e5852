// Package cloudtask is functions/worker: the turns and notifications that outlive the requests of
// functions/agent, by way of two queues; and A2A with these queues, for that function.
//
// The invariants: agent runs the turns that its clients wait for or follow, worker all
// others, and what dispatches bookings. A message of a queue is done with when its turn has ended, or when its task is
// found ended.
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

// Open returns A2A with its queues.
func Open(env *onlambda.Env) *serve.A2A { return open(env).agents }

// Work handles the messages of both queues. It does not return.
func Work() {
	onlambda.Receive(functions.Worker, func(env *onlambda.Env) (onlambda.Receiver, func()) {
		w := open(env)
		w.agents.Bookings = env.Server.OpenBookings(w.tasks, nil)
		return w.receive, w.agents.Tasks.Wait
	}, thinkclient.Part, cloudfiles.Part, func(env *onlambda.Env, c *serve.Config) {
		if url := strings.TrimSuffix(env.GatewayURL, "/"); url != "" { // at which venues answer bookings
			c.GatewayURL = func(context.Context) (string, error) { return url, nil }
		}
	})
}

// work is A2A with its queues.
type work struct {
	agents        *serve.A2A
	tasks, pushes *sqs.Queue
}

func open(env *onlambda.Env) *work {
	client := sqs.NewClient(env.AWS)
	queue := func(url string) *sqs.Queue {
		return sqs.New(sqs.Config{Client: client, URL: url, Log: env.Log, Now: time.Now})
	}
	w := &work{tasks: queue(env.Tasks), pushes: queue(env.Pushes)}
	w.agents = env.Server.OpenQueuedA2A(serve.Queues{Tasks: w.tasks, Notices: w.pushes, Turns: env.Turns})
	return w
}

// receive handles a message by its queue.
func (w *work) receive(ctx context.Context, m events.SQSMessage) (done bool, err error) {
	got := sqs.Message{Body: m.Body, Receipt: m.ReceiptHandle, First: time.Now()}
	if ms, err := strconv.ParseInt(m.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64); err == nil {
		got.First = time.UnixMilli(ms)
	}
	got.Count, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	switch onlambda.QueueName(m.EventSourceARN) {
	case onlambda.QueueName(w.tasks.URL):
		done, err = w.tasks.Handle(ctx, got, w.agents.Work)
	case onlambda.QueueName(w.pushes.URL):
		done, err = w.pushes.Handle(ctx, got, w.agents.Push.Handle)
	default:
		return false, problem.New(problem.Malformed, "a message of none of this stage's queues")
	}
	if errors.Is(err, task.ErrAgain) || errors.Is(err, task.ErrFull) || errors.Is(err, task.ErrWaiting) || errors.Is(err, task.ErrUndecided) {
		err = nil // it comes again, which is not a fault
	}
	return done, err
}

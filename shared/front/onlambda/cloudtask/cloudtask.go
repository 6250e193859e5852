// Package cloudtask implements functions/worker, which runs turns and notifications that outlive
// the requests of functions/agent. Two queues connect the functions. The package also opens A2A
// with these queues for functions/agent.
//
// A turn is one run of an agent for a message. The function agent runs the turns whose clients wait
// or follow, and worker runs all other turns and dispatches bookings. A queue message is done when
// its turn has ended, or when its task has already ended.
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

func Open(env *onlambda.Env) *serve.A2A { return open(env).agents }

func Work() {
	onlambda.Receive(functions.Worker, func(env *onlambda.Env) (onlambda.Receiver, func()) {
		w := open(env)
		w.agents.Bookings = env.Server.OpenBookings(w.tasks, nil)
		return w.receive, w.agents.Tasks.Wait
	}, thinkclient.Part, cloudfiles.Part, func(env *onlambda.Env, c *serve.Config) {
		// Venues send answers to bookings to this URL.
		if url := strings.TrimSuffix(env.GatewayURL, "/"); url != "" {
			c.GatewayURL = func(context.Context) (string, error) { return url, nil }
		}
	})
}

// work is the A2A service with its queues.
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
		return false, problem.New(problem.Malformed, "the message does not come from a queue of this stage")
	}
	if errors.Is(err, task.ErrAgain) || errors.Is(err, task.ErrFull) || errors.Is(err, task.ErrWaiting) || errors.Is(err, task.ErrUndecided) {
		err = nil // redelivery is not a fault
	}
	return done, err
}

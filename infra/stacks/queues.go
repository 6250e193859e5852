package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/queue"
)

// deadQueue keeps the messages of both queues that their worker could not handle.
const deadQueue = "dead"

// maxReceives is the number of failed receives after which a message becomes a dead
// letter. That takes eight minutes, by the waits of queue/sqs. Messages that only
// wait for their task are dropped before. A message of the queue of tasks may be received
// queue.MaxRoomWaits times more, because a turn without room must never become a dead letter. The wait of a dispatched task
// is continued by a new message after as many receives.
const maxReceives = 20

// queues are the queues of tasks by name.
type queues map[string]awssqs.Queue

// pollerTime is the time for which a message may wait at Lambda before its worker starts.
const pollerTime = 5 * 60

// newQueues makes the queues of tasks. A queue hides a message for as long as Lambda and its worker
// may take.
func newQueues(s awscdk.Stack, in Input) queues {
	dead := newQueue(s, in, deadQueue, &awssqs.QueueProps{RetentionPeriod: awscdk.Duration_Days(num(14))})
	accept(dead, "AwsSolutions-SQS3", "It receives the failures of both queues: a person reads it, no function does.")
	all := queues{}
	for _, name := range []string{functions.Tasks, functions.Pushes} { // in this order in the template
		receives := maxReceives
		if name == functions.Tasks {
			receives += queue.MaxRoomWaits
		}
		all[name] = newQueue(s, in, name, &awssqs.QueueProps{
			VisibilityTimeout: awscdk.Duration_Seconds(num(pollerTime + functions.Worker.Timeout)),
			RetentionPeriod:   awscdk.Duration_Hours(num(int(queue.Retention.Hours()))),
			DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: num(receives)},
		})
	}
	return all
}

func newQueue(s awscdk.Stack, in Input, name string, props *awssqs.QueueProps) awssqs.Queue {
	props.QueueName = str(in.Settings.Name(name))
	props.Encryption, props.EnforceSSL = awssqs.QueueEncryption_SQS_MANAGED, yes()
	q := awssqs.NewQueue(s, str("Queue-"+name), props)
	named(q, logical(name))
	return q
}

// receive starts a function with the messages of a queue: with one turn, or with some
// notices. Neither queue takes all instances, so hanging receivers of notices stop no
// turns.
func receive(s awscdk.Stack, in Input, q awssqs.Queue, name string, f awslambda.Function) {
	tasks, pushes := cost.OfQueues(in.Settings.Limits[functions.Worker.Name])
	batch, most := 1, tasks
	if name == functions.Pushes {
		batch, most = 10, pushes
	}
	id := logical(name) + "Sent"
	m := awslambda.NewEventSourceMapping(s, str(id), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: q.QueueArn(), BatchSize: num(batch), MaxConcurrency: num(most), ReportBatchItemFailures: yes(),
	})
	named(m, id)
}

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/queue"
)

const deadQueueName = "dead"

// maxReceives is the number of failed receives after which a message becomes a dead letter. A turn
// that waits for capacity must never become a dead letter, so newQueues allows more receives in the
// task queue.
const maxReceives = 20

type queuesByName map[string]awssqs.Queue

// pollerSeconds is the time for which Lambda may hold a received message before it starts the
// worker.
const pollerSeconds = 5 * 60

func newQueues(s awscdk.Stack, in Input) queuesByName {
	dead := newQueue(s, in, deadQueueName, &awssqs.QueueProps{RetentionPeriod: awscdk.Duration_Days(num(14))})
	suppressRule(dead, "AwsSolutions-SQS3", "It receives the failures of both queues: a person reads it, no function does.")
	byName := queuesByName{}
	for _, name := range []string{functions.TaskQueue, functions.PushQueue} {
		receives := maxReceives
		if name == functions.TaskQueue {
			receives += queue.MaxFullRetries
		}
		byName[name] = newQueue(s, in, name, &awssqs.QueueProps{
			// A received message stays hidden for as long as Lambda and the worker may take.
			VisibilityTimeout: awscdk.Duration_Seconds(num(pollerSeconds + functions.Worker.TimeoutSeconds)),
			RetentionPeriod:   awscdk.Duration_Hours(num(int(queue.Retention.Hours()))),
			DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: num(receives)},
		})
	}
	return byName
}

func newQueue(s awscdk.Stack, in Input, name string, props *awssqs.QueueProps) awssqs.Queue {
	props.QueueName = str(in.Settings.ResourceName(name))
	props.Encryption, props.EnforceSSL = awssqs.QueueEncryption_SQS_MANAGED, yes()
	q := awssqs.NewQueue(s, str("Queue-"+name), props)
	setLogicalID(q, logicalID(name))
	return q
}

func addQueueTrigger(s awscdk.Stack, in Input, q awssqs.Queue, name string, f awslambda.Function) {
	// Each queue gets only a part of the instances, so slow receivers of notifications do not delay
	// turns.
	tasks, pushes := cost.SplitWorkerInstances(in.Settings.Limits[functions.Worker.Name])
	batchSize, concurrency := 1, tasks
	if name == functions.PushQueue {
		batchSize, concurrency = 10, pushes
	}
	id := logicalID(name) + "Sent"
	m := awslambda.NewEventSourceMapping(s, str(id), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: q.QueueArn(), BatchSize: num(batchSize), MaxConcurrency: num(concurrency), ReportBatchItemFailures: yes(),
	})
	setLogicalID(m, id)
}

// Command sweeper is the Lambda function that decides overdue calls, dispatches overdue bookings,
// and deletes expired keys and unused bytes.
package main

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudfiles"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
)

func main() {
	onlambda.RunJobs(functions.Sweeper, func(env *onlambda.Env) serve.JobParts {
		tasks := sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.TaskQueueURL, Log: env.Log, Now: time.Now})
		return serve.JobParts{Bookings: env.Server.OpenBookings(tasks, nil).EnqueueDue}
	}, cloudfiles.AddFiles)
}

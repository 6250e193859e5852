// Command message is the Lambda function of signed calls: message/send, chain/reset, message/ask,
// card and health.
package main

import (
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
)

func main() {
	onlambda.Serve(functions.Message, func(env *onlambda.Env) http.Handler {
		env.Server.QueueSlowTurns(sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.TaskQueueURL, Log: env.Log, Now: time.Now}))
		return serve.Public(env.Server.MessageHandler())
	}, thinkclient.AddThinker)
}

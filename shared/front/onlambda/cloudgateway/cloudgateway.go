// Package cloudgateway is functions/gateway: accounts, payments and AGP. Bookings are dispatched by
// the worker, venues are found by functions/search.
package cloudgateway

import (
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/finder"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/call/queue/sqs"
)

// Serve serves both behind a Function URL. It does not return.
func Serve() {
	onlambda.Serve(onlambda.Gateway, func(env *onlambda.Env) http.Handler {
		find := finder.New(lambda.NewFromConfig(env.AWS), env.Searcher, env.Server.Registry)
		tasks := sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.Tasks, Log: env.Log, Now: time.Now})
		return serve.Handlers{
			Message: serve.NotFound, Account: env.Server.AccountHandler(stripe.New),
			AGP: env.Server.AGPHandler(env.Server.OpenBookings(tasks, find), find, false),
		}.Public()
	})
}

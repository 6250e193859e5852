// Package cloudgateway implements functions/gateway, which serves accounts, payments and AGP.
package cloudgateway

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/finder"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func Serve() {
	onlambda.Serve(functions.Gateway, func(env *onlambda.Env) http.Handler {
		find := finder.NewFindFunc(lambda.NewFromConfig(env.AWS), env.SearchARN, env.Server.Registry)
		tasks := sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.TaskQueueURL, Log: env.Log, Now: time.Now})
		return withOwnURL(serve.Handlers{
			MetadataURL: env.Server.MetadataURL(), PageJudge: env.Server.PageJudge(),
			Message: serve.NotFound, Account: env.Server.AccountHandler(stripe.New),
			AGP: env.Server.AGPHandler(env.Server.OpenBookings(tasks, find), find, false),
		}.Public())
	}, func(env *onlambda.Env, c *serve.Config) {
		c.NewTokenChecker = tokens.NewForBilling
		if env.EdgeSecrets == nil { // functions then have their own URLs
			c.GatewayURL = ownURL
		}
	})
}

// ownURLKey is the context key of the function's URL. The URL is taken from the Host header, which
// is trustworthy, because Lambda selects the function by this header.
type ownURLKey struct{}

func withOwnURL(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme := "https"
		if r.Header.Get("X-Forwarded-Proto") == "http" { // never on AWS
			scheme = "http"
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ownURLKey{}, scheme+"://"+r.Host)))
	})
}

func ownURL(ctx context.Context) (string, error) {
	ownBaseURL, _ := ctx.Value(ownURLKey{}).(string)
	if ownBaseURL == "" {
		return "", problem.New(problem.Internal, "the context does not contain the function's URL")
	}
	return ownBaseURL, nil
}

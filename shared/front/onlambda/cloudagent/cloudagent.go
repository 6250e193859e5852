// Package cloudagent implements functions/agent, which serves A2A, MCP and signed calls.
package cloudagent

import (
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudfiles"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudtask"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/finder"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/thinkclient"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
)

func Serve() {
	onlambda.ServeStream(functions.Agent, func(env *onlambda.Env) (http.Handler, func()) {
		a2aService := cloudtask.OpenA2A(env)
		if env.SearchARN != "" {
			a2aService.Find = finder.NewFindFunc(lambda.NewFromConfig(env.AWS), env.SearchARN, env.Server.Registry)
		}
		hostHandlers := serve.Handlers{Message: env.Server.MessageHandler(), Plain: a2aService.Plain, Protocols: handlers.NewProtocols(a2aService), Team: a2aService.TeamHandler(), Work: a2aService.WorkHandler(), Resource: env.Server.ResourceHandler(), MetadataURL: env.Server.MetadataURL(), PageJudge: env.Server.PageJudge()}
		if len(env.EdgeSecrets) > 0 { // the edge routes pages to functions/web
			hostHandlers.Web = webpath.Redirect
		}
		return hostHandlers.Public(), a2aService.Tasks.Wait
	}, thinkclient.AddThinker, cloudfiles.AddFiles, func(_ *onlambda.Env, c *serve.Config) { c.NewTokenChecker = tokens.NewForBilling })
}

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
		agents := cloudtask.Open(env)
		if env.Searcher != "" {
			agents.Find = finder.New(lambda.NewFromConfig(env.AWS), env.Searcher, env.Server.Registry)
		}
		parts := serve.Handlers{Message: env.Server.MessageHandler(), Agents: agents.Plain, Protocols: handlers.Open(agents), Team: agents.TeamHandler(), Work: agents.WorkHandler(), Resource: env.Server.ResourceHandler(), Login: env.Server.Login(), Pages: env.Server.Pages()}
		if len(env.Secrets) > 0 { // the edge routes pages to functions/web
			parts.Web = webpath.Root
		}
		return parts.Public(), agents.Tasks.Wait
	}, thinkclient.Part, cloudfiles.Part, func(_ *onlambda.Env, c *serve.Config) { c.Tokens = tokens.ForBilling })
}

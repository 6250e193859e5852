// Package cloudthink implements functions/think, which asks models, Lambda functions, MCP servers
// and programs that need a secret. It loads agents from the store, so a request cannot choose where
// a secret is sent.
package cloudthink

import (
	"maps"
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/anthropic"
	"github.com/vacancy-host/vacancy/shared/host/substrate/awsapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/bedrock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/gemini"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
)

func Run() { onlambda.RunThink(addModels) }

func addModels(env *onlambda.Env, c *serve.Config) {
	c.MCPServers = mcp.Servers
	c.Models = func(client *outbound.Client) substrate.Kinds {
		kinds := substrate.Kinds{}
		for _, providerKinds := range []substrate.Kinds{
			anthropic.Kinds(client), awsapi.LambdaKinds(client, env.AWS), bedrock.Kinds(client, env.AWS), gemini.Kinds(client), mcp.Kinds(client), mock.Kinds(), openai.Kinds(client),
		} {
			maps.Copy(kinds, providerKinds)
		}
		maps.DeleteFunc(kinds, func(kind string, _ func(string) (substrate.Substrate, error)) bool {
			return !slices.Contains(env.ThinkKinds(), kind)
		})
		return kinds
	}
}

// Package cloudthink is functions/think: it asks models, Lambda functions, MCP servers and
// programs with a secret for the function that answers calls.
//
// The invariants: it has no seed and no right on rows. It reads agents itself, so a
// request cannot choose where a secret goes. It ends at the deadline of the request.
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

// Run serves requests of package think. It does not return.
func Run() { onlambda.RunThink(part) }

func part(env *onlambda.Env, c *serve.Config) {
	c.Servers = mcp.Servers
	c.Models = func(client *outbound.Client) substrate.Kinds {
		all := substrate.Kinds{}
		for _, some := range []substrate.Kinds{
			anthropic.Kinds(client), awsapi.Functions(client, env.AWS), bedrock.Kinds(client, env.AWS), gemini.Kinds(client), mcp.Kinds(client), mock.Kinds(), openai.Kinds(client),
		} {
			maps.Copy(all, some)
		}
		// Without the mock, unless it is on, and without servers of the host's own machine.
		maps.DeleteFunc(all, func(kind string, _ func(string) (substrate.Substrate, error)) bool {
			return !slices.Contains(env.ThinkKinds(), kind)
		})
		return all
	}
}

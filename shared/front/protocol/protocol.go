// Package protocol lists the protocols whose clients need not sign their messages. The handlers are
// in package handlers, because a list with handlers would link all of them into every function.
package protocol

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Protocol struct {
	LogMessage string
	// If isBelow is true, path is the rest of the request's path after a vacant.
	HasPath func(path string, isBelow bool) bool
	Refuse  func(http.ResponseWriter, error)
	MaxBody int
	// ResourcePath is a path that clients may treat as a separate resource, for example in a token.
	// It may be empty.
	ResourcePath    string
	ResourceTitle   string
	AnswersBrowsers bool
	// EdgePatterns are the paths below /v1/ that the edge routes to functions/agent.
	EdgePatterns []string
	// The edge forwards at most ten ForwardedHeaders. CacheKeyHeaders become part of the cache key.
	// Agent cards depend on CardVaryHeaders.
	ForwardedHeaders, CacheKeyHeaders, CardVaryHeaders []string
}

var (
	MCP = Protocol{
		LogMessage: "mcp", MaxBody: 512 << 10, ResourcePath: message.MCPPath, ResourceTitle: "MCP server", AnswersBrowsers: true,
		HasPath: func(path string, _ bool) bool {
			return path == message.MCPPath || strings.HasPrefix(path, message.MCPPath+"/")
		},
		Refuse:          func(w http.ResponseWriter, err error) { httpapi.FailRPC(w, nil, err) },
		CacheKeyHeaders: []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"},
	}
	OpenAI = Protocol{
		LogMessage: "a2a", MaxBody: a2awire.MaxBody, ResourcePath: openaiwire.BasePath, ResourceTitle: "OpenAI API",
		HasPath: func(path string, _ bool) bool { return openaiwire.IsPath(strings.TrimSuffix(path, "/")) },
		Refuse:  openaiwire.Fail,
		// Some clients' base URLs contain /v1 twice. OpenAI's handler explains the mistake.
		EdgePatterns:     []string{"/v/*/v1/chat/completions", "/v/*/v1/responses", "/v1/chat/*", "/v1/models*", "/v1/responses*", "/v1/v1/*"},
		ForwardedHeaders: []string{openaiwire.IdempotencyHeader, openaiwire.RetryCountHeader},
	}
	Text = Protocol{
		LogMessage: "a2a", MaxBody: canon.DefaultLimits().Bytes,
		HasPath: func(path string, _ bool) bool { return strings.TrimSuffix(path, "/") == message.TextPath },
		Refuse:  httpapi.FailLine,
	}
	A2A = Protocol{
		LogMessage: "a2a", MaxBody: a2awire.MaxBody,
		HasPath:         func(path string, isBelow bool) bool { return isBelow || !strings.HasPrefix(path, "/v1/") },
		Refuse:          httpapi.Fail,
		CacheKeyHeaders: []string{"A2A-Extensions", "X-A2A-Extensions"}, CardVaryHeaders: []string{"A2A-Version", "User-Agent"},
	}
)

// All lists the protocols. A path belongs to the first protocol that has it. A2A must be last,
// because all paths outside of /v1/ belong to it.
var All = []*Protocol{&MCP, &OpenAI, &Text, &A2A}

func (p *Protocol) Matches(r *http.Request) bool {
	_, path, isVacantPath := message.SplitPath(r.URL.Path)
	return p.HasPath(path, isVacantPath)
}

func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	// The error format must not reveal whether the vacant exists.
	for _, p := range All {
		if p.Matches(r) {
			p.Refuse(w, err)
			return
		}
	}
	httpapi.Fail(w, err)
}

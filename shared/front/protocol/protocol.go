// Package protocol lists the protocols whose clients need not sign their messages, with their
// paths, refusals, token resources and headers at the edge. A2A also carries signed messages. The
// handlers are in package handlers, because a list that contains handlers would link all of them
// into every function.
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
	// LogMessage is the message of the protocol's log lines. Several protocols may share it.
	LogMessage string
	// HasPath reports whether a path belongs to the protocol. If isBelow is true, the request's
	// path names a vacant, and path is the rest after it.
	HasPath func(path string, isBelow bool) bool
	// Refuse answers with an error in the protocol's form.
	Refuse func(http.ResponseWriter, error)
	// MaxBody limits the body of a request, in bytes.
	MaxBody int
	// ResourcePath is a path that clients may treat as a separate resource, for example in a token. It
	// exists at the host and below each vacant. ResourcePath may be empty.
	ResourcePath string
	// ResourceTitle names the resource, for example "MCP server".
	ResourceTitle string
	// AnswersBrowsers is true if a browser gets the protocol's answer. For other protocols, it gets
	// an HTML page.
	AnswersBrowsers bool
	// EdgePatterns are the paths that the edge routes to functions/agent instead of the registry.
	// Paths outside of /v1/ need no pattern.
	EdgePatterns []string
	// ForwardedHeaders are request headers that the edge forwards. The edge also forwards
	// CacheKeyHeaders, but as part of the cache key, because ForwardedHeaders may have at most ten
	// entries. CardVaryHeaders are the request headers on which agent cards depend.
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

// All lists the protocols. A path belongs to the first protocol that has it. A2A is last because
// all paths outside of /v1/ belong to it.
var All = []*Protocol{&MCP, &OpenAI, &Text, &A2A}

func (p *Protocol) Matches(r *http.Request) bool {
	_, path, isBelow := message.SplitPath(r.URL.Path)
	return p.HasPath(path, isBelow)
}

func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	// The error format depends only on the path, not on whether the vacant exists.
	for _, p := range All {
		if p.Matches(r) {
			p.Refuse(w, err)
			return
		}
	}
	httpapi.Fail(w, err)
}

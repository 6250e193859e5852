// Package protocol lists the protocols for callers that sign nothing: their paths, refusals, resources of
// tokens, and headers at the edge. Package handlers has their code, because a list with code would link it
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

// Protocol describes a protocol.
type Protocol struct {
	// Line is the message of its lines in the log.
	Line string
	// HasPath reports whether the protocol has a path. Below a vacant, the path begins after the vacant.
	HasPath func(path string, isBelow bool) bool
	// Refuse answers with an error in the form that clients of the protocol read.
	Refuse func(http.ResponseWriter, error)
	// MaxBody limits the body of a request, in bytes.
	MaxBody int
	// Resource is a path, at the host and below a vacant, that clients may know as a resource of its
	// own, for example in a token. It is "" if the protocol has none.
	Resource string
	// Title names the resource, for example "MCP server".
	Title string
	// NoPages says that browsers get the protocol's answers, even in place of a page.
	NoPages bool
	// Patterns are the paths that the edge leads to functions/agent instead of the registry. Paths
	// outside of /v1/ need none.
	Patterns []string
	// Headers are headers of requests that the edge passes. KeyHeaders are further ones, which it passes
	// in a cache key, because the list of Headers has ten at most. Varies are those that cards depend on.
	Headers, KeyHeaders, Varies []string
}

// The protocols.
var (
	MCP = Protocol{
		Line: "mcp", MaxBody: 512 << 10, Resource: message.MCPPath, Title: "MCP server", NoPages: true,
		HasPath: func(path string, _ bool) bool {
			return path == message.MCPPath || strings.HasPrefix(path, message.MCPPath+"/")
		},
		Refuse:     func(w http.ResponseWriter, err error) { httpapi.FailRPC(w, nil, err) },
		KeyHeaders: []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"},
	}
	OpenAI = Protocol{
		Line: "a2a", MaxBody: a2awire.MaxBody, Resource: openaiwire.Base, Title: "OpenAI API",
		HasPath: func(path string, _ bool) bool { return openaiwire.IsPath(strings.TrimSuffix(path, "/")) },
		Refuse:  openaiwire.Fail,
		// Some base URLs have /v1 twice, which OpenAI's handler explains.
		Patterns: []string{"/v/*/v1/chat/completions", "/v/*/v1/responses", "/v1/chat/*", "/v1/models*", "/v1/responses*", "/v1/v1/*"},
		Headers:  []string{openaiwire.IdempotencyHeader, openaiwire.RetryCountHeader},
	}
	Text = Protocol{
		Line: "a2a", MaxBody: canon.DefaultLimits().Bytes,
		HasPath: func(path string, _ bool) bool { return strings.TrimSuffix(path, "/") == message.TextPath },
		Refuse:  httpapi.FailLine,
	}
	A2A = Protocol{
		Line: "a2a", MaxBody: a2awire.MaxBody,
		HasPath:    func(path string, isBelow bool) bool { return isBelow || !strings.HasPrefix(path, "/v1/") },
		Refuse:     httpapi.Fail,
		KeyHeaders: []string{"A2A-Extensions", "X-A2A-Extensions"}, Varies: []string{"A2A-Version", "User-Agent"},
	}
)

// All lists the protocols. A path belongs to the first that has it.
var All = []*Protocol{&MCP, &OpenAI, &Text, &A2A}

// Has reports whether the protocol has the path of a request.
func (p *Protocol) Has(r *http.Request) bool {
	_, path, isBelow := message.Split(r.URL.Path)
	return p.HasPath(path, isBelow)
}

// Refuse answers with an error in the form of the protocol that has the request's path. The form does not
// depend on whether the vacant exists.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	for _, p := range All {
		if p.Has(r) {
			p.Refuse(w, err)
			return
		}
	}
	httpapi.Fail(w, err)
}

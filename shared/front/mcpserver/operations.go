package mcpserver

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

// Requests and answers, for API descriptions.
type (
	VacantRef struct {
		Vacant string `path:"vacant"`
	}
	VacantPost struct {
		VacantRef
		HostPost
	}
	// HostPost is an MCP request to the host. Accept is application/json, text/event-stream or
	// both.
	HostPost struct {
		Accept         string          `header:"Accept"`
		Version        string          `header:"Mcp-Protocol-Version"`
		MaxPrice       string          `query:"max_price"`
		MaxPriceHeader string          `header:"Vacancy-Max-Price"`
		Body           op.Raw[Request] `body:"json"`
	}
	Request struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  map[string]any  `json:"params,omitempty"`
	}
	Response struct {
		Version string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Result  map[string]any    `json:"result,omitempty"`
		Error   *httpapi.RPCError `json:"error,omitempty"`
	}
	// ServerCard describes how to reach an MCP server.
	ServerCard = serverCard
)

func Operations() []op.Spec {
	post := op.Spec{
		Method: "POST", Status: http.StatusOK, Access: op.Access{Anybody: true, Key: billing.CallRequirement()}, IgnoresUnknown: true,
		Out: reflect.TypeFor[Response](), ErrorType: reflect.TypeFor[httpapi.RPCRefusal](), AnswerMedia: []string{"application/json", "text/event-stream"},
		AnswerDoc: "The answer, or server-sent events with its progress and the answer, if a tool is called with a progress token.",
	}
	card := op.Spec{
		Method: "GET", Status: http.StatusOK, Access: op.Access{Anybody: true}, Out: reflect.TypeFor[ServerCard](), ErrorType: reflect.TypeFor[httpapi.RPCRefusal](),
		AnswerMedia: []string{mediaCard}, IgnoresUnknown: true,
	}
	specAt := func(s op.Spec, path, doc string, in reflect.Type) op.Spec {
		s.Path, s.Doc, s.In = path, doc, in
		return s
	}
	vacant := "/v/{vacant}" + message.MCPPath
	return []op.Spec{
		specAt(post, vacant, "serves a vacant by MCP", reflect.TypeFor[VacantPost]()),
		specAt(card, vacant+cardPath, "shows where the MCP server of a vacant is", reflect.TypeFor[VacantRef]()),
		specAt(post, message.MCPPath, "serves the host by MCP, to find and ask its agents", reflect.TypeFor[HostPost]()),
		specAt(card, message.MCPPath+cardPath, "shows where the MCP server of the host is", reflect.TypeFor[struct{}]()),
	}
}

// Package handlers lists the protocols of package protocol together with their handlers and
// operations.
package handlers

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/text"
)

// ProtocolHandler is a protocol with its handler and operations.
type ProtocolHandler struct {
	*protocol.Protocol
	openapi.Group
	New        func(*serve.A2A) func(*plain.Exchange) error
	Operations func() []op.Spec
}

// ProtocolHandlers returns all protocols in the order of protocol.All.
func ProtocolHandlers() []ProtocolHandler {
	a2aGroup := openapi.Group{Name: "A2A", Description: "Vacants as agents of A2A 1.0, and texts to vacants."}
	return []ProtocolHandler{
		{&protocol.MCP, openapi.Group{Name: "MCP", Description: "Vacants and the host as servers of MCP."}, newMCPHandler, mcpserver.Operations},
		{&protocol.OpenAI, openapi.Group{Name: "OpenAI", Description: "Vacants as models of OpenAI's API."}, func(a *serve.A2A) func(*plain.Exchange) error { return openai.Handler(a.Plain, a.Models) }, openai.Operations},
		{&protocol.Text, a2aGroup, func(a *serve.A2A) func(*plain.Exchange) error { return text.Handler(a.Plain) }, text.Operations},
		// The A2A server also signs the cards of vacants.
		{&protocol.A2A, a2aGroup, func(a *serve.A2A) func(*plain.Exchange) error { return a.A2AServer.Handle }, a2a.Operations},
	}
}

func newMCPHandler(a *serve.A2A) func(*plain.Exchange) error {
	var search http.Handler
	if a.Find != nil {
		search = a.Server.SearchHandler(a.Find)
	}
	server := a.Server
	owners := mcpserver.OwnerConfig{Keys: server.Billing, OperatorKey: server.Operator(), Answers: server.Answers, Calls: server.Calls}
	if a.VacantsHandler != nil {
		owners.Children, owners.Spawn, owners.Reviews = a.Children, a.Spawn, server.Reviews
	}
	if a.AGPHandler != nil {
		owners.SendAGP = a.SendAGP
	}
	return mcpserver.Handler(mcpserver.Config{
		Plain: a.Plain, Card: a.A2AServer.Card, Search: search, IsPublished: server.IsPublished, Receipts: a.ReceiptsHandler, Version: server.Version(), Team: a.Team,
		Owners: owners,
	})
}

func NewProtocols(a *serve.A2A) []plain.Protocol {
	var protocols []plain.Protocol
	for _, row := range ProtocolHandlers() {
		protocols = append(protocols, plain.Protocol{Protocol: row.Protocol, Serve: row.New(a)})
	}
	return protocols
}

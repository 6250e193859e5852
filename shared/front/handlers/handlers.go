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

// Row is a protocol with its handler and operations. New returns the handler.
type Row struct {
	*protocol.Protocol
	openapi.Group
	Open       func(*serve.A2A) func(*plain.Exchange) error
	Operations func() []op.Spec
}

// Rows returns all protocols with their handlers, in the order of protocol.All.
func Rows() []Row {
	tasks := openapi.Group{Name: "A2A", Description: "Vacants as agents of A2A 1.0, and texts to vacants."}
	return []Row{
		{&protocol.MCP, openapi.Group{Name: "MCP", Description: "Vacants and the host as servers of MCP."}, openMCP, mcpserver.Operations},
		{&protocol.OpenAI, openapi.Group{Name: "OpenAI", Description: "Vacants as models of OpenAI's API."}, func(a *serve.A2A) func(*plain.Exchange) error { return openai.Handler(a.Plain, a.Models) }, openai.Operations},
		{&protocol.Text, tasks, func(a *serve.A2A) func(*plain.Exchange) error { return text.Handler(a.Plain) }, text.Operations},
		// a.Cards is the A2A server, which also signs the cards of vacants.
		{&protocol.A2A, tasks, func(a *serve.A2A) func(*plain.Exchange) error { return a.Cards.Handle }, a2a.Operations},
	}
}

func openMCP(a *serve.A2A) func(*plain.Exchange) error {
	var search http.Handler
	if a.Find != nil {
		search = a.Server.SearchHandler(a.Find)
	}
	h := a.Server
	owners := mcpserver.Owners{Keys: h.Billing, Operator: h.Operator(), Answers: h.Answers, Calls: h.Calls}
	if a.Vacants != nil {
		owners.Children, owners.Spawn, owners.Reviews = a.Children, a.Spawn, h.Reviews
	}
	if a.AGP != nil {
		owners.SendAGP = a.SendAGP
	}
	return mcpserver.Handler(mcpserver.Config{
		Agents: a.Plain, Card: a.Cards.Card, Search: search, Published: h.IsPublished, Receipts: a.Receipts, Version: h.Version(), Team: a.Team,
		Owners: owners,
	})
}

func Open(a *serve.A2A) []plain.Protocol {
	var protocols []plain.Protocol
	for _, row := range Rows() {
		protocols = append(protocols, plain.Protocol{Protocol: row.Protocol, Serve: row.Open(a)})
	}
	return protocols
}

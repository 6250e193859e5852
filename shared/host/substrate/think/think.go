// Package think lets one process of a host call models through another process. On AWS, the
// function that answers calls cannot open secrets, so it calls functions/think turn by turn.
//
// A request contains a vacant and a version of its agent, but never a URL, a secret, a price or the
// owner's instructions for the model. The other process reads these data itself, so an attacker who
// controls the calling process cannot choose where a secret is sent.
package think

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// AgentVersion is a version of a vacant's agent. Version 0 is the default agent or the combiner of
// a plan.
type AgentVersion struct {
	Vacant  identity.ID
	Version int
}

// Turn is a request to an agent for one turn of a conversation.
type Turn struct {
	Agent      AgentVersion
	Fallback   bool
	IsCheck    bool // a short answer suffices
	CostBefore int  // micro-dollars
	// TaskBudget is the rest of a task's budget in micro-dollars. It may be nil.
	TaskBudget *int
	// Request contains neither the owner's settings for the model nor the secret.
	Request substrate.Request
}

type Tool struct {
	substrate.Tool
	Writes bool // whether the tool changes data outside the conversation
}

// Offer contains the tools of an agent's MCP servers, and the tools that models do not accept.
type Offer struct {
	Tools        []Tool
	OmittedTools call.OmittedTools
}

// Service calls models, programs and MCP servers on behalf of their vacants. It must be safe for
// concurrent use.
type Service interface {
	// RunTurn requests one turn and settles its cost before the last event.
	RunTurn(ctx context.Context, t Turn) iter.Seq2[substrate.Event, error]
	ListMCPTools(ctx context.Context, a AgentVersion) (Offer, error)
	// UseMCPTool calls a tool that ListMCPTools returned. The error's text is for the model.
	UseMCPTool(ctx context.Context, a AgentVersion, name string, arguments json.RawMessage) (string, error)
}

// Package think lets one process of a host ask models for another: on AWS, the function
// that answers calls opens no secret and contains no provider's library, so it asks
// functions/think, turn by turn.
//
// The invariant: a request names a vacant and a version of its agent, never a URL, a
// secret, a price or what the model is told by its owner. The other side reads those
// itself, so whoever takes over the asking process cannot choose where a secret goes.
package think

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Agent is a version of a vacant's agent. Version 0 is the agent of defaults of a vacant's
// substrate, or the combiner of its plan.
type Agent struct {
	Vacant  identity.ID
	Version int
}

// Turn asks an agent for one turn of a conversation.
type Turn struct {
	Agent    Agent
	Fallback bool // ask the agent's fallback model
	Check    bool // the host checks the agent: a short answer suffices
	Spent    int  // micro-dollars that the call has cost before
	Left     *int // micro-dollars that the budget of a task leaves for the turn; nil without such a budget
	// Request is the conversation with the offered tools. It contains neither the
	// owner's settings for the model nor the secret.
	Request substrate.Request
}

// Tool is a tool of an MCP server of an agent.
type Tool struct {
	substrate.Tool
	Writes bool // it changes something outside of the conversation
}

// Offer is the tools of the MCP servers of an agent, and the tools that no model would take.
type Offer struct {
	Tools   []Tool
	LeftOut call.LeftOut
}

// Service asks models, programs and MCP servers as their vacants. It is safe for
// concurrent use. Its errors have the kinds of substrates' errors.
type Service interface {
	// Turn asks for one turn and settles its cost before the last event. The usage has
	// the cost of the turn.
	Turn(ctx context.Context, t Turn) iter.Seq2[substrate.Event, error]
	// MCPTools lists the tools of the agent's MCP servers.
	MCPTools(ctx context.Context, a Agent) (Offer, error)
	// UseMCPTool calls a tool by a name of MCPTools. The error's text is for the model.
	UseMCPTool(ctx context.Context, a Agent, name string, arguments json.RawMessage) (string, error)
}

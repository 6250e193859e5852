package mcptool

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Arguments on a host's server.
type (
	ofAgent struct {
		Agent string `json:"agent" canon:"required,min=1"`
	}
	askingAgent struct {
		ofAgent
		asking
	}
	taskOfAgent struct {
		ofAgent
		ofTask
	}
	waitingOfAgent struct {
		ofAgent
		waiting
	}
)

var agentArgument = describeProperty(aText, "the name or id of an agent that search_agents found")

var (
	shownSchema = string(results(
		"agent", describeProperty(aText, "the name to use as the argument agent"), "vacant_id", describeProperty(aText, "its key, in hexadecimal"), "capability", describeProperty(aText, "what it does"),
		"state", describeProperty(aText, "its state of life"), "price_micro_dollars", describeProperty(aNumber, "the maximum cost of a call"), "score", `{"type":"number"}`,
		"missing_words", describeProperty(texts, "words of the query that it lacks"), "tags", "{"+texts+"}", "skills", "{"+texts+"}", "summary", "{"+aText+"}",
		"url", describeProperty(aText, "its address for A2A"), "mcp", describeProperty(aText, "its own MCP server"),
	))
	foundSchema = results("agents", `{"type":"array","items":`+shownSchema+`}`, "next", describeProperty(aText, "the cursor of the next page"),
		"left_out", describeProperty(aNumber, "number of results left out because their card did not verify"))
)

func OfHost(about About, host func(context.Context) Host) *sdk.Server {
	s := about.server()
	if about.Team {
		addTeam(s, func(ctx context.Context) Team { return host(ctx).Team() })
	}
	tool(s, &sdk.Tool{
		Name: "search_agents", Title: "Search agents", Annotations: withTitle(reads, "Search agents"), OutputSchema: foundSchema,
		Description: "Finds published agents of this host by words of what they do, best first. Each has a signed card that was verified.",
		InputSchema: schema("query", describeProperty(aText, "words, such as: translate legal; all agents if left out"), "tag", describeProperty(aText, "only agents with this tag"),
			"max_price", describeProperty(aNumber, "only agents whose calls cost at most this many micro-dollars"),
			"limit", describeProperty(fmt.Sprintf(`"type":"integer","minimum":1,"maximum":%d`, maxLimit), "maximum number of results, 20 if left out"), "cursor", describeProperty(aText, "the value of next from the previous page")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in Search) (*sdk.CallToolResult, error) {
		found, err := host(ctx).Search(ctx, in)
		if err != nil {
			return nil, err
		}
		return result("", found)
	})
	tool(s, &sdk.Tool{
		Name: "describe_agent", Title: "Describe an agent", Annotations: withTitle(reads, "Describe an agent"), OutputSchema: json.RawMessage(shownSchema),
		Description: "Returns what an agent does, what a call costs and where its own servers are.",
		InputSchema: schema("*agent", agentArgument),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in ofAgent) (*sdk.CallToolResult, error) {
		shown, err := host(ctx).Show(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return result("", shown)
	})
	tool(s, &sdk.Tool{
		Name: "ask_agent", Title: "Ask an agent", Annotations: withTitle(asks, "Ask an agent"), OutputSchema: answerSchema,
		Description: "Asks an agent of this host and returns its answer. Without context a conversation begins; with the context of an answer it goes on. " +
			"If an answer takes more than 25 seconds, fetch it with get_task.",
		InputSchema: schema("*agent", agentArgument, "*message", messageArgument, "context", contextArgument, "max_price", priceArgument),
	}, func(ctx context.Context, r *sdk.CallToolRequest, in askingAgent) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).Agent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return ask(ctx, r, agent, in.Agent, askingFiles{asking: in.asking})
	})
	tool(s, &sdk.Tool{
		Name: "get_task", Title: "Get an answer", Annotations: withTitle(reads, "Get an answer"), OutputSchema: answerSchema,
		Description: "Returns the answer of a task that ask_agent started, or reports that the agent is still working.",
		InputSchema: schema("*agent", agentArgument, "*task", taskArgument, "wait", waitArgument),
	}, func(ctx context.Context, r *sdk.CallToolRequest, in waitingOfAgent) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).Agent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return getTask(ctx, r, agent, in.Agent, in.waiting)
	})
	tool(s, &sdk.Tool{
		Name: "stop_task", Title: "Stop a task", Annotations: withTitle(stops, "Stop a task"), OutputSchema: answerSchema,
		Description: "Stops a task. The part of the answer that was already delivered becomes the answer and is charged.",
		InputSchema: schema("*agent", agentArgument, "*task", taskArgument),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in taskOfAgent) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).Agent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return stopTask(ctx, agent, in.Agent, in.Task)
	})
	return s
}

// maxLimit limits the agents in a page. It is the limit of searches.
const maxLimit = 100

// ShowByID returns the published agent with an id. find searches by a prefix of the id.
func ShowByID(ctx context.Context, id identity.ID, find func(ctx context.Context, shortID string) (Found, error)) (shown Shown, there bool, err error) {
	found, err := find(ctx, id.String()[:shortID])
	for _, shown := range found.Agents {
		if shown.ID == id.String() {
			return shown, true, err
		}
	}
	return Shown{}, false, err
}

// shortID is the length of the prefix by which registries find an id.
const shortID = 12

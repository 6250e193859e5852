package mcptool

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type (
	agentArgs struct {
		Agent string `json:"agent" canon:"required,min=1"`
	}
	askAgentArgs struct {
		agentArgs
		askArgs
	}
	agentTaskArgs struct {
		agentArgs
		taskArgs
	}
	agentGetTaskArgs struct {
		agentArgs
		getTaskArgs
	}
)

var agentArgument = propertySchema(stringType, "the name or id of an agent that search_agents found")

var (
	agentInfoSchema = string(outputSchema(
		"agent", propertySchema(stringType, "the name to use as the argument agent"), "vacant_id", propertySchema(stringType, "its key, in hexadecimal"), "capability", propertySchema(stringType, "what it does"),
		"state", propertySchema(stringType, "its lifecycle state"), "price_micro_dollars", propertySchema(nonNegativeType, "the maximum cost of a call"), "score", `{"type":"number"}`,
		"missing_words", propertySchema(stringListType, "words of the query that it lacks"), "tags", "{"+stringListType+"}", "skills", "{"+stringListType+"}", "summary", "{"+stringType+"}",
		"url", propertySchema(stringType, "its address for A2A"), "mcp", propertySchema(stringType, "its own MCP server"),
	))
	searchPageSchema = outputSchema("agents", `{"type":"array","items":`+agentInfoSchema+`}`, "next", propertySchema(stringType, "the cursor of the next page"),
		"left_out", propertySchema(nonNegativeType, "number of results left out because their card did not verify"))
)

func NewHostServer(config ServerConfig, host func(context.Context) Host) *sdk.Server {
	s := config.newServer()
	if config.HasTeamTools {
		addTeamTools(s, func(ctx context.Context) Team { return host(ctx).Team() })
	}
	addStrictTool(s, &sdk.Tool{
		Name: "search_agents", Title: "Search agents", Annotations: withTitle(readHints, "Search agents"), OutputSchema: searchPageSchema,
		Description: "Finds published agents of this host by words of what they do, best first. Each has a signed card that was verified.",
		InputSchema: inputSchema("query", propertySchema(stringType, "words, such as: translate legal; all agents if left out"), "tag", propertySchema(stringType, "only agents with this tag"),
			"max_price", propertySchema(nonNegativeType, "only agents whose calls cost at most this many micro-dollars"),
			"limit", propertySchema(fmt.Sprintf(`"type":"integer","minimum":1,"maximum":%d`, maxSearchLimit), "maximum number of results, 20 if left out"), "cursor", propertySchema(stringType, "the value of next from the previous page")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in SearchArgs) (*sdk.CallToolResult, error) {
		page, err := host(ctx).SearchAgents(ctx, in)
		if err != nil {
			return nil, err
		}
		return newResult("", page)
	})
	addStrictTool(s, &sdk.Tool{
		Name: "describe_agent", Title: "Describe an agent", Annotations: withTitle(readHints, "Describe an agent"), OutputSchema: json.RawMessage(agentInfoSchema),
		Description: "Returns what an agent does, what a call costs and where its own servers are.",
		InputSchema: inputSchema("*agent", agentArgument),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in agentArgs) (*sdk.CallToolResult, error) {
		info, err := host(ctx).DescribeAgent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return newResult("", info)
	})
	addStrictTool(s, &sdk.Tool{
		Name: "ask_agent", Title: "Ask an agent", Annotations: withTitle(askHints, "Ask an agent"), OutputSchema: answerSchema,
		Description: "Asks an agent of this host and returns its answer. A question without context begins a conversation; the context of an earlier answer continues its conversation. " +
			"If an answer takes more than 25 seconds, fetch it with get_task.",
		InputSchema: inputSchema("*agent", agentArgument, "*message", messageArgument, "context", contextArgument, "max_price", priceArgument),
	}, func(ctx context.Context, r *sdk.CallToolRequest, in askAgentArgs) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).OpenAgent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return ask(ctx, r, agent, in.Agent, askFilesArgs{askArgs: in.askArgs})
	})
	addStrictTool(s, &sdk.Tool{
		Name: "get_task", Title: "Get an answer", Annotations: withTitle(readHints, "Get an answer"), OutputSchema: answerSchema,
		Description: "Returns the answer of a task that ask_agent started, or reports that the agent is still working.",
		InputSchema: inputSchema("*agent", agentArgument, "*task", taskArgument, "wait", waitArgument),
	}, func(ctx context.Context, r *sdk.CallToolRequest, in agentGetTaskArgs) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).OpenAgent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return getTask(ctx, r, agent, in.Agent, in.getTaskArgs)
	})
	addStrictTool(s, &sdk.Tool{
		Name: "stop_task", Title: "Stop a task", Annotations: withTitle(stopHints, "Stop a task"), OutputSchema: answerSchema,
		Description: "Stops a task. The part of the answer that was already delivered becomes the answer and is charged.",
		InputSchema: inputSchema("*agent", agentArgument, "*task", taskArgument),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in agentTaskArgs) (*sdk.CallToolResult, error) {
		agent, err := host(ctx).OpenAgent(ctx, in.Agent)
		if err != nil {
			return nil, err
		}
		return stopTask(ctx, agent, in.Agent, in.Task)
	})
	return s
}

const maxSearchLimit = 100

// FindAgentByID returns the published agent with an id. find searches by a prefix of the id.
func FindAgentByID(ctx context.Context, id identity.ID, find func(ctx context.Context, shortID string) (SearchPage, error)) (info AgentInfo, isFound bool, err error) {
	page, err := find(ctx, id.String()[:shortIDLength])
	for _, info := range page.Agents {
		if info.ID == id.String() {
			return info, true, err
		}
	}
	return AgentInfo{}, false, err
}

// shortIDLength is the length of the prefix by which registries find an id.
const shortIDLength = 12

package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Team gives access to the agents and tasks of a client.
type Team interface {
	Agents(ctx context.Context) ([]team.Agent, error)
	Agent(ctx context.Context, name string) (team.Details, error)
	Dispatch(ctx context.Context, q team.Request) (team.Started, error)
	Status(ctx context.Context, id string) (team.Status, error)
	Cancel(ctx context.Context, id string) (team.Status, error)
	Answer(ctx context.Context, id, text, key string) (team.Status, error)
	Locks(ctx context.Context) ([]locks.Lock, error)
}

// TeamInstructions is appended to the instructions of a server with team tools, because the server
// of a host has tools with similar names.
const TeamInstructions = " Your own agents take tasks: begin with list_agents, dispatch a task with dispatch_agent, and read its result with get_task_status. get_task and stop_task are for questions of ask_agent."

const agentScheme = "agents://"

func IsAgentURI(uri string) bool { return strings.HasPrefix(uri, agentScheme) }

func IsTeamTool(name string) bool {
	switch name {
	case "list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks":
		return true
	}
	return false
}

func NewTeamServer(config ServerConfig, team func(context.Context) Team) *sdk.Server {
	s := config.newServer()
	addTeamTools(s, team)
	return s
}

const maxResponseBytes = 64 << 10

func addTeamTools(s *sdk.Server, teamOf func(context.Context) Team) {
	type (
		dispatchArgs struct {
			Agent        string          `json:"agent" canon:"required"`
			Task         string          `json:"task" canon:"required"`
			Model        string          `json:"model"`
			Mode         string          `json:"mode"`
			MaxTurns     *int64          `json:"max_turns"`
			Budget       json.RawMessage `json:"budget"`
			Effort       string          `json:"effort"`
			OutputFormat string          `json:"output_format"`
		}
		taskIDArgs struct {
			ID string `json:"task_id" canon:"required"`
		}
		answerTaskArgs struct {
			taskIDArgs
			Text string `json:"text" canon:"required"`
		}
	)
	changeHints := sdk.ToolAnnotations{DestructiveHint: falsePointer(), OpenWorldHint: falsePointer()}
	taskIDSchema := propertySchema(stringType, "the taskId of dispatch_agent")
	addLenientTool(s, "list_agents", "List Available Agents", "Lists the agents that tasks can be dispatched to.", readHints, inputSchema(),
		func(ctx context.Context, _ *sdk.CallToolRequest, _ noArgs) (any, error) {
			items, err := teamOf(ctx).Agents(ctx)
			return struct {
				Agents []team.Agent `json:"agents"`
				Hint   string       `json:"hint"`
			}{items, "Read the resource " + agentScheme + "{name} for the settings of an agent."}, err
		})
	addLenientTool(s, "dispatch_agent", "Dispatch Sub-Agent", "Dispatches a task to an agent, and returns its taskId at once. get_task_status then returns its state and its result.", changeHints,
		inputSchema("*agent", propertySchema(stringType, "the name of an agent that list_agents shows, or the id of a published agent"), "*task", propertySchema(stringType, "what to do"),
			"model", propertySchema(stringType, "another model"), "mode", propertySchema(stringType, "read-write or read-only"),
			"max_turns", propertySchema(`"type":"integer"`, "maximum number of model turns"), "budget", propertySchema(`"type":"number"`, "maximum cost of the task, in dollars"),
			"effort", propertySchema(stringType, "how much the model thinks: low, medium or high"), "output_format", propertySchema(stringType, "text or json")),
		func(ctx context.Context, r *sdk.CallToolRequest, in dispatchArgs) (any, error) {
			q := team.Request{Agent: in.Agent, Text: in.Task, Model: in.Model, Mode: in.Mode, MaxTurns: in.MaxTurns, Effort: in.Effort, OutputFormat: in.OutputFormat}
			var err error
			if q.Key, err = idempotencyKeyOf(r); err != nil {
				return nil, err
			}
			if in.Budget != nil {
				var dollars float64
				if json.Unmarshal(in.Budget, &dollars) != nil || math.Abs(dollars) > 1e9 {
					return nil, problem.Invalid("budget", "a number of dollars, for example 0.5", string(in.Budget))
				}
				amount := money.Amount(math.Floor(dollars*float64(money.Dollar) + 1e-6))
				q.Budget = &amount
			}
			return teamOf(ctx).Dispatch(ctx, q)
		})
	addLenientTool(s, "get_task_status", "Get Task Status", "Returns the state of a task, its question if it waits for an answer, and its result once it has one.", readHints, inputSchema("*task_id", taskIDSchema),
		func(ctx context.Context, _ *sdk.CallToolRequest, in taskIDArgs) (any, error) {
			task, err := teamOf(ctx).Status(ctx, in.ID)
			task.TruncateResponse(maxResponseBytes)
			return task, err
		})
	addLenientTool(s, "cancel_task", "Cancel Task", "Cancels a task. You pay for the part of the answer that was already delivered.", stopHints, inputSchema("*task_id", taskIDSchema),
		func(ctx context.Context, _ *sdk.CallToolRequest, in taskIDArgs) (any, error) {
			canceled, err := teamOf(ctx).Cancel(ctx, in.ID)
			return struct {
				Status string `json:"status"`
				TaskID string `json:"taskId"`
				Agent  string `json:"agent"`
			}{canceled.Status, canceled.TaskID, canceled.Agent}, err
		})
	addLenientTool(s, "answer_task", "Answer Task", "Answers the question of a task whose status is input_required.", changeHints, inputSchema("*task_id", taskIDSchema, "*text", propertySchema(stringType, "the answer")),
		func(ctx context.Context, r *sdk.CallToolRequest, in answerTaskArgs) (any, error) {
			key, err := idempotencyKeyOf(r)
			if err != nil {
				return nil, err
			}
			task, err := teamOf(ctx).Answer(ctx, in.ID, in.Text, key)
			task.TruncateResponse(maxResponseBytes)
			return task, err
		})
	addLenientTool(s, "get_locks", "Get Active Locks", "Lists the locks that running tasks hold.", readHints, inputSchema(),
		func(ctx context.Context, _ *sdk.CallToolRequest, _ noArgs) (any, error) {
			items, err := teamOf(ctx).Locks(ctx)
			return struct {
				Locks []locks.Lock `json:"locks"`
				Count int          `json:"count"`
			}{items, len(items)}, err
		})
	s.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: agentScheme + "{name}", Name: "agent", Title: "Agent", Description: "the settings of an agent", MIMEType: "application/json",
	}, func(ctx context.Context, q *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		name, err := url.PathUnescape(strings.TrimPrefix(q.Params.URI, agentScheme))
		if err != nil {
			return nil, sdk.ResourceNotFoundError(q.Params.URI)
		}
		a, err := teamOf(ctx).Agent(ctx, name)
		if problem.Is(err, problem.NotFound) {
			return nil, sdk.ResourceNotFoundError(q.Params.URI)
		}
		if err != nil {
			_, err = newRefusal(err)
			return nil, err
		}
		settings := struct {
			team.Details
			Budget *float64 `json:"budget,omitempty"` // dollars, as in dispatch_agent
		}{Details: a}
		if a.Budget != nil {
			dollars := float64(*a.Budget) / float64(money.Dollar)
			settings.Budget = &dollars
		}
		text, err := indentJSON(settings)
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: q.Params.URI, Text: text, MIMEType: "application/json"}}}, err
	})
	// All clients share the servers, so an account's agents are listed for each request.
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, r)
			list, ok := result.(*sdk.ListResourcesResult)
			if err != nil || !ok {
				return result, err
			}
			items, err := teamOf(ctx).Agents(ctx)
			if err != nil {
				_, err = newRefusal(err)
				return nil, err
			}
			for _, a := range items {
				list.Resources = append(list.Resources, &sdk.Resource{URI: agentScheme + url.PathEscape(a.Name), Name: a.Name, Description: a.Description, MIMEType: "application/json"})
			}
			return list, nil
		}
	})
}

func idempotencyKeyOf(r *sdk.CallToolRequest) (string, error) {
	value, ok := r.Params.Meta[MetaIdempotencyKey]
	if !ok {
		return "", nil
	}
	key, ok := value.(string)
	if !ok || key == "" {
		return "", problem.Invalid("_meta."+MetaIdempotencyKey, "a text", "another value")
	}
	return key, nil
}

// addLenientTool adds a tool that ignores unknown arguments and whose result is indented JSON.
func addLenientTool[In any](s *sdk.Server, name, title, description string, hints sdk.ToolAnnotations, arguments json.RawMessage, run func(context.Context, *sdk.CallToolRequest, In) (any, error)) {
	lenientLimits := argumentLimits
	lenientLimits.SkipUnknown = true
	t := &sdk.Tool{Name: name, Title: title, Description: description, Annotations: withTitle(hints, title),
		InputSchema: json.RawMessage(strings.Replace(string(arguments), `"additionalProperties":false`, `"additionalProperties":true`, 1))}
	addTool(s, t, lenientLimits, func(ctx context.Context, r *sdk.CallToolRequest, in In) (*sdk.CallToolResult, error) {
		v, err := run(ctx, r, in)
		if err != nil && !IsFault(err) {
			return newRefusalWithHint(err, "") // the texts of these refusals already give advice
		}
		if err != nil {
			return nil, err
		}
		text, err := indentJSON(v)
		if err != nil {
			return nil, err
		}
		return newResult(text, v)
	})
}

func indentJSON(v any) (string, error) {
	b, err := httpapi.Encode(v)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = json.Indent(&text, bytes.TrimSpace(b), "", "  ")
	return text.String(), err
}

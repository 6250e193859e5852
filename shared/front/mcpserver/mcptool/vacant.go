package mcptool

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ServerConfig is the configuration of a server. Clients with equal configurations share a server.
type ServerConfig struct {
	Name, Title, Version, Instructions string
	// OnlySigned is true if the vacant answers only signed calls. The server then lists no tools
	// for questions.
	OnlySigned   bool
	HasTeamTools bool
	// InputMediaTypes lists the accepted media types of files, separated by commas.
	InputMediaTypes string
	// NoCalls is true if the client may not call vacants.
	HasOwnerTools, HasDelegateTools, HasAGPTools, NoCalls bool
	// VacantID is the vacant's id, or zero for a host.
	VacantID identity.ID
}

func (a *ServerConfig) newServer() *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: a.Name, Title: a.Title, Version: a.Version}, &sdk.ServerOptions{
		Instructions: a.Instructions,
		// If Capabilities were nil, the library would declare logging and changing lists of tools.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		Logger:       slog.New(slog.DiscardHandler),
		SetCacheable: func(_ context.Context, r sdk.Request, c *sdk.Cacheable) {
			// The list of tools depends on the client's key, and a resource may be private. The
			// lists of a server with team tools depend on the account.
			c.TTLMs, c.CacheScope = int(listTTL/time.Millisecond), "public"
			switch r.(type) {
			case *sdk.ListToolsRequest:
				c.CacheScope = "private"
			case *sdk.ReadResourceRequest:
				c.TTLMs, c.CacheScope = 0, "private"
			}
			if a.HasTeamTools {
				c.TTLMs, c.CacheScope = 0, "private"
			}
		},
	})
}

// listTTL is short because a vacant's capability may change.
const listTTL = time.Minute

type (
	askArgs struct {
		Message  string `json:"message" canon:"required,min=1"`
		Context  string `json:"context"`
		MaxPrice *int64 `json:"max_price" canon:"min=0"`
	}
	askFilesArgs struct {
		askArgs
		Files []fileArg `json:"files" canon:"max=64"`
	}
	fileArg struct {
		Name      string `json:"name"`
		MediaType string `json:"mime_type" canon:"required,min=1"`
		Data      string `json:"data" canon:"required"`
	}
	taskArgs struct {
		Task string `json:"task" canon:"required,min=1"`
	}
	getTaskArgs struct {
		taskArgs
		Wait int64 `json:"wait"`
	}
	signedCallArgs struct {
		Envelope json.RawMessage `json:"envelope" canon:"required"`
	}
	noArgs struct{}
)

var (
	messageArgument = propertySchema(stringType, "what to ask")
	contextArgument = propertySchema(stringType, "the context of an answer, to continue its conversation")
	priceArgument   = propertySchema(nonNegativeType, "the maximum cost of the call, in micro-dollars")
	taskArgument    = propertySchema(stringType, "the id of a task whose answer was not ready")
	waitArgument    = propertySchema(`"type":"integer","minimum":0,"maximum":20`, "seconds to wait for the answer, 0 if left out")

	answerSchema = outputSchema(
		"agent", propertySchema(stringType, "the agent that was asked"),
		"text", propertySchema(stringType, "the answer"), "context", propertySchema(stringType, "names the conversation"), "task", propertySchema(stringType, "the id of the task"),
		"state", propertySchema(stringType, "the state of a task without an answer: submitted, working, input-required or canceled"),
		"finish", propertySchema(stringType, "stop, or why the answer ends early"), "price", `{"description":"the cost of the call in micro-dollars, or in a refusal the price terms"}`,
		"receipt", propertySchema(stringType, "the URL of the receipt"),
	)
)

var (
	askHints  = sdk.ToolAnnotations{DestructiveHint: falsePointer(), OpenWorldHint: truePointer()}
	readHints = sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: falsePointer(), OpenWorldHint: falsePointer()}
	stopHints = sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: truePointer(), OpenWorldHint: falsePointer()}
)

func withTitle(hints sdk.ToolAnnotations, title string) *sdk.ToolAnnotations {
	hints.Title = title
	return &hints
}

func NewVacantServer(config ServerConfig, agent func(context.Context) Agent) *sdk.Server {
	s := config.newServer()
	if !config.OnlySigned {
		askTool := &sdk.Tool{
			Name: "ask", Title: "Ask this agent", Annotations: withTitle(askHints, "Ask this agent"), OutputSchema: answerSchema,
			Description: "Asks the agent and returns its answer. A question without context begins a conversation; the context of an earlier answer continues its conversation. " +
				"If an answer takes more than 25 seconds, fetch it with get_task.",
			InputSchema: inputSchema("*message", messageArgument, "context", contextArgument, "max_price", priceArgument),
		}
		if config.InputMediaTypes == "" {
			addStrictTool(s, askTool, func(ctx context.Context, r *sdk.CallToolRequest, in askArgs) (*sdk.CallToolResult, error) {
				return ask(ctx, r, agent(ctx), "", askFilesArgs{askArgs: in})
			})
		} else {
			askTool.InputSchema = inputSchema("*message", messageArgument, "context", contextArgument, "max_price", priceArgument, "files", filesSchema(config.InputMediaTypes))
			addStrictTool(s, askTool, func(ctx context.Context, r *sdk.CallToolRequest, in askFilesArgs) (*sdk.CallToolResult, error) {
				return ask(ctx, r, agent(ctx), "", in)
			})
		}
		addStrictTool(s, &sdk.Tool{
			Name: "get_task", Title: "Get an answer", Annotations: withTitle(readHints, "Get an answer"), OutputSchema: answerSchema,
			Description: "Returns the answer of a task that ask started, or reports that the agent is still working.",
			InputSchema: inputSchema("*task", taskArgument, "wait", waitArgument),
		}, func(ctx context.Context, r *sdk.CallToolRequest, in getTaskArgs) (*sdk.CallToolResult, error) {
			return getTask(ctx, r, agent(ctx), "", in)
		})
		addStrictTool(s, &sdk.Tool{
			Name: "stop_task", Title: "Stop a task", Annotations: withTitle(stopHints, "Stop a task"), OutputSchema: answerSchema,
			Description: "Stops a task. The part of the answer that was already delivered becomes the answer and is charged.",
			InputSchema: inputSchema("*task", taskArgument),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in taskArgs) (*sdk.CallToolResult, error) {
			return stopTask(ctx, agent(ctx), "", in.Task)
		})
	}
	addStrictTool(s, &sdk.Tool{
		Name: "vacant_describe", Title: "Describe this vacant", Annotations: withTitle(readHints, "Describe this vacant"),
		Description: "Returns the vacant's id, its capability, and the version and the endpoint of its signed card.",
		InputSchema: inputSchema(),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, _ noArgs) (*sdk.CallToolResult, error) {
		d, err := agent(ctx).Describe(ctx)
		if err != nil {
			return nil, err
		}
		return newResult("", d)
	})
	addStrictTool(s, &sdk.Tool{
		Name: "vacant_call", Title: "Call this vacant", Annotations: withTitle(askHints, "Call this vacant"),
		Description: "Answers a request that its caller signed (an envelope of the vacant protocol) with a message that the vacant signed. The envelope is the proof.",
		InputSchema: inputSchema("*envelope", propertySchema(`"type":["object","string"]`, "the body of message/send, as an object or as JSON")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in signedCallArgs) (*sdk.CallToolResult, error) {
		return callSigned(ctx, agent(ctx), in.Envelope)
	})
	return s
}

func filesSchema(mediaTypeList string) string {
	mediaTypes, _ := json.Marshal(strings.Split(mediaTypeList, ",")) // strings always encode
	// MCP has no type for files in arguments, so each file is an object.
	return `{"type":"array","description":"files for the agent; the message and its files may have at most 256 KiB together","items":` + string(inputSchema(
		"name", propertySchema(stringType, "the file's name"), "*mime_type", `{"type":"string","enum":`+string(mediaTypes)+`}`, "*data", propertySchema(stringType, "the file in base64"))) + `}`
}

func ask(ctx context.Context, r *sdk.CallToolRequest, agent Agent, agentName string, in askFilesArgs) (*sdk.CallToolResult, error) {
	q := Question{Text: in.Message, Context: in.Context}
	if in.MaxPrice != nil {
		maxPrice := money.Amount(*in.MaxPrice)
		q.MaxPrice = &maxPrice
	}
	if key, ok := r.Params.Meta[MetaIdempotencyKey]; ok {
		if q.IdempotencyKey, ok = key.(string); !ok || q.IdempotencyKey == "" {
			return nil, problem.Invalid("_meta."+MetaIdempotencyKey, "a text", fmt.Sprintf("%.40v", key))
		}
	}
	for i, f := range in.Files {
		data, err := base64.StdEncoding.DecodeString(f.Data)
		if err != nil {
			return nil, problem.Invalid(fmt.Sprintf("files[%d].data", i), "base64", fmt.Sprintf("%.40q", f.Data))
		}
		q.Files = append(q.Files, substrate.File{Name: f.Name, MediaType: f.MediaType, Data: data})
	}
	p := newProgressNotifier(ctx, r)
	if p != nil && r.Params.Meta[MetaTaskID] == true {
		q.OnAccept = func(task string) { p.send("", sdk.Meta{MetaTaskID: task}) }
	}
	a, err := agent.Ask(ctx, q, p.pieceFunc())
	return renderAnswer(&a, agentName, err)
}

func getTask(ctx context.Context, r *sdk.CallToolRequest, agent Agent, agentName string, in getTaskArgs) (*sdk.CallToolResult, error) {
	if maxSeconds := int64(MaxTaskWait / time.Second); in.Wait < 0 || in.Wait > maxSeconds {
		return nil, problem.Invalid("wait", fmt.Sprintf("0 to %d seconds", maxSeconds), fmt.Sprint(in.Wait))
	}
	a, err := agent.GetTask(ctx, in.Task, time.Duration(in.Wait)*time.Second, newProgressNotifier(ctx, r).pieceFunc())
	return renderAnswer(&a, agentName, err)
}

func stopTask(ctx context.Context, agent Agent, agentName, taskID string) (*sdk.CallToolResult, error) {
	a, err := agent.StopTask(ctx, taskID)
	return renderAnswer(&a, agentName, err)
}

func renderAnswer(a *Answer, agentName string, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	a.Agent = agentName
	text := a.Text
	switch {
	case text != "":
	case a.State == "":
		text = "the answer is empty"
	case a.State == "submitted" || a.State == "working":
		args := fmt.Sprintf(`{"task": %q, "wait": %d}`, a.TaskID, MaxTaskWait/time.Second)
		if a.Agent != "" {
			args = fmt.Sprintf(`{"agent": %q, "task": %q, "wait": %d}`, a.Agent, a.TaskID, MaxTaskWait/time.Second)
		}
		text = "The agent is still working. Fetch its answer with the tool get_task and " + args + "; stop_task stops the task."
	default:
		text = "The task is " + a.State + ", without an answer."
	}
	res, err := newResult(text, a)
	if err == nil && a.Envelope != nil {
		res.Meta = sdk.Meta{MetaEnvelope: a.Envelope}
	}
	return res, err
}

// callSigned implements vacant_call in the reference's form (PROTOCOL's MCP adapter). A request
// that cannot be decoded or verified becomes a result with isError.
func callSigned(ctx context.Context, agent Agent, envelope json.RawMessage) (*sdk.CallToolResult, error) {
	request := []byte(envelope)
	// Clients of the reference's SDK may send the envelope as a JSON string.
	if bytes.HasPrefix(request, []byte(`"`)) {
		var s string
		if err := json.Unmarshal(request, &s); err != nil {
			return nil, problem.Invalid("envelope", "an object", "another text")
		}
		request = []byte(s)
	}
	message, err := agent.CallSigned(ctx, request)
	var refErr *ReferenceError
	switch {
	case err == nil:
		return newResult("", struct {
			Message json.RawMessage `json:"message"`
		}{message})
	case errors.As(err, &refErr):
		return newResult("", map[string]string{"error": refErr.Text})
	}
	res, fault := newRefusal(err)
	var rpcErr *jsonrpc.Error
	if errors.As(fault, &rpcErr) {
		return nil, fault
	}
	res.Content = []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("Error executing tool vacant_call: %s", problem.AsError(err).Text())}}
	return res, nil
}

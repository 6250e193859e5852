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

// About is the configuration of a server. Clients with equal configurations share a server.
type About struct {
	Name, Title, Version, Instructions string
	// Signed is true if the vacant answers only signed calls. The server then lists neither ask nor
	// the tools for its tasks.
	Signed bool
	// Team is true if the client of a host may dispatch tasks.
	Team bool
	// Input lists the media types of files that the agent accepts, separated by commas. It is "" if
	// the agent reads only text.
	Input string
	// Owns, Delegates and AGP are true if the server has the tools of the vacant's owner, the tools
	// that delegate to children, and the AGP tools. NoCalls is true if the client's key lacks the
	// scope call, so tools that call vacants are not listed.
	Owns, Delegates, AGP, NoCalls bool
	// Of is the vacant's id, or zero for a host.
	Of identity.ID
}

func (a *About) server() *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: a.Name, Title: a.Title, Version: a.Version}, &sdk.ServerOptions{
		Instructions: a.Instructions,
		// If Capabilities were nil, the library would declare logging and changing lists of tools.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		Logger:       slog.New(slog.DiscardHandler),
		SetCacheable: func(_ context.Context, r sdk.Request, c *sdk.Cacheable) {
			// Only the list of tools depends on the client's key. A resource may be private. On a
			// server with team tools, the list of resources depends on the account, so clients
			// cache no list.
			c.TTLMs, c.CacheScope = int(listTTL/time.Millisecond), "public"
			switch r.(type) {
			case *sdk.ListToolsRequest:
				c.CacheScope = "private"
			case *sdk.ReadResourceRequest:
				c.TTLMs, c.CacheScope = 0, "private"
			}
			if a.Team {
				c.TTLMs, c.CacheScope = 0, "private"
			}
		},
	})
}

// listTTL limits the time for which a client may cache lists. It is short because a vacant's
// capability may change.
const listTTL = time.Minute

type (
	asking struct {
		Message  string `json:"message" canon:"required,min=1"`
		Context  string `json:"context"`
		MaxPrice *int64 `json:"max_price" canon:"min=0"`
	}
	askingFiles struct {
		asking
		Files []file `json:"files" canon:"max=64"`
	}
	file struct {
		Name  string `json:"name"`
		Media string `json:"mime_type" canon:"required,min=1"`
		Data  string `json:"data" canon:"required"`
	}
	ofTask struct {
		Task string `json:"task" canon:"required,min=1"`
	}
	waiting struct {
		ofTask
		Wait int64 `json:"wait"`
	}
	calling struct {
		Envelope json.RawMessage `json:"envelope" canon:"required"`
	}
	nothing struct{}
)

var (
	messageArgument = describeProperty(aText, "what to ask")
	contextArgument = describeProperty(aText, "the context of an answer, to continue its conversation")
	priceArgument   = describeProperty(aNumber, "the maximum cost of the call, in micro-dollars")
	taskArgument    = describeProperty(aText, "the id of a task whose answer was not ready")
	waitArgument    = describeProperty(`"type":"integer","minimum":0,"maximum":20`, "seconds to wait for the answer, 0 if left out")

	answerSchema = results(
		"agent", describeProperty(aText, "the agent that was asked"),
		"text", describeProperty(aText, "the answer"), "context", describeProperty(aText, "names the conversation"), "task", describeProperty(aText, "the id of the task"),
		"state", describeProperty(aText, "of a task without an answer: submitted, working, input-required or canceled"),
		"finish", describeProperty(aText, "stop, or why the answer ends early"), "price", `{"description":"what the call cost, in micro-dollars; in a refusal the terms"}`,
		"receipt", describeProperty(aText, "the URL of the receipt"),
	)
)

var (
	asks  = sdk.ToolAnnotations{DestructiveHint: no(), OpenWorldHint: yes()}
	reads = sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: no()}
	stops = sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: yes(), OpenWorldHint: no()}
)

func withTitle(hints sdk.ToolAnnotations, title string) *sdk.ToolAnnotations {
	hints.Title = title
	return &hints
}

func Vacant(about About, agent func(context.Context) Agent) *sdk.Server {
	s := about.server()
	if !about.Signed {
		asked := &sdk.Tool{
			Name: "ask", Title: "Ask this agent", Annotations: withTitle(asks, "Ask this agent"), OutputSchema: answerSchema,
			Description: "Asks the agent and returns its answer. Without context a conversation begins; with the context of an answer it goes on. " +
				"If an answer takes more than 25 seconds, fetch it with get_task.",
			InputSchema: schema("*message", messageArgument, "context", contextArgument, "max_price", priceArgument),
		}
		if about.Input == "" {
			tool(s, asked, func(ctx context.Context, r *sdk.CallToolRequest, in asking) (*sdk.CallToolResult, error) {
				return ask(ctx, r, agent(ctx), "", askingFiles{asking: in})
			})
		} else {
			asked.InputSchema = schema("*message", messageArgument, "context", contextArgument, "max_price", priceArgument, "files", filesArgument(about.Input))
			tool(s, asked, func(ctx context.Context, r *sdk.CallToolRequest, in askingFiles) (*sdk.CallToolResult, error) {
				return ask(ctx, r, agent(ctx), "", in)
			})
		}
		tool(s, &sdk.Tool{
			Name: "get_task", Title: "Get an answer", Annotations: withTitle(reads, "Get an answer"), OutputSchema: answerSchema,
			Description: "Returns the answer of a task that ask started, or reports that the agent is still working.",
			InputSchema: schema("*task", taskArgument, "wait", waitArgument),
		}, func(ctx context.Context, r *sdk.CallToolRequest, in waiting) (*sdk.CallToolResult, error) {
			return getTask(ctx, r, agent(ctx), "", in)
		})
		tool(s, &sdk.Tool{
			Name: "stop_task", Title: "Stop a task", Annotations: withTitle(stops, "Stop a task"), OutputSchema: answerSchema,
			Description: "Stops a task. The part of the answer that was already delivered becomes the answer and is charged.",
			InputSchema: schema("*task", taskArgument),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in ofTask) (*sdk.CallToolResult, error) {
			return stopTask(ctx, agent(ctx), "", in.Task)
		})
	}
	tool(s, &sdk.Tool{
		Name: "vacant_describe", Title: "Describe this vacant", Annotations: withTitle(reads, "Describe this vacant"),
		Description: "Returns the vacant's id, its capability, and the version and the endpoint of its signed card.",
		InputSchema: schema(),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, _ nothing) (*sdk.CallToolResult, error) {
		d, err := agent(ctx).Describe(ctx)
		if err != nil {
			return nil, err
		}
		return result("", d)
	})
	tool(s, &sdk.Tool{
		Name: "vacant_call", Title: "Call this vacant", Annotations: withTitle(asks, "Call this vacant"),
		Description: "Answers a request that its caller signed (an envelope of the vacant protocol) with a message that the vacant signed. The envelope is the proof.",
		InputSchema: schema("*envelope", describeProperty(`"type":["object","string"]`, "the body of message/send, as an object or as JSON")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in calling) (*sdk.CallToolResult, error) {
		return call(ctx, agent(ctx), in.Envelope)
	})
	return s
}

func filesArgument(input string) string {
	media, _ := json.Marshal(strings.Split(input, ",")) // strings always encode
	// MCP has no type for files in arguments, so each file is an object.
	return `{"type":"array","description":"files for the agent, 256 KiB at most with the message","items":` + string(schema(
		"name", describeProperty(aText, "the file's name"), "*mime_type", `{"type":"string","enum":`+string(media)+`}`, "*data", describeProperty(aText, "the file in base64"))) + `}`
}

func ask(ctx context.Context, r *sdk.CallToolRequest, agent Agent, name string, in askingFiles) (*sdk.CallToolResult, error) {
	q := Question{Text: in.Message, Context: in.Context}
	if in.MaxPrice != nil {
		maxPrice := money.Amount(*in.MaxPrice)
		q.Most = &maxPrice
	}
	if key, ok := r.Params.Meta[MetaKey]; ok {
		if q.ID, ok = key.(string); !ok || q.ID == "" {
			return nil, problem.Invalid("_meta."+MetaKey, "a text", fmt.Sprintf("%.40v", key))
		}
	}
	for i, f := range in.Files {
		data, err := base64.StdEncoding.DecodeString(f.Data)
		if err != nil {
			return nil, problem.Invalid(fmt.Sprintf("files[%d].data", i), "base64", fmt.Sprintf("%.40q", f.Data))
		}
		q.Files = append(q.Files, substrate.File{Name: f.Name, MediaType: f.Media, Data: data})
	}
	p := progressOf(ctx, r)
	if p != nil && r.Params.Meta[MetaTask] == true {
		q.Began = func(task string) { p.send("", sdk.Meta{MetaTask: task}) }
	}
	a, err := agent.Ask(ctx, q, p.piece())
	return renderAnswer(&a, name, err)
}

func getTask(ctx context.Context, r *sdk.CallToolRequest, agent Agent, name string, in waiting) (*sdk.CallToolResult, error) {
	if maxSeconds := int64(MaxWait / time.Second); in.Wait < 0 || in.Wait > maxSeconds {
		return nil, problem.Invalid("wait", fmt.Sprintf("0 to %d seconds", maxSeconds), fmt.Sprint(in.Wait))
	}
	a, err := agent.Task(ctx, in.Task, time.Duration(in.Wait)*time.Second, progressOf(ctx, r).piece())
	return renderAnswer(&a, name, err)
}

func stopTask(ctx context.Context, agent Agent, name, id string) (*sdk.CallToolResult, error) {
	a, err := agent.Stop(ctx, id)
	return renderAnswer(&a, name, err)
}

func renderAnswer(a *Answer, name string, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	a.Agent = name
	text := a.Text
	switch {
	case text != "":
	case a.State == "":
		text = "the answer is empty"
	case a.State == "submitted" || a.State == "working":
		args := fmt.Sprintf(`{"task": %q, "wait": %d}`, a.Task, MaxWait/time.Second)
		if a.Agent != "" {
			args = fmt.Sprintf(`{"agent": %q, "task": %q, "wait": %d}`, a.Agent, a.Task, MaxWait/time.Second)
		}
		text = "The agent is still working. Fetch its answer with the tool get_task and " + args + "; stop_task stops the task."
	default:
		text = "The task is " + a.State + ", without an answer."
	}
	res, err := result(text, a)
	if err == nil && a.Envelope != nil {
		res.Meta = sdk.Meta{MetaEnvelope: a.Envelope}
	}
	return res, err
}

// call implements vacant_call in the reference's form (PROTOCOL's MCP adapter). If a request cannot
// be decoded or verified, the reference raises an exception, which its library turns into a result
// with isError.
func call(ctx context.Context, agent Agent, envelope json.RawMessage) (*sdk.CallToolResult, error) {
	request := []byte(envelope)
	// Clients of the reference's SDK may send the envelope as a JSON string.
	if bytes.HasPrefix(request, []byte(`"`)) {
		var s string
		if err := json.Unmarshal(request, &s); err != nil {
			return nil, problem.Invalid("envelope", "an object", "another text")
		}
		request = []byte(s)
	}
	message, err := agent.Call(ctx, request)
	var agentErr *ReferenceError
	switch {
	case err == nil:
		return result("", struct {
			Message json.RawMessage `json:"message"`
		}{message})
	case errors.As(err, &agentErr):
		return result("", map[string]string{"error": agentErr.Text})
	}
	res, fault := refusal(err)
	var wire *jsonrpc.Error
	if errors.As(fault, &wire) {
		return nil, fault
	}
	res.Content = []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("Error executing tool vacant_call: %s", problem.AsError(err).Text())}}
	return res, nil
}

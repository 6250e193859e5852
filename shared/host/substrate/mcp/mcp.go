// Package mcp connects to MCP servers. Agents use their tools (Servers), and a single tool can
// answer as a substrate (Kinds). Each request is sent on behalf of the vacant, so the vacant's
// guard may refuse it. A server gets only the text of the model or the caller, and no id, envelope
// or key.
package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	maxTools            = 128              // tools of all servers of an agent
	maxPages            = 32               // pages of a server's list
	maxDescriptionBytes = 4 << 10          // bytes, after which a description is truncated
	maxSchemaBytes      = 32 << 10         // bytes, above which a tool is left out
	maxListTime         = 10 * time.Second // time in which an optional server must list its tools
)

// Servers returns a function that opens the servers of a vacant's agent for one call and returns
// their tools, named mcp__SERVER__TOOL. It fails if a required server fails or the context ends.
// Other failures are reported as omitted tools.
func Servers(client *outbound.Client) loop.Servers {
	schemas := new(schemaCache)
	return func(ctx context.Context, vacant identity.ID, chooser outbound.URLChooser, servers []definition.Server) (offer loop.Offer, closeSessions func(), err error) {
		// The tools in offers have their complete names.
		offers := make([]loop.Offer, len(servers))
		var mu sync.Mutex
		var sessions []*session
		closeSessions = func() {
			var wg sync.WaitGroup
			for _, s := range sessions {
				wg.Go(s.closeInTime)
			}
			wg.Wait()
		}
		g, gctx := errgroup.WithContext(ctx)
		for i, server := range servers {
			g.Go(func() error {
				s, offer, err := openAndList(ctx, gctx, client, outbound.VacantActor(vacant, chooser), server, schemas)
				if err != nil {
					err = problem.WithPlace(problem.AsError(err).Kind, "mcp server "+server.Name, err)
				}
				switch {
				case err == nil:
					mu.Lock()
					sessions = append(sessions, s)
					mu.Unlock()
					offers[i] = offer
				case server.Required || ctx.Err() != nil:
					return err
				default:
					offers[i].OmittedTools.Add(call.OmittedTool{Name: loop.SanitizeName(fullToolName(server.Name, "")) + "*", Reason: problem.AsError(err).Text(), Remedy: "the server, or its URL in mcp_servers"})
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			closeSessions()
			return loop.Offer{}, nil, err
		}
		for _, serverOffer := range offers {
			offer.AddAll(serverOffer)
		}
		loop.MakeNamesUnique(offer.Tools)
		for _, t := range offer.Tools[min(len(offer.Tools), maxTools):] {
			offer.OmittedTools.Add(tooManyTools(t.Name))
		}
		offer.Tools = offer.Tools[:min(len(offer.Tools), maxTools)]
		return offer, closeSessions, nil
	}
}

// openAndList opens a session with a server and lists its tools. An optional server must answer
// within a third of the remaining time, because the model needs the rest. groupCtx ends if another
// server fails.
func openAndList(ctx, groupCtx context.Context, client *outbound.Client, actor outbound.Actor, server definition.Server, schemas *schemaCache) (*session, loop.Offer, error) {
	limit := maxListTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/3)
	}
	listCtx := groupCtx
	if !server.Required {
		var cancel context.CancelFunc
		listCtx, cancel = context.WithTimeout(groupCtx, limit)
		defer cancel()
	}
	sessionCtx, cancelSession := context.WithCancel(ctx)
	detach := context.AfterFunc(listCtx, cancelSession)
	s, err := openSession(sessionCtx, client, actor, server.URL)
	var offer loop.Offer
	if err == nil {
		offer, err = s.readTools(sessionCtx, server.Name, schemas)
	}
	switch isInTime := detach(); {
	case isInTime && err == nil:
		return s, offer, nil
	case !isInTime && ctx.Err() != nil:
		err = substrate.ContextError(ctx, "the server")
	case !isInTime && groupCtx.Err() == nil:
		err = problem.New(problem.SubstrateUnavailable, "it did not list its tools within %s", limit.Round(time.Millisecond))
	}
	if cancelSession(); s != nil {
		s.closeInTime()
	}
	return nil, loop.Offer{}, cmp.Or(err, groupCtx.Err())
}

func fullToolName(server, tool string) string { return "mcp__" + server + "__" + tool }

func tooManyTools(name string) call.OmittedTool {
	return call.OmittedTool{Name: name, Reason: fmt.Sprintf("an agent is offered at most %d tools", maxTools), Remedy: "fewer tools on the servers in mcp_servers"}
}

func unreadTools(server, reason string) call.OmittedTool {
	return call.OmittedTool{Name: loop.SanitizeName(fullToolName(server, "")) + "*", Reason: "the remaining tools of the server were not read: " + reason, Remedy: "a shorter list at the server"}
}

type session struct {
	*sdk.ClientSession
	failures *failureRecorder
}

func openSession(ctx context.Context, client *outbound.Client, actor outbound.Actor, url string) (*session, error) {
	failures := &failureRecorder{next: client.ForActor(actor).HTTPClient().Transport}
	c := sdk.NewClient(&sdk.Implementation{Name: "vacancy", Version: "1"}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &sdk.ClientCapabilities{},
	})
	type connectResult struct {
		*sdk.ClientSession
		err error
	}
	connected := make(chan connectResult, 1)
	go func() {
		s, err := c.Connect(ctx, &sdk.StreamableClientTransport{
			Endpoint: url, HTTPClient: &http.Client{Transport: failures}, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: outbound.MaxStreamBytes,
		}, nil)
		connected <- connectResult{s, err}
	}()
	select {
	case result := <-connected:
		if result.err != nil {
			return nil, failures.convertError(ctx, result.err)
		}
		failures.mu.Lock()
		failures.statusErr = nil // Connect tries server/discover, which older servers reject
		failures.mu.Unlock()
		return &session{result.ClientSession, failures}, nil
	case <-ctx.Done(): // the library needs seconds to notify the server
		go func() {
			if lateResult := <-connected; lateResult.err == nil {
				lateResult.Close()
			}
		}()
		return nil, failures.convertError(ctx, ctx.Err())
	}
}

const maxCloseTime = 200 * time.Millisecond

// closeInTime waits until the server is notified, because a host on AWS Lambda does not run after
// the call has ended. It waits at most maxCloseTime.
func (s *session) closeInTime() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close()
	}()
	select {
	case <-closed:
	case <-time.After(maxCloseTime):
	}
}

// failureRecorder is an http.RoundTripper that repairs responses and stores failures. The library
// drops the details of failures.
type failureRecorder struct {
	next http.RoundTripper

	mu           sync.Mutex
	transportErr error
	statusErr    *call.AgentError
}

func (r *failureRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sentReq := parseRequest(req)
	reply, err := r.next.RoundTrip(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && reply.StatusCode == http.StatusOK && sentReq.ID != nil:
		sentReq.repairResponse(reply)
	case err != nil:
		r.transportErr = cmp.Or(r.transportErr, err)
	case reply.StatusCode >= 400 && req.Method == http.MethodPost:
		// If the read fails, the received part is used.
		excerpt, _ := io.ReadAll(io.LimitReader(reply.Body, 2*substrate.MaxExcerptBytes))
		reply.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(excerpt), reply.Body), reply.Body}
		r.statusErr = substrate.AnswerError(reply.StatusCode, reply.Header, excerpt, substrate.StatusError(reply.StatusCode))
	}
	return reply, err
}

// transportRejected is the library's own error message for an HTTP status.
const transportRejected = "rejected by transport"

func (r *failureRecorder) convertError(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var problemErr *problem.Error
	var rpcErr *jsonrpc.Error
	switch {
	case errors.As(r.transportErr, &problemErr):
		return substrate.ConvertRequestError(problemErr)
	case ctx.Err() != nil:
		return substrate.ContextError(ctx, "the server")
	case errors.As(err, &rpcErr) && rpcErr.Message != transportRejected:
		return problem.Wrap(problem.SubstrateMisconfigured, rpcErr, "it answers with an error: %s", substrate.Excerpt([]byte(rpcErr.Message)))
	case r.statusErr != nil:
		return r.statusErr
	}
	return problem.New(problem.SubstrateMisconfigured, "it does not follow the MCP protocol: %s", substrate.Excerpt([]byte(err.Error())))
}

// readTools returns the tools of a server with their complete names. It leaves out tools with
// invalid schemas.
func (s *session) readTools(ctx context.Context, server string, schemas *schemaCache) (offer loop.Offer, err error) {
	seenCursors := map[string]bool{"": true}
	for params := (&sdk.ListToolsParams{}); ; {
		page, err := s.ListTools(ctx, params)
		if err != nil {
			return loop.Offer{}, s.failures.convertError(ctx, err)
		}
		for _, t := range page.Tools {
			name := fullToolName(server, t.Name)
			schema, err := schemas.convert(t.InputSchema)
			if err != nil {
				offer.OmittedTools.Add(call.OmittedTool{Name: loop.SanitizeName(name), Reason: "models refuse its schema: " + err.Error(), Remedy: "the schema at its server"})
				continue
			}
			if len(offer.Tools) == maxTools {
				offer.OmittedTools.Add(tooManyTools(loop.SanitizeName(name)))
				continue
			}
			offer.Tools = append(offer.Tools, loop.Tool{
				Tool:   substrate.Tool{Name: name, Description: substrate.Truncate(t.Description, maxDescriptionBytes), Schema: schema},
				Writes: t.Annotations == nil || !t.Annotations.ReadOnlyHint,
				Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
					return s.runTool(ctx, t.Name, arguments)
				},
			})
		}
		switch params.Cursor = page.NextCursor; {
		case params.Cursor == "":
			return offer, nil
		case len(offer.Tools) == maxTools:
			offer.OmittedTools.Add(unreadTools(server, fmt.Sprintf("it has more than %d tools", maxTools)))
			return offer, nil
		case seenCursors[params.Cursor]:
			offer.OmittedTools.Add(unreadTools(server, "the server returned the same cursor twice"))
			return offer, nil
		case len(seenCursors) == maxPages:
			offer.OmittedTools.Add(unreadTools(server, fmt.Sprintf("expected at most %d pages, got more", maxPages)))
			return offer, nil
		}
		seenCursors[params.Cursor] = true
	}
}

func (s *session) runTool(ctx context.Context, tool string, arguments any) (string, error) {
	result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		err = s.failures.convertError(ctx, err)
		var rpcErr *jsonrpc.Error
		var agentErr *call.AgentError
		switch {
		case errors.As(err, &rpcErr):
			return "", problem.New(problem.BehaviourFailed, "%s", cmp.Or(substrate.Excerpt([]byte(rpcErr.Message)), "the tool failed without a reason"))
		case errors.As(err, &agentErr) && agentErr.Body != "":
			return "", problem.Wrap(problem.AsError(err).Kind, err, "%s: %s", problem.AsError(err).Text(), agentErr.Body)
		}
		return "", err
	}
	text := resultText(result)
	if result.IsError {
		return "", problem.New(problem.BehaviourFailed, "%s", cmp.Or(text, "the tool failed without a reason"))
	}
	return text, nil
}

func resultText(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			parts = append(parts, c.Text)
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
				continue
			}
			parts = append(parts, "[a resource that is not text]")
		case *sdk.ResourceLink:
			parts = append(parts, "["+c.Name+"]("+c.URI+")")
		default:
			parts = append(parts, "[content that is not text]")
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(b))
		}
	}
	return strings.Join(parts, "\n")
}

// Kinds returns the kind mcp:URL#TOOL. If a server does not support sessions, it gets the call
// without a session.
func Kinds(client *outbound.Client) substrate.Kinds {
	return substrate.Kinds{substrate.KindMCP: func(argument string) (substrate.Substrate, error) {
		if err := substrate.CheckMCP(argument); err != nil {
			return nil, err
		}
		url, tool, _ := strings.Cut(argument, "#")
		return substrate.Func((&toolSubstrate{client, url, tool}).answer), nil
	}}
}

type toolSubstrate struct {
	client    *outbound.Client
	url, tool string
}

// toolArguments contains the arguments of the reference implementation's adapter.
type toolArguments struct {
	System   string            `json:"system_prompt"`
	User     string            `json:"user_prompt"`
	Tools    []string          `json:"tools"`
	Metadata map[string]string `json:"metadata"`
}

func (a *toolSubstrate) answer(ctx context.Context, r substrate.Request) (string, error) {
	args := toolArguments{System: r.System, User: r.Text(), Tools: []string{}, Metadata: map[string]string{}}
	s, err := openSession(ctx, a.client, outbound.VacantActor(r.Vacant, r.Chooser), a.url)
	if agent := new(call.AgentError); problem.Is(err, problem.SubstrateMisconfigured) && (!errors.As(err, &agent) || agent.Status < 500) && ctx.Err() == nil {
		if text, directErr := a.callWithoutSession(ctx, outbound.VacantActor(r.Vacant, r.Chooser), args); directErr == nil {
			return text, nil
		}
	}
	if err != nil {
		return "", err
	}
	defer s.closeInTime()
	return s.runTool(ctx, a.tool, args)
}

func (a *toolSubstrate) callWithoutSession(ctx context.Context, actor outbound.Actor, args toolArguments) (string, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": "mcp-call", "method": "tools/call", "params": map[string]any{"name": a.tool, "arguments": args},
	})
	if err != nil {
		return "", problem.Wrap(problem.Internal, err, "")
	}
	status, reply, err := a.client.Post(ctx, actor, a.url, body)
	if err != nil {
		return "", substrate.ConvertRequestError(err)
	}
	if status != http.StatusOK {
		return "", substrate.AnswerError(status, nil, reply, substrate.StatusError(status))
	}
	var response struct {
		Text   *string
		Result *struct{ Text string }
		Error  json.RawMessage
	}
	if err := json.Unmarshal(reply, &response); err != nil || response.Error != nil || response.Text == nil && response.Result == nil {
		return "", substrate.AnswerError(status, nil, reply, problem.New(problem.SubstrateMisconfigured, "the server's answer is not a tool's result"))
	}
	if response.Text != nil {
		return *response.Text, nil
	}
	return response.Result.Text, nil
}

// Package acpbridge serves an A2A agent to an editor that speaks the Agent Client Protocol (ACP) over
// two pipes. [Serve] sends each prompt to the agent as an A2A message, and sends the events of the
// resulting task to the editor as ACP updates.
//
// An ACP session is an A2A context. A dispatched task, which an account gives to its own agent, has
// its own context, so the message id of the task names the session. A restart loses session
// settings, and the history of a forked session until its first prompt.
package acpbridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Config contains the settings and clients of a Bridge.
type Config struct {
	Version string
	Agent   *agents.Agent
	Sender
	// IsGuest is true if the caller has no credential.
	IsGuest bool
	// OwnedAgent is nil unless the caller owns the agent. Prompts to an owned agent become
	// dispatched tasks.
	OwnedAgent *team.Details
	// VerifySignatures and FindReceipt get the last answer of a session, or nil if there is none.
	VerifySignatures func(context.Context, *task.Message) (any, error)
	FindReceipt      func(context.Context, *task.Message) (any, error)

	WorkDir string
	Now     func() time.Time
	Logf    func(format string, args ...any) // prints a message for the user
}

// Bridge serves one client.
type Bridge struct {
	Config
	conn           *acp.Connection
	activeRequests atomic.Int32

	mu       sync.Mutex
	sessions map[string]*session
}

// input reads the editor's messages. At the end of the input, Read waits for running requests, but
// at most for drainTimeout.
type input struct {
	io.Reader
	ready      chan struct{}
	bridge     *Bridge
	reachedEnd bool // read only after the connection is done
}

const (
	drainTimeout = 10 * time.Second
	drainPause   = 50 * time.Millisecond
)

func (i *input) Read(p []byte) (n int, err error) {
	<-i.ready
	if n, err = i.Reader.Read(p); err == nil || n > 0 { // a later Read returns the error again
		return n, nil
	}
	i.reachedEnd = true
	// The last message may not be counted yet, so the bridge must be idle in two successive checks.
	for idle, deadline := 0, time.Now().Add(drainTimeout); idle < 2 && time.Now().Before(deadline); idle++ {
		time.Sleep(drainPause)
		if i.bridge.activeRequests.Load() > 0 {
			idle = -1
		}
	}
	return n, err
}

// Serve answers the messages in r until they end. A prompt that is still running then continues at the agent's host.
func Serve(ctx context.Context, c Config, r io.Reader, w io.Writer) error {
	b := &Bridge{Config: c, sessions: map[string]*session{}}
	in := &input{Reader: r, ready: make(chan struct{}), bridge: b}
	b.conn = acp.NewConnection(b.handle, w, in)
	b.conn.SetLogger(slog.New(slog.DiscardHandler)) // log lines of the connection may contain message texts
	close(in.ready)
	defer func() {
		for _, s := range b.sessions {
			_ = s.log.Close() // the log is optional
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-b.conn.Done():
	}
	if !in.reachedEnd {
		return problem.New(problem.TooLarge, "the client sent a message of more than 10 MiB, or too many messages at once")
	}
	return nil
}

func (b *Bridge) isDisconnected() bool {
	select {
	case <-b.conn.Done():
		return true
	default:
		return false
	}
}

type method func(b *Bridge, ctx context.Context, params json.RawMessage) (any, error)

func newMethod[P, R any](handler func(*Bridge, context.Context, *P) (R, error)) method {
	return func(b *Bridge, ctx context.Context, params json.RawMessage) (any, error) {
		p := new(P)
		err := json.Unmarshal(params, p)
		if v, ok := any(p).(interface{ Validate() error }); err == nil && ok {
			err = v.Validate()
		}
		if err != nil {
			return nil, acp.NewInvalidParams(map[string]any{"error": err.Error()})
		}
		return handler(b, ctx, p)
	}
}

var methods = map[string]method{
	acp.AgentMethodInitialize:             newMethod((*Bridge).initialize),
	acp.AgentMethodAuthenticate:           newMethod((*Bridge).authenticate),
	acp.AgentMethodSessionNew:             newMethod((*Bridge).newSession),
	acp.AgentMethodSessionPrompt:          newMethod((*Bridge).handlePrompt),
	acp.AgentMethodSessionCancel:          newMethod((*Bridge).cancelPrompt),
	acp.AgentMethodSessionLoad:            newMethod((*Bridge).loadSession),
	acp.AgentMethodSessionResume:          newMethod((*Bridge).resumeSession),
	acp.AgentMethodSessionFork:            newMethod((*Bridge).forkSession),
	acp.AgentMethodSessionList:            newMethod((*Bridge).listSessions),
	acp.AgentMethodSessionSetMode:         newMethod((*Bridge).setMode),
	acp.AgentMethodSessionSetConfigOption: newMethod((*Bridge).setConfigOption),
	"session/set_model":                   newMethod((*Bridge).setModel),
	"_vacant/verify":                      newExtension(func(b *Bridge) func(context.Context, *task.Message) (any, error) { return b.VerifySignatures }),
	"_vacant/receipt":                     newExtension(func(b *Bridge) func(context.Context, *task.Message) (any, error) { return b.FindReceipt }),
}

func (b *Bridge) handle(ctx context.Context, name string, params json.RawMessage) (any, *acp.RequestError) {
	b.activeRequests.Add(1)
	defer b.activeRequests.Add(-1)
	m, ok := methods[name]
	if !ok {
		return nil, acp.NewMethodNotFound(name)
	}
	result, err := m(b, ctx, params)
	if err != nil {
		return nil, toRequestError(err)
	}
	return result, nil
}

// resourceNotFound is ACP's code for a session that does not exist.
const resourceNotFound = -32002

func toRequestError(err error) *acp.RequestError {
	var r *acp.RequestError
	if errors.As(err, &r) {
		return r
	}
	p := problem.AsError(err)
	r = acp.NewInternalError(nil)
	switch p.Kind {
	case problem.Usage, problem.Malformed:
		r = acp.NewInvalidParams(nil)
	case problem.NotFound:
		r.Code = resourceNotFound
	case problem.Unauthorized, problem.ScopeRequired:
		r = acp.NewAuthRequired(nil)
	case problem.Conflict:
		r = acp.NewInvalidRequest(nil)
	case problem.Canceled:
		r = acp.NewRequestCancelled(nil)
	}
	r.Message, r.Data = p.Text(), map[string]any{"code": p.Kind.String()}
	return r
}

func (b *Bridge) initialize(context.Context, *acp.InitializeRequest) (acp.InitializeResponse, error) {
	r := acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "vacant-acp", Title: &b.Agent.Card.Name, Version: b.Version},
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			McpCapabilities:    acp.McpCapabilities{Http: b.OwnedAgent != nil},
			PromptCapabilities: acp.PromptCapabilities{EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				Fork: &acp.SessionForkCapabilities{}, List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{},
			},
		},
		AuthMethods: []acp.AuthMethod{},
	}
	if b.IsGuest && !b.Agent.Card.AcceptsGuests {
		description := "set the environment variable VACANCY_KEY to an account key, or start this program with --as IDENTITY"
		r.AuthMethods = append(r.AuthMethods, acp.AuthMethod{Agent: &acp.AuthMethodAgent{Id: "vacancy-key", Name: "A key of an account", Description: &description}})
	}
	return r, nil
}

func (b *Bridge) authenticate(context.Context, *acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

func newExtension(selectFunc func(*Bridge) func(context.Context, *task.Message) (any, error)) method {
	return newMethod(func(b *Bridge, ctx context.Context, q *struct{ SessionID string }) (any, error) {
		var answer *task.Message
		if q.SessionID != "" {
			s, err := b.findSession(q.SessionID)
			if err != nil {
				return nil, err
			}
			s.mu.Lock()
			answer = s.lastAnswer
			s.mu.Unlock()
		}
		return selectFunc(b)(ctx, answer)
	})
}

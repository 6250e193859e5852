// Package teamapi is the HTTP API for teams of agents. The operator uses it below /v1/admin, and
// account keys with the scope agents use it at /v1/tasks and /v1/agents.
package teamapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Paths for account keys.
const (
	TasksPath  = "/v1/tasks"
	AgentsPath = "/v1/agents"
)

func IsPath(path string) bool {
	for _, prefix := range []string{TasksPath, AgentsPath, workspaceapi.Path} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// SetResultPath sets the path of a task's complete response.
func SetResultPath(s *team.Status, isOperator bool) {
	if s.Result == nil {
		return
	}
	if s.Result.Path = TasksPath + "/" + s.TaskID; isOperator {
		s.Result.Path = op.OperatorPath(s.Result.Path)
	}
}

// MaxWait limits WaitSeconds.
const MaxWait = 20

const (
	defaultPage = 20
	maxPage     = 100
)

// Access admits keys with the scope agents. Operations that read tasks also require the scope read.
var Access = billing.KeyRequirement{Scope: billing.ScopeAgents, AllowsTest: true, RequiresActive: true}

type (
	AgentRef struct {
		Agent string `path:"agent"`
	}
	TaskRef struct {
		ID string `path:"id"`
	}
	// ShowTaskRequest requests a task. WaitSeconds is how long the request may wait for the end of
	// the turn.
	ShowTaskRequest struct {
		TaskRef
		WaitSeconds uint64 `query:"wait"`
		Steps       bool   `query:"steps"`
	}
	// TaskList selects tasks. An empty State or Agent selects all tasks.
	TaskList struct {
		State  string `query:"state"`
		Agent  string `query:"agent"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// DispatchRequest dispatches a task. A request that is repeated with the same key returns the
	// existing task.
	DispatchRequest struct {
		Key  string  `header:"Idempotency-Key"`
		Body NewTask `body:"json"`
	}
	// NewTask is a task for an agent. An empty field leaves the agent's setting unchanged.
	NewTask struct {
		Agent        string        `json:"agent" canon:"required,min=1"`
		Task         string        `json:"task" canon:"required,min=1"`
		Model        string        `json:"model,omitempty"`
		Mode         string        `json:"mode,omitempty"`
		MaxTurns     *int64        `json:"max_turns,omitempty"`
		Budget       *money.Amount `json:"budget,omitempty"` // micro-dollars
		Effort       string        `json:"effort,omitempty"`
		OutputFormat string        `json:"output_format,omitempty"`
		MCPServers   []task.Server `json:"mcp_servers,omitempty"` // in addition to the agent's own
	}
	AnswerRequest struct {
		TaskRef
		Key  string `header:"Idempotency-Key"`
		Body Answer `body:"json"`
	}
	Answer struct {
		Text string `json:"text" canon:"required,min=1"`
	}
	Agents struct {
		Agents []team.Agent `json:"agents"`
	}
	// Locks contains held locks and the policies of workspaces.
	Locks struct {
		Locks    []locks.Lock            `json:"locks"`
		Count    int                     `json:"count"`
		Policies map[string]locks.Policy `json:"policies"`
	}
	// LockPolicy is the policy of a workspace: warn, queue or reject.
	LockPolicy struct {
		Workspace string       `json:"workspace" canon:"required,min=1"`
		Policy    locks.Policy `json:"policy" canon:"required,min=1"`
	}
	LogRequest struct {
		TaskRef
		After uint64 `query:"after"`
	}
	Tasks struct {
		Tasks []team.Status `json:"tasks"`
		Next  string        `json:"next"`
	}
)

// Task is the status of a task. Steps is set for the caller's own agent.
type Task struct {
	team.Status
	Steps []task.TraceEntry `json:"steps,omitempty"`

	shouldRetry bool
}

func (t *Task) SetHeaders(h http.Header) int {
	if t.shouldRetry {
		h.Set("Retry-After", "2")
	}
	return 0
}

var (
	ListAgents = newTwin[op.None, Agents]("GET", AgentsPath, 0, "lists the agents of an account")
	ShowAgent  = newTwin[AgentRef, team.Details]("GET", AgentsPath+"/{agent}", 0, "shows an agent of an account")
	ListTasks  = newTwin[TaskList, Tasks]("GET", TasksPath, 0, "lists the dispatched tasks of an account, the newest first, without their responses")
	Dispatch   = newTwin[DispatchRequest, team.Started]("POST", TasksPath, http.StatusCreated, "dispatches a task to an agent, once per idempotency key")
	ShowTask   = newTwin[ShowTaskRequest, Task]("GET", TasksPath+"/{id}", 0, "shows a dispatched task, with its result once it has one")
	CancelTask = newTwin[TaskRef, team.Status]("POST", TasksPath+"/{id}/cancel", 0, "cancels a dispatched task")
	ListLocks  = newTwin[op.None, Locks]("GET", TasksPath+"/locks", 0, "lists the locks of files that tasks hold")
	SetPolicy  = newTwin[op.Body[LockPolicy], LockPolicy]("PUT", TasksPath+"/locks", 0, "sets what happens to tasks whose locks in a workspace overlap")
	ReadLog    = newTwin[LogRequest, op.Blob]("GET", TasksPath+"/{id}/log", 0, "reads the log of a dispatched task")
	AnswerTask = newTwin[AnswerRequest, team.Status]("POST", TasksPath+"/{id}/answer", 0, "answers the question of a dispatched task")
)

// maxBodyBytes exceeds the limit of a task's text, which may be longer in JSON.
const maxBodyBytes = 512 << 10

func newTwin[In, Out any](method, path string, status int, doc string) op.Twin[In, Out] {
	requirement := Access
	if method == "GET" && strings.HasPrefix(path, TasksPath) {
		requirement.ExtraScope = billing.ScopeRead
	}
	return op.NewTwin(op.Op[In, Out]{Method: method, Path: path, Access: op.Access{Key: requirement}, Status: status, MaxBody: maxBodyBytes, Doc: doc})
}

type api struct {
	*team.Team
	mayWait bool
}

// OperatorRoutes returns the operator's routes. mayWait reports whether the process may wait.
func OperatorRoutes(t *team.Team, mayWait bool) []op.Route {
	return (&api{t, mayWait}).routes(op.Server{OperatorOnly: true})
}

func Handler(t *team.Team, keys *billing.Billing, mayWait bool, log *slog.Logger, now func() time.Time) http.Handler {
	routes := (&api{t, mayWait}).routes(op.Server{Keys: keys})
	if t.Workspaces != nil {
		routes = append(routes, workspaceapi.Routes(t.Workspaces, op.Server{Keys: keys})...)
	}
	next := httpapi.API{Name: "team", Log: log, Now: now}.Mux(op.RoutesByPath(routes...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; path.Clean(p) != strings.TrimSuffix(p, "/") {
			// The mux would redirect to the cleaned path.
			httpapi.Fail(w, problem.Invalid("path", "names between single slashes, without . and ..", httpapi.QuoteTruncated(p)))
			return
		}
		address := caller.RateLimitPrefix(r.RemoteAddr).String()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, address)))
	})
}

// addressKey is the context key of the client's address, by which free calls are counted.
type addressKey struct{}

func Operations() []op.Spec {
	return append(op.Specs(OperatorRoutes(nil, true)), op.Specs((&api{}).routes(op.Server{}))...)
}

func callerOf(ctx context.Context) team.Caller {
	if k := op.CallerOf(ctx).Key; k != nil {
		address, _ := ctx.Value(addressKey{}).(string)
		return team.Caller{Payer: k.Payer(), Address: address}
	}
	return team.Caller{}
}

func (d *api) routes(s op.Server) []op.Route {
	const mediaType = "application/x-ndjson"
	logRoute := op.NewTwinRoute(s, ReadLog, func(ctx context.Context, in LogRequest) (op.Blob, error) {
		events, err := d.Log(ctx, callerOf(ctx), in.ID, int(min(in.After, task.MaxLogEvents)))
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		for i := range events {
			err = errors.Join(err, enc.Encode(&events[i]))
		}
		return op.Blob{Data: b.Bytes(), Header: http.Header{"Content-Type": {mediaType}}}, err
	})
	logRoute.Out, logRoute.AnswerMedia, logRoute.AnswerDoc = nil, []string{mediaType}, "JSON lines: each event with its number n, timestamp, type and data."
	return []op.Route{
		logRoute,
		op.NewTwinRoute(s, ListLocks, func(ctx context.Context, _ op.None) (l Locks, err error) {
			l.Locks, l.Policies, err = d.HeldLocks(ctx, callerOf(ctx))
			l.Count = len(l.Locks)
			return l, err
		}),
		op.NewTwinRoute(s, SetPolicy, func(ctx context.Context, in op.Body[LockPolicy]) (LockPolicy, error) {
			return in.Body, d.SetLockPolicy(ctx, callerOf(ctx), in.Body.Workspace, in.Body.Policy)
		}),
		op.NewTwinRoute(s, ListAgents, func(ctx context.Context, _ op.None) (Agents, error) {
			agents, err := d.Agents(ctx, callerOf(ctx))
			return Agents{agents}, err
		}),
		op.NewTwinRoute(s, ShowAgent, func(ctx context.Context, in AgentRef) (team.Details, error) {
			return d.Agent(ctx, callerOf(ctx), in.Agent)
		}),
		op.NewTwinRoute(s, ListTasks, func(ctx context.Context, in TaskList) (page Tasks, err error) {
			size := int(min(cmp.Or(in.Limit, defaultPage), maxPage))
			page.Tasks, page.Next, err = d.ListTasks(ctx, callerOf(ctx), in.State, in.Agent, in.Cursor, size)
			return page, err
		}),
		op.NewTwinRoute(s, Dispatch, func(ctx context.Context, in DispatchRequest) (team.Started, error) {
			b := &in.Body
			return d.Dispatch(ctx, callerOf(ctx), team.Request{
				Agent: b.Agent, Text: b.Task, Model: b.Model, Mode: b.Mode, Effort: b.Effort, OutputFormat: b.OutputFormat, Servers: b.MCPServers,
				MaxTurns: b.MaxTurns, Budget: b.Budget, Key: in.Key,
			})
		}),
		op.NewTwinRoute(s, ShowTask, func(ctx context.Context, in ShowTaskRequest) (t Task, err error) {
			if in.WaitSeconds > MaxWait {
				return t, problem.Invalid("wait", "0 to 20 seconds", fmt.Sprint(in.WaitSeconds))
			}
			wait := time.Duration(in.WaitSeconds) * time.Second
			if !d.mayWait {
				wait = 0
			}
			t.Status, err = d.Status(ctx, callerOf(ctx), in.ID, wait)
			SetResultPath(&t.Status, op.CallerOf(ctx).Key == nil)
			t.shouldRetry = in.WaitSeconds > 0 && !d.mayWait && !t.IsTurnOver()
			if err == nil && in.Steps {
				t.Steps, err = d.Steps(ctx, callerOf(ctx), in.ID)
			}
			return t, err
		}),
		op.NewTwinRoute(s, CancelTask, func(ctx context.Context, in TaskRef) (team.Status, error) {
			return d.CancelTask(ctx, callerOf(ctx), in.ID)
		}),
		op.NewTwinRoute(s, AnswerTask, func(ctx context.Context, in AnswerRequest) (team.Status, error) {
			s, err := d.AnswerTask(ctx, callerOf(ctx), in.ID, in.Body.Text, in.Key)
			SetResultPath(&s, op.CallerOf(ctx).Key == nil)
			return s, err
		}),
	}
}

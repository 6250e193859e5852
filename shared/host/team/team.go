// Package team lets an account or the operator dispatch tasks to its agents, watch the tasks,
// answer their questions and read their results.
//
// A caller finds only its own tasks, and only in its own mode, test or live. The error for a hidden
// agent or task is the same as for a missing one. Only the owner of an agent may extend its limits.
// Other callers may only reduce the limits.
package team

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// DefaultLifetime is the default time during which a finished task can be read.
const DefaultLifetime = time.Hour

const (
	maxTaskBytes    = 200 << 10
	maxSummaryRunes = 500
)

type Config struct {
	Tasks       *task.Engine
	Vacants     *vacants.Directory
	IsPublished func(context.Context, identity.ID) (bool, error)
	// Lifetime returns the time during which finished tasks of an account can be read. If Lifetime
	// is nil or returns 0, the time is DefaultLifetime.
	Lifetime func(ctx context.Context, account string) (time.Duration, error)
	// If Workspaces is nil, tasks have no files.
	Workspaces *workspace.Workspaces
	Locks      *locks.Locks
}

// Team dispatches tasks. It is safe for concurrent use.
type Team struct{ Config }

func New(c Config) *Team { return &Team{c} }

// Caller is the account or operator that sends a request.
type Caller struct {
	Payer   *call.Payer // account of the request's key, or nil for the operator
	Address string      // client address, or ""
}

func (c *Caller) owner() call.Owner {
	if c.Payer == nil {
		return call.OperatorOwner
	}
	return c.Payer.Owner()
}

func (c *Caller) tenant() string {
	if c.Payer == nil {
		return ""
	}
	return c.Payer.Tenant
}

func (c *Caller) asker() vacants.Asker {
	if c.Payer == nil {
		return vacants.OperatorAsker()
	}
	return vacants.TenantAsker(c.Payer.Tenant)
}

type Agent struct {
	Name        string `json:"name"`
	Tier        string `json:"tier"`
	Description string `json:"description"`
}

// Details describes an agent. Settings that are missing in the agent's file are omitted.
type Details struct {
	Name            string        `json:"name"`
	Description     string        `json:"description"`
	Tier            string        `json:"tier"`
	Model           *string       `json:"default_model"`
	Mode            string        `json:"default_mode"`
	Tools           []string      `json:"tools"`
	MaxTurns        int           `json:"max_turns,omitempty"`
	Budget          *money.Amount `json:"budget,omitempty"` // micro-dollars
	AllowedTools    []string      `json:"allowed_tools,omitempty"`
	DisallowedTools []string      `json:"disallowed_tools,omitempty"`
	Effort          string        `json:"effort,omitempty"`
	OutputFormat    string        `json:"output_format,omitempty"`
	FallbackModel   string        `json:"fallback_model,omitempty"`
	Workspace       string        `json:"workspace,omitempty"`
	IncludeDirs     []string      `json:"include_dirs,omitempty"`
	LockPaths       []string      `json:"lock_paths,omitempty"`
	Warnings        []string      `json:"warnings,omitempty"`
}

func (c *Caller) owns(r *vacants.Record) bool {
	return r.Tenant == c.tenant() && !r.Closed && !r.IsDeleted()
}

func (t *Team) Agents(ctx context.Context, c Caller) (agents []Agent, err error) {
	agents = []Agent{}
	for page, err := range t.Vacants.Pages(ctx, c.asker()) {
		if err != nil {
			return nil, err
		}
		for i := range page {
			if !c.owns(&page[i]) {
				continue
			}
			d, err := t.describe(ctx, &page[i])
			switch {
			case err == nil:
				agents = append(agents, Agent{d.Name, d.Tier, d.Description})
			case problem.Is(err, problem.Unavailable) || ctx.Err() != nil:
				return nil, err
			default:
				t.Tasks.Log.WarnContext(ctx, "agent_skipped", "vacant", page[i].ID.Short(), "cause", err.Error())
			}
		}
	}
	return agents, nil
}

func (t *Team) Agent(ctx context.Context, c Caller, name string) (Details, error) {
	r, err := t.findVacant(ctx, c, name)
	if err == nil && !c.owns(&r) {
		err = unknownAgentError(name)
	}
	if err != nil {
		return Details{}, err
	}
	return t.describe(ctx, &r)
}

func (t *Team) describe(ctx context.Context, r *vacants.Record) (Details, error) {
	d := Details{Name: r.Name, Description: r.Capability, Tier: "UNKNOWN", Mode: string(definition.ReadWrite), Tools: []string{}}
	a, err := t.loadDefinition(ctx, r)
	if err != nil || a == nil {
		return d, err
	}
	d.Description, d.Mode = cmp.Or(a.Description, d.Description), cmp.Or(string(a.Mode), d.Mode)
	if a.Model != "" {
		d.Model = &a.Model
	}
	if spec, err := a.Spec(); err == nil && spec.IsModel() && t.Vacants.Resources.Models != nil {
		table, err := t.Vacants.Resources.Models.Current(ctx)
		if err != nil {
			return d, err
		}
		if m, ok := table.Find(spec); ok && m.Tier != "" {
			d.Tier = string(m.Tier)
		}
	}
	d.Tools = append(append(d.Tools, a.AllowedTools...), a.Vacants...)
	d.MaxTurns, d.Budget, d.AllowedTools, d.DisallowedTools = a.MaxTurns, a.Budget, a.AllowedTools, a.DisallowedTools
	d.Workspace, d.IncludeDirs, d.LockPaths = a.Workspace, a.IncludeDirs, a.LockPaths
	d.Effort, d.OutputFormat, d.FallbackModel, d.Warnings = string(a.Effort), string(a.OutputFormat), a.FallbackModel, a.Warnings
	return d, nil
}

func (t *Team) loadDefinition(ctx context.Context, r *vacants.Record) (*definition.Agent, error) {
	a, err := t.Vacants.Agent(ctx, r, 0)
	if problem.Is(err, problem.Conflict) {
		return nil, nil // the vacant answers with a plan
	}
	return &a, err
}

func unknownAgentError(name string) error {
	return problem.New(problem.NotFound, "Agent '%.80s' not found.", name)
}

// findVacant returns the vacant that a caller means by name: one of its own agents by name or id,
// or a published vacant of another tenant by id.
func (t *Team) findVacant(ctx context.Context, c Caller, name string) (r vacants.Record, err error) {
	id, parseErr := identity.ParseID(name)
	if parseErr != nil {
		r, err = t.Vacants.GetByName(ctx, c.asker(), name)
	} else {
		r, err = t.Vacants.Get(ctx, vacants.OperatorAsker(), id)
	}
	switch {
	case problem.Is(err, problem.NotFound), problem.Is(err, problem.Malformed):
		return r, unknownAgentError(name)
	case err != nil || c.owns(&r):
		return r, err
	case parseErr != nil || r.Closed || r.IsDeleted():
		return r, unknownAgentError(name)
	}
	isPublished, err := t.IsPublished(ctx, r.ID)
	if err == nil && !isPublished {
		err = unknownAgentError(name)
	}
	return r, err
}

// Request contains the parameters of a dispatch.
type Request struct {
	Agent, Text          string
	Model, Mode          string
	Effort, OutputFormat string
	MaxTurns             *int64
	Budget               *money.Amount
	Key                  string        // idempotency key, or ""
	Servers              []task.Server `json:",omitempty"` // omitted if empty, which keeps the hash of requests without servers
}

// Started describes a dispatched task with its effective settings.
type Started struct {
	Status   string   `json:"status"`
	Agent    string   `json:"agent"`
	TaskID   string   `json:"taskId"`
	Model    *string  `json:"model"`
	Mode     string   `json:"mode,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Dispatch starts a task of an agent. It returns before the agent begins. If a request is repeated
// with the same key, Dispatch returns the existing task.
func (t *Team) Dispatch(ctx context.Context, c Caller, q Request) (Started, error) {
	owner, requestHash, id := c.owner(), q.hash(), ""
	if q.Key != "" {
		if err := checkIdempotencyKey(q.Key); err != nil {
			return Started{}, err
		}
		id = task.DispatchID(owner, q.Key)
		d, err := t.Tasks.FindDispatched(ctx, owner, id)
		if !errors.Is(err, task.ErrNotFound) {
			return newStarted(&d, requestHash, err)
		}
	}
	r, err := t.findVacant(ctx, c, q.Agent)
	if err != nil {
		return Started{}, err
	}
	d, err := t.resolveSettings(ctx, c, &r, &q)
	if err != nil {
		return Started{}, err
	}
	if id == "" {
		if id, err = t.Tasks.NewID(); err != nil {
			return Started{}, err
		}
	}
	if q.Text, err = t.resolveTaskText(ctx, &d, q.Text); err != nil {
		return Started{}, err
	}
	d.RequestHash = requestHash
	turn := task.Turn{Ref: task.Ref{Vacant: r.ID, Owner: owner, ID: id}, ListOwner: owner, ClientAddress: c.Address, Operation: "dispatch"}
	turn.Credential = call.Credential{Payer: c.Payer, Address: c.Address}
	turn.Message = newMessage(id, q.Key, q.Text)
	turn.Message.Context = "c-" + id
	if err := checkMessage("task", q.Text, &turn.Message); err != nil {
		return Started{}, err
	}
	dispatched, err := t.Tasks.Dispatch(ctx, turn, d)
	return newStarted(&dispatched, requestHash, err)
}

func (q *Request) hash() string {
	b, _ := json.Marshal(q) // cannot fail for numbers and strings
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func newStarted(d *task.DispatchedTask, requestHash string, err error) (Started, error) {
	if err == nil && d.RequestHash != requestHash {
		err = otherRequestError()
	}
	if err != nil {
		return Started{}, err
	}
	s := Started{Status: task.Working.TeamStateName(), Agent: d.Agent, TaskID: d.Ref.ID, Mode: d.Mode, Warnings: d.Warnings}
	if d.AgentModel != "" {
		s.Model = &d.AgentModel
	}
	return s, nil
}

func otherRequestError() error {
	return problem.New(problem.Conflict, "idempotency-key: expected a new key, or the same request again, got another request")
}

func newMessage(id, key, text string) task.Message {
	return task.Message{ID: cmp.Or(key, "m-"+id), Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}}
}

func checkIdempotencyKey(key string) error {
	if (envelope.Message{Role: envelope.RoleUser, MessageID: &key}).Check() != nil {
		return problem.Invalid("idempotency-key", fmt.Sprintf("1 to %d bytes without control characters", envelope.MaxIDBytes), fmt.Sprintf("%.80q", key))
	}
	return nil
}

func checkMessage(field, text string, m *task.Message) error {
	switch size := len(canon.AppendString(nil, text)); {
	case strings.TrimSpace(text) == "":
		return problem.Invalid(field, "a text", "none")
	case len(text) > maxTaskBytes:
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes, got %d", field, maxTaskBytes, len(text))
	case size > canon.DefaultLimits().Bytes-1024: // leaves room for the rest of the envelope
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes in JSON, which escapes quotes and control characters, got %d", field, canon.DefaultLimits().Bytes-1024, size)
	}
	return (envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, MessageID: &m.ID}).Check()
}

// resolveSettings returns the settings of a new task. It ignores a setting that does not apply or
// that the caller may not choose, and adds a warning.
func (t *Team) resolveSettings(ctx context.Context, c Caller, r *vacants.Record, q *Request) (d task.Dispatch, err error) {
	switch {
	case q.MaxTurns != nil && *q.MaxTurns < 1:
		return d, problem.New(problem.Malformed, "max_turns must be positive, got %d", *q.MaxTurns)
	case q.Budget != nil && *q.Budget < 0:
		return d, problem.New(problem.Malformed, "budget must be non-negative, got %s", strings.ReplaceAll(q.Budget.String(), "$", ""))
	}
	mode := definition.Mode(q.Mode)
	if mode != "" && mode != definition.ReadOnly && mode != definition.ReadWrite {
		return d, problem.New(problem.Malformed, "Invalid mode '%.40s'. Use 'read-write' or 'read-only'.", q.Mode)
	}
	if !r.State.CanBeCalled() {
		return d, problem.New(problem.NotAccepting, "agent %s is %s, and accepts no tasks", r.Name, r.State)
	}
	isOwn := c.owns(r)
	if !isOwn && r.KeylessAccess == vacants.KeylessOff {
		return d, problem.New(problem.Forbidden, "agent %s answers only signed calls", r.ID.Short())
	}
	if err := c.checkPrice(r, q, isOwn); err != nil {
		return d, err
	}
	a, err := t.loadDefinition(ctx, r)
	if err != nil {
		return d, err
	}
	isPlan := a == nil
	if isPlan {
		a = &definition.Agent{}
	}
	spec, err := a.Spec()
	isModel := err == nil && spec.IsModel()
	d = task.Dispatch{Agent: cmp.Or(r.Name, r.ID.String()), Deadline: t.Tasks.Now().UTC().Add(task.DefaultRunTime), Budget: q.Budget, IsOwn: isOwn}
	if isOwn {
		d.Warnings = slices.Clone(a.Warnings)
	}
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	// The warnings and the mode must not reveal the agent's settings to other tenants.
	switch {
	case isOwn:
		d.Mode = string(cmp.Or(mode, a.Mode, definition.ReadWrite))
	case mode == definition.ReadOnly:
		d.Mode = q.Mode
	case mode != "":
		warn("mode: only the owner of the agent may choose read-write")
	}
	if d.Mode == string(definition.ReadOnly) && !isModel {
		warn("mode: the host cannot limit the tools of this agent to reading")
	}
	if q.MaxTurns != nil {
		d.MaxTurns = int(min(*q.MaxTurns, definition.MaxTurns))
		switch {
		case !isOwn:
			warn("max_turns: the agent's own limit applies if it is lower")
		case !isModel:
			warn("max_turns: the agent has no model whose turns the host counts")
		case *q.MaxTurns > definition.MaxTurns:
			warn("max_turns: the limit is %d, got %d", definition.MaxTurns, *q.MaxTurns)
		}
	}
	switch {
	case q.Budget == nil || !isOwn:
	case !isModel && !isPlan && r.Price.IsFree():
		warn("budget: the agent has no model and no price, so the host cannot limit its cost")
	case a.Budget != nil && *q.Budget > *a.Budget:
		warn("budget: the agent's file limits each turn to %s", *a.Budget)
	}
	for _, override := range []struct {
		field, value string
		set          func(*definition.Agent, string)
		to           *string
	}{
		{"model", q.Model, func(a *definition.Agent, v string) { a.Model, a.Tier = v, "" }, &d.Model},
		{"effort", q.Effort, func(a *definition.Agent, v string) { a.Effort = substrate.Effort(v) }, &d.Effort},
		{"output_format", q.OutputFormat, func(a *definition.Agent, v string) { a.OutputFormat = definition.Format(v) }, &d.OutputFormat},
	} {
		candidate := *a
		switch {
		case override.value == "":
			continue
		case !isOwn:
			warn("%s: only the owner of the agent may change it", override.field)
			continue
		case !isModel:
			warn("%s: the agent has no model", override.field)
			continue
		}
		override.set(&candidate, override.value)
		err := t.Vacants.Resources.CheckAgent(&candidate)
		if err == nil {
			err = t.Vacants.Resources.CheckPrice(ctx, r.Tenant, &candidate)
		}
		if err != nil {
			if problem.Is(err, problem.Unavailable) {
				return d, err
			}
			warn("%s: %s", override.field, strings.TrimPrefix(problem.AsError(err).Text(), override.field+": "))
			continue
		}
		*override.to = override.value
		*a = candidate
	}
	if len(q.Servers) > 0 {
		candidate := *a
		candidate.MCPServers = slices.Clone(a.MCPServers)
		for _, s := range q.Servers {
			candidate.MCPServers = append(candidate.MCPServers, definition.Server(s))
		}
		switch err := t.Vacants.Resources.CheckAgent(&candidate); {
		case !isOwn:
			warn("mcp_servers: only the owner of the agent may add servers")
		case !isModel:
			warn("mcp_servers: the agent has no model")
		case t.Vacants.Resources.Servers == nil:
			warn("mcp_servers: this host offers only the servers in the file of an agent")
		case err != nil:
			warn("%s", problem.AsError(err).Text())
		default:
			d.Servers = q.Servers
		}
	}
	if isOwn {
		d.AgentModel = a.Model
		if isModel || isPlan { // other agents have no file tools
			if d.Files, err = t.resolveFiles(c, a, d.Mode); err != nil {
				return d, err
			}
		}
	}
	return d, nil
}

func (c *Caller) checkPrice(r *vacants.Record, q *Request, isOwn bool) error {
	switch {
	case c.Payer != nil && c.Payer.Test && !isOwn:
		return problem.New(problem.TestKeyNotAllowed, "a test key can dispatch tasks only to agents of its own tenant, %s", c.Payer.Tenant)
	case r.Price.IsFree():
		return nil
	case c.Payer == nil:
		return problem.New(problem.PaymentRequired, "agent %s has the price %s, and the operator has no account; dispatch with the key of an account", r.Name, r.Price)
	case isOwn:
		return nil
	case q.Budget == nil:
		return problem.Invalid("budget", fmt.Sprintf("at least the price of a call, %s", r.Price.Hold()), "none")
	case *q.Budget < r.Price.Hold():
		return problem.Invalid("budget", fmt.Sprintf("at least the price of a call, %s", r.Price.Hold()), q.Budget.String())
	}
	return nil
}

// Status describes a task.
type Status struct {
	TaskID   string  `json:"taskId"`
	Status   string  `json:"status"`
	Agent    string  `json:"agent"`
	Model    *string `json:"model"`
	Mode     string  `json:"mode,omitempty"`
	Question string  `json:"question,omitempty"` // set if the task waits for an answer
	Result   *Result `json:"result,omitempty"`   // set if the task is completed
	Error    string  `json:"error,omitempty"`    // set if the task has failed
	// Only [Team.Status] sets Lock.
	Lock     *locks.Lock `json:"lock,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
}

type Result struct {
	TaskID   string  `json:"taskId"`
	Status   string  `json:"status"`
	Agent    string  `json:"agent"`
	Model    string  `json:"model_used"`
	Duration float64 `json:"duration_seconds"`
	Summary  string  `json:"summary"`
	Response string  `json:"response"`
	// Package team leaves Path empty.
	Path      string   `json:"response_path,omitempty"`
	Artifacts []string `json:"artifacts"`
	// Unverified contains the artifacts that may be outside the agent's directory.
	Unverified []string `json:"unverified,omitempty"`
}

// TruncateResponse truncates the response to size bytes. If the response is not longer than size,
// it clears Path.
func (s *Status) TruncateResponse(size int) {
	switch r := s.Result; {
	case r == nil:
	case len(r.Response) > size:
		r.Response = strings.ToValidUTF8(r.Response[:size], "")
	default:
		r.Path = ""
	}
}

// IsTurnOver reports whether the task's current turn has ended.
func (s *Status) IsTurnOver() bool {
	return s.Status != task.Submitted.TeamStateName() && s.Status != task.Working.TeamStateName()
}

func newStatus(d *task.DispatchedTask) Status {
	s := Status{TaskID: d.Ref.ID, Status: d.Task.Status.State.TeamStateName(), Agent: d.Agent, Mode: d.Mode, Warnings: d.Warnings}
	if d.AgentModel != "" {
		s.Model = &d.AgentModel
	}
	text := ""
	if m := d.Task.Status.Message; m != nil {
		for _, p := range m.Parts {
			text += p.Text
		}
	}
	switch {
	case d.Task.Status.State.AwaitsMessage():
		s.Question = cmp.Or(strings.TrimSpace(text), "The agent waits for an answer.")
	case d.Task.Status.State == task.Completed:
		r := &Result{
			TaskID: s.TaskID, Status: s.Status, Agent: d.Agent, Model: cmp.Or(d.AgentModel, "(default)"), Duration: d.Task.Status.Time.Sub(d.StartedAt).Seconds(),
			Summary: text, Response: text, Artifacts: FindArtifacts(text),
		}
		if runes := []rune(text); len(runes) > maxSummaryRunes {
			r.Summary = string(runes[:maxSummaryRunes]) + "..."
		}
		for _, path := range r.Artifacts {
			if isUnverified(path) {
				r.Unverified = append(r.Unverified, path)
			}
		}
		if d.Files != nil {
			r.Artifacts = append(r.Artifacts, d.Files.WrittenPaths...)
			slices.Sort(r.Artifacts)
			r.Artifacts = slices.Compact(r.Artifacts)
		}
		s.Result = r
	case d.Task.Status.State.IsTerminal() && d.Task.Status.State != task.Canceled:
		s.Error = text
	}
	return s
}

func (t *Team) taskLifetime(ctx context.Context, c Caller) (time.Duration, error) {
	if c.Payer == nil || t.Lifetime == nil {
		return DefaultLifetime, nil
	}
	lifetime, err := t.Lifetime(ctx, c.Payer.Account)
	return cmp.Or(lifetime, DefaultLifetime), err
}

func (t *Team) isExpired(d *task.DispatchedTask, lifetime time.Duration) bool {
	return d.Task.Status.State.IsTerminal() && t.Tasks.Now().Sub(d.Task.Status.Time) >= lifetime
}

func (t *Team) findTask(ctx context.Context, c Caller, id, format string) (task.DispatchedTask, error) {
	lifetime, err := t.taskLifetime(ctx, c)
	if err != nil {
		return task.DispatchedTask{}, err
	}
	d, err := t.Tasks.FindDispatched(ctx, c.owner(), id)
	if err == nil && t.isExpired(&d, lifetime) {
		err = task.ErrNotFound
	}
	if errors.Is(err, task.ErrNotFound) {
		err = problem.New(problem.NotFound, format, fmt.Sprintf("%.80s", id))
	}
	return d, err
}

const (
	missingOrExpiredFormat = "Task '%s' not found or expired."
	missingFormat          = "Task '%s' not found."
)

// Status returns the state of a task, and its result if the task is completed. If wait is positive
// and a turn is active, Status waits up to wait for the end of the turn.
func (t *Team) Status(ctx context.Context, c Caller, id string, wait time.Duration) (Status, error) {
	d, err := t.findTask(ctx, c, id, missingOrExpiredFormat)
	if err == nil && wait > 0 && d.Task.Status.State.IsActive() {
		waitCtx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		err = t.Tasks.FollowTurn(waitCtx, d.Ref, 0, func(task.NumberedEvent) bool { return true })
		if err == nil || errors.Is(err, task.ErrNotFound) {
			d, err = t.findTask(ctx, c, id, missingOrExpiredFormat)
		}
	}
	if err != nil {
		return Status{}, err
	}
	s := newStatus(&d)
	s.Lock, err = t.findLock(ctx, &d)
	return s, err
}

// Steps returns the thoughts and tool calls of a task, oldest first. If the caller does not own the
// task's agent, it returns none.
func (t *Team) Steps(ctx context.Context, c Caller, id string) ([]task.TraceEntry, error) {
	d, err := t.findTask(ctx, c, id, missingOrExpiredFormat)
	if err != nil {
		return nil, err
	}
	r, err := t.Vacants.Get(ctx, vacants.OperatorAsker(), d.Ref.Vacant)
	if err != nil || !c.owns(&r) {
		return nil, err
	}
	return t.Tasks.ReadTrace(ctx, d.Ref)
}

// CancelTask cancels a task. It has no effect if the task is already canceled.
func (t *Team) CancelTask(ctx context.Context, c Caller, id string) (Status, error) {
	d, err := t.findTask(ctx, c, id, missingFormat)
	if err == nil && d.Task.Status.State != task.Canceled {
		d.Task, err = t.Tasks.Cancel(ctx, d.Ref)
		if errors.Is(err, task.ErrNotCancelable) {
			if d, err = t.findTask(ctx, c, id, missingFormat); err == nil && d.Task.Status.State != task.Canceled {
				err = problem.New(problem.Conflict, "Task already completed.")
			}
		}
	}
	if err != nil {
		return Status{}, err
	}
	return newStatus(&d), nil
}

// AnswerTask sends a task the answer that it waits for. An answer that is repeated with the same
// key is sent only once.
func (t *Team) AnswerTask(ctx context.Context, c Caller, id, text, key string) (Status, error) {
	d, err := t.findTask(ctx, c, id, missingOrExpiredFormat)
	if err == nil && key != "" {
		err = checkIdempotencyKey(key)
	}
	if err != nil {
		return Status{}, err
	}
	turn := task.Turn{Ref: d.Ref, ListOwner: d.Ref.Owner, Continue: true, Idempotent: key != "", ClientAddress: c.Address, Operation: "answer"}
	turn.Credential = call.Credential{Payer: c.Payer, Address: c.Address}
	messageID, err := t.Tasks.NewID()
	if err != nil {
		return Status{}, err
	}
	m := newMessage(messageID, key, text)
	m.Task, m.Context = id, d.Task.Context
	if err := checkMessage("text", text, &m); err != nil {
		return Status{}, err
	}
	if err := t.Tasks.PrepareSigning(ctx, &turn, d.Task.Context, m, ""); err != nil {
		return Status{}, err
	}
	updated, err := t.Tasks.Enqueue(ctx, turn)
	switch {
	case errors.Is(err, task.ErrBusy):
		return Status{}, problem.New(problem.Conflict, "Task '%s' does not wait for an answer.", id)
	case err != nil && problem.AsError(err).Field == "messageId":
		return Status{}, otherRequestError()
	case err != nil:
		return Status{}, err
	}
	d.Task = updated
	return newStatus(&d), nil
}

// ListTasks returns a page of the caller's tasks, newest first and without responses. An empty
// state or agent matches all tasks.
func (t *Team) ListTasks(ctx context.Context, c Caller, state, agent, cursor string, size int) (page []Status, next string, err error) {
	page = []Status{}
	var states []task.State
	if state != "" {
		if states, err = task.ParseTeamStateName(state); err != nil {
			return nil, "", err
		}
	}
	lifetime, err := t.taskLifetime(ctx, c)
	if err != nil {
		return nil, "", err
	}
	tasks, next, err := t.Tasks.ListDispatched(ctx, c.owner(), cursor, size, func(d *task.DispatchedTask) bool {
		return !t.isExpired(d, lifetime) && (len(states) == 0 || slices.Contains(states, d.Task.Status.State)) && (agent == "" || agent == d.Agent || agent == d.Ref.Vacant.String())
	})
	for i := range tasks {
		s := newStatus(&tasks[i])
		s.TruncateResponse(0)
		page = append(page, s)
	}
	return page, next, err
}

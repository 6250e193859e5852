package acpbridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/mcpclients"
	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// session is a conversation with the agent.
type session struct {
	id, cwd string
	log     *sessionlog.Log

	mu          sync.Mutex
	turn        *turn  // running prompt, or nil
	turns       int    // number of the last prompt
	context     string // context of the tasks, or "" if the agent's host has not created it yet
	carried     string // history that the next message carries
	waiting     string // task that waits for the next message, or ""
	steps       int    // number of the waiting task's steps that were sent
	mode, model string // settings of dispatched tasks
	servers     []task.Server
	once        string // notice that is sent before the next answer, and then cleared
	answer      *task.Message
}

// newID returns the id of a session. The id contains a hash of the working directory, so that list can find the sessions
// of a directory although the agent's host does not know the directory.
func newID(cwd string) string { return idPrefix(cwd) + rand.Text() }

func idPrefix(cwd string) string {
	sum := sha256.Sum256([]byte(cwd))
	return fmt.Sprintf("acp-%x-", sum[:4])
}

func checkCwd(cwd string) error {
	if !filepath.IsAbs(cwd) {
		return problem.Invalid("cwd", "an absolute path", fmt.Sprintf("%.80q", cwd))
	}
	return nil
}

func (b *Bridge) open(id, cwd string) (*session, error) {
	if err := checkCwd(cwd); err != nil {
		return nil, err
	}
	s := &session{id: id, cwd: cwd}
	if !b.Guest {
		s.context = id
	}
	if b.Own != nil {
		s.mode = b.Own.Mode
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if existing, ok := b.sessions[id]; ok { // a concurrent request added it
		return existing, nil
	}
	var err error
	if s.log, err = sessionlog.Open(cwd, id, b.Now); err != nil {
		b.Note("the log of session %s cannot be written: %s", id, err)
	}
	b.sessions[id] = s
	return s, nil
}

func (b *Bridge) find(id string) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[id]; s != nil {
		return s, nil
	}
	return nil, problem.New(problem.NotFound, "session %.80q not found: it does not exist, or is not yours", id)
}

func (b *Bridge) newSession(_ context.Context, q *acp.NewSessionRequest) (r acp.NewSessionResponse, err error) {
	s, err := b.open(newID(q.Cwd), q.Cwd)
	if err != nil {
		return r, err
	}
	b.useServers(s, q.McpServers)
	return acp.NewSessionResponse{SessionId: acp.SessionId(s.id), Modes: b.modes(s), ConfigOptions: b.options(s)}, nil
}

// maxServerName limits the name of an MCP server at the agent's host.
const maxServerName = 32

// useServers sets the session's MCP servers to those that the agent's host can reach for the owner of the agent. A notice
// before the next answer names the other servers.
func (b *Bridge) useServers(s *session, servers []acp.McpServer) {
	var unused []string
	s.servers, s.once = nil, ""
	for _, m := range servers {
		switch {
		case m.Http != nil && b.Own != nil && len(m.Http.Headers) == 0:
			name := mcpclients.NameOf(m.Http.Name)
			s.servers = append(s.servers, task.Server{Name: name[:min(len(name), maxServerName)], URL: m.Http.Url})
		case m.Http != nil:
			unused = append(unused, m.Http.Name)
		case m.Stdio != nil:
			unused = append(unused, m.Stdio.Name)
		case m.Sse != nil:
			unused = append(unused, m.Sse.Name)
		}
	}
	if unused != nil {
		s.once = "MCP servers of the editor are not used: " + strings.Join(unused, ", ") + ". The agent runs on another host, which reaches only servers at a URL, without headers, and only for the owner of the agent.\n"
	}
}

// reopen returns a session and its tasks. If this program does not know the session, reopen opens it, provided that the
// agent's host has tasks of the session.
func (b *Bridge) reopen(ctx context.Context, id, cwd string) (*session, []task.Task, error) {
	if err := checkCwd(cwd); err != nil {
		return nil, nil, err
	}
	s, unknown := b.find(id)
	tasks, err := b.tasks(ctx, id)
	switch {
	case err != nil:
		return nil, nil, err
	case unknown != nil && len(tasks) == 0:
		return nil, nil, unknown
	case unknown != nil:
		if s, err = b.open(id, cwd); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tasks {
		_, n := origin(&tasks[i])
		s.turns = max(s.turns, n)
	}
	if n := len(tasks); n > 0 && s.turn == nil {
		last := &tasks[n-1]
		s.waiting, s.answer = "", last.Status.Message
		if last.Status.State.Waits() {
			s.waiting = last.ID
		}
		if b.Guest {
			s.context = last.Context
		}
		if b.Own != nil {
			s.carried = render("", exchanges(tasks)...)
		}
	}
	return s, tasks, nil
}

func (b *Bridge) load(ctx context.Context, q *acp.LoadSessionRequest) (r acp.LoadSessionResponse, err error) {
	s, tasks, err := b.reopen(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.useServers(s, q.McpServers)
	if s.turn != nil {
		return r, busy(s.id)
	}
	transcript, first := exchanges(tasks), 1
	if len(tasks) > 0 {
		_, first = origin(&tasks[0])
	}
	if first > 1 || len(tasks) == 0 && s.turns > 0 {
		transcript = slices.Insert(transcript, 0, exchange{task.Agent, "(The earlier texts of this session have expired.)\n"})
	}
	for _, e := range transcript {
		u := acp.UpdateUserMessageText(e.text)
		if e.role == task.Agent {
			u = acp.UpdateAgentMessageText(e.text)
		}
		if err := b.notify(ctx, s, u); err != nil {
			return r, err
		}
	}
	return acp.LoadSessionResponse{Modes: b.modes(s), ConfigOptions: b.options(s)}, nil
}

func (b *Bridge) resume(ctx context.Context, q *acp.ResumeSessionRequest) (r acp.ResumeSessionResponse, err error) {
	s, _, err := b.reopen(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.useServers(s, q.McpServers)
	return acp.ResumeSessionResponse{Modes: b.modes(s), ConfigOptions: b.options(s)}, nil
}

// fork opens a session whose first message carries the history of another one.
func (b *Bridge) fork(ctx context.Context, q *acp.UnstableForkSessionRequest) (r acp.NewSessionResponse, err error) {
	s, tasks, err := b.reopen(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	f, err := b.open(newID(q.Cwd), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mode, f.model, f.servers, f.carried = s.mode, s.model, s.servers, s.carried
	if len(tasks) > 0 {
		f.carried = render("", exchanges(tasks)...)
	}
	return acp.NewSessionResponse{SessionId: acp.SessionId(f.id), Modes: b.modes(f), ConfigOptions: b.options(f)}, nil
}

// pageSize limits the sessions of a page.
const pageSize = 50

func (b *Bridge) list(ctx context.Context, q *acp.ListSessionsRequest) (r acp.ListSessionsResponse, err error) {
	tasks, err := b.tasks(ctx, "")
	if err != nil {
		return r, err
	}
	byID := map[string]*acp.SessionInfo{}
	for i := range tasks { // the oldest first
		id, _ := origin(&tasks[i])
		info := byID[id]
		if info == nil {
			info = &acp.SessionInfo{SessionId: acp.SessionId(id), Cwd: b.Dir}
			if s, err := b.find(id); err == nil {
				info.Cwd = s.cwd
			}
			if q.Cwd != nil && strings.HasPrefix(id, idPrefix(*q.Cwd)) {
				info.Cwd = *q.Cwd
			}
			transcript := exchanges(tasks[i : i+1])
			if n := slices.IndexFunc(transcript, func(e exchange) bool { return e.role == task.User }); n >= 0 {
				info.Title = new(clip(strings.Join(strings.Fields(transcript[n].text), " "), 80))
			}
			byID[id] = info
		}
		info.UpdatedAt = new(tasks[i].Status.Time.UTC().Format("2006-01-02T15:04:05.000000Z")) // sorts by time
	}
	infos := slices.SortedFunc(maps.Values(byID), func(x, y *acp.SessionInfo) int {
		return cmp.Or(strings.Compare(*y.UpdatedAt, *x.UpdatedAt), strings.Compare(string(x.SessionId), string(y.SessionId)))
	})
	if q.Cwd != nil {
		infos = slices.DeleteFunc(infos, func(i *acp.SessionInfo) bool { return i.Cwd != *q.Cwd })
	}
	if q.Cursor != nil {
		index := slices.IndexFunc(infos, func(i *acp.SessionInfo) bool { return string(i.SessionId) == *q.Cursor })
		if index < 0 {
			return r, problem.Invalid("cursor", "nextCursor of an earlier answer", fmt.Sprintf("%.80q", *q.Cursor))
		}
		infos = infos[index+1:]
	}
	if len(infos) > pageSize {
		infos = infos[:pageSize]
		r.NextCursor = new(string(infos[pageSize-1].SessionId))
	}
	r.Sessions = []acp.SessionInfo{}
	for _, info := range infos {
		r.Sessions = append(r.Sessions, *info)
	}
	return r, nil
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// The only option of a session, and its value for the agent's own model.
const (
	modelOption  = "model"
	defaultModel = "default"
)

func (b *Bridge) modes(s *session) *acp.SessionModeState {
	if b.Own == nil {
		return nil
	}
	r := &acp.SessionModeState{CurrentModeId: acp.SessionModeId(s.mode)}
	for _, m := range []definition.Mode{definition.ReadWrite, definition.ReadOnly} {
		r.AvailableModes = append(r.AvailableModes, acp.SessionMode{Id: acp.SessionModeId(m), Name: string(m)})
	}
	return r
}

func (b *Bridge) options(s *session) []acp.SessionConfigOption {
	if b.Own == nil {
		return nil
	}
	names := []string{defaultModel}
	if m := b.Own.Model; m != nil {
		names = append(names, *m)
	}
	current := cmp.Or(s.model, defaultModel)
	names = append(names, current)
	slices.Sort(names)
	var choices acp.SessionConfigSelectOptionsUngrouped
	for _, name := range slices.Compact(names) {
		choices = append(choices, acp.SessionConfigSelectOption{Name: name, Value: acp.SessionConfigValueId(name)})
	}
	return []acp.SessionConfigOption{{Select: &acp.SessionConfigOptionSelect{
		Id: modelOption, Name: "Model", Category: new(acp.SessionConfigOptionCategoryModel), CurrentValue: acp.SessionConfigValueId(current),
		Options: acp.SessionConfigSelectOptions{Ungrouped: &choices}, Type: "select",
	}}}
}

func (b *Bridge) change(ctx context.Context, id acp.SessionId, setting string, f func(*session) (acp.SessionUpdate, error)) error {
	s, err := b.find(string(id))
	if err != nil {
		return err
	}
	if b.Own == nil {
		return problem.Invalid(setting, "a task that an account dispatches to its own agent; set VACANCY_KEY to a key of the account that owns the agent, with the scopes call, agents and read", "a call of another caller")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	update, err := f(s)
	if err == nil {
		err = b.notify(ctx, s, update)
	}
	return err
}

func (b *Bridge) setMode(ctx context.Context, q *acp.SetSessionModeRequest) (r acp.SetSessionModeResponse, err error) {
	return r, b.change(ctx, q.SessionId, "mode", func(s *session) (acp.SessionUpdate, error) {
		if m := definition.Mode(q.ModeId); m != definition.ReadOnly && m != definition.ReadWrite {
			return acp.SessionUpdate{}, problem.Invalid("modeId", "read-only or read-write", fmt.Sprintf("%.80q", q.ModeId))
		}
		s.mode = string(q.ModeId)
		return acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: q.ModeId}}, nil
	})
}

// useModel sets the model of the next prompts. The agent's host decides whether it has the model.
func (b *Bridge) useModel(ctx context.Context, id acp.SessionId, name string) (options []acp.SessionConfigOption, err error) {
	err = b.change(ctx, id, modelOption, func(s *session) (acp.SessionUpdate, error) {
		if strings.TrimSpace(name) == "" {
			return acp.SessionUpdate{}, problem.Invalid("model", "the name of a model, or "+defaultModel, "none")
		}
		if s.model = name; name == defaultModel {
			s.model = ""
		}
		options = b.options(s)
		return acp.SessionUpdate{ConfigOptionUpdate: &acp.SessionConfigOptionUpdate{ConfigOptions: options}}, nil
	})
	return options, err
}

// setModelRequest is the request of session/set_model, the older method that sets the model of a session.
type setModelRequest struct {
	SessionID acp.SessionId
	ModelID   string
}

func (b *Bridge) setModel(ctx context.Context, q *setModelRequest) (r struct{}, err error) {
	_, err = b.useModel(ctx, q.SessionID, q.ModelID)
	return r, err
}

func (b *Bridge) setConfigOption(ctx context.Context, q *acp.SetSessionConfigOptionRequest) (r acp.SetSessionConfigOptionResponse, err error) {
	v := q.ValueId
	if v == nil || v.ConfigId != modelOption {
		return r, problem.Invalid("configId", modelOption+", with the name of a model", "another option")
	}
	r.ConfigOptions, err = b.useModel(ctx, v.SessionId, string(v.Value))
	return r, err
}

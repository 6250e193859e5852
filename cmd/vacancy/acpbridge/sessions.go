package acpbridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

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
	context     string // context of the tasks, or "" if the agent's host has not made it yet
	carried     string // history that the next message carries
	waiting     string // task that waits for the next message, or ""
	steps       int    // number of its steps that were sent
	mode, model string // of dispatched tasks
	once        string // sentence that the session says before its next answer
	answer      *task.Message
}

// idPrefix begins the id of a session.
const idPrefix = "acp-"

// newID returns the id of a session. The id has a hash of the working directory, by which a list finds the sessions of
// a directory without telling the agent's host its name.
func newID(cwd string) string { return idPrefix + cwdHash(cwd) + "-" + rand.Text() }

func cwdHash(cwd string) string {
	sum := sha256.Sum256([]byte(cwd))
	return hex.EncodeToString(sum[:4])
}

func checkCwd(cwd string) error {
	if !filepath.IsAbs(cwd) {
		return problem.Invalid("cwd", "an absolute path", fmt.Sprintf("%.80q", cwd))
	}
	return nil
}

// open adds a session.
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
	log, err := sessionlog.Open(cwd, id, b.Now)
	if err != nil {
		b.Note("the log of session %s cannot be written: %s", id, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.sessions[id]; ok { // from a request at the same time
		log.Close()
		return known, nil
	}
	s.log = log
	b.sessions[id] = s
	return s, nil
}

func (s *session) closeLog() { _ = s.log.Close() } // the log is an extra: its errors end no session

func (b *Bridge) known(id string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

func unknownSession(id string) error {
	return problem.New(problem.NotFound, "session %.80q not found: it does not exist, or is not yours", id)
}

// find returns a session of this program.
func (b *Bridge) find(_ context.Context, id string) (*session, error) {
	if s := b.known(id); s != nil {
		return s, nil
	}
	return nil, unknownSession(id)
}

func (b *Bridge) newSession(_ context.Context, q *acp.NewSessionRequest) (r acp.NewSessionResponse, err error) {
	s, err := b.open(newID(q.Cwd), q.Cwd)
	if err != nil {
		return r, err
	}
	s.once = unusedServers(q.McpServers)
	return acp.NewSessionResponse{SessionId: acp.SessionId(s.id), Modes: b.modes(s), ConfigOptions: b.options(s)}, nil
}

// unusedServers returns a sentence about MCP servers, or "" without any.
func unusedServers(all []acp.McpServer) string {
	var names []string
	for _, m := range all {
		switch {
		case m.Stdio != nil:
			names = append(names, m.Stdio.Name)
		case m.Http != nil:
			names = append(names, m.Http.Name)
		case m.Sse != nil:
			names = append(names, m.Sse.Name)
		case m.Acp != nil:
			names = append(names, m.Acp.Name)
		}
	}
	if names == nil {
		return ""
	}
	return "MCP servers of the editor are not used, because the agent runs on another host: " + strings.Join(names, ", ") + ".\n"
}

// reopen returns a session that is known, or whose tasks the agent's host has, and these tasks.
func (b *Bridge) reopen(ctx context.Context, id, cwd string) (*session, []task.Task, error) {
	if err := checkCwd(cwd); err != nil {
		return nil, nil, err
	}
	s := b.known(id)
	of := id
	if s != nil {
		s.mu.Lock()
		of = s.context
		s.mu.Unlock()
	}
	tasks, err := b.tasks(ctx, id, of)
	switch {
	case err != nil:
		return nil, nil, err
	case s == nil && len(tasks) == 0:
		return nil, nil, unknownSession(id)
	case s == nil:
		if s, err = b.open(id, cwd); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tasks {
		s.turns = max(s.turns, turnOf(&tasks[i]))
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
			s.carried = history(tasks)
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
	if s.turn != nil {
		return r, busy(s.id)
	}
	s.once = unusedServers(q.McpServers)
	if err := b.replay(ctx, s, tasks); err != nil {
		return r, err
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
	s.once = unusedServers(q.McpServers)
	return acp.ResumeSessionResponse{Modes: b.modes(s), ConfigOptions: b.options(s)}, nil
}

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
	f.mode, f.model, f.carried = s.mode, s.model, history(tasks)
	if len(tasks) == 0 {
		f.carried = s.carried
	}
	s.mu.Unlock()
	return acp.NewSessionResponse{SessionId: acp.SessionId(f.id), Modes: b.modes(f), ConfigOptions: b.options(f)}, nil
}

// pageSize limits the sessions of a page.
const pageSize = 50

func (b *Bridge) list(ctx context.Context, q *acp.ListSessionsRequest) (r acp.ListSessionsResponse, err error) {
	all, err := b.infos(ctx)
	if err != nil {
		return r, err
	}
	if q.Cwd != nil {
		all = slices.DeleteFunc(all, func(i acp.SessionInfo) bool {
			s := b.known(string(i.SessionId))
			return !strings.HasPrefix(string(i.SessionId), idPrefix+cwdHash(*q.Cwd)+"-") && (s == nil || s.cwd != *q.Cwd)
		})
		for i := range all {
			all[i].Cwd = *q.Cwd
		}
	}
	if q.Cursor != nil {
		at := slices.IndexFunc(all, func(i acp.SessionInfo) bool { return string(i.SessionId) == *q.Cursor })
		if at < 0 {
			return r, problem.Invalid("cursor", "nextCursor of an earlier answer", fmt.Sprintf("%.80q", *q.Cursor))
		}
		all = all[at+1:]
	}
	if len(all) > pageSize {
		all = all[:pageSize]
		next := string(all[pageSize-1].SessionId)
		r.NextCursor = &next
	}
	r.Sessions = append([]acp.SessionInfo{}, all...)
	return r, nil
}

// maxTitle limits the title of a session in characters.
const maxTitle = 80

// infos describes the caller's sessions, the newest first.
func (b *Bridge) infos(ctx context.Context) ([]acp.SessionInfo, error) {
	var tasks []task.Task
	var err error
	if b.Guest { // the host lists only the tasks of a context that the guest names
		b.mu.Lock()
		for _, s := range b.sessions {
			s.mu.Lock()
			if s.context != "" {
				tasks = append(tasks, task.Task{Context: s.context, Status: task.Status{Time: b.Now()}, History: []task.Message{{ID: s.id + ".1.", Role: task.User}}})
			}
			s.mu.Unlock()
		}
		b.mu.Unlock()
	} else if tasks, err = b.tasks(ctx, "", ""); err != nil {
		return nil, err
	}
	byID := map[string]*acp.SessionInfo{}
	times := map[string]time.Time{}
	for i := range tasks { // oldest first
		id := sessionOf(&tasks[i])
		info := byID[id]
		if info == nil {
			info = &acp.SessionInfo{SessionId: acp.SessionId(id), Cwd: b.Dir}
			if s := b.known(id); s != nil {
				info.Cwd = s.cwd
			}
			if title, _ := asked(&tasks[i]); title != "" {
				title = clip(strings.Join(strings.Fields(title), " "), maxTitle)
				info.Title = &title
			}
			byID[id] = info
		}
		if at := tasks[i].Status.Time; at.After(times[id]) {
			times[id] = at
			text := at.UTC().Format(time.RFC3339)
			info.UpdatedAt = &text
		}
	}
	var all []acp.SessionInfo
	for _, info := range byID {
		all = append(all, *info)
	}
	slices.SortFunc(all, func(x, y acp.SessionInfo) int {
		if c := times[string(y.SessionId)].Compare(times[string(x.SessionId)]); c != 0 {
			return c
		}
		return strings.Compare(string(x.SessionId), string(y.SessionId))
	})
	return all, nil
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

func (b *Bridge) closeSession(ctx context.Context, q *acp.CloseSessionRequest) (r acp.CloseSessionResponse, err error) {
	if err := b.cancelSession(string(q.SessionId)); err != nil {
		return r, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[string(q.SessionId)]
	if s == nil {
		return r, unknownSession(string(q.SessionId))
	}
	delete(b.sessions, s.id)
	s.closeLog()
	return r, nil
}

// Settings of a session.
const (
	modelOption  = "model"
	defaultModel = "default"
)

func (b *Bridge) modes(s *session) *acp.SessionModeState {
	if b.Own == nil {
		return nil
	}
	var all []acp.SessionMode
	for _, m := range []struct {
		id    definition.Mode
		about string
	}{{definition.ReadWrite, "The agent's tools may change something."}, {definition.ReadOnly, "The agent's tools only read."}} {
		all = append(all, acp.SessionMode{Id: acp.SessionModeId(m.id), Name: string(m.id), Description: &m.about})
	}
	return &acp.SessionModeState{AvailableModes: all, CurrentModeId: acp.SessionModeId(s.mode)}
}

func (b *Bridge) options(s *session) []acp.SessionConfigOption {
	if b.Own == nil {
		return nil
	}
	names := []string{defaultModel}
	if m := b.Own.Model; m != nil && *m != defaultModel {
		names = append(names, *m)
	}
	current := s.model
	if current == "" {
		current = defaultModel
	}
	if !slices.Contains(names, current) {
		names = append(names, current)
	}
	var all acp.SessionConfigSelectOptionsUngrouped
	for _, name := range names {
		all = append(all, acp.SessionConfigSelectOption{Name: name, Value: acp.SessionConfigValueId(name)})
	}
	category := acp.SessionConfigOptionCategoryModel
	return []acp.SessionConfigOption{{Select: &acp.SessionConfigOptionSelect{
		Id: modelOption, Name: "Model", Category: &category, CurrentValue: acp.SessionConfigValueId(current),
		Options: acp.SessionConfigSelectOptions{Ungrouped: &all}, Type: "select",
	}}}
}

// change changes a setting of a session, and tells the client.
func (b *Bridge) change(ctx context.Context, id acp.SessionId, setting string, f func(*session) (acp.SessionUpdate, error)) error {
	s, err := b.find(ctx, string(id))
	if err != nil {
		return err
	}
	if b.Own == nil {
		return problem.Invalid(setting, "a task that an account dispatches to its own agent; set VACANCY_KEY to a key of the account that owns the agent, with the scopes call and agents", "a call of another caller")
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

// setModelRequest is the older request for the model of a session.
type setModelRequest struct {
	SessionId acp.SessionId `json:"sessionId"`
	ModelId   string        `json:"modelId"`
}

func (b *Bridge) setModel(ctx context.Context, q *setModelRequest) (r struct{}, err error) {
	return r, b.change(ctx, q.SessionId, modelOption, func(s *session) (acp.SessionUpdate, error) {
		return b.useModel(s, q.ModelId)
	})
}

// useModel sets the model of the next prompts. The agent's host decides whether it has the model.
func (b *Bridge) useModel(s *session, name string) (acp.SessionUpdate, error) {
	if strings.TrimSpace(name) == "" {
		return acp.SessionUpdate{}, problem.Invalid("model", "the name of a model, or "+defaultModel, "none")
	}
	if s.model = name; name == defaultModel {
		s.model = ""
	}
	return acp.SessionUpdate{ConfigOptionUpdate: &acp.SessionConfigOptionUpdate{ConfigOptions: b.options(s)}}, nil
}

func (b *Bridge) setConfigOption(ctx context.Context, q *acp.SetSessionConfigOptionRequest) (r acp.SetSessionConfigOptionResponse, err error) {
	v := q.ValueId
	if v == nil || v.ConfigId != modelOption {
		return r, problem.Invalid("configId", modelOption+", with the name of a model", "another option")
	}
	err = b.change(ctx, v.SessionId, modelOption, func(s *session) (acp.SessionUpdate, error) {
		update, err := b.useModel(s, string(v.Value))
		r.ConfigOptions = b.options(s)
		return update, err
	})
	return r, err
}

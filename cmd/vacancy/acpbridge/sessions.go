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

type session struct {
	id, cwd string
	log     *sessionlog.Log

	mu               sync.Mutex
	turn             *turn // nil if no prompt is running
	lastPromptNumber int
	contextID        string // "" until the agent's host creates it
	pendingHistory   string // sent with the next message
	waitingTask      string // task that waits for the next message, or ""
	sentStepCount    int    // steps of waitingTask
	mode, model      string // settings of dispatched tasks
	servers          []task.Server
	pendingNotice    string // sent before the next answer
	lastAnswer       *task.Message
}

// newSessionID returns a new session id. Its prefix is a hash of cwd, by which listSessions finds
// the sessions of a directory.
func newSessionID(cwd string) string { return idPrefix(cwd) + rand.Text() }

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

func (b *Bridge) openSession(id, cwd string) (*session, error) {
	if err := checkCwd(cwd); err != nil {
		return nil, err
	}
	s := &session{id: id, cwd: cwd}
	if !b.IsGuest {
		s.contextID = id
	}
	if b.OwnedAgent != nil {
		s.mode = b.OwnedAgent.Mode
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if existing, ok := b.sessions[id]; ok { // a concurrent request added it
		return existing, nil
	}
	var err error
	if s.log, err = sessionlog.Open(cwd, id, b.Now); err != nil {
		b.Logf("the log of session %s cannot be written: %s", id, err)
	}
	b.sessions[id] = s
	return s, nil
}

func (b *Bridge) findSession(id string) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[id]; s != nil {
		return s, nil
	}
	return nil, problem.New(problem.NotFound, "session %.80q not found: it does not exist, or it belongs to another caller", id)
}

func (b *Bridge) newSession(_ context.Context, q *acp.NewSessionRequest) (r acp.NewSessionResponse, err error) {
	s, err := b.openSession(newSessionID(q.Cwd), q.Cwd)
	if err != nil {
		return r, err
	}
	b.setServers(s, q.McpServers)
	return acp.NewSessionResponse{SessionId: acp.SessionId(s.id), Modes: b.modeState(s), ConfigOptions: b.configOptions(s)}, nil
}

const maxServerName = 32

// setServers sets the MCP servers that the agent's host can reach. A notice names the other
// servers.
func (b *Bridge) setServers(s *session, servers []acp.McpServer) {
	var unused []string
	s.servers, s.pendingNotice = nil, ""
	for _, m := range servers {
		switch {
		case m.Http != nil && b.OwnedAgent != nil && len(m.Http.Headers) == 0:
			name := mcpclients.SafeEntryName(m.Http.Name)
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
		s.pendingNotice = "These MCP servers of the editor are not used: " + strings.Join(unused, ", ") + ". The agent runs on another host. That host uses only MCP servers with a URL and without headers, and only if you own the agent.\n"
	}
}

// reopenSession returns a session and its tasks. If this program does not know the session, the
// agent's host must have tasks of the session.
func (b *Bridge) reopenSession(ctx context.Context, id, cwd string) (*session, []task.Task, error) {
	if err := checkCwd(cwd); err != nil {
		return nil, nil, err
	}
	s, findErr := b.findSession(id)
	tasks, err := b.listTasks(ctx, id)
	switch {
	case err != nil:
		return nil, nil, err
	case findErr != nil && len(tasks) == 0:
		return nil, nil, findErr
	case findErr != nil:
		if s, err = b.openSession(id, cwd); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tasks {
		_, n := parseOrigin(&tasks[i])
		s.lastPromptNumber = max(s.lastPromptNumber, n)
	}
	if n := len(tasks); n > 0 && s.turn == nil {
		last := &tasks[n-1]
		s.waitingTask, s.lastAnswer = "", last.Status.Message
		if last.Status.State.AwaitsMessage() {
			s.waitingTask = last.ID
		}
		if b.IsGuest {
			s.contextID = last.Context
		}
		if b.OwnedAgent != nil {
			s.pendingHistory = appendHistory("", buildTranscript(tasks)...)
		}
	}
	return s, tasks, nil
}

func (b *Bridge) loadSession(ctx context.Context, q *acp.LoadSessionRequest) (r acp.LoadSessionResponse, err error) {
	s, tasks, err := b.reopenSession(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.setServers(s, q.McpServers)
	if s.turn != nil {
		return r, busyError(s.id)
	}
	transcript, firstPrompt := buildTranscript(tasks), 1
	if len(tasks) > 0 {
		_, firstPrompt = parseOrigin(&tasks[0])
	}
	if firstPrompt > 1 || len(tasks) == 0 && s.lastPromptNumber > 0 {
		transcript = slices.Insert(transcript, 0, transcriptEntry{task.Agent, "(The earlier texts of this session have expired.)\n"})
	}
	for _, e := range transcript {
		u := acp.UpdateUserMessageText(e.text)
		if e.role == task.Agent {
			u = acp.UpdateAgentMessageText(e.text)
		}
		if err := b.sendUpdate(ctx, s, u); err != nil {
			return r, err
		}
	}
	return acp.LoadSessionResponse{Modes: b.modeState(s), ConfigOptions: b.configOptions(s)}, nil
}

func (b *Bridge) resumeSession(ctx context.Context, q *acp.ResumeSessionRequest) (r acp.ResumeSessionResponse, err error) {
	s, _, err := b.reopenSession(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.setServers(s, q.McpServers)
	return acp.ResumeSessionResponse{Modes: b.modeState(s), ConfigOptions: b.configOptions(s)}, nil
}

// forkSession opens a session whose first message carries the history of another session.
func (b *Bridge) forkSession(ctx context.Context, q *acp.UnstableForkSessionRequest) (r acp.NewSessionResponse, err error) {
	s, tasks, err := b.reopenSession(ctx, string(q.SessionId), q.Cwd)
	if err != nil {
		return r, err
	}
	forked, err := b.openSession(newSessionID(q.Cwd), q.Cwd)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	forked.mode, forked.model, forked.servers, forked.pendingHistory = s.mode, s.model, s.servers, s.pendingHistory
	if len(tasks) > 0 {
		forked.pendingHistory = appendHistory("", buildTranscript(tasks)...)
	}
	return acp.NewSessionResponse{SessionId: acp.SessionId(forked.id), Modes: b.modeState(forked), ConfigOptions: b.configOptions(forked)}, nil
}

const sessionPageSize = 50

func (b *Bridge) listSessions(ctx context.Context, q *acp.ListSessionsRequest) (r acp.ListSessionsResponse, err error) {
	tasks, err := b.listTasks(ctx, "")
	if err != nil {
		return r, err
	}
	byID := map[string]*acp.SessionInfo{}
	for i := range tasks { // the oldest first
		id, _ := parseOrigin(&tasks[i])
		info := byID[id]
		if info == nil {
			info = &acp.SessionInfo{SessionId: acp.SessionId(id), Cwd: b.WorkDir}
			if s, err := b.findSession(id); err == nil {
				info.Cwd = s.cwd
			}
			if q.Cwd != nil && strings.HasPrefix(id, idPrefix(*q.Cwd)) {
				info.Cwd = *q.Cwd
			}
			transcript := buildTranscript(tasks[i : i+1])
			if n := slices.IndexFunc(transcript, func(e transcriptEntry) bool { return e.role == task.User }); n >= 0 {
				info.Title = new(truncate(strings.Join(strings.Fields(transcript[n].text), " "), 80))
			}
			byID[id] = info
		}
		info.UpdatedAt = new(tasks[i].Status.Time.UTC().Format("2006-01-02T15:04:05.000000Z")) // this format sorts by time
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
	if len(infos) > sessionPageSize {
		infos = infos[:sessionPageSize]
		r.NextCursor = new(string(infos[sessionPageSize-1].SessionId))
	}
	r.Sessions = []acp.SessionInfo{}
	for _, info := range infos {
		r.Sessions = append(r.Sessions, *info)
	}
	return r, nil
}

func truncate(s string, maxRunes int) string {
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return s
}

const (
	modelOption  = "model"
	defaultModel = "default"
)

func (b *Bridge) modeState(s *session) *acp.SessionModeState {
	if b.OwnedAgent == nil {
		return nil
	}
	r := &acp.SessionModeState{CurrentModeId: acp.SessionModeId(s.mode)}
	for _, m := range []definition.Mode{definition.ReadWrite, definition.ReadOnly} {
		r.AvailableModes = append(r.AvailableModes, acp.SessionMode{Id: acp.SessionModeId(m), Name: string(m)})
	}
	return r
}

func (b *Bridge) configOptions(s *session) []acp.SessionConfigOption {
	if b.OwnedAgent == nil {
		return nil
	}
	names := []string{defaultModel}
	if m := b.OwnedAgent.Model; m != nil {
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

func (b *Bridge) changeSetting(ctx context.Context, id acp.SessionId, setting string, apply func(*session) (acp.SessionUpdate, error)) error {
	s, err := b.findSession(string(id))
	if err != nil {
		return err
	}
	if b.OwnedAgent == nil {
		return problem.Invalid(setting, "a session with your own agent; set VACANCY_KEY to a key of the account that owns the agent, with the scopes call, agents and read", "a session with an agent that you do not own")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	update, err := apply(s)
	if err == nil {
		err = b.sendUpdate(ctx, s, update)
	}
	return err
}

func (b *Bridge) setMode(ctx context.Context, q *acp.SetSessionModeRequest) (r acp.SetSessionModeResponse, err error) {
	return r, b.changeSetting(ctx, q.SessionId, "mode", func(s *session) (acp.SessionUpdate, error) {
		if m := definition.Mode(q.ModeId); m != definition.ReadOnly && m != definition.ReadWrite {
			return acp.SessionUpdate{}, problem.Invalid("modeId", "read-only or read-write", fmt.Sprintf("%.80q", q.ModeId))
		}
		s.mode = string(q.ModeId)
		return acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: q.ModeId}}, nil
	})
}

func (b *Bridge) selectModel(ctx context.Context, id acp.SessionId, name string) (options []acp.SessionConfigOption, err error) {
	err = b.changeSetting(ctx, id, modelOption, func(s *session) (acp.SessionUpdate, error) {
		if strings.TrimSpace(name) == "" {
			return acp.SessionUpdate{}, problem.Invalid("model", "the name of a model, or "+defaultModel, "none")
		}
		if s.model = name; name == defaultModel {
			s.model = ""
		}
		options = b.configOptions(s)
		return acp.SessionUpdate{ConfigOptionUpdate: &acp.SessionConfigOptionUpdate{ConfigOptions: options}}, nil
	})
	return options, err
}

// setModelRequest is the request of session/set_model, an older ACP method.
type setModelRequest struct {
	SessionID acp.SessionId
	ModelID   string
}

func (b *Bridge) setModel(ctx context.Context, q *setModelRequest) (r struct{}, err error) {
	_, err = b.selectModel(ctx, q.SessionID, q.ModelID)
	return r, err
}

func (b *Bridge) setConfigOption(ctx context.Context, q *acp.SetSessionConfigOptionRequest) (r acp.SetSessionConfigOptionResponse, err error) {
	v := q.ValueId
	if v == nil || v.ConfigId != modelOption {
		return r, problem.Invalid("configId", modelOption+", with the name of a model", "another option")
	}
	r.ConfigOptions, err = b.selectModel(ctx, v.SessionId, string(v.Value))
	return r, err
}

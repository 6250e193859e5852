package teamcmd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcprelay"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Stdio returns the team of a client that starts this program: of the operator or of the account of c.
func Stdio(c op.Client, operator bool) *mcprelay.Team {
	m := &members{c, operator}
	server := mcptool.OfTeam(mcptool.About{Name: "vacancy", Version: kit.Version(), Team: true}, func(context.Context) mcptool.Team { return m })
	return &mcprelay.Team{HTTP: mcprelay.Local(server), Session: rand.Text(), Agents: func(ctx context.Context) (string, error) {
		all, err := m.Agents(ctx)
		b, _ := json.Marshal(all) // texts encode
		return string(b), err
	}}
}

// members implements mcptool.Team by the API of a host.
type members struct {
	c        op.Client
	operator bool
}

// Agents implements mcptool.Team.
func (m *members) Agents(ctx context.Context) ([]team.Agent, error) {
	all, err := teamapi.ListAgents.For(m.operator).Call(ctx, m.c, op.None{})
	return all.Agents, err
}

// Agent implements mcptool.Team.
func (m *members) Agent(ctx context.Context, name string) (team.Details, error) {
	return teamapi.ShowAgent.For(m.operator).Call(ctx, m.c, teamapi.OneAgent{Agent: name})
}

// Dispatch implements mcptool.Team. A task that names a file of the working directory is the file's text.
func (m *members) Dispatch(ctx context.Context, q team.Request) (team.Started, error) {
	text, err := taskText(q.Text)
	if err != nil {
		return team.Started{}, err
	}
	return teamapi.Dispatch.For(m.operator).Call(ctx, m.c, teamapi.Dispatching{Key: q.Key, Body: teamapi.NewTask{
		Agent: q.Agent, Task: text, Model: q.Model, Mode: q.Mode, MaxTurns: q.MaxTurns, Budget: q.Budget, Effort: q.Effort, OutputFormat: q.OutputFormat,
	}})
}

// taskText returns the text of the Markdown file below the working directory that a task names, or the task itself.
func taskText(text string) (string, error) {
	if !strings.HasSuffix(text, ".md") || strings.ContainsAny(text, "\n\x00") {
		return text, nil
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return text, nil
	}
	defer root.Close()
	info, err := root.Stat(text)
	if err != nil || !info.Mode().IsRegular() {
		return text, nil // also a path that leaves the directory
	}
	b, err := root.ReadFile(text)
	if err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "task: the file %.80s cannot be read", text)
	}
	return string(b), nil
}

// Status implements mcptool.Team.
func (m *members) Status(ctx context.Context, id string) (team.Status, error) {
	t, err := teamapi.ShowTask.For(m.operator).Call(ctx, m.c, teamapi.Waiting{OneTask: teamapi.OneTask{ID: id}})
	return t.Status, err
}

// Cancel implements mcptool.Team.
func (m *members) Cancel(ctx context.Context, id string) (team.Status, error) {
	return teamapi.CancelTask.For(m.operator).Call(ctx, m.c, teamapi.OneTask{ID: id})
}

// Answer implements mcptool.Team.
func (m *members) Answer(ctx context.Context, id, text, key string) (team.Status, error) {
	return teamapi.AnswerTask.For(m.operator).Call(ctx, m.c, teamapi.Answering{OneTask: teamapi.OneTask{ID: id}, Key: key, Body: teamapi.Answer{Text: text}})
}

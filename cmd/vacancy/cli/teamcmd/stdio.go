package teamcmd

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcprelay"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// NewStdioTeam returns the tools of a team as an MCP server for a client that starts this program.
func NewStdioTeam(c op.Client) *mcprelay.Team {
	m := apiTeam{c}
	server := mcptool.NewTeamServer(mcptool.ServerConfig{Name: "vacancy", Version: kit.Version(), HasTeamTools: true}, func(context.Context) mcptool.Team { return m })
	return &mcprelay.Team{Transport: mcprelay.NewLocal(server), Session: rand.Text(), Agents: m.Agents}
}

// apiTeam implements mcptool.Team with the API of a host.
type apiTeam struct{ op.Client }

func (m apiTeam) Agents(ctx context.Context) ([]team.Agent, error) {
	list, err := CallFunc(teamapi.ListAgents)(ctx, m.Client, op.None{})
	return list.Agents, err
}

func (m apiTeam) Agent(ctx context.Context, name string) (team.Details, error) {
	return CallFunc(teamapi.ShowAgent)(ctx, m.Client, teamapi.AgentRef{Agent: name})
}

func (m apiTeam) Dispatch(ctx context.Context, q team.Request) (team.Started, error) {
	text, err := readTask(q.Text)
	if err != nil {
		return team.Started{}, err
	}
	return CallFunc(teamapi.Dispatch)(ctx, m.Client, teamapi.DispatchRequest{Key: q.Key, Body: teamapi.NewTask{
		Agent: q.Agent, Task: text, Model: q.Model, Mode: q.Mode, MaxTurns: q.MaxTurns, Budget: q.Budget, Effort: q.Effort, OutputFormat: q.OutputFormat,
	}})
}

// maxFileBytes limits the bytes that are read from a file. The host rejects longer texts.
const maxFileBytes = 1 << 20

// readTask returns the content of the Markdown file in the working directory that task names. If
// there is no such file, it returns task.
func readTask(task string) (string, error) {
	name := task
	if dir, err := os.Getwd(); err == nil && filepath.IsAbs(task) {
		name = strings.TrimPrefix(filepath.Clean(task), dir+string(filepath.Separator))
	}
	if !strings.HasSuffix(name, ".md") {
		return task, nil
	}
	f, err := os.OpenInRoot(".", name)
	if err != nil {
		return task, nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return task, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "task: the file %.80s cannot be read", name)
	}
	return string(b), nil
}

func (m apiTeam) Status(ctx context.Context, id string) (team.Status, error) {
	t, err := CallFunc(teamapi.ShowTask)(ctx, m.Client, teamapi.ShowTaskRequest{TaskRef: teamapi.TaskRef{ID: id}})
	return t.Status, err
}

func (m apiTeam) Cancel(ctx context.Context, id string) (team.Status, error) {
	return CallFunc(teamapi.CancelTask)(ctx, m.Client, teamapi.TaskRef{ID: id})
}

func (m apiTeam) Answer(ctx context.Context, id, text, key string) (team.Status, error) {
	return CallFunc(teamapi.AnswerTask)(ctx, m.Client, teamapi.AnswerRequest{TaskRef: teamapi.TaskRef{ID: id}, Key: key, Body: teamapi.Answer{Text: text}})
}

func (m apiTeam) Locks(ctx context.Context) ([]locks.Lock, error) {
	list, err := CallFunc(teamapi.ListLocks)(ctx, m.Client, op.None{})
	return list.Locks, err
}

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

// Stdio returns the tools of a team as an MCP server for a client that starts this program. c is a
// client of the host's API.
func Stdio(c op.Client) *mcprelay.Team {
	m := members{c}
	server := mcptool.NewTeamServer(mcptool.About{Name: "vacancy", Version: kit.Version(), Team: true}, func(context.Context) mcptool.Team { return m })
	return &mcprelay.Team{HTTP: mcprelay.Local(server), Session: rand.Text(), Agents: m.Agents}
}

// members implements mcptool.Team with the API of a host.
type members struct{ op.Client }

func (m members) Agents(ctx context.Context) ([]team.Agent, error) {
	list, err := CallerOf(teamapi.ListAgents)(ctx, m.Client, op.None{})
	return list.Agents, err
}

func (m members) Agent(ctx context.Context, name string) (team.Details, error) {
	return CallerOf(teamapi.ShowAgent)(ctx, m.Client, teamapi.OneAgent{Agent: name})
}

func (m members) Dispatch(ctx context.Context, q team.Request) (team.Started, error) {
	text, err := taskText(q.Text)
	if err != nil {
		return team.Started{}, err
	}
	return CallerOf(teamapi.Dispatch)(ctx, m.Client, teamapi.Dispatching{Key: q.Key, Body: teamapi.NewTask{
		Agent: q.Agent, Task: text, Model: q.Model, Mode: q.Mode, MaxTurns: q.MaxTurns, Budget: q.Budget, Effort: q.Effort, OutputFormat: q.OutputFormat,
	}})
}

// maxFile limits the bytes that are read of a file. The host rejects longer texts.
const maxFile = 1 << 20

// taskText returns the content of the Markdown file in the working directory if task is the path of
// such a file. Otherwise it returns task.
func taskText(task string) (string, error) {
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
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "task: the file %.80s cannot be read", name)
	}
	return string(b), nil
}

func (m members) Status(ctx context.Context, id string) (team.Status, error) {
	t, err := CallerOf(teamapi.ShowTask)(ctx, m.Client, teamapi.Waiting{OneTask: teamapi.OneTask{ID: id}})
	return t.Status, err
}

func (m members) Cancel(ctx context.Context, id string) (team.Status, error) {
	return CallerOf(teamapi.CancelTask)(ctx, m.Client, teamapi.OneTask{ID: id})
}

func (m members) Answer(ctx context.Context, id, text, key string) (team.Status, error) {
	return CallerOf(teamapi.AnswerTask)(ctx, m.Client, teamapi.Answering{OneTask: teamapi.OneTask{ID: id}, Key: key, Body: teamapi.Answer{Text: text}})
}

func (m members) Locks(ctx context.Context) ([]locks.Lock, error) {
	list, err := CallerOf(teamapi.ListLocks)(ctx, m.Client, op.None{})
	return list.Locks, err
}

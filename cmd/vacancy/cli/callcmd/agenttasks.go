package callcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
)

// taskList is a page of the caller's tasks on an agent.
type taskList struct {
	URL   string       `json:"url"`
	Tasks []listedTask `json:"tasks"`
	Next  string       `json:"next,omitempty"`
}

type listedTask struct {
	agentResult
	Changed time.Time `json:"changed,omitzero"`
}

func (l taskList) Print(w io.Writer) {
	kit.Table(w, "no tasks", l.Tasks, func(t listedTask) []any {
		return []any{t.Task, t.State, t.Changed.Format(time.DateTime), kit.Clip(t.Text, 60)}
	})
	if l.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", kit.ShellWord(kit.Printable(l.Next)))
	}
}

func listTasks(a *kit.App, ctx context.Context, f callFlags, agent *agents.Agent, address string) error {
	page, err := agent.ListTasks(ctx, a2awire.ListRequest{Context: f.thread, Token: f.agent.cursor, Artifacts: true})
	if err != nil {
		return err
	}
	l := taskList{URL: address, Tasks: []listedTask{}, Next: page.Next}
	for i := range page.Tasks {
		l.Tasks = append(l.Tasks, listedTask{newAgentResult(address, &page.Tasks[i]), page.Tasks[i].Status.Time})
	}
	return a.Show(l)
}

type pushList struct {
	URL    string       `json:"url"`
	Task   string       `json:"task_id"`
	Pushes []pushConfig `json:"push_configs"`
}

type pushConfig struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

func (l pushList) Print(w io.Writer) {
	none := fmt.Sprintf("task %s has no push configurations", kit.Printable(l.Task))
	kit.Table(w, none, l.Pushes, func(c pushConfig) []any { return []any{c.ID, c.URL} })
}

func changePushes(a *kit.App, ctx context.Context, f agentCallFlags, agent *agents.Agent, address string) (err error) {
	if f.push != "" {
		_, err = agent.SetPush(ctx, f.task, task.PushConfig{URL: f.push})
	}
	if err == nil && f.unpush != "" {
		err = agent.DeletePush(ctx, f.task, f.unpush)
	}
	if err != nil {
		return err
	}
	configs, err := agent.ListPushes(ctx, f.task)
	if err != nil {
		return err
	}
	l := pushList{URL: address, Task: f.task, Pushes: []pushConfig{}}
	for _, c := range configs {
		l.Pushes = append(l.Pushes, pushConfig{c.ID, c.URL})
	}
	return a.Show(l)
}

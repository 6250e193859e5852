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
	ChangedAt time.Time `json:"changed,omitzero"`
}

func (l taskList) Print(w io.Writer) {
	kit.PrintTable(w, "no tasks", l.Tasks, func(t listedTask) []any {
		return []any{t.Task, t.State, t.ChangedAt.Format(time.DateTime), kit.Truncate(t.Text, 60)}
	})
	if l.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", kit.ShellWord(kit.EscapeLine(l.Next)))
	}
}

func listTasks(a *kit.App, ctx context.Context, f callFlags, agent *agents.Agent, address string) error {
	page, err := agent.ListTasks(ctx, a2awire.ListRequest{Context: f.thread, PageToken: f.agent.cursor, IncludeArtifacts: true})
	if err != nil {
		return err
	}
	l := taskList{URL: address, Tasks: []listedTask{}, Next: page.Next}
	for i := range page.Tasks {
		l.Tasks = append(l.Tasks, listedTask{newAgentResult(address, &page.Tasks[i]), page.Tasks[i].Status.Time})
	}
	return a.PrintResult(l)
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
	emptyText := fmt.Sprintf("task %s has no push configurations", kit.EscapeLine(l.Task))
	kit.PrintTable(w, emptyText, l.Pushes, func(c pushConfig) []any { return []any{c.ID, c.URL} })
}

func managePushConfigs(a *kit.App, ctx context.Context, f agentCallFlags, agent *agents.Agent, address string) (err error) {
	if f.pushURL != "" {
		_, err = agent.SetPushConfig(ctx, f.taskID, task.PushConfig{URL: f.pushURL})
	}
	if err == nil && f.deletedPushID != "" {
		err = agent.DeletePushConfig(ctx, f.taskID, f.deletedPushID)
	}
	if err != nil {
		return err
	}
	configs, err := agent.ListPushConfigs(ctx, f.taskID)
	if err != nil {
		return err
	}
	l := pushList{URL: address, Task: f.taskID, Pushes: []pushConfig{}}
	for _, c := range configs {
		l.Pushes = append(l.Pushes, pushConfig{c.ID, c.URL})
	}
	return a.PrintResult(l)
}

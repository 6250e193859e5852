package teamcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func IsTaskID(arg string) bool {
	// Names of vacants never have the form of a task id.
	return len(arg) == 32 && strings.Trim(arg, "0123456789abcdef") == ""
}

const logPollInterval = time.Second

// PrintLog prints the log of a task as JSON lines. If follow is true, it prints new events until the
// turn of the task ends.
func PrintLog(ctx context.Context, a *kit.App, where kit.HostFlags, id string, follow bool) error {
	return WithClient(ctx, a, where, func(c op.Client) error {
		in := teamapi.LogRequest{TaskRef: teamapi.TaskRef{ID: id}}
		for isOver := !follow; ; {
			log, err := CallFunc(teamapi.ReadLog)(ctx, c, in)
			if err == nil {
				_, err = io.WriteString(a.Out, kit.EscapeControls(string(log.Data), "\n"))
			}
			for line := range bytes.Lines(log.Data) {
				var e task.LogEvent
				if err := json.Unmarshal(line, &e); err != nil {
					return problem.Wrap(problem.Untrusted, err, "the host's answer is not a log")
				}
				in.After = max(in.After, uint64(max(e.N, 0)))
			}
			if err != nil || isOver || cloud.Sleep(ctx, logPollInterval) != nil {
				return err // also nil if the user interrupts the command
			}
			t, err := CallFunc(teamapi.ShowTask)(ctx, c, teamapi.ShowTaskRequest{TaskRef: in.TaskRef})
			if err != nil {
				return err
			}
			isOver = t.IsTurnOver()
		}
	})
}

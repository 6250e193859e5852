package teamcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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

// IsTask reports whether an argument has the form of the id of a task, which no name of a vacant has.
func IsTask(arg string) bool { return len(arg) == 32 && strings.Trim(arg, "0123456789abcdef") == "" }

// streamer is a client that returns answers as they are.
type streamer interface {
	Stream(ctx context.Context, path string) (io.ReadCloser, error)
}

// logPause is the time between two requests for new events.
const logPause = time.Second

// Logs prints the log of a task as lines of JSON. If follow is set, it prints new events until the task has ended.
func Logs(ctx context.Context, a *kit.App, w kit.Where, id string, follow bool) error {
	return With(ctx, a, w, func(c op.Client) error {
		_, operates := c.(*kit.AdminAPI)
		s, ok := c.(streamer)
		if !ok {
			return problem.New(problem.Internal, "the client of the host cannot read a log")
		}
		in := teamapi.Reading{OneTask: teamapi.OneTask{ID: id}}
		for isOver := !follow; ; {
			path, err := teamapi.ReadLog.For(operates).At(in)
			if err != nil {
				return err
			}
			n, err := printLog(ctx, a.Out, s, path)
			if err != nil || isOver {
				return err
			}
			if in.After = max(in.After, n); cloud.Wait(ctx, logPause) != nil {
				return nil // the person has ended it
			}
			t, err := callerOf(teamapi.ShowTask)(ctx, c, teamapi.Waiting{OneTask: in.OneTask})
			if err != nil {
				return err
			}
			isOver = t.IsOver()
		}
	})
}

// printLog prints the events at a path, and returns the number of the last one.
func printLog(ctx context.Context, w io.Writer, s streamer, path string) (last uint64, err error) {
	body, err := s.Stream(ctx, path)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e task.LogEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return last, problem.Wrap(problem.Untrusted, err, "the host's answer is not a log")
		}
		last = uint64(max(e.N, 0))
		if _, err := fmt.Fprintln(w, kit.EscapeControls(lines.Text(), "")); err != nil {
			return last, err
		}
	}
	if err := lines.Err(); err != nil {
		return last, problem.Wrap(problem.Unavailable, err, "the host's answer was cut off")
	}
	return last, nil
}

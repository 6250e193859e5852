package hostcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/teamcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type logsFlags struct {
	where                           kit.HostFlags
	follow, onlyFailed, onlyRefused bool
	since                           time.Duration
}

func logsCommand(a *kit.App) *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs [VACANT|TASK]",
		Short: "Show the log of a local host or of a task: calls, and why they failed or were refused",
		Long: `With TASK, the id of a task on any host, show the log of the task as lines of JSON: its tools, the files
that it read and wrote, and the files that it was not allowed to write. The task belongs to the account
of the key in $VACANCY_KEY, or to the operator.

Without TASK, show the log of the host in a data directory. Each call has a line with caller, vacant,
number, verdict and milliseconds. The line of a failed call also has the answer of the vacant's agent.
The line is written when the call ends. Requests that ask for the state of a call, or send the call
again, have no line.

The same message may be sent again if it was refused, or if the host failed before it accepted the
message. Each attempt has its own line and is counted. An accepted message is decided once; to try
again, send a new message.

VACANT limits the log to the calls of one vacant. --failed shows only failures of agents and of the
host. --refused shows only calls that were refused by the fault of their callers, or that their
callers canceled. "vacancy status" counts the same calls. "vacancy list" and "vacancy usage" count only
calls that the host could store. --follow continues with new lines. The log is kept as long as texts,
until the end of the next UTC day. "vacancy tail --host aws" follows a host on AWS.`,
		Example: `  vacancy logs
  vacancy logs clerk --failed
  vacancy logs --refused --since 1h
  vacancy logs -f
  vacancy logs 0123456789abcdef0123456789abcdef -f`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target := kit.OptionalArgument(args)
			if teamcmd.IsTaskID(target) {
				return teamcmd.PrintLog(cmd.Context(), a, f.where, target, f.follow)
			}
			if f.where.Host != "" && f.where.Host != kit.HostLocal {
				return problem.New(problem.Usage, "--host: not supported without the id of a task; \"vacancy tail --host aws\" shows the log of a stage")
			}
			return printLogs(a, cmd.Context(), f, target)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until Ctrl-C")
	fs.BoolVar(&f.onlyFailed, "failed", false, "only failures of agents and of the host")
	fs.BoolVar(&f.onlyRefused, "refused", false, "only calls that were refused, or that their callers canceled")
	fs.DurationVar(&f.since, "since", 48*time.Hour, "how far back to start")
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

// FollowInterval is the pause between two reads of the journal.
const FollowInterval = 40 * time.Millisecond

func printLogs(a *kit.App, ctx context.Context, f logsFlags, vacant string) error {
	if f.since < 0 {
		return problem.New(problem.Usage, "--since: expected a duration of 0 or more, got %s", f.since)
	}
	dir, err := a.DataDir(f.where.Data)
	if err != nil {
		return err
	}
	shortID := ""
	if vacant != "" {
		err := a.WithAdmin(kit.HostFlags{Host: kit.HostLocal, Data: f.where.Data}, false, func(c *kit.AdminAPI) error {
			v, err := c.ShowVacant(ctx, vacant)
			shortID = v.ID.Short()
			return err
		})
		if err != nil {
			return err
		}
	}
	startTime := a.Now().Add(-f.since)
	journal, err := standalone.OpenJournalReader(dir, startTime)
	if problem.Is(err, problem.NotFound) {
		return a.NoHostError(f.where.Data)
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	for {
		err := journal.ReadNewLines(ctx, func(line []byte) error {
			e, ok := kit.ParseEvent(line)
			if !ok || e.Time.Before(startTime) || shortID != "" && !e.HasParty(shortID) {
				return nil
			}
			if !f.onlyFailed && !f.onlyRefused || f.onlyFailed && e.IsFailed() || f.onlyRefused && e.IsRefused() {
				return PrintEvent(a, &e)
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || !f.follow {
			return err
		}
		if cloud.Sleep(ctx, FollowInterval) != nil {
			return nil
		}
	}
}

func PrintEvent(a *kit.App, e *kit.LogEvent) error {
	if a.JSON {
		return kit.WriteJSON(a.Out, e.Fields)
	}
	_, err := fmt.Fprintln(a.Out, e.FormatLine(a.Terminal(a.Out)))
	return err
}

// JournalTail is a cloud.LogTail of a local host's journal.
type JournalTail struct {
	*standalone.JournalReader
	StartTime time.Time
}

func (t *JournalTail) Next(ctx context.Context, show func(cloud.LogLine) error) error {
	return t.JournalReader.ReadNewLines(ctx, func(line []byte) error {
		e, ok := kit.ParseEvent(line)
		if !ok || e.Time.Before(t.StartTime) {
			return nil
		}
		return show(cloud.LogLine{Time: e.Time, Group: "host", Text: string(line)})
	})
}

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// logsFlags select lines of a local host's log.
type logsFlags struct {
	data           string
	follow, failed bool
	since          time.Duration
}

func (a *app) logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs [VACANT]",
		Short: "Show the log of a local host: its calls, and why they failed",
		Long: `Show what the host of a data directory has logged: a line per call with caller, vacant,
number, verdict and milliseconds, and what a vacant's agent answered when it failed.
With VACANT only the calls of that vacant, with --failed only what went wrong, with
--follow also what comes. The log is kept as long as texts are: to the end of the next
day, UTC. "vacancy tail" follows a host on AWS.`,
		Example: `  vacancy logs
  vacancy logs clerk --failed
  vacancy logs -f`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			only := ""
			if len(args) > 0 {
				only = args[0]
			}
			return a.logs(cmd.Context(), f, only)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until Ctrl-C")
	fs.BoolVar(&f.failed, "failed", false, "only what went wrong")
	fs.DurationVar(&f.since, "since", 48*time.Hour, "how far back to start")
	dataFlag(fs, &f.data)
	return cmd
}

// followPause is the pause between two looks at the journal.
const followPause = 40 * time.Millisecond

func (a *app) logs(ctx context.Context, f logsFlags, only string) error {
	if f.since < 0 {
		return problem.New(problem.Usage, "--since: expected a duration of 0 or more, got %s", f.since)
	}
	dir, err := a.dataDir(f.data)
	if err != nil {
		return err
	}
	short := ""
	if only != "" {
		err := a.withAdmin(where{host: hostLocal, data: f.data}, false, func(c *adminAPI) error {
			v, err := c.Show(ctx, only)
			short = v.ID.Short()
			return err
		})
		if err != nil {
			return err
		}
	}
	from := a.now().Add(-f.since)
	journal, err := standalone.ReadJournal(dir, from)
	if problem.Is(err, problem.NotFound) {
		return withHint(err, "vacancy dev")
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	for {
		err := journal.Next(ctx, func(line []byte) error {
			e, ok := readEvent(line)
			if !ok || e.at.Before(from) || f.failed && !e.failed() || short != "" && !e.of(short) {
				return nil
			}
			return a.showEvent(&e)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || !f.follow {
			return err
		}
		if cloud.Wait(ctx, followPause) != nil {
			return nil
		}
	}
}

func (a *app) showEvent(e *logEvent) error {
	if a.json {
		return writeJSON(a.out, e.fields)
	}
	_, err := fmt.Fprintln(a.out, e.line(false))
	return err
}

// journalTail is the journal of a data directory as the log of a stage: one group,
// the host.
type journalTail struct {
	*standalone.JournalReader
	from time.Time
}

// Next implements cloud.Tail.
func (t *journalTail) Next(ctx context.Context, show func(cloud.Line) error) error {
	return t.JournalReader.Next(ctx, func(line []byte) error {
		e, ok := readEvent(line)
		if !ok || e.at.Before(t.from) {
			return nil
		}
		return show(cloud.Line{At: e.at, Group: journalGroup, Text: string(line)})
	})
}

// journalGroup stands for the name of a log group.
const journalGroup = "host"

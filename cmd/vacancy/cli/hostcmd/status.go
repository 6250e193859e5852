// Package hostcmd contains the commands for operating a host: status, logs, backup and restore,
// verify, the registry's log, and the search index.
package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

var Group = kit.Group{
	Topic: "host",
	Title: "A running host:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			openCommand(a), statusCommand(a), dataCommand(a), logsCommand(a), doctorCommand(a), backupCommand(a), restoreCommand(a), verifyCommand(a), restoredCommand(a),
			reindexCommand(a), logCommand(a),
		}
	},
}

func statusCommand(a *kit.App) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a local host",
		Long: `Show the host that runs in a data directory: its URL and start time, the number of its calls, and how
many calls failed or were refused ("vacancy logs" lists them). The output also has the size of its data,
the free disk space, the last restore from a backup, and the time when the oldest texts become
unreadable.`,
		Example: "  vacancy status\n  vacancy status --data /var/lib/vacancy --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := fetchStatus(a, cmd.Context(), data)
			if errors.Is(err, serve.ErrNoHost) {
				return a.NoHostError(data)
			}
			if err != nil {
				return err
			}
			return a.PrintResult(statusResult{s, a.Now(), a.FormatCommand("call")})
		},
	}
	kit.AddDataFlag(cmd.Flags(), &data)
	return cmd
}

// fetchStatus returns the status of a local host, or serve.ErrNoHost if no host is running.
func fetchStatus(a *kit.App, ctx context.Context, data string) (admin.Status, error) {
	c, err := a.DialAdmin(kit.HostFlags{Host: kit.HostLocal, Data: data})
	if err != nil {
		return admin.Status{}, err
	}
	return admin.GetStatus.Call(ctx, c, op.None{})
}

type statusResult struct {
	admin.Status
	now         time.Time
	callCommand string
}

func (r statusResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s, in %s\n", kit.EscapeLine(r.URL), kit.EscapeLine(r.DataDir))
	kit.PrintFields(w, "since", fmt.Sprintf("%s (%s), %s", r.StartedAt.Format(time.DateTime), r.now.Sub(r.StartedAt).Truncate(time.Second), r.Version), "vacants", r.Vacants,
		"calls", fmt.Sprintf("%d since the host was started, of which %d failed%s; %d more were refused", r.Calls, r.Failed, kit.FormatIf(r.Canceled > 0, " and %d were canceled", r.Canceled), r.Refused),
		"keeps", fmt.Sprintf("%s of data, %s of search index, %s of log", formatSize(r.DataBytes), formatSize(r.SearchBytes), formatSize(r.JournalBytes)))
	switch {
	case r.IsLowOnSpace():
		kit.PrintFields(w, "disk", fmt.Sprintf("%s free: below %s the host refuses write requests from others (429); make room", formatSize(r.FreeBytes), formatSize(r.MinFreeBytes)))
	case r.FreeBytes >= 0: // negative if unknown
		kit.PrintFields(w, "disk", formatSize(r.FreeBytes)+" free")
	}
	if !r.RestoredAt.IsZero() {
		kit.PrintFields(w, "restored", kit.FormatTime(r.RestoredAt)+", from a backup; calls between the backup and that time are lost",
			"", kit.FormatIf(r.RefusedUntil.After(r.now), "only messages signed after %s are accepted; %s signs with a later time by itself", kit.FormatTime(r.RefusedUntil), r.callCommand))
	}
	kit.PrintFields(w, "texts", kit.FormatIf(!r.OldestTextExpiry.IsZero(), "the oldest become unreadable at %s", r.OldestTextExpiry.Format(time.DateTime)))
}

func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

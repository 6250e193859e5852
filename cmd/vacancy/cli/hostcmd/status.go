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
		Long: `Show the host that runs in a data directory: its URL and start, its calls, how many of
them failed and how many others were refused ("vacancy logs" lists both), the size of its
data, the free space of its disk, the last restore from a backup, and when the oldest texts
become unreadable.`,
		Example: "  vacancy status\n  vacancy status --data /var/lib/vacancy --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := runningStatus(a, cmd.Context(), data)
			if errors.Is(err, serve.ErrNoHost) {
				return a.NoHost(data)
			}
			if err != nil {
				return err
			}
			return a.Show(statusResult{s, a.Now(), a.Command("call")})
		},
	}
	kit.DataFlag(cmd.Flags(), &data)
	return cmd
}

// runningStatus returns the status of the host that runs on a data directory. If no host is
// running, the error is serve.ErrNoHost.
func runningStatus(a *kit.App, ctx context.Context, data string) (admin.Status, error) {
	c, err := a.RunningAdmin(kit.Where{Host: kit.HostLocal, Data: data})
	if err != nil {
		return admin.Status{}, err
	}
	return admin.GetStatus.Call(ctx, c, op.None{})
}

// statusResult is the state of a host when the command ran.
type statusResult struct {
	admin.Status
	at   time.Time
	call string // example command for a caller
}

func (r statusResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s, in %s\n", kit.Printable(r.URL), kit.Printable(r.Data))
	kit.Members(w, "since", fmt.Sprintf("%s (%s), %s", r.Started.Format(time.DateTime), r.at.Sub(r.Started).Truncate(time.Second), r.Version), "vacants", r.Vacants,
		"calls", fmt.Sprintf("%d since the host was started, of which %d failed%s; %d more were refused", r.Calls, r.Failed, kit.FormatIf(r.Canceled > 0, " and %d were canceled", r.Canceled), r.Refused),
		"keeps", fmt.Sprintf("%s of data, %s of search index, %s of log", size(r.DataBytes), size(r.SearchBytes), size(r.JournalBytes)))
	switch {
	case r.HasLittleRoom():
		kit.Members(w, "disk", fmt.Sprintf("%s free: below %s the host refuses write requests from others (429); make room", size(r.FreeBytes), size(r.MinFreeBytes)))
	case r.FreeBytes >= 0: // otherwise unknown on this system
		kit.Members(w, "disk", size(r.FreeBytes)+" free")
	}
	if !r.Restored.IsZero() {
		kit.Members(w, "restored", kit.Moment(r.Restored)+", from a backup; calls between the backup and that time are lost",
			"", kit.FormatIf(r.RefusedUntil.After(r.at), "only messages signed after %s are accepted; %s signs with a later time by itself", kit.Moment(r.RefusedUntil), r.call))
	}
	kit.Members(w, "texts", kit.FormatIf(!r.TextsEnd.IsZero(), "the oldest become unreadable at %s", r.TextsEnd.Format(time.DateTime)))
}

func size(n int64) string {
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

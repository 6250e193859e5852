package hostcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func restoredCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	cmd := &cobra.Command{
		Use:   "restored",
		Short: "Mark a host as restored from a backup",
		Long: `Mark a data directory as restored from a backup. Run the command before a host serves the data again.

The backup lacks the calls that were accepted after it was made. Anybody who has their signed bytes
could run them a second time. After this command, every open vacant of the directory accepts only
messages signed later than five minutes after the command. It refuses other messages with 409, code
floor. The five minutes are necessary because callers' clocks may be that far ahead.

"vacancy call" signs with a later time by itself; other callers must wait. Callers whose calls since the
backup are lost reset their chain: vacancy call TARGET --reset.

A remote host is marked while it runs. Run the command before callers can reach the restored tables.`,
		Example: "  vacancy restored\n  vacancy restored --data /srv/vacancy\n  vacancy restored --host aws",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			remote, err := a.FindRemoteHost(where)
			if err != nil {
				return err
			}
			if remote != nil {
				return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
					summary, err := c.ReportRestore(cmd.Context())
					if err != nil {
						return err
					}
					return a.PrintResult(newRestoredResult(a, remote, summary))
				})
			}
			dir, err := a.DataDir(where.Data)
			if err != nil {
				return err
			}
			switch _, _, err := serve.DialAdmin(dir); {
			case err == nil:
				return problem.New(problem.Conflict, "a host is running in %s; stop it first, because it may be accepting calls a second time", dir)
			case !errors.Is(err, serve.ErrNoHost):
				return err
			case !standalone.FileExists(filepath.Join(dir, standalone.DataFile)):
				return kit.WithHint(a.NoHostError(where.Data), "vacancy restore FILE, from a backup")
			}
			host, err := a.OpenHost(dir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, host.Close()) }()
			floors, err := host.Vacants.RaiseFloors(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintResult(restoredResult{Data: dir, Vacants: floors.Vacants, RefusedUntil: floors.LatestFloor, callCommand: a.FormatCommand("call")})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

func newRestoredResult(a *kit.App, host *kit.RemoteHost, summary admin.Restored) restoredResult {
	if host.AWS {
		return restoredResult{Host: kit.HostAWS, Stage: host.Stage, Vacants: summary.VacantCount, RefusedUntil: summary.LatestFloor, callCommand: a.FormatCommand("call")}
	}
	return restoredResult{Host: host.Record.URL, Vacants: summary.VacantCount, RefusedUntil: summary.LatestFloor, callCommand: a.FormatCommand("call")}
}

type restoredResult struct {
	Data    string `json:"data,omitempty"`
	Host    string `json:"host,omitempty"`
	Stage   string `json:"stage,omitempty"`
	Vacants int    `json:"vacants"`
	// Messages that were signed up to RefusedUntil are refused.
	RefusedUntil time.Time `json:"refused_until,omitzero"`

	callCommand string
}

func (r restoredResult) Print(w io.Writer) {
	location := cmp.Or(r.Data, r.Host)
	if r.Stage != "" {
		location = "stage " + r.Stage + " on AWS"
	}
	switch r.Vacants {
	case 0:
		fmt.Fprintf(w, "no open vacants in %s\n", location)
		return
	case 1:
		fmt.Fprintf(w, "1 open vacant in %s accepts", location)
	default:
		fmt.Fprintf(w, "%d open vacants in %s accept", r.Vacants, location)
	}
	fmt.Fprintf(w, " only messages signed after %s\n", kit.FormatTime(r.RefusedUntil))
	fmt.Fprintf(w, "  Calls by %s succeed now, because it signs them with a later time. Callers whose calls since the backup are lost start a new chain: %s TARGET --reset\n", r.callCommand, r.callCommand)
}

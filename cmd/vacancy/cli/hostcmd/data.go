package hostcmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

func dataCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "data",
		Short: "Show the format of a host's data",
		Long: `The commands "vacancy dev", "vacancy serve" and "vacancy restore" upgrade data of an earlier version
of vacancy. dev and serve first copy the data file. The name of the copy contains the old format.`,
		Example: "  vacancy data show",
	}, dataShowCommand(a))
}

func dataShowCommand(a *kit.App) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show format, size and last upgrade of a host's data",
		Long: `Show the format of the data file, the version of the documents in it, its size and the last
upgrade, and whether the next start of a host upgrades or refuses the data. Nothing is changed.`,
		Example: "  vacancy data show\n  vacancy data show --data /srv/vacancy --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.DataDir(data)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, standalone.DataFile)
			switch status, err := fetchStatus(a, cmd.Context(), data); {
			case err == nil:
				return a.PrintResult(dataResult{Path: path, Stored: status.Stored, Bytes: status.DataBytes})
			case !errors.Is(err, serve.ErrNoHost):
				return err
			}
			if !standalone.FileExists(path) {
				return a.NoHostError(data)
			}
			info, err := standalone.InspectData(dir)
			if err != nil {
				return err
			}
			return a.PrintResult(dataResult{path, info.StoredData(), info.Size, info.UpgradeMessage()})
		},
	}
	kit.AddDataFlag(cmd.Flags(), &data)
	return cmd
}

type dataResult struct {
	Path string `json:"path"`
	admin.Stored
	Bytes int64 `json:"bytes"`
	// NextStart says whether the next start upgrades or refuses the data, or is "".
	NextStart string `json:"next,omitempty"`
}

func (r dataResult) Print(w io.Writer) {
	fmt.Fprintln(w, kit.EscapeLine(r.Path))
	format := strconv.Itoa(r.Format)
	if r.Format < 0 {
		format = "none, the file is empty"
	}
	documents := kit.FormatIf(!r.UpgradedAt.IsZero(), "version %d, since %s", r.Documents, r.UpgradedAt.Format(time.DateTime))
	if documents != "" {
		documents += kit.FormatIf(r.UpgradedBy != "", ", by %s", r.UpgradedBy) + kit.FormatIf(r.FromDocuments > 0, ", upgraded from version %d", r.FromDocuments)
	}
	kit.PrintFields(w, "format", format, "documents", documents, "size", formatSize(r.Bytes), "next", r.NextStart)
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

func versionCommand(a *kit.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  vacancy version\n  vacancy version --json",
		RunE:    func(*cobra.Command, []string) error { return a.Show(kit.Build()) },
	}
}

package moneycmd

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/awscmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

func keysCommand(a *kit.App) *cobra.Command {
	return a.Parent(&cobra.Command{
		Use:   "keys",
		Short: "Manage keys of accounts, and the operator key of a deployed host",
		Long: `A key of an account pays for calls of A2A, and manages the account ("vacancy account").

The operator key opens the admin API of a deployed host and the export that "vacancy
verify" reads. "vacancy deploy" creates it, shows it once and writes it to
$VACANCY_HOME/stages/STAGE.json, readable by you only. The host keeps only its hash.`,
		Example: "  vacancy keys create acme\n  vacancy keys rotate-operator --stage prod",
	}, makeKeyCommand(a), listKeysCommand(a), revokeKeyCommand(a), awscmd.RotateOperatorCommand(a))
}

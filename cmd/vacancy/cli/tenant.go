package cli

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// tenantFlags are the flags of a command on the settings of a host or of a tenant.
type tenantFlags struct {
	where  where
	tenant string
}

func (f *tenantFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", usage)
	hostFlags(cmd.Flags(), &f.where)
}

// check refuses an empty --tenant: a script with an empty variable would change the
// settings of the host.
func (f *tenantFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("tenant") && f.tenant == "" {
		return problem.New(problem.Usage, "--tenant: expected a tenant, got none; without the flag the command is about the host")
	}
	return nil
}

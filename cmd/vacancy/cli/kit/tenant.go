package kit

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// TenantFlags are the flags of a command on the settings of a host or of a tenant.
type TenantFlags struct {
	Where  Where
	Tenant string
}

// Add adds --tenant, with its usage, and the flags that choose a host.
func (f *TenantFlags) Add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.Tenant, "tenant", "", usage)
	HostFlags(cmd.Flags(), &f.Where)
}

// Check refuses an empty --tenant: a script with an empty variable would change the
// settings of the host.
func (f *TenantFlags) Check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("tenant") && f.Tenant == "" {
		return problem.New(problem.Usage, "--tenant: expected a tenant, got none; without the flag the command is about the host")
	}
	return nil
}

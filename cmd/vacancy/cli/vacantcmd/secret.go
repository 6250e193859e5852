package vacantcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const secretTenant = "the tenant whose vacants use the secrets (default: vacants without a tenant)"

func SecretCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Manage the secrets of agents",
		Long: `Manage the secrets of agents, such as the API keys of model providers. The host seals a
secret, sends it only to the hosts that it is bound to, and never shows it again. An agent
uses a secret by its name (secret: NAME in its file). Models of anthropic, gemini, mistral
and openai use the secret with their provider's name by default.`,
		Example: `  vacancy secret set anthropic < key.txt
  vacancy secret list`,
		Args: kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(secretSetCommand(a), secretListCommand(a), secretDeleteCommand(a))
	return cmd
}

func secretSetCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	var hosts []string
	cmd := &cobra.Command{
		Use:   "set NAME < FILE",
		Short: "Create or replace a secret",
		Long: `Create or replace a secret. The value is read from standard input: one line of at most
2 KiB. Calls use the old value for at most ten more seconds.

--for binds the secret to a host, such as api.example.com or 127.0.0.1:8080. Without --for
the hosts of an existing secret are unchanged, and a new secret that has the name of a
provider is bound to the provider's server.`,
		Example: `  vacancy secret set anthropic < key.txt
  vacancy secret set weather --for agents.example.com < key.txt
  vacancy secret set openai --tenant acme < key.txt`,
		Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := SetSecret(a, cmd, &f, admin.AgentSecrets, args[0], hosts)
			if problem.Of(err) != nil && problem.Of(err).Field == "hosts" {
				return kit.WithHint(err, "vacancy secret set %s --for HOST", args[0])
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "for", nil, "a `HOST` that the secret may be sent to; may be repeated")
	f.Add(cmd, secretTenant)
	return cmd
}

// SetSecret sets a secret of a kind.
func SetSecret(a *kit.App, cmd *cobra.Command, f *kit.TenantFlags, kind admin.SecretOps, name string, hosts []string) error {
	if err := f.Check(cmd); err != nil {
		return err
	}
	value, err := secretValue(a, cmd.CommandPath()+" "+name)
	if err != nil {
		return err
	}
	return a.WithAdmin(f.Where, false, func(c *kit.AdminAPI) error {
		info, err := kind.Set.Call(cmd.Context(), c, admin.NewSecret{OneSecret: secretOf(f, name), Body: admin.SecretSetting{Value: value, Hosts: hosts}})
		if err != nil {
			return err
		}
		return a.Show(secretResult{f.Tenant, info})
	})
}

// secretOf names a secret of the tenant.
func secretOf(f *kit.TenantFlags, name string) admin.OneSecret {
	return admin.OneSecret{OfTenant: admin.OfTenant{Tenant: f.Tenant}, Name: name}
}

// secretValue reads a value from standard input. A terminal is refused: the value would
// remain visible.
func secretValue(a *kit.App, command string) (string, error) {
	if !a.Piped {
		return "", kit.WithHint(problem.New(problem.Usage, "expected the value of the secret on standard input, not from a terminal"), "%s < FILE", command)
	}
	b, err := io.ReadAll(io.LimitReader(a.In, secrets.MaxValue+3))
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "standard input cannot be read")
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" || len(value) > secrets.MaxValue {
		return "", &problem.Error{Kind: problem.Usage, Field: "standard input", Want: fmt.Sprintf("1 to %d bytes", secrets.MaxValue), Got: map[bool]string{true: "none", false: "more"}[value == ""]}
	}
	return value, nil
}

func secretListCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List secrets, without their values",
		Example: "  vacancy secret list\n  vacancy secret list --tenant acme --json",
		Args:    kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ListSecrets(a, cmd, &f, admin.AgentSecrets)
		},
	}
	f.Add(cmd, secretTenant)
	return cmd
}

// ListSecrets lists the secrets of a kind.
func ListSecrets(a *kit.App, cmd *cobra.Command, f *kit.TenantFlags, kind admin.SecretOps) error {
	if err := f.Check(cmd); err != nil {
		return err
	}
	return a.WithAdmin(f.Where, false, func(c *kit.AdminAPI) error {
		all, err := kind.List.Call(cmd.Context(), c, admin.OfTenant{Tenant: f.Tenant})
		if err != nil {
			return err
		}
		return a.Show(secretsResult(all))
	})
}

func secretDeleteCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a secret",
		Long: `Delete a secret. Calls use it for at most ten more seconds; afterwards the calls of its
agents fail.`,
		Example: "  vacancy secret delete anthropic",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return DeleteSecret(a, cmd, &f, admin.AgentSecrets, args[0])
		},
	}
	f.Add(cmd, secretTenant)
	return cmd
}

// DeleteSecret deletes a secret of a kind.
func DeleteSecret(a *kit.App, cmd *cobra.Command, f *kit.TenantFlags, kind admin.SecretOps, name string) error {
	if err := f.Check(cmd); err != nil {
		return err
	}
	return a.WithAdmin(f.Where, false, func(c *kit.AdminAPI) error {
		if _, err := kind.Delete.Call(cmd.Context(), c, secretOf(f, name)); err != nil {
			return err
		}
		return a.Show(secretDeleted{name, f.Tenant, true})
	})
}

// secretResult is the result of secret set.
type secretResult struct {
	Tenant string `json:"tenant,omitempty"`
	secrets.Info
}

func (r secretResult) Print(w io.Writer) {
	fmt.Fprintf(w, "secret %s%s, version %d, is bound to %s\n", kit.Printable(r.Name), ofTenant(r.Tenant), r.Version, kit.Printable(strings.Join(r.Hosts, ", ")))
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " of tenant " + kit.Printable(tenant)
}

type secretsResult admin.Secrets

func (r secretsResult) Print(w io.Writer) {
	if len(r.Secrets) == 0 {
		fmt.Fprintln(w, "no secrets"+ofTenant(r.Tenant))
		return
	}
	for _, s := range r.Secrets {
		fmt.Fprintf(w, "%-16s  version %d of %s, bound to %s\n", kit.Printable(s.Name), s.Version, s.Time.Format(time.RFC3339), kit.Printable(strings.Join(s.Hosts, ", ")))
	}
}

// secretDeleted is the result of secret delete.
type secretDeleted struct {
	Name    string `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Deleted bool   `json:"deleted"`
}

func (r secretDeleted) Print(w io.Writer) {
	fmt.Fprintf(w, "secret %s%s is deleted\n", kit.Printable(r.Name), ofTenant(r.Tenant))
}

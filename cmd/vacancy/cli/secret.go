package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep the secrets that agents' servers ask for",
		Long: `Keep what agents are known by at their servers, such as the API keys of providers of
models. A secret is sealed at the host, sent only to the hosts that it is bound to, and
never shown again. An agent has it by its name (secret: NAME in its file); models of
anthropic, gemini, mistral and openai take that of their provider's name by themselves.`,
		Example: `  vacancy secret set anthropic < key.txt
  vacancy secret list`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.secretSetCommand(), a.secretListCommand(), a.secretDeleteCommand())
	return cmd
}

// tenantFlags are those of a command on what a tenant has.
type tenantFlags struct {
	where  where
	tenant string
}

// ofTenants says what --tenant does to the commands on secrets.
const ofTenants = "the secrets of a tenant's vacants, instead of those without a tenant"

func (f *tenantFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", usage)
	hostFlags(cmd.Flags(), &f.where)
}

// check refuses an empty --tenant: a script with an empty variable would mean another
// owner.
func (f *tenantFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("tenant") && f.tenant == "" {
		return problem.New(problem.Usage, "--tenant: expected a tenant, got none; leave it out for vacants without a tenant")
	}
	return nil
}

func (a *app) secretSetCommand() *cobra.Command {
	var f tenantFlags
	var hosts []string
	cmd := &cobra.Command{
		Use:   "set NAME < FILE",
		Short: "Keep a secret, or replace it",
		Long: `Keep a secret, or its next version. Its value is read from standard input: at most 2 KiB
on one line. The old value is used for at most ten seconds more.

--for binds it to a host, as api.example.com or 127.0.0.1:8080. A secret that is replaced
keeps its hosts; one of a provider's name is bound to that provider's server.`,
		Example: `  vacancy secret set anthropic < key.txt
  vacancy secret set weather --for agents.example.com < key.txt
  vacancy secret set openai --tenant acme < key.txt`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			value, err := a.secretValue("vacancy secret set " + args[0])
			if err != nil {
				return err
			}
			return a.withAdmin(f.where, false, func(c *adminAPI) error {
				info, err := c.SetSecret(cmd.Context(), f.tenant, args[0], admin.SecretSetting{Value: value, Hosts: hosts})
				if problem.Of(err) != nil && problem.Of(err).Field == "hosts" {
					return withHint(err, "vacancy secret set %s --for HOST", args[0])
				}
				if err != nil {
					return err
				}
				return a.show(secretResult{f.tenant, info})
			})
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "for", nil, "a `HOST` that it may be sent to; may be repeated")
	f.add(cmd, ofTenants)
	return cmd
}

// secretValue is the value on standard input. Nobody types one: it would stay in the
// terminal's window.
func (a *app) secretValue(command string) (string, error) {
	if !a.piped {
		return "", withHint(problem.New(problem.Usage, "the value of a secret is read from standard input, not typed"), "%s < FILE", command)
	}
	b, err := io.ReadAll(io.LimitReader(a.in, secrets.MaxValue+3))
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "standard input cannot be read")
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" || len(value) > secrets.MaxValue {
		return "", &problem.Error{Kind: problem.Usage, Field: "standard input", Want: fmt.Sprintf("1 to %d bytes", secrets.MaxValue), Got: map[bool]string{true: "none", false: "more"}[value == ""]}
	}
	return value, nil
}

func (a *app) secretListCommand() *cobra.Command {
	var f tenantFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List secrets, without their values",
		Example: "  vacancy secret list\n  vacancy secret list --tenant acme --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.withAdmin(f.where, false, func(c *adminAPI) error {
				all, err := c.Secrets(cmd.Context(), f.tenant)
				if err != nil {
					return err
				}
				return a.show(secretsResult(all))
			})
		},
	}
	f.add(cmd, ofTenants)
	return cmd
}

func (a *app) secretDeleteCommand() *cobra.Command {
	var f tenantFlags
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a secret",
		Long: `Delete a secret. It is used for at most ten seconds more; then the calls of agents that
name it fail until there is another.`,
		Example: "  vacancy secret delete anthropic",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.withAdmin(f.where, false, func(c *adminAPI) error {
				if err := c.DeleteSecret(cmd.Context(), f.tenant, args[0]); err != nil {
					return err
				}
				return a.show(secretDeleted{args[0], f.tenant, true})
			})
		},
	}
	f.add(cmd, ofTenants)
	return cmd
}

// secretResult is a secret that was set.
type secretResult struct {
	Tenant string `json:"tenant,omitempty"`
	secrets.Info
}

func (r secretResult) text(w io.Writer) {
	fmt.Fprintf(w, "secret %s%s, version %d, is kept for %s\n", printable(r.Name), ofTenant(r.Tenant), r.Version, printable(strings.Join(r.Hosts, ", ")))
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " of tenant " + printable(tenant)
}

type secretsResult admin.Secrets

func (r secretsResult) text(w io.Writer) {
	if len(r.Secrets) == 0 {
		fmt.Fprintln(w, "no secrets"+ofTenant(r.Tenant))
		return
	}
	for _, s := range r.Secrets {
		fmt.Fprintf(w, "%-16s  version %d of %s, for %s\n", printable(s.Name), s.Version, s.Time.Format(time.RFC3339), printable(strings.Join(s.Hosts, ", ")))
	}
}

// secretDeleted is a secret that was deleted.
type secretDeleted struct {
	Name    string `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Deleted bool   `json:"deleted"`
}

func (r secretDeleted) text(w io.Writer) {
	fmt.Fprintf(w, "secret %s%s is deleted\n", printable(r.Name), ofTenant(r.Tenant))
}

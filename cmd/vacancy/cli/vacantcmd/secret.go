package vacantcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const secretTenantUsage = "the tenant whose vacants use the secrets (default: vacants without a tenant)"

func secretCommand(a *kit.App) *cobra.Command {
	set := SetSecretOperation(a, admin.AgentSecrets, "a `HOST` that the secret may be sent to; may be repeated")
	set.Use, set.Short = "set NAME < FILE", "Create or replace a secret"
	set.Long = `Create or replace a secret. The value is read from standard input: one line of at most 2 KiB. After
a replacement, calls use the old value for at most ten more seconds.

--for binds the secret to a host, such as api.example.com or 127.0.0.1:8080. Without --for, an
existing secret keeps its hosts. A new secret with the name of a provider is then bound to the
provider's server.`
	set.Example = `  vacancy secret set anthropic < key.txt
  vacancy secret set weather --for agents.example.com < key.txt
  vacancy secret set openai --tenant acme < key.txt`
	set.API = kit.NewTenantAPI(secretTenantUsage)
	set.AddHint = func(q kit.Request, err error) error {
		if problem.AsError(err).Field == "hosts" {
			return hintSetSecret(err, q.Args[0], q.Tenant, "HOST")
		}
		return err
	}
	list := ListSecretsOperation(admin.AgentSecrets)
	list.Use, list.Short = "list", "List secrets, without their values"
	list.Example = "  vacancy secret list\n  vacancy secret list --tenant acme --json"
	list.API = kit.NewTenantAPI(secretTenantUsage)
	remove := DeleteSecretOperation(admin.AgentSecrets)
	remove.Use, remove.Short = "delete NAME", "Delete a secret"
	remove.Long = `Delete a secret. Calls use it for at most ten more seconds. After that, calls of the agents that
use the secret fail.`
	remove.Example = "  vacancy secret delete anthropic"
	remove.API = kit.NewTenantAPI(secretTenantUsage)
	return a.ParentCommand(&cobra.Command{
		Use:   "secret",
		Short: "Manage the secrets of agents",
		Long: `Manage the secrets of agents, such as the API keys of model providers. The host encrypts a secret,
sends it only to the hosts that it is bound to, and never shows it again. An agent's file names its
secret (secret: NAME). By default, a model of anthropic, gemini, mistral or openai uses the secret
with the name of its provider.`,
		Example: `  vacancy secret set anthropic < key.txt
  vacancy secret list`,
	}, set.Command(a), list.Command(a), remove.Command(a))
}

func hintSetSecret(err error, name, tenant string, hosts ...string) error {
	flags := ""
	for _, host := range hosts {
		flags += " --for " + kit.ShellWord(host)
	}
	if tenant != "" {
		flags += " --tenant " + kit.ShellWord(tenant)
	}
	return kit.WithHint(err, "vacancy secret set %s%s < FILE", kit.ShellWord(name), flags)
}

// hintMissingSecret adds a hint with the command that sets the missing secret. agent is a
// definition in JSON, or nil for the default agent of spec.
func hintMissingSecret(err error, agent json.RawMessage, spec, tenant string) error {
	if p := problem.AsError(err); err == nil || p.Field != "secret" || !strings.Contains(p.Text(), " has no secret ") {
		return err
	}
	var a definition.Agent
	if s, parseErr := substrate.Parse(spec); agent == nil && parseErr == nil {
		a, _ = definition.DefaultAgent(s)
	} else if json.Unmarshal(agent, &a) != nil {
		return err
	}
	name := cmp.Or(a.SecretName(), a.Provider) // an agent with a tier has no model yet
	var hosts []string
	for _, endpoint := range a.SecretEndpoints() {
		if u, parseErr := url.Parse(endpoint); parseErr == nil && u.Host != substrate.ProviderHost(name) && !slices.Contains(hosts, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	return hintSetSecret(err, name, tenant, hosts...)
}

// SetSecretOperation returns the command that sets a secret of a kind. The caller adds the help texts.
func SetSecretOperation(a *kit.App, kind admin.SecretOps, forUsage string) kit.Operation[admin.SetSecretRequest, secrets.Info] {
	var hosts []string
	var tenant string
	return kit.Operation[admin.SetSecretRequest, secrets.Info]{
		Op:       kind.Set,
		AddFlags: func(fs *pflag.FlagSet) { fs.StringArrayVar(&hosts, "for", nil, forUsage) },
		Request: func(q kit.Request) (in admin.SetSecretRequest, err error) {
			tenant = q.Tenant
			in.SecretRef = secretRef(q)
			in.Body.Hosts = hosts
			in.Body.Value, err = readSecretValue(a, q.Command+" "+q.Args[0])
			return in, err
		},
		JSONObject: func(info secrets.Info) any { return secretResult{tenant, info} },
		Print: func(w io.Writer, r secrets.Info) {
			fmt.Fprintf(w, "secret %s%s, version %d, is bound to %s\n", kit.EscapeLine(r.Name), tenantSuffix(tenant), r.Version, kit.EscapeLine(strings.Join(r.Hosts, ", ")))
		},
	}
}

func secretRef(q kit.Request) admin.SecretRef {
	return admin.SecretRef{TenantRef: q.TenantRef(), Name: q.Args[0]}
}

// readSecretValue reads a value from standard input. It refuses a terminal, because the value would
// remain visible.
func readSecretValue(a *kit.App, command string) (string, error) {
	if !a.Piped {
		return "", kit.WithHint(problem.New(problem.Usage, "expected the value of the secret on standard input, not from a terminal"), "%s < FILE", command)
	}
	b, err := io.ReadAll(io.LimitReader(a.In, secrets.MaxValueBytes+3))
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "standard input cannot be read")
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" || len(value) > secrets.MaxValueBytes {
		return "", &problem.Error{Kind: problem.Usage, Field: "standard input", Want: fmt.Sprintf("1 to %d bytes", secrets.MaxValueBytes), Got: map[bool]string{true: "none", false: "more"}[value == ""]}
	}
	return value, nil
}

// ListSecretsOperation returns the command that lists secrets of a kind. The caller adds the help
// texts.
func ListSecretsOperation(kind admin.SecretOps) kit.Operation[admin.TenantRef, admin.Secrets] {
	return kit.Operation[admin.TenantRef, admin.Secrets]{
		Op:      kind.List,
		Request: func(q kit.Request) (admin.TenantRef, error) { return q.TenantRef(), nil },
		Print: func(w io.Writer, r admin.Secrets) {
			kit.PrintTable(w, "no secrets"+tenantSuffix(r.Tenant), r.Secrets, func(s secrets.Info) []any {
				return []any{s.Name, fmt.Sprintf("version %d of %s, bound to %s", s.Version, s.Time.Format(time.RFC3339), strings.Join(s.Hosts, ", "))}
			})
		},
	}
}

// DeleteSecretOperation returns the command that deletes a secret of a kind. The caller adds the
// help texts.
func DeleteSecretOperation(kind admin.SecretOps) kit.Operation[admin.SecretRef, op.None] {
	var deleted admin.SecretRef
	return kit.Operation[admin.SecretRef, op.None]{
		Op: kind.Delete,
		Request: func(q kit.Request) (admin.SecretRef, error) {
			deleted = secretRef(q)
			return deleted, nil
		},
		JSONObject: func(op.None) any { return deleteSecretResult{deleted.Name, deleted.Tenant, true} },
		Print: func(w io.Writer, _ op.None) {
			fmt.Fprintf(w, "secret %s%s is deleted\n", kit.EscapeLine(deleted.Name), tenantSuffix(deleted.Tenant))
		},
	}
}

type secretResult struct {
	Tenant string `json:"tenant,omitempty"`
	secrets.Info
}

func tenantSuffix(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " of tenant " + kit.EscapeLine(tenant)
}

type deleteSecretResult struct {
	Name    string `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Deleted bool   `json:"deleted"`
}

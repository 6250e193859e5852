package admin

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type Secrets struct {
	Tenant  string         `json:"tenant,omitempty"`
	Secrets []secrets.Info `json:"secrets"`
}

// SecretSetting is the next version of a secret. If Hosts is nil, the hosts are unchanged; a new
// secret without Hosts must have the name of a provider.
type SecretSetting struct {
	Value string   `json:"value" canon:"secret"`
	Hosts []string `json:"hosts,omitempty"`
}

// Format implements fmt.Formatter without printing the value.
func (s SecretSetting) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "a secret for %q", s.Hosts) }

type secretsAPI struct {
	*secrets.Secrets
	allowTenants bool
}

func (d secretsAPI) checkTenant(in TenantRef) (string, error) {
	if in.Tenant != "" && !d.allowTenants {
		return "", problem.Invalid("tenant", "no tenant, because these secrets are the host's", quoteTruncated(in.Tenant))
	}
	return in.Tenant, nil
}

func (d secretsAPI) list(ctx context.Context, in TenantRef) (out Secrets, err error) {
	if out.Tenant, err = d.checkTenant(in); err != nil {
		return out, err
	}
	infos, err := d.List(ctx, out.Tenant)
	out.Secrets = append([]secrets.Info{}, infos...)
	return out, err
}

func (d secretsAPI) set(ctx context.Context, in SetSecretRequest) (info secrets.Info, err error) {
	tenant, err := d.checkTenant(in.TenantRef)
	if err != nil {
		return info, err
	}
	value := []byte(in.Body.Value)
	defer clear(value)
	return d.Set(ctx, tenant, in.Name, in.Body.Hosts, value)
}

func (d secretsAPI) delete(ctx context.Context, in SecretRef) (op.None, error) {
	tenant, err := d.checkTenant(in.TenantRef)
	if err == nil {
		err = d.Delete(ctx, tenant, in.Name)
	}
	return op.None{}, err
}

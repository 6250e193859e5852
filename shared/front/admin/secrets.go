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

// secretsAPI serves one kind of secrets. If allowTenants is false, only the
// host may have such secrets.
type secretsAPI struct {
	*secrets.Secrets
	tenants bool
}

func (d secretsAPI) owner(in OfTenant) (string, error) {
	if in.Tenant != "" && !d.tenants {
		return "", problem.Invalid("tenant", "no tenant, because these secrets are the host's", clip(in.Tenant))
	}
	return in.Tenant, nil
}

func (d secretsAPI) list(ctx context.Context, in OfTenant) (out Secrets, err error) {
	if out.Tenant, err = d.owner(in); err != nil {
		return out, err
	}
	some, err := d.List(ctx, out.Tenant)
	out.Secrets = append([]secrets.Info{}, some...)
	return out, err
}

func (d secretsAPI) set(ctx context.Context, in NewSecret) (info secrets.Info, err error) {
	tenant, err := d.owner(in.OfTenant)
	if err != nil {
		return info, err
	}
	value := []byte(in.Body.Value)
	defer clear(value)
	return d.Set(ctx, tenant, in.Name, in.Body.Hosts, value)
}

func (d secretsAPI) delete(ctx context.Context, in OneSecret) (op.None, error) {
	tenant, err := d.owner(in.OfTenant)
	if err == nil {
		err = d.Delete(ctx, tenant, in.Name)
	}
	return op.None{}, err
}

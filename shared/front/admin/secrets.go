package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Secrets lists the secrets of a tenant without their values.
type Secrets struct {
	Tenant  string         `json:"tenant,omitempty"`
	Secrets []secrets.Info `json:"secrets"`
}

// SecretSetting is the next version of a secret. Without Hosts the hosts are unchanged; a
// new secret without Hosts must have the name of a provider.
type SecretSetting struct {
	Value string   `json:"value" canon:"secret"`
	Hosts []string `json:"hosts,omitempty"`
}

// Format prints only the hosts for every verb.
func (s SecretSetting) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "a secret for %q", s.Hosts) }

// The paths of secrets: those of agents, and those of the provider of payments.
const (
	SecretsPath  = "/v1/admin/secrets"
	PaymentsPath = "/v1/admin/payments"
)

// secretsAPI serves secrets of a kind, which tenants have, or the host alone.
type secretsAPI struct {
	of      func() *secrets.Secrets
	tenants bool
}

// owner returns the tenant in the query.
func (d secretsAPI) owner(r *http.Request) (string, error) {
	tenant := r.URL.Query().Get("tenant")
	if tenant != "" && !d.tenants {
		return "", problem.Invalid("tenant", "none: these secrets are the host's", httpapi.Clip(tenant))
	}
	return tenant, nil
}

func (d secretsAPI) list(w http.ResponseWriter, r *http.Request) error {
	tenant, err := d.owner(r)
	if err != nil {
		return err
	}
	some, err := d.of().List(r.Context(), tenant)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Secrets{Tenant: tenant, Secrets: append([]secrets.Info{}, some...)})
}

func (d secretsAPI) set(w http.ResponseWriter, r *http.Request) error {
	tenant, err := d.owner(r)
	if err != nil {
		return err
	}
	body, err := httpapi.Body(w, r, 64<<10)
	if err != nil {
		return err
	}
	defer clear(body)
	var s SecretSetting
	if err := canon.Unmarshal(body, &s, limits()); err != nil {
		return err
	}
	value := []byte(s.Value)
	defer clear(value)
	info, err := d.of().Set(r.Context(), tenant, r.PathValue("name"), s.Hosts, value)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, info)
}

func (d secretsAPI) delete(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	tenant, err := d.owner(r)
	if err == nil {
		err = d.of().Delete(r.Context(), tenant, r.PathValue("name"))
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Secrets lists the secrets at a path of a tenant; "" means no tenant.
func (c *Client) Secrets(ctx context.Context, path, tenant string) (out Secrets, err error) {
	return out, c.do(ctx, http.MethodGet, ofTenant(path, tenant), nil, &out)
}

// SetSecret sets the next version of a secret.
func (c *Client) SetSecret(ctx context.Context, path, tenant, name string, s SecretSetting) (out secrets.Info, err error) {
	return out, c.put(ctx, http.MethodPut, secretPath(path, tenant, name), s, &out)
}

// DeleteSecret deletes a secret.
func (c *Client) DeleteSecret(ctx context.Context, path, tenant, name string) error {
	resp, err := c.send(ctx, http.MethodDelete, secretPath(path, tenant, name), nil)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

func secretPath(path, tenant, name string) string {
	return ofTenant(path+"/"+url.PathEscape(name), tenant)
}

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
	Value string   `json:"value"`
	Hosts []string `json:"hosts,omitempty"`
}

// Format prints only the hosts for every verb.
func (s SecretSetting) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "a secret for %q", s.Hosts) }

func (d *api) secrets(w http.ResponseWriter, r *http.Request) error {
	all := Secrets{Tenant: r.URL.Query().Get("tenant"), Secrets: []secrets.Info{}}
	some, err := d.Vacants.Secrets.List(r.Context(), all.Tenant)
	if err != nil {
		return err
	}
	all.Secrets = append(all.Secrets, some...)
	return httpapi.Answer(w, http.StatusOK, all)
}

func (d *api) setSecret(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.Body(w, r, 64<<10)
	if err != nil {
		return err
	}
	defer clear(body)
	s, err := readSecret(body)
	if err != nil {
		return err
	}
	value := []byte(s.Value)
	defer clear(value)
	info, err := d.Vacants.Secrets.Set(r.Context(), r.URL.Query().Get("tenant"), r.PathValue("name"), s.Hosts, value)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, info)
}

// readSecret returns errors that do not contain the value.
func readSecret(body []byte) (s SecretSetting, err error) {
	d := canon.NewDecoder(body, limits())
	err = d.Document(func(key string) (err error) {
		switch {
		case key == "value" && d.Kind() == canon.String:
			if s.Value, err = d.String(); err != nil {
				err = problem.Invalid("value", "a string of JSON", "another text")
			}
		case key == "value":
			err = problem.Invalid("value", canon.String.String(), d.Kind().String())
		case key == "hosts" && d.Kind() != canon.Array:
			err = problem.Invalid("hosts", canon.Array.String(), d.Kind().String())
		case key == "hosts":
			err = d.Array(func(i int) error {
				if i >= secrets.MaxHosts {
					return problem.Invalid("hosts", fmt.Sprintf("at most %d", secrets.MaxHosts), "more")
				}
				host, err := text(d, fmt.Sprintf("hosts[%d]", i))
				s.Hosts = append(s.Hosts, host)
				return err
			})
		default:
			err = unknown("", key, "value and hosts")
		}
		return err
	})
	return s, err
}

func (d *api) deleteSecret(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	if err := d.Vacants.Secrets.Delete(r.Context(), r.URL.Query().Get("tenant"), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Secrets lists the secrets of a tenant; "" means no tenant.
func (c *Client) Secrets(ctx context.Context, tenant string) (out Secrets, err error) {
	return out, c.do(ctx, http.MethodGet, ofTenant("/v1/admin/secrets", tenant), nil, &out)
}

// SetSecret sets the next version of a secret.
func (c *Client) SetSecret(ctx context.Context, tenant, name string, s SecretSetting) (out secrets.Info, err error) {
	return out, c.put(ctx, http.MethodPut, secretPath(tenant, name), s, &out)
}

// DeleteSecret deletes a secret.
func (c *Client) DeleteSecret(ctx context.Context, tenant, name string) error {
	resp, err := c.send(ctx, http.MethodDelete, secretPath(tenant, name), nil)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

func secretPath(tenant, name string) string {
	return ofTenant("/v1/admin/secrets/"+url.PathEscape(name), tenant)
}

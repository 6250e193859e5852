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

// Secrets are those of a tenant, without their values.
type Secrets struct {
	Tenant  string         `json:"tenant,omitempty"`
	Secrets []secrets.Info `json:"secrets"`
}

// SecretSetting is the body of a secret's next version. Without Hosts they stay, and a
// first version must be of a provider's name.
type SecretSetting struct {
	Value string   `json:"value"`
	Hosts []string `json:"hosts,omitempty"`
}

// Format prints the hosts alone, whatever the verb.
func (s SecretSetting) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "a secret for %q", s.Hosts) }

// kept are the host's secrets.
func (d *api) kept() (*secrets.Secrets, error) {
	if d.Vacants.Secrets == nil {
		return nil, problem.New(problem.NotFound, "this host keeps no secrets")
	}
	return d.Vacants.Secrets, nil
}

func (d *api) secrets(w http.ResponseWriter, r *http.Request) error {
	kept, err := d.kept()
	if err != nil {
		return err
	}
	all := Secrets{Tenant: r.URL.Query().Get("tenant"), Secrets: []secrets.Info{}}
	some, err := kept.List(r.Context(), all.Tenant)
	if err != nil {
		return err
	}
	all.Secrets = append(all.Secrets, some...)
	return httpapi.Answer(w, http.StatusOK, all)
}

func (d *api) setSecret(w http.ResponseWriter, r *http.Request) error {
	kept, err := d.kept()
	if err != nil {
		return err
	}
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
	info, err := kept.Set(r.Context(), r.URL.Query().Get("tenant"), r.PathValue("name"), s.Hosts, value)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, info)
}

// readSecret's errors quote nothing of the value.
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
	kept, err := d.kept()
	if err != nil {
		return err
	}
	if err := kept.Delete(r.Context(), r.URL.Query().Get("tenant"), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Secrets lists the secrets of a tenant; "": of no tenant.
func (c *Client) Secrets(ctx context.Context, tenant string) (out Secrets, err error) {
	return out, c.do(ctx, http.MethodGet, secretPath(tenant, ""), nil, &out)
}

// SetSecret keeps a secret, or its next version.
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
	path := "/v1/admin/secrets"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	if tenant != "" {
		path += "?" + url.Values{"tenant": {tenant}}.Encode()
	}
	return path
}

// Package resource tells clients whose tokens count at which of a host's addresses: metadata of
// protected resources (RFC 9728), and the challenges that lead to them.
//
// A resource is the host, the host's MCP server or OpenAI's API, or a vacant with the same three
// addresses. It is named by its URL without a slash at the end.
package resource

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Path is the path of the host's metadata, and the beginning of all others.
const Path = "/.well-known/oauth-protected-resource"

// IsPath reports whether a path is Handler's.
func IsPath(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Metadata is the metadata of a resource.
type Metadata struct {
	Resource string   `json:"resource"` // its URL, as the client spelled it
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"` // that clients ask the issuer for
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"` // of a vacant
}

// Config configures what is told.
type Config struct {
	// Base returns the host's base URL, or "" if the host has none. Then Handler answers 404.
	Base func(context.Context) (string, error)
	// Issuers returns the issuers that count (billing.Billing.CountingIssuers).
	Issuers func(context.Context) ([]billing.Issuer, error)
	Show    func(context.Context, identity.ID) (vacants.Record, bool, error)
	Named   func(context.Context, string) (vacants.Record, bool, error)
}

// forms are the paths of a resource's addresses.
var forms = []string{"", message.MCPPath, openai.Base}

// split divides the path of a resource into the name of a vacant, "" for the host, and one of forms. ok is
// false for another path.
func split(path string) (name, form string, ok bool) {
	name, form, below := message.Split(path)
	form = strings.TrimSuffix(form, "/")
	return name, form, slices.Contains(forms, form) && below == (name != "")
}

// find returns the vacant that a name or an id names, if it is shown and takes callers without a
// signature.
func (c *Config) find(ctx context.Context, name string) (r vacants.Record, ok bool, err error) {
	if id, no := identity.ParseID(name); no == nil {
		r, ok, err = c.Show(ctx, id)
	} else {
		r, ok, err = c.Named(ctx, name)
	}
	return r, ok && !r.Closed && !r.IsDeleted() && r.Plain != vacants.PlainOff, err
}

// Called returns the URLs of the resources that a request calls. A token may name each of them as its
// audience. A vacant has the URLs of its name and of its id.
func (c *Config) Called(r *http.Request) ([]string, error) {
	base, err := c.Base(r.Context())
	if err != nil || base == "" {
		return nil, err
	}
	of := []string{base}
	if name, _, below := message.Split(r.URL.Path); below {
		v, ok, err := c.find(r.Context(), name)
		if err != nil {
			return nil, err
		}
		of = []string{base + "/v/" + name}
		if ok {
			of = []string{base + "/v/" + v.Name, base + "/v/" + v.ID.String()}
		}
	}
	var all []string
	for _, at := range of {
		for _, form := range forms {
			all = append(all, at+form)
		}
	}
	return all, nil
}

// IssuersOf returns the URLs of the issuers that a vacant tells, or with nil the host. Each tells the listed
// issuers. A vacant also tells the issuers of its tenant.
func (c *Config) IssuersOf(ctx context.Context, v *vacants.Record) ([]string, error) {
	all, err := c.Issuers(ctx)
	var urls []string
	for _, i := range all {
		if i.Listed || v != nil && v.Tenant != "" && i.Tenant == v.Tenant {
			urls = append(urls, i.Issuer)
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), err
}

// of returns the metadata of the resource at a path; ok is false if there is none.
func (c *Config) of(ctx context.Context, path string) (m Metadata, ok bool, err error) {
	name, form, ok := split(path)
	base, err := c.Base(ctx)
	if err != nil || !ok || base == "" {
		return m, false, err
	}
	var vacant *vacants.Record
	// Issuers may refuse a login without any scope, and clients ask for those that they find here.
	m = Metadata{Resource: base + form, Scopes: []string{string(billing.ScopeCall)}, Methods: []string{"header"}}
	if name != "" {
		v, ok, err := c.find(ctx, name)
		if err != nil || !ok {
			return m, false, err
		}
		vacant, m.Resource, m.Name = &v, base+"/v/"+name+form, v.Name
	}
	m.Servers, err = c.IssuersOf(ctx, vacant)
	return m, len(m.Servers) > 0, err
}

// Challenge is the value of WWW-Authenticate for a request that lacks a credential, or has one that does not
// count. Where tokens count, it leads to the metadata.
func (c *Config) Challenge(r *http.Request) string {
	text := httpapi.PlainChallenge
	if r.Header["Authorization"] != nil {
		text += `, error="invalid_token"`
	}
	name, rest, below := message.Split(r.URL.Path)
	path := mcpOf(rest)
	if below {
		path = "/v/" + name + path
	}
	// A fault of the store costs the hint, not the answer.
	if _, ok, err := c.of(r.Context(), path); err != nil || !ok {
		return text
	}
	base, err := c.Base(r.Context())
	if err != nil {
		return text
	}
	return text + `, resource_metadata="` + base + Path + path + `"`
}

// mcpOf returns the path of MCP if a path is of it: clients of MCP look for the metadata of the URL that they
// were given.
func mcpOf(rest string) string {
	if strings.TrimSuffix(rest, "/") == message.MCPPath {
		return message.MCPPath
	}
	return ""
}

// Operations lists the operations of Handler.
func Operations() []op.Spec {
	return op.Specs((&api{}).routes())
}

type api struct{ Config }

// OfVacant names a vacant.
type OfVacant struct {
	Vacant string `path:"vacant"`
}

// The operations: the metadata of a resource is at Path, followed by the path of the resource.
var (
	GetHost      = get[op.None]("", "the host")
	GetMCP       = get[op.None](message.MCPPath, "the host's MCP server")
	GetVacant    = get[OfVacant](vacantPath, "a vacant")
	GetVacantMCP = get[OfVacant](vacantPath+message.MCPPath, "a vacant's MCP server")
)

const vacantPath = "/v/{vacant}"

func get[In any](path, of string) op.Op[In, Metadata] {
	return op.Op[In, Metadata]{Method: "GET", Path: Path + path, Access: op.Access{Anybody: true}, Doc: "tells which issuers' tokens count at " + of + "; 404 if none does"}
}

// Handler serves the metadata. It answers 404 where no issuer counts.
func Handler(c Config, a httpapi.API) http.Handler {
	d := &api{c}
	mux := a.Mux(op.Routes(d.routes()...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // it is for every page, and has no secret
		w.Header().Set("Cache-Control", "public, max-age=60")
		mux.ServeHTTP(w, r)
	})
}

func (d *api) routes() []op.Route {
	var s op.Server
	ofHost := func(form string) func(context.Context, op.None) (Metadata, error) {
		return func(ctx context.Context, _ op.None) (Metadata, error) { return d.need(ctx, form) }
	}
	ofVacant := func(form string) func(context.Context, OfVacant) (Metadata, error) {
		return func(ctx context.Context, in OfVacant) (Metadata, error) { return d.need(ctx, "/v/"+in.Vacant+form) }
	}
	return []op.Route{
		op.On(s, GetHost, ofHost("")), op.On(s, GetMCP, ofHost(message.MCPPath)),
		op.On(s, GetVacant, ofVacant("")), op.On(s, GetVacantMCP, ofVacant(message.MCPPath)),
	}
}

func (d *api) need(ctx context.Context, path string) (Metadata, error) {
	m, ok, err := d.of(ctx, path)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "tokens of no issuer count there")
	}
	return m, err
}

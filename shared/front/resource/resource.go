// Package resource tells clients whose tokens count at which of a host's addresses: metadata of
// protected resources (RFC 9728), and the challenges that lead to them.
//
// A resource is the host, the host's MCP server or OpenAI's API, or a vacant with the same three
// addresses. It is named by its URL.
package resource

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
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

// forms are the paths of a resource's addresses, with the names of those that protocols have.
var forms = func() []form {
	all := []form{{}}
	for _, p := range protocol.All {
		if p.Resource != "" {
			all = append(all, form{p.Resource, "'s " + p.Title})
		}
	}
	return all
}()

type form struct{ path, title string }

// split divides the path of a resource into the name of a vacant, "" for the host, and the path of one of
// forms. ok is false for another path.
func split(path string) (name, rest string, ok bool) {
	name, rest, below := message.Split(path)
	rest = strings.TrimSuffix(rest, "/")
	return name, rest, slices.ContainsFunc(forms, func(f form) bool { return f.path == rest }) && below == (name != "")
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

// Called returns the URLs of the resources that a request calls, for billing.TokensConfig.Resources. A
// vacant has the URLs of its name and of its id. A token for a vacant may name a URL below them.
func (c *Config) Called(r *http.Request) ([]string, error) {
	base, err := c.base(r)
	if err != nil || base == "" {
		return nil, err
	}
	bases := []string{base}
	if other, err := c.Base(r.Context()); err != nil {
		return nil, err
	} else if other != base {
		bases = append(bases, other)
	}
	var names []string
	if name, _, below := message.Split(r.URL.Path); below {
		v, ok, err := c.find(r.Context(), name)
		if err != nil {
			return nil, err
		}
		names = []string{name}
		if ok {
			names = []string{v.Name, v.ID.String()}
		}
	}
	var all []string
	for _, base := range bases {
		all = append(all, called(base, names...)...)
	}
	return all, nil
}

// CalledAt returns the URLs of the resources that a request to a URL calls.
func CalledAt(at string) ([]string, error) {
	u, err := outbound.ParseURL(at)
	if err != nil {
		return nil, err
	}
	base := u.Scheme + "://" + u.Host
	if name, _, below := message.Split(u.Path); below {
		return called(base, name), nil
	}
	return called(base), nil
}

// called returns the URLs of vacants, or without names of the host: not all below its base URL, because its
// vacants are there.
func called(base string, names ...string) (all []string) {
	for _, name := range names {
		all = append(all, base+"/v/"+name+"/")
	}
	if len(names) > 0 {
		return all
	}
	for i, f := range forms {
		if all = append(all, base+f.path); i > 0 {
			all[i] += "/"
		}
	}
	return all
}

// base returns the host's base URL as the sender of a request reaches it, or "" if the host has none. A
// host on loopback has several names, and clients compare its metadata with the URL that they were given.
func (c *Config) base(r *http.Request) (string, error) {
	base, err := c.Base(r.Context())
	if err != nil {
		return "", err
	}
	u, no := url.Parse(base)
	if asked, bad := url.Parse("//" + r.Host); no == nil && bad == nil && asked.Port() == u.Port() && origin.IsLoopback(u.Host) && origin.IsLoopback(r.Host) {
		return u.Scheme + "://" + r.Host, nil
	}
	return base, nil
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

// of returns the metadata of the resource at a path below base; ok is false if there is none.
func (c *Config) of(ctx context.Context, base, path string) (m Metadata, ok bool, err error) {
	name, form, ok := split(path)
	if !ok || base == "" {
		return m, false, nil
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

// MetadataURL returns the URL of the metadata of the resource that a request calls, for
// httpapi.WithLogin.
func (c *Config) MetadataURL(r *http.Request) string {
	name, rest, below := message.Split(r.URL.Path)
	path := ""
	// Clients of MCP compare the metadata with the URL that they were given.
	if strings.TrimSuffix(rest, "/") == protocol.MCP.Resource {
		path = protocol.MCP.Resource
	}
	if below {
		path = "/v/" + name + path
	}
	base, err := c.base(r)
	if err != nil {
		return "" // a fault of the store costs the hint, not the answer
	}
	if _, ok, err := c.of(r.Context(), base, path); err != nil || !ok {
		return ""
	}
	return base + Path + path
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

const vacantPath = "/v/{vacant}"

// get is the operation for the metadata of a resource, which is at Path, followed by the path of the resource.
func get[In any](path, of string) op.Op[In, Metadata] {
	return op.Op[In, Metadata]{Method: "GET", Path: Path + path, Access: op.Access{Anybody: true}, Doc: "tells which issuers' tokens count at " + of + "; 404 if none does"}
}

type askedKey struct{}

// asked has the parts of a request for metadata that its route does not tell.
type asked struct {
	*http.Request
	slash string // at the end of the path
}

// Handler serves the metadata. It answers 404 where no issuer counts. A slash at the end of a path is
// part of the resource's URL, as the client spells it.
func Handler(c Config, a httpapi.API) http.Handler {
	d := &api{c}
	mux := a.Mux(op.Routes(d.routes()...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // it is for every page, and has no secret
		w.Header().Set("Cache-Control", "public, max-age=60")
		u := *r.URL
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		r = r.WithContext(context.WithValue(r.Context(), askedKey{}, asked{r, r.URL.Path[len(u.Path):]}))
		r.URL = &u
		mux.ServeHTTP(w, r)
	})
}

func (d *api) routes() []op.Route {
	var s op.Server
	var ofHost, ofVacants []op.Route
	for _, f := range forms {
		ofHost = append(ofHost, op.On(s, get[op.None](f.path, "the host"+f.title), func(ctx context.Context, _ op.None) (Metadata, error) {
			return d.need(ctx, f.path)
		}))
		ofVacants = append(ofVacants, op.On(s, get[OfVacant](vacantPath+f.path, "a vacant"+f.title), func(ctx context.Context, in OfVacant) (Metadata, error) {
			return d.need(ctx, "/v/"+in.Vacant+f.path)
		}))
	}
	return append(ofHost, ofVacants...)
}

func (d *api) need(ctx context.Context, path string) (Metadata, error) {
	of := ctx.Value(askedKey{}).(asked)
	base, err := d.base(of.Request)
	if err != nil {
		return Metadata{}, err
	}
	m, ok, err := d.of(ctx, base, path)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "tokens of no issuer count there")
	}
	m.Resource += of.slash
	return m, err
}

// Package resource serves the metadata of protected resources (RFC 9728). The metadata of a
// resource lists the issuers whose tokens the host accepts for that resource. [Config.MetadataURL]
// returns the metadata's URL, which the host sends when it refuses a request without a token.
//
// The host has a resource at each of three addresses: its base URL, its MCP server and its OpenAI
// API. Every vacant has the same three. A resource is identified by its URL.
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

// Path is the path of the host's metadata and the prefix of all other metadata paths.
const Path = "/.well-known/oauth-protected-resource"

func IsPath(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

type Metadata struct {
	Resource string   `json:"resource"` // URL of the resource as the client spelled it
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"` // scopes that clients request from the issuer
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"` // name of the vacant
}

type Config struct {
	// Base returns the host's base URL. If it returns "", Handler answers 404.
	Base func(context.Context) (string, error)
	// Issuers returns the issuers whose tokens the host accepts (billing.Billing.RecentIssuers).
	Issuers func(context.Context) ([]billing.Issuer, error)
	// Show finds a vacant by its id, and Named by its name.
	Show  func(context.Context, identity.ID) (vacants.Record, bool, error)
	Named func(context.Context, string) (vacants.Record, bool, error)
}

// forms lists the three kinds of resource.
var forms = func() []form {
	all := []form{{}}
	for _, p := range protocol.All {
		if p.Resource != "" {
			all = append(all, form{p.Resource, "'s " + p.Title})
		}
	}
	return all
}()

// form is a kind of resource. Its path is appended to the base URL of the host or to the URL of a
// vacant. Its title is appended to "the host" or "a vacant", for example "'s MCP server".
type form struct{ path, title string }

func split(path string) (name, rest string, ok bool) {
	name, rest, below := message.Split(path)
	rest = strings.TrimSuffix(rest, "/")
	return name, rest, slices.ContainsFunc(forms, func(f form) bool { return f.path == rest }) && below == (name != "")
}

func (c *Config) find(ctx context.Context, name string) (r vacants.Record, ok bool, err error) {
	if id, no := identity.ParseID(name); no == nil {
		r, ok, err = c.Show(ctx, id)
	} else {
		r, ok, err = c.Named(ctx, name)
	}
	// Vacants that accept only signed calls have no metadata, because they accept no tokens.
	return r, ok && !r.Closed && !r.IsDeleted() && r.KeylessAccess != vacants.PlainOff, err
}

// RequestURLs returns the URLs of the resources of the called vacant, or of the host if no vacant
// is called. It is for billing.TokensConfig.Resources. A vacant has one URL with its name and one
// with its id. A URL that ends with a slash includes all URLs below it.
func (c *Config) RequestURLs(r *http.Request) ([]string, error) {
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
	var urls []string
	for _, base := range bases {
		urls = append(urls, urlsBelow(base, names...)...)
	}
	return urls, nil
}

func RequestURLsAt(rawURL string) ([]string, error) {
	// The vacant is not looked up, so it has only the URL with the name or id in rawURL.
	u, err := outbound.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	base := u.Scheme + "://" + u.Host
	if name, _, below := message.Split(u.Path); below {
		return urlsBelow(base, name), nil
	}
	return urlsBelow(base), nil
}

func urlsBelow(base string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, base+"/v/"+name+"/")
	}
	if len(names) > 0 {
		return urls
	}
	// The base URL itself gets no slash, because the vacants of the host are also below it.
	for i, f := range forms {
		if urls = append(urls, base+f.path); i > 0 {
			urls[i] += "/"
		}
	}
	return urls
}

// base returns the host's base URL as the client addresses it, or "" if the host has none. A host
// on loopback has several names, and clients compare its metadata with the URL that they use.
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

// IssuersOf returns the URLs of the issuers that the metadata of a vacant lists, or the metadata of
// the host if v is nil. All metadata lists the issuers whose Publish is true. The metadata of a
// vacant also lists the issuers of its tenant.
func (c *Config) IssuersOf(ctx context.Context, v *vacants.Record) ([]string, error) {
	issuers, err := c.Issuers(ctx)
	var urls []string
	for _, i := range issuers {
		if i.Publish || v != nil && v.Tenant != "" && i.Tenant == v.Tenant {
			urls = append(urls, i.Issuer)
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), err
}

func (c *Config) metadataOf(ctx context.Context, base, path string) (m Metadata, ok bool, err error) {
	name, form, ok := split(path)
	if !ok || base == "" {
		return m, false, nil
	}
	var vacant *vacants.Record
	// Some issuers refuse a login without a scope. Clients request the scopes in the metadata.
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

// MetadataURL returns the URL of the metadata for the resource that a request calls, for
// httpapi.WithLogin.
func (c *Config) MetadataURL(r *http.Request) string {
	name, rest, below := message.Split(r.URL.Path)
	path := ""
	// MCP clients compare the metadata with the URL that they use.
	if strings.TrimSuffix(rest, "/") == protocol.MCP.Resource {
		path = protocol.MCP.Resource
	}
	if below {
		path = "/v/" + name + path
	}
	base, err := c.base(r)
	if err != nil {
		return "" // the refusal is sent without the URL, which is only a hint
	}
	if _, ok, err := c.metadataOf(r.Context(), base, path); err != nil || !ok {
		return ""
	}
	return base + Path + path
}

func Operations() []op.Spec {
	return op.Specs((&api{}).routes())
}

type api struct{ Config }

type OfVacant struct {
	Vacant string `path:"vacant"`
}

const vacantPath = "/v/{vacant}"

func get[In any](path, place string) op.Op[In, Metadata] {
	return op.Op[In, Metadata]{Method: "GET", Path: Path + path, Access: op.Access{Anybody: true}, Doc: "lists the issuers whose tokens are accepted at " + place + "; 404 if there are none"}
}

type askedKey struct{}

// requestedForm is a request for metadata. Handler passes it to requireMetadata in the context,
// because Handler removes the trailing slash of the path before it calls the routes.
type requestedForm struct {
	*http.Request
	slash string // "/" if the path had a trailing slash, otherwise ""
}

// Handler serves the metadata of all resources. It answers 404 for a resource without issuers. If
// the path ends with a slash, the resource's URL in the metadata also ends with a slash, because
// clients compare that URL with the URL that they use.
func Handler(c Config, a httpapi.API) http.Handler {
	d := &api{c}
	mux := a.Mux(op.Routes(d.routes()...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The metadata contains no secrets, so pages of all sites may read it.
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "public, max-age=60")
		u := *r.URL
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		r = r.WithContext(context.WithValue(r.Context(), askedKey{}, requestedForm{r, r.URL.Path[len(u.Path):]}))
		r.URL = &u
		mux.ServeHTTP(w, r)
	})
}

func (d *api) routes() []op.Route {
	var s op.Server
	var ofHost, ofVacants []op.Route
	for _, f := range forms {
		ofHost = append(ofHost, op.On(s, get[op.None](f.path, "the host"+f.title), func(ctx context.Context, _ op.None) (Metadata, error) {
			return d.requireMetadata(ctx, f.path)
		}))
		ofVacants = append(ofVacants, op.On(s, get[OfVacant](vacantPath+f.path, "a vacant"+f.title), func(ctx context.Context, in OfVacant) (Metadata, error) {
			return d.requireMetadata(ctx, "/v/"+in.Vacant+f.path)
		}))
	}
	return append(ofHost, ofVacants...)
}

func (d *api) requireMetadata(ctx context.Context, path string) (Metadata, error) {
	req := ctx.Value(askedKey{}).(requestedForm)
	base, err := d.base(req.Request)
	if err != nil {
		return Metadata{}, err
	}
	m, ok, err := d.metadataOf(ctx, base, path)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "this host accepts no issuer's tokens at this path")
	}
	m.Resource += req.slash
	return m, err
}

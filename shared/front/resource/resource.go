// Package resource serves the metadata of protected resources (RFC 9728). The metadata of a
// resource lists the issuers whose tokens the host accepts for that resource. The host's base URL,
// MCP server and OpenAI API are resources, and every vacant has the same three.
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

const Path = "/.well-known/oauth-protected-resource"

func IsPath(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

type Metadata struct {
	Resource string   `json:"resource"` // URL of the resource as the client spelled it
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"` // scopes that clients request from the issuer
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"`
}

type Config struct {
	Base       func(context.Context) (string, error)
	Issuers    func(context.Context) ([]billing.Issuer, error)
	FindByID   func(context.Context, identity.ID) (vacants.Record, bool, error)
	FindByName func(context.Context, string) (vacants.Record, bool, error)
}

var resourceKinds = func() []resourceKind {
	all := []resourceKind{{}}
	for _, p := range protocol.All {
		if p.ResourcePath != "" {
			all = append(all, resourceKind{p.ResourcePath, "'s " + p.ResourceTitle})
		}
	}
	return all
}()

type resourceKind struct{ path, titleSuffix string }

func splitPath(path string) (name, rest string, ok bool) {
	name, rest, isVacantPath := message.SplitPath(path)
	rest = strings.TrimSuffix(rest, "/")
	return name, rest, slices.ContainsFunc(resourceKinds, func(f resourceKind) bool { return f.path == rest }) && isVacantPath == (name != "")
}

func (c *Config) findVacant(ctx context.Context, name string) (r vacants.Record, ok bool, err error) {
	if id, parseErr := identity.ParseID(name); parseErr == nil {
		r, ok, err = c.FindByID(ctx, id)
	} else {
		r, ok, err = c.FindByName(ctx, name)
	}
	// Vacants that accept only signed calls accept no tokens.
	return r, ok && !r.Closed && !r.IsDeleted() && r.KeylessAccess != vacants.KeylessOff, err
}

// RequestURLs returns the URLs of the resources of the called vacant, or of the host if no vacant
// is called. A URL that ends with a slash includes all URLs below it.
func (c *Config) RequestURLs(r *http.Request) ([]string, error) {
	base, err := c.base(r)
	if err != nil || base == "" {
		return nil, err
	}
	bases := []string{base}
	if configuredBase, err := c.Base(r.Context()); err != nil {
		return nil, err
	} else if configuredBase != base {
		bases = append(bases, configuredBase)
	}
	var names []string
	if name, _, isVacantPath := message.SplitPath(r.URL.Path); isVacantPath {
		v, ok, err := c.findVacant(r.Context(), name)
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
		urls = append(urls, resourceURLs(base, names...)...)
	}
	return urls, nil
}

func RequestURLsAt(rawURL string) ([]string, error) {
	u, err := outbound.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	base := u.Scheme + "://" + u.Host
	if name, _, isVacantPath := message.SplitPath(u.Path); isVacantPath {
		return resourceURLs(base, name), nil
	}
	return resourceURLs(base), nil
}

func resourceURLs(base string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, base+"/v/"+name+"/")
	}
	if len(names) > 0 {
		return urls
	}
	// The base URL itself gets no slash, because the vacants of the host are also below it.
	for i, f := range resourceKinds {
		if urls = append(urls, base+f.path); i > 0 {
			urls[i] += "/"
		}
	}
	return urls
}

// A host on loopback has several names, and clients compare its metadata with the URL that they
// use.
func (c *Config) base(r *http.Request) (string, error) {
	base, err := c.Base(r.Context())
	if err != nil {
		return "", err
	}
	u, parseErr := url.Parse(base)
	if requestHost, hostErr := url.Parse("//" + r.Host); parseErr == nil && hostErr == nil && requestHost.Port() == u.Port() && origin.IsLoopback(u.Host) && origin.IsLoopback(r.Host) {
		return u.Scheme + "://" + r.Host, nil
	}
	return base, nil
}

// IssuerURLs returns the URLs of the issuers that the metadata of v lists, or the host's own
// metadata if v is nil.
func (c *Config) IssuerURLs(ctx context.Context, v *vacants.Record) ([]string, error) {
	issuers, err := c.Issuers(ctx)
	var urls []string
	for _, i := range issuers {
		if i.Publish || v != nil && v.Tenant != "" && i.Tenant == v.Tenant {
			urls = append(urls, i.URL)
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), err
}

func (c *Config) findMetadata(ctx context.Context, base, path string) (m Metadata, ok bool, err error) {
	name, pathSuffix, ok := splitPath(path)
	if !ok || base == "" {
		return m, false, nil
	}
	var vacant *vacants.Record
	m = Metadata{Resource: base + pathSuffix, Scopes: []string{string(billing.ScopeCall)}, Methods: []string{"header"}}
	if name != "" {
		v, ok, err := c.findVacant(ctx, name)
		if err != nil || !ok {
			return m, false, err
		}
		vacant, m.Resource, m.Name = &v, base+"/v/"+name+pathSuffix, v.Name
	}
	m.Servers, err = c.IssuerURLs(ctx, vacant)
	return m, len(m.Servers) > 0, err
}

// MetadataURL returns the metadata URL of the resource that a request calls, or "" if the resource
// has no metadata.
func (c *Config) MetadataURL(r *http.Request) string {
	name, rest, isVacantPath := message.SplitPath(r.URL.Path)
	path := ""
	// MCP clients compare the metadata with the URL that they use.
	if strings.TrimSuffix(rest, "/") == protocol.MCP.ResourcePath {
		path = protocol.MCP.ResourcePath
	}
	if isVacantPath {
		path = "/v/" + name + path
	}
	base, err := c.base(r)
	if err != nil {
		return "" // the refusal is sent without the URL, which is only a hint
	}
	if _, ok, err := c.findMetadata(r.Context(), base, path); err != nil || !ok {
		return ""
	}
	return base + Path + path
}

func Operations() []op.Spec {
	return op.Specs((&api{}).routes())
}

type api struct{ Config }

type VacantRef struct {
	Vacant string `path:"vacant"`
}

const vacantPath = "/v/{vacant}"

func newMetadataOp[In any](path, resourceName string) op.Op[In, Metadata] {
	return op.Op[In, Metadata]{Method: "GET", Path: Path + path, Access: op.Access{Anybody: true}, Doc: "lists the issuers whose tokens are accepted at " + resourceName + "; 404 if there are none"}
}

type metadataRequestKey struct{}

type metadataRequest struct {
	*http.Request
	trailingSlash string
}

// Handler serves the metadata of all resources. It answers 404 for a resource without issuers. The
// resource's URL in the metadata ends with a slash if the path does, because clients compare the
// URLs.
func Handler(c Config, a httpapi.API) http.Handler {
	d := &api{c}
	mux := a.Mux(op.RoutesByPath(d.routes()...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The metadata contains no secrets, so pages of all sites may read it.
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "public, max-age=60")
		u := *r.URL
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		r = r.WithContext(context.WithValue(r.Context(), metadataRequestKey{}, metadataRequest{r, r.URL.Path[len(u.Path):]}))
		r.URL = &u
		mux.ServeHTTP(w, r)
	})
}

func (d *api) routes() []op.Route {
	var s op.Server
	var hostRoutes, vacantRoutes []op.Route
	for _, f := range resourceKinds {
		hostRoutes = append(hostRoutes, op.NewRoute(s, newMetadataOp[op.None](f.path, "the host"+f.titleSuffix), func(ctx context.Context, _ op.None) (Metadata, error) {
			return d.requireMetadata(ctx, f.path)
		}))
		vacantRoutes = append(vacantRoutes, op.NewRoute(s, newMetadataOp[VacantRef](vacantPath+f.path, "a vacant"+f.titleSuffix), func(ctx context.Context, in VacantRef) (Metadata, error) {
			return d.requireMetadata(ctx, "/v/"+in.Vacant+f.path)
		}))
	}
	return append(hostRoutes, vacantRoutes...)
}

func (d *api) requireMetadata(ctx context.Context, path string) (Metadata, error) {
	req := ctx.Value(metadataRequestKey{}).(metadataRequest)
	base, err := d.base(req.Request)
	if err != nil {
		return Metadata{}, err
	}
	m, ok, err := d.findMetadata(ctx, base, path)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "this host accepts no issuer's tokens at this path")
	}
	m.Resource += req.trailingSlash
	return m, err
}

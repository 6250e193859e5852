package registryapi

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// caller determines the reader of a request.
type caller struct {
	url     func(context.Context) (string, error)
	routed  bool
	revoked func(context.Context, identity.ID) (bool, error)
	now     func() time.Time
}

// of returns the id that proved to be the reader of r, or nil if there is no
// proof. A proof that does not verify is refused. The query parameter caller is
// ignored.
func (c *caller) of(r *http.Request) (*identity.ID, error) {
	values := r.Header.Values(readproof.Header)
	switch {
	case len(values) == 0:
		return nil, nil
	case len(values) > 1:
		return nil, problem.Invalid(readproof.Header, "one header", "several")
	}
	p, err := readproof.Parse(values[0])
	if err != nil {
		return nil, err
	}
	if err := c.verify(p, r); err != nil {
		return nil, err
	}
	switch gone, err := c.revoked(r.Context(), p.ID); {
	case err != nil:
		return nil, err
	case gone: // the key may be in other hands
		return nil, problem.New(problem.Revoked, "%s: the key of %s was revoked", readproof.Header, p.ID.Short())
	}
	return &p.ID, nil
}

// verify checks that p was made for r at this host. A caller signs for the
// authority that it requested. Behind CloudFront the request has another Host;
// then the host's own URL is the authority.
func (c *caller) verify(p readproof.Proof, r *http.Request) error {
	if c.own(r.Host) && c.verifyFor(p, r, r.Host) == nil {
		return nil
	}
	public, err := c.public(r.Context())
	if err != nil {
		return err
	}
	return c.verifyFor(p, r, public)
}

// own reports whether the Host of a request certainly is this host. Otherwise a
// server that a caller asked could forward the caller's proof with its Host;
// with this check only another program on this machine could.
func (c *caller) own(host string) bool {
	if c.routed {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

func (c *caller) verifyFor(p readproof.Proof, r *http.Request, authority string) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return p.Verify(readproof.Request{Authority: authority, Method: method, Target: r.URL.RequestURI()}, c.now())
}

// public is the authority of the host's own URL, "" if it has none yet.
func (c *caller) public(ctx context.Context) (string, error) {
	if c.url == nil {
		return "", nil
	}
	base, err := c.url(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", problem.Wrap(problem.Damaged, err, "the host's URL is none")
	}
	return u.Host, nil
}

// show sends an answer to a reader. Anonymous answers are the same for
// everybody, so they are cacheable.
func show(w http.ResponseWriter, r *http.Request, who *identity.ID, v any) error {
	w.Header().Set("Vary", readproof.Header)
	if who != nil {
		return answer(w, v)
	}
	return public(w, r, v)
}

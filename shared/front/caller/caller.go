// Package caller authenticates requests of vacants that carry no envelope, by the
// header of package readproof.
//
// The invariant: a proof counts for the request, the body and the host that it was
// made for, and for nobody whose key was revoked.
package caller

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// Verifier finds out which vacant sent a request.
type Verifier struct {
	// URL returns the host's base URL, or "" while the host has none. A nil URL
	// means that it never has one.
	URL func(context.Context) (string, error)
	// Routed: a router chose this host by the request's Host, so it is this host's.
	Routed  bool
	Revoked func(context.Context, identity.ID) (bool, error)
	Now     func() time.Time
}

// Of returns the id that proved to be the sender of r, or nil without a proof. body is
// r's body. A proof that does not verify is refused. The query parameter caller is
// ignored.
func (c *Verifier) Of(r *http.Request, body []byte) (*identity.ID, error) {
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
	// A caller signs for the authority that it requested, if that certainly is this host. Otherwise a server that a caller
	// asked could forward the caller's proof with its Host; with this check only another program on this machine could.
	// Behind CloudFront the request has another Host; then the host's own URL is the authority.
	isOwn := c.Routed || origin.IsLoopback(r.Host)
	if !isOwn || c.verifyFor(p, r, r.Host, body) != nil {
		public, err := c.public(r.Context())
		if err == nil {
			err = c.verifyFor(p, r, public, body)
		}
		if err != nil {
			return nil, err
		}
	}
	switch gone, err := c.Revoked(r.Context(), p.ID); {
	case err != nil:
		return nil, err
	case gone: // the key may be in other hands
		return nil, problem.New(problem.Revoked, "%s: the key of %s was revoked", readproof.Header, p.ID.Short())
	}
	return &p.ID, nil
}

func (c *Verifier) verifyFor(p readproof.Proof, r *http.Request, authority string, body []byte) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return p.Verify(readproof.Request{Authority: authority, Method: method, Target: r.URL.RequestURI(), Body: body}, c.Now())
}

// public returns the authority of the host's own URL, or "" while the host has
// no URL.
func (c *Verifier) public(ctx context.Context) (string, error) {
	if c.URL == nil {
		return "", nil
	}
	base, err := c.URL(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", problem.Wrap(problem.Damaged, err, "the host's URL is none")
	}
	return u.Host, nil
}

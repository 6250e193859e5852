// Package caller identifies vacants by the proof in a header of their requests (package readproof).
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

type Verifier struct {
	// URL may be nil.
	URL func(context.Context) (string, error)
	// TrustHostHeader is true if a router has chosen this host by the Host header.
	TrustHostHeader bool
	IsRevoked       func(context.Context, identity.ID) (bool, error)
	Now             func() time.Time
}

// Identify returns the id of the vacant that sent r, or nil if r has no proof. An invalid proof is
// an error. Identify ignores the query parameter caller, which anyone can forge.
func (c *Verifier) Identify(r *http.Request, body []byte) (*identity.ID, error) {
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
	// A server could forward a proof that a caller signed for that server, together with its Host
	// header. r.Host is therefore trusted only behind a trusted router or on loopback. Behind
	// CloudFront, r.Host is not the host that the caller requested, so the host's URL is also
	// tried.
	trustHost := c.TrustHostHeader || origin.IsLoopback(r.Host)
	if !trustHost || c.verifyFor(p, r, r.Host, body) != nil {
		authority, err := c.publicAuthority(r.Context())
		if err == nil {
			err = c.verifyFor(p, r, authority, body)
		}
		if err != nil {
			return nil, err
		}
	}
	switch isRevoked, err := c.IsRevoked(r.Context(), p.ID); {
	case err != nil:
		return nil, err
	case isRevoked: // others may know the key
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

func (c *Verifier) publicAuthority(ctx context.Context) (string, error) {
	if c.URL == nil {
		return "", nil
	}
	base, err := c.URL(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", problem.Wrap(problem.Damaged, err, "the host's URL is invalid")
	}
	return u.Host, nil
}

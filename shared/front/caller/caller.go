// Package caller authenticates requests that vacants send without a signed message. It verifies the
// signature of the request in a header, called a proof (package readproof).
//
// A proof is valid only for the request, body and host that it was signed for, and only while its
// key is not revoked.
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

// Verifier identifies the vacant that sent a request.
type Verifier struct {
	// URL returns the host's base URL, or "" if the host has none yet. If URL is nil, the host
	// never has one.
	URL func(context.Context) (string, error)
	// TrustHostHeader is true if a router has chosen this host by the request's Host header. The
	// header then certainly names this host.
	TrustHostHeader bool
	IsRevoked       func(context.Context, identity.ID) (bool, error)
	Now             func() time.Time
}

// Identify returns the id of the vacant that proved to have sent r, or nil if r has no proof. body
// is the body of r. A proof that does not verify is an error. Identify ignores the query parameter
// caller, by which the reference implementation identifies readers, because anyone can forge it.
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
	// A caller signs for the authority that it requested. A server that receives a caller's request
	// could forward the proof to this host together with its own Host header. r.Host is therefore
	// trusted as the authority only if it certainly names this host, or on loopback, where only
	// another program on this machine could forward a proof. Otherwise the host's own URL is the
	// authority. Behind CloudFront it is also tried, because r.Host differs from the authority.
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

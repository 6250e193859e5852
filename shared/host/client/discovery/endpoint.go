package discovery

import (
	"crypto/x509"
	"net/url"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Route chooses the transport to a verified card's endpoint from a registry. An
// error says why the vacant may not be called. Safe for concurrent use.
type Route func(registry string, callee *card.Card) (dispatch.Transport, error)

// Personal is the Route of a person's own machine. A stranger chose the
// endpoint in a registry's answer, so calls use HTTPS through outbound, which
// reaches no private network. There are two exceptions for a person's own
// registries: an endpoint on this machine may be called if the registry is on
// it, and one with the registry's scheme, host and port like the registry.
// roots are the authorities whose certificates are trusted; nil means the system's.
func Personal(timeout time.Duration, roots *x509.CertPool) Route {
	near := dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: timeout, Roots: roots})
	far := dispatch.Guarded{Client: outbound.New(outbound.Options{Timeout: timeout, Roots: roots}).As(outbound.Itself(outbound.Stranger))}
	return func(registry string, callee *card.Card) (dispatch.Transport, error) {
		r, err := dispatch.ParseURL(registry)
		if err != nil {
			return nil, err
		}
		e, err := dispatch.ParseURL(callee.Endpoint)
		switch {
		case err != nil:
			return nil, err
		case r.Scheme == e.Scheme && r.Host == e.Host, outbound.IsThisMachine(r.Hostname()) && outbound.IsThisMachine(e.Hostname()):
			return near, nil
		case outbound.IsThisMachine(e.Hostname()):
			return nil, problem.New(problem.Forbidden, "its endpoint %s is this machine, and the registry is not", e.Host)
		}
		return far, overTLS(e)
	}
}

// Hosts is the Route of a hosted vacant: HTTPS through the host's outbound
// client, whose guard gets caller and callee.
func Hosts(c *outbound.Client, caller identity.ID) Route {
	return func(_ string, callee *card.Card) (dispatch.Transport, error) {
		e, err := dispatch.ParseURL(callee.Endpoint)
		if err != nil {
			return nil, err
		}
		return dispatch.Guarded{Client: c.As(outbound.Vacant(caller, outbound.Stranger).Calling(callee))}, overTLS(e)
	}
}

func overTLS(e *url.URL) error {
	if e.Scheme != "https" {
		return problem.New(problem.Forbidden, "its endpoint at %.80s takes calls in clear", e.Host)
	}
	return nil
}

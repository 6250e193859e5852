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

// Route returns the transport to the endpoint of a verified card, or an error if the vacant may not
// be called. It is safe for concurrent use.
type Route func(registry string, callee *card.Card) (dispatch.Transport, error)

// PersonalRoute returns the Route of a person's own machine. Strangers choose the endpoints, so
// calls use HTTPS and do not reach private networks. The exceptions are endpoints at the registry's
// own address and, for a registry on this machine, endpoints on this machine.
func PersonalRoute(timeout time.Duration, roots *x509.CertPool) Route {
	direct := dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: timeout, Roots: roots})
	guarded := dispatch.GuardedTransport{Client: outbound.New(outbound.Options{Timeout: timeout, Roots: roots}).ForActor(outbound.HostActor(outbound.Stranger))}
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
			return direct, nil
		case outbound.IsThisMachine(e.Hostname()):
			return nil, problem.New(problem.Forbidden, "its endpoint %s is on this machine, but the registry is not", e.Host)
		}
		return guarded, checkTLS(e)
	}
}

// HostRoute returns the Route of a hosted vacant: HTTPS through the host's outbound client.
func HostRoute(c *outbound.Client, caller identity.ID) Route {
	return func(_ string, callee *card.Card) (dispatch.Transport, error) {
		e, err := dispatch.ParseURL(callee.Endpoint)
		if err != nil {
			return nil, err
		}
		return dispatch.GuardedTransport{Client: c.ForActor(outbound.VacantActor(caller, outbound.Stranger).WithCallee(callee))}, checkTLS(e)
	}
}

func checkTLS(e *url.URL) error {
	if e.Scheme != "https" {
		return problem.New(problem.Forbidden, "its endpoint at %.80s does not use https", e.Host)
	}
	return nil
}

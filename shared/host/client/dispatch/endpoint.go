package dispatch

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// endpointURLs lists the URLs at which a card's endpoint may take calls,
// likeliest first. The reference posts to the endpoint verbatim in one half of
// its code and appends the message path in the other (PROTOCOL §23 C4), so
// cards have either form. An endpoint that ends in the message path is used as
// it is. The path is appended to one without a path or with the path of a
// vacant. Any other endpoint is tried as it is first.
func endpointURLs(endpoint string) ([]string, error) {
	u, err := parseURL(endpoint)
	if err != nil {
		return nil, err
	}
	whole, err := SendURL(endpoint)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.Path, "/")
	_, vacant := idInPath(path)
	switch {
	case strings.HasSuffix(path, sendPath):
		return []string{endpoint}, nil
	case path == "", vacant && strings.Count(path[strings.Index(path, "/v/"):], "/") == 2:
		return []string{whole}, nil
	}
	return []string{endpoint, whole}, nil
}

// Route chooses the transport to a verified card's endpoint from a registry. An
// error says why the vacant may not be called. Safe for concurrent use.
type Route func(registry string, callee *card.Card) (Transport, error)

// Personal is the Route of a person's own machine. A stranger chose the
// endpoint in a registry's answer, so calls use HTTPS through outbound, which
// reaches no private network. There are two exceptions for a person's own
// registries: an endpoint on this machine may be called if the registry is on
// it, and one with the registry's scheme, host and port like the registry.
func Personal(timeout time.Duration) Route {
	near := NewHTTP(HTTPOptions{Timeout: timeout})
	far := Guarded{outbound.New(outbound.Options{Timeout: timeout}).As(outbound.Itself())}
	return func(registry string, callee *card.Card) (Transport, error) {
		r, err := parseURL(registry)
		if err != nil {
			return nil, err
		}
		e, err := parseURL(callee.Endpoint)
		switch {
		case err != nil:
			return nil, err
		case r.Scheme == e.Scheme && r.Host == e.Host, onThisMachine(r) && onThisMachine(e):
			return near, nil
		case onThisMachine(e):
			return nil, problem.New(problem.Forbidden, "its endpoint %s is this machine, and the registry is not", e.Host)
		}
		return far, overTLS(e)
	}
}

// Hosts is the Route of a hosted vacant: HTTPS through the host's outbound
// client, whose guard gets caller and callee.
func Hosts(c *outbound.Client, caller identity.ID) Route {
	return func(_ string, callee *card.Card) (Transport, error) {
		e, err := parseURL(callee.Endpoint)
		if err != nil {
			return nil, err
		}
		return Guarded{c.As(outbound.Vacant(caller).Calling(callee))}, overTLS(e)
	}
}

func overTLS(e *url.URL) error {
	if e.Scheme != "https" {
		return problem.New(problem.Forbidden, "its endpoint at %.80s takes calls in clear", e.Host)
	}
	return nil
}

// onThisMachine reports whether a URL's host is this machine by its literal
// form, without asking a name server.
func onThisMachine(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return IsLocalhost(u.Hostname()) || err == nil && ip.Unmap().IsLoopback()
}

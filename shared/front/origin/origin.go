// Package origin judges the web pages that send requests.
//
// A page of any site can make a browser send requests to a host, some of them without asking the host
// first. Browsers tell the origin of the page (Origin, Sec-Fetch-Site); programs send neither. The
// invariant: a request that changes something comes from a program, from a page of the host, or from a
// page of an origin that the operator allows. Judge is the only place that decides this.
package origin

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Judge is a judge of the pages that send requests. The zero Judge accepts only programs, and pages on
// loopback of a host on loopback.
type Judge struct {
	// URL returns the host's base URL, or "" while the host has none. A nil URL means that it never has one.
	URL func(context.Context) (string, error)
	// Routed: a router chose this host by the request's Host, so it is this host's.
	Routed bool
	// Allowed are the origins of other sites whose pages may send requests, as Parse returns them.
	Allowed []string
}

// Parse returns an origin in the form in which browsers send it, SCHEME://HOST or SCHEME://HOST:PORT. ok is
// false for other texts, also for "null", which each sandboxed page sends.
func Parse(s string) (origin string, ok bool) {
	u, err := url.Parse(strings.ToLower(s))
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Scheme+"://"+u.Host != strings.ToLower(s) {
		return "", false
	}
	if standard := map[string]string{"https": "443", "http": "80"}[u.Scheme]; standard != "" && u.Port() == standard {
		u.Host = strings.TrimSuffix(u.Host, ":"+standard)
	}
	return u.Scheme + "://" + u.Host, true
}

// Allows reports whether a page of an allowed origin sends a request.
func (j *Judge) Allows(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) != 1 {
		return false
	}
	page, ok := Parse(given[0])
	return ok && slices.Contains(j.Allowed, page)
}

// Check returns a Forbidden error if a page sends r that is neither the host's own nor allowed.
func (j *Judge) Check(r *http.Request) error {
	if j.Allows(r) {
		return nil
	}
	foreign := problem.New(problem.Forbidden, "requests of a page of another site are refused here")
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return foreign
		}
	}
	for _, given := range r.Header.Values("Origin") {
		switch own, err := j.isOwn(r, given); {
		case err != nil:
			return err
		case !own:
			return foreign
		}
	}
	return nil
}

// isOwn reports whether an origin is the host's: the origin of its base URL, or of a Host that certainly is this
// host. Any other Host may be a name whose owner pointed it at this host.
func (j *Judge) isOwn(r *http.Request, given string) (bool, error) {
	page, ok := Parse(given)
	if !ok {
		return false, nil
	}
	base := ""
	if j.URL != nil {
		var err error
		if base, err = j.URL(r.Context()); err != nil {
			return false, err
		}
	}
	own := []string{base}
	if loopback := IsLoopback(r.Host); loopback || j.Routed {
		scheme, _, hasURL := strings.Cut(base, "://")
		if !hasURL {
			scheme = "https"
		}
		own = append(own, scheme+"://"+r.Host)
		if loopback {
			own = append(own, "http://"+r.Host)
		}
	}
	return slices.ContainsFunc(own, func(s string) bool { o, ok := Parse(s); return ok && o == page }), nil
}

// IsLoopback reports whether host, with or without a port, is a loopback address or a localhost name.
func IsLoopback(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	return outbound.IsThisMachine(strings.Trim(host, "[]"))
}

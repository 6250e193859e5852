// Package origin checks which web pages may send requests. A page of any site can make a browser
// send requests to a host. Browsers send the origin of the page; other programs send none.
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

// Judge checks the origins of requests. The zero Judge accepts only requests of programs and, if
// the host is on loopback, of the host's own pages.
type Judge struct {
	// URL returns the host's base URL, or "" if the host has none yet. URL may be nil.
	URL func(context.Context) (string, error)
	// TrustHostHeader is true if a router chose this host by the request's Host header.
	TrustHostHeader bool
	// Allowed lists the origins of other sites whose pages may send requests, as Parse returns
	// them.
	Allowed []string
}

func Parse(s string) (origin string, ok bool) {
	// Sandboxed pages send the origin "null", which is not accepted.
	u, err := url.Parse(strings.ToLower(s))
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Scheme+"://"+u.Host != strings.ToLower(s) {
		return "", false
	}
	if defaultPort := map[string]string{"https": "443", "http": "80"}[u.Scheme]; defaultPort != "" && u.Port() == defaultPort {
		u.Host = strings.TrimSuffix(u.Host, ":"+defaultPort)
	}
	return u.Scheme + "://" + u.Host, true
}

func (j *Judge) Allows(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) != 1 {
		return false
	}
	page, ok := Parse(values[0])
	return ok && slices.Contains(j.Allowed, page)
}

func (j *Judge) Check(r *http.Request) error {
	if j.Allows(r) {
		return nil
	}
	refusal := problem.New(problem.Forbidden, "this host refuses requests from pages of other sites")
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return refusal
		}
	}
	for _, value := range r.Header.Values("Origin") {
		switch isOwn, err := j.isOwn(r, value); {
		case err != nil:
			return err
		case !isOwn:
			return refusal
		}
	}
	return nil
}

func (j *Judge) isOwn(r *http.Request, value string) (bool, error) {
	page, ok := Parse(value)
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
	// The Host header may be a foreign name that its owner has pointed at this host (DNS
	// rebinding), unless a router has checked it.
	ownOrigins := []string{base}
	if loopback := IsLoopback(r.Host); loopback || j.TrustHostHeader {
		scheme, _, hasURL := strings.Cut(base, "://")
		if !hasURL {
			scheme = "https"
		}
		ownOrigins = append(ownOrigins, scheme+"://"+r.Host)
		if loopback {
			ownOrigins = append(ownOrigins, "http://"+r.Host)
		}
	}
	return slices.ContainsFunc(ownOrigins, func(s string) bool { o, ok := Parse(s); return ok && o == page }), nil
}

func IsLoopback(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	return outbound.IsThisMachine(strings.Trim(host, "[]"))
}

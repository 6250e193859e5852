package standalone

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// BehindProxy sets RemoteAddr to the caller's address if the peer is a trusted proxy: the last
// address in X-Forwarded-For that is not a trusted proxy. Callers can forge earlier addresses. If
// requireHTTPS is true, BehindProxy refuses requests that reached a trusted proxy by plain http.
func BehindProxy(trusted []netip.Prefix, requireHTTPS bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chain, proto := r.Header.Values("X-Forwarded-For"), r.Header.Values("X-Forwarded-Proto")
		r.Header.Del("X-Forwarded-For")
		r.Header.Del("X-Forwarded-Proto")
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && isTrusted(trusted, peer.Addr()) {
			if addr, ok := clientAddr(trusted, chain); ok {
				r.RemoteAddr = addr.String()
			}
			if requireHTTPS && len(proto) > 0 && !strings.EqualFold(strings.TrimSpace(proto[len(proto)-1]), "https") {
				httpapi.Fail(w, problem.New(problem.Forbidden, "this host accepts only https requests"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func clientAddr(trusted []netip.Prefix, chain []string) (netip.Addr, bool) {
	hops := strings.Split(strings.Join(chain, ","), ",")
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil {
			addrPort, err := netip.ParseAddrPort(hop)
			if err != nil {
				return netip.Addr{}, false
			}
			addr = addrPort.Addr()
		}
		if !isTrusted(trusted, addr) {
			return addr.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

func isTrusted(trusted []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ParseBaseURL parses the URL at which callers reach a host. The URL must be https://HOST without a
// path, or http://HOST if HOST is this machine.
func ParseBaseURL(s string) (base *url.URL, ok bool) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return nil, false
	}
	return u, u.Scheme == "https" || u.Scheme == "http" && outbound.IsThisMachine(u.Hostname())
}

func EdgeLimits(h setting.Host, now func() time.Time) edge.Config {
	return edge.Config{RequestRate: h.Rate, PairRate: h.PairRate, BodyRate: h.ByteRate, Now: now}
}

// Guard limits the requests of each address and refuses requests for another Host. If base is on
// this machine, Guard also refuses web pages of other origins that are not in allowed.
func Guard(base *url.URL, limits edge.Config, allowed []string, next http.Handler) http.Handler {
	next = edge.Limit(limits, next)
	if outbound.IsThisMachine(base.Hostname()) {
		baseURL := func(context.Context) (string, error) { return base.String(), nil }
		return serve.LoopbackOnly(&origin.Judge{URL: baseURL, Allowed: allowed}, next)
	}
	return RequireHost(base, next)
}

// RequireHost refuses requests to any Host other than base's. Otherwise the owner of another host
// name could point that name at this host, and browsers would attribute the answers to the other
// name.
func RequireHost(base *url.URL, next http.Handler) http.Handler {
	want := strings.ToLower(base.Host)
	defaultPort := map[string]string{"https": ":443", "http": ":80"}[base.Scheme]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.ToLower(r.Host)
		if strings.TrimSuffix(got, defaultPort) != strings.TrimSuffix(want, defaultPort) && r.URL.Path != HealthPath && r.URL.Path != ReadyPath {
			httpapi.Fail(w, problem.New(problem.Misdirected, "Host: expected %s, got %.80q", base.Host, r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

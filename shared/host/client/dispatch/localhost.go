package dispatch

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// dialTimeout limits one connection attempt.
const dialTimeout = 10 * time.Second

// loopbackAddrs lists the addresses of localhost in the order in which they are tried.
var loopbackAddrs = [...]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// Dial connects to addr, which is host:port, from a person's own machine, without restricting
// addresses. It connects localhost names, which Go's resolver does not know, to loopback. Hosts use
// outbound instead. Dial fits http.Transport's DialContext.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !outbound.IsLocalhost(host) {
		return d.DialContext(ctx, network, addr)
	}
	var firstErr error
	for _, a := range loopbackAddrs {
		c, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		firstErr = cmp.Or(firstErr, err) // the second error only repeats it for the other address
	}
	return nil, firstErr
}

// ProxyURL works like http.ProxyFromEnvironment, but uses no proxy for localhost names, because a
// proxy would resolve them to itself.
func ProxyURL(r *http.Request) (*url.URL, error) {
	if outbound.IsLocalhost(r.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

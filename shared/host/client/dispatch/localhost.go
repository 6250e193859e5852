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

// dialTime bounds one connection attempt.
const dialTime = 10 * time.Second

// loopback lists the addresses of localhost in the order of trying.
var loopback = [...]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// Dial connects to addr, host:port, from a person's own machine: to any
// address, and for localhost names to loopback, which Go's resolver does not
// know. A host uses outbound instead. It fits http.Transport's DialContext.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !outbound.IsLocalhost(host) {
		return d.DialContext(ctx, network, addr)
	}
	var first error
	for _, a := range loopback {
		c, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		first = cmp.Or(first, err) // a second one says the same of the other address
	}
	return nil, first
}

// Proxy is http.ProxyFromEnvironment, but bypasses the proxy for all
// localhost names: a proxy would look for them on itself.
func Proxy(r *http.Request) (*url.URL, error) {
	if outbound.IsLocalhost(r.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

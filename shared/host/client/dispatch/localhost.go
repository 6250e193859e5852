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

const dialTimeout = 10 * time.Second

var loopbackAddrs = [...]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// Dial connects to addr from a person's own machine, without restricting addresses.
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
		firstErr = cmp.Or(firstErr, err)
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

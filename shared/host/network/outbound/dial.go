package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const attemptTimeout = 5 * time.Second

type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

type dialer struct {
	resolver       Resolver
	connect        DialFunc
	allowedReasons map[string]bool
}

// dial refuses a name if any of its addresses is refused. Names with internal addresses and names
// without addresses get the same error message. Otherwise tenants could explore the internal
// network.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, problem.Wrap(problem.Malformed, err, "%s is not a host and port", quote(addr))
	}
	candidates, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range candidates {
		if reason := refusalReason(a, d.allowedReasons); reason != "" {
			cause := &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("address %s is %s; see serve --allow-loopback-agents", a, reason)}
			if _, err := netip.ParseAddr(host); err != nil && !IsLocalhost(host) {
				return nil, noPublicAddressError(host, cause)
			}
			return nil, problem.Wrap(problem.Forbidden, cause, "%s: expected a public address, got an address of a private network or of this machine", host)
		}
	}
	var lastErr error
	for i, a := range candidates {
		c, err := d.dialAddress(ctx, network, net.JoinHostPort(a.String(), port), len(candidates)-i)
		if err == nil {
			return c, nil
		}
		lastErr = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, lastErr
}

func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	// Some system resolvers return A records in v4-mapped form. A v4-mapped literal stays unchanged
	// and is refused.
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("look up %s: %w", host, err)
	case err != nil:
		return nil, noPublicAddressError(host, err)
	case len(addrs) == 0:
		return nil, noPublicAddressError(host, errors.New("the name has no address"))
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

func noPublicAddressError(host string, cause error) error {
	return problem.Wrap(problem.Unavailable, cause, "%s: no public address was found for this name", host)
}

func (d *dialer) dialAddress(ctx context.Context, network, addr string, remaining int) (net.Conn, error) {
	timeout := attemptTimeout
	if deadline, ok := ctx.Deadline(); ok && remaining > 1 {
		timeout = min(timeout, time.Until(deadline)/time.Duration(remaining))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.connect(ctx, network, addr)
}

func quote(s string) string { return fmt.Sprintf("%.*q", 80, s) }

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

// Resolver resolves names. *net.Resolver implements it.
type Resolver interface {
	// LookupNetIP returns the addresses of host. The argument network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// attemptTimeout limits one connection attempt, so that an unresponsive address leaves time for the
// next address.
const attemptTimeout = 5 * time.Second

// DialFunc opens a connection to addr, which has the form IP:PORT and is already checked. For
// example, (*net.Dialer).DialContext is a DialFunc.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

type dialer struct {
	resolver       Resolver
	connect        DialFunc
	allowedReasons map[string]bool // reasons of address ranges that may be dialled
}

// dial connects to addr, which has the form host:port. If one address of a name is refused, dial
// refuses the name: a name with both internal and public addresses is an attack or a mistake.
//
// The error message is the same for a name with internal addresses and a name without addresses,
// and it contains no address. Otherwise tenants could explore the internal network. The cause,
// which is only logged, contains the difference.
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
	// Some system resolvers return A records in v4-mapped form, so their answers are unmapped. A
	// v4-mapped literal is not unmapped, so it is refused.
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
	// The kind is Unavailable and not Forbidden, because the name may get a public address later.
	return problem.Wrap(problem.Unavailable, cause, "%s: no public address was found for this name", host)
}

func (d *dialer) dialAddress(ctx context.Context, network, addr string, remaining int) (net.Conn, error) {
	// The remaining time of ctx is divided evenly among this address and the addresses after it.
	timeout := attemptTimeout
	if deadline, ok := ctx.Deadline(); ok && remaining > 1 {
		timeout = min(timeout, time.Until(deadline)/time.Duration(remaining))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.connect(ctx, network, addr)
}

func quote(s string) string { return fmt.Sprintf("%.*q", 80, s) }

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

// attemptTime limits one connection attempt, so that an unresponsive address leaves time for the
// next address.
const attemptTime = 5 * time.Second

// Dial opens a connection to addr, which has the form IP:PORT and is already checked. For example,
// (*net.Dialer).DialContext is a Dial.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

type dialer struct {
	resolver Resolver
	connect  Dial
	allowed  map[string]bool // reasons of address ranges that may be dialled
}

// dial connects to addr, which has the form host:port.
//
// If one address of a name is refused, the name is refused: a name with both internal and public
// addresses is an attack or a mistake, which the use of the public address would hide. The error
// message does not contain the address, and it is the same for a name with internal addresses and a
// name without addresses. Otherwise tenants could explore the internal network. The cause, which is
// only logged, contains the difference.
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
		if reason := refusalReason(a, d.allowed); reason != "" {
			cause := &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("address %s is %s; see serve --allow-loopback-agents", a, reason)}
			if _, err := netip.ParseAddr(host); err != nil && !IsLocalhost(host) {
				return nil, noPublicAddress(host, cause)
			}
			return nil, problem.Wrap(problem.Forbidden, cause, "%s: expected a public address, got an address of a private network or of this machine", host)
		}
	}
	var last error
	for i, a := range candidates {
		c, err := d.attempt(ctx, network, net.JoinHostPort(a.String(), port), len(candidates)-i)
		if err == nil {
			return c, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	// Some system resolvers return A records in v4-mapped form, so their answers are unmapped. A
	// v4-mapped literal is not unmapped, so it is refused.
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("look up %s: %w", host, err)
	case err != nil:
		return nil, noPublicAddress(host, err)
	case len(found) == 0:
		return nil, noPublicAddress(host, errors.New("the name has no address"))
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, nil
}

func noPublicAddress(host string, cause error) error {
	// The kind is Unavailable and not Forbidden, because the name may get a public address later.
	return problem.Wrap(problem.Unavailable, cause, "%s: no public address was found for this name", host)
}

func (d *dialer) attempt(ctx context.Context, network, addr string, left int) (net.Conn, error) {
	// The remaining time of ctx is divided evenly among this address and the addresses after it.
	limit := attemptTime
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		limit = min(limit, time.Until(deadline)/time.Duration(left))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.connect(ctx, network, addr)
}

func quote(s string) string { return fmt.Sprintf("%.*q", 80, s) }

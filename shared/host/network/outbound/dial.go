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

// Resolver resolves names; *net.Resolver implements it.
type Resolver interface {
	// LookupNetIP returns the addresses of host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// attemptTime bounds one connection attempt, so that an unresponsive address
// leaves time for the next.
const attemptTime = 5 * time.Second

// Dial opens a connection to an address that was checked, as IP:PORT;
// (*net.Dialer).DialContext is one.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer resolves, checks and dials.
type dialer struct {
	resolver Resolver
	connect  Dial
	allowed  map[string]bool // reasons of spans that may be dialled
}

// dial connects to addr, host:port. One refused address refuses the name: a
// name that resolves to inside and outside addresses is an attack or a mistake,
// and using the public address would hide it. The refusal's text does not contain
// the address, and a name that leads inside is refused as a name without an address,
// because both would tell a tenant how the network inside is built. The cause, for the
// log, says which.
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
		if reason := check(a, d.allowed); reason != "" {
			cause := &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("address %s is %s; see serve --allow-loopback-agents", a, reason)}
			if _, err := netip.ParseAddr(host); err != nil && !IsLocalhost(host) {
				return nil, noPublicAddress(host, cause)
			}
			return nil, problem.Wrap(problem.Forbidden, cause, "%s: expected a public address, got one inside a network or of this machine", host)
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

// resolve lists the addresses of host, which may itself be an address. Some
// systems' resolvers return A records in v4-mapped form, so answers are
// unmapped; a v4-mapped literal is not, and is refused.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
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

// noPublicAddress returns the error for a name without an address that may be dialled. The error is
// Unavailable, because the name may have one later.
func noPublicAddress(host string, cause error) error {
	return problem.Wrap(problem.Unavailable, cause, "%s: no public address was found for this name", host)
}

// attempt dials an address within its share of the time that ctx leaves for it
// and the remaining addresses.
func (d *dialer) attempt(ctx context.Context, network, addr string, left int) (net.Conn, error) {
	limit := attemptTime
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		limit = min(limit, time.Until(deadline)/time.Duration(left))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.connect(ctx, network, addr)
}

// quote quotes the first bytes of foreign text.
func quote(s string) string { return fmt.Sprintf("%.*q", 80, s) }

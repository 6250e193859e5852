package hammer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Target is the vacant to call: id and checked addresses.
type Target struct {
	ID    identity.ID
	URL   *url.URL // posted to
	Addrs []netip.AddrPort
}

// dialTime bounds a connection's start.
const dialTime = 5 * time.Second

// Find finds the target of a URL: of a host, of a vacant
// (…/v/ID), or of its message route. The id is the given one, else the id in
// the card there. A host on another machine is refused.
func Find(ctx context.Context, given string, id identity.ID) (Target, error) {
	send, err := dispatch.SendURL(given)
	if err != nil {
		return Target{}, err
	}
	u, err := url.Parse(send)
	if err != nil {
		return Target{}, problem.Wrap(problem.Usage, err, "%.80q is not a URL", given)
	}
	t := Target{ID: id, URL: u}
	if t.Addrs, err = addresses(ctx, u); err != nil {
		return Target{}, err
	}
	if !id.IsZero() {
		return t.withRoute()
	}
	found, err := dispatch.FetchTarget(ctx, t.getter(), given)
	if err != nil {
		return Target{}, err
	}
	t.ID = found.ID
	return t, nil
}

// withRoute returns the target with the URL of its own route. It refuses a URL that
// names the route of another vacant.
func (t Target) withRoute() (Target, error) {
	const handler = "/a2a/message/send"
	base := outbound.ReplaceSuffix(t.URL, handler, "")
	_, route, ok := strings.Cut(base.EscapedPath(), "/v/")
	if ok && route != t.ID.String() {
		return t, problem.New(problem.Usage, "the URL names the vacant %.80q, but the given id is %s", route, t.ID)
	}
	t.URL = outbound.ReplaceSuffix(base, "/v/"+t.ID.String(), "/v/"+t.ID.String()+handler)
	return t, t.ID.Check()
}

// addresses resolves the host once, so that only the checked addresses are dialled.
func addresses(ctx context.Context, u *url.URL) ([]netip.AddrPort, error) {
	ips := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} // of localhost
	if !outbound.IsLocalhost(u.Hostname()) {
		var err error
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname()); err != nil {
			return nil, problem.Wrap(problem.Unavailable, err, "%s cannot be found", u.Hostname())
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "port %s", port)
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		ip = ip.Unmap()
		if !ip.IsLoopback() {
			return nil, &problem.Error{Kind: problem.Forbidden, Detail: fmt.Sprintf(
				"%s is %s, which is not this machine: hammering the host of another operator is an attack", u.Hostname(), ip)}
		}
		addrs[i] = netip.AddrPortFrom(ip, uint16(number))
	}
	return addrs, nil
}

// dial connects to one of the checked addresses.
func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	var first error
	for _, addr := range t.Addrs {
		c, err := d.DialContext(ctx, "tcp", addr.String())
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// getter fetches the card from the checked addresses.
func (t *Target) getter() dispatch.Getter {
	return getter{&http.Client{
		Timeout: 2 * dialTime,
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type getter struct{ client *http.Client }

func (g getter) Get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, problem.Wrap(problem.Usage, err, "%.80q cannot be fetched", url)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, nil, problem.Wrap(problem.Unavailable, err, "%s cannot be reached", req.URL.Host)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, int64(canon.AnswerLimits().Bytes)))
	if err != nil {
		return 0, nil, problem.Wrap(problem.Unavailable, err, "%s broke off", req.URL.Host)
	}
	return resp.StatusCode, b, nil
}

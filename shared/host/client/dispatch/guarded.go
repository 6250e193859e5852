package dispatch

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// GuardedTransport is the Transport of hosts, for endpoints that a stranger chose. It does not
// connect to private networks. It is safe for concurrent use.
type GuardedTransport struct{ Client outbound.ActorClient }

func (g GuardedTransport) Post(ctx context.Context, url string, body []byte) (int, []byte, error) {
	r, err := g.Client.Do(ctx, outbound.Request{
		Method: http.MethodPost, URL: url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	})
	switch {
	case err == nil && r.Status >= 300 && r.Status < 400:
		return 0, nil, problem.New(problem.Usage, "%.80q redirects to %.200q; redirects are not followed", url, r.Header.Get("Location"))
	case problem.Is(err, problem.Forbidden), problem.Is(err, problem.TreeOnly), problem.Is(err, problem.Malformed):
		refusal := *problem.AsError(err)
		refusal.Kind = problem.Usage
		return 0, nil, &refusal
	case problem.Is(err, problem.Unavailable), problem.Is(err, problem.DeadlineExceeded), problem.Is(err, problem.Untrusted):
		return 0, nil, transportError(err)
	}
	return r.Status, r.Body, err
}

func transportError(err error) error {
	kind := problem.DeadlineExceeded // outbound may return Unavailable after the request was sent
	var opErr *net.OpError
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) || errors.As(err, &opErr) && opErr.Op == "dial" || problem.Is(err, problem.Untrusted) {
		kind = problem.Unavailable // an untrusted certificate is rejected before the request
	}
	return problem.Wrap(kind, err, "%s", problem.AsError(err).Text())
}

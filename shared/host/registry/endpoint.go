package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const (
	// MaxEndpoint is the longest endpoint in bytes.
	MaxEndpoint = 2 << 10
	// probeTime is short: the publisher chooses the server, and a server that
	// hangs occupies an instance of the function.
	probeTime  = 2 * time.Second
	probeReply = 1 << 10 // bytes; the content does not matter, and the publisher chooses the server
)

// endpoint checks the endpoint of a card: it is at this host, or elsewhere over
// HTTPS and answers. A card without an endpoint can be registered, but its
// vacant cannot be called.
func (r *Registry) endpoint(ctx context.Context, g *Registration, c *card.Card, reached *string) error {
	if g.Joined == 0 || endpointOf(g.Card) != c.Endpoint {
		g.reached = false
	}
	g.Hosted = false
	if c.Endpoint == "" {
		return nil
	}
	if r.Endpoints != nil {
		hosted, err := r.Endpoints.IsEndpoint(ctx, c.VacantID, c.Endpoint)
		if err != nil {
			return err
		}
		if hosted {
			g.Hosted, g.reached = true, true
			return nil
		}
	}
	if err := r.checkEndpoint(c.Endpoint); err != nil {
		return err
	}
	if g.Visibility != lifecycle.Public || g.reached {
		return nil
	}
	if *reached != c.Endpoint {
		if err := r.probe(ctx, c.Endpoint); err != nil {
			return err
		}
		*reached = c.Endpoint
	}
	g.reached = true
	return nil
}

func endpointOf(blob []byte) string {
	c, err := card.Parse(blob)
	if err != nil {
		return ""
	}
	return c.Endpoint
}

// checkEndpoint requires an HTTPS URL, or one of a neighbour. The address is checked
// when it is dialled, because a name may resolve to another address by then.
func (r *Registry) checkEndpoint(endpoint string) error {
	const field = "endpoint"
	if len(endpoint) > MaxEndpoint {
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxEndpoint), strconv.Itoa(len(endpoint)))
	}
	u, err := outbound.ParseURL(endpoint)
	switch {
	case err != nil:
		return problem.Wrap(problem.Malformed, err, "endpoint: %s", problem.Of(err).Text())
	case u.Scheme != "https" && !(r.Neighbours && outbound.IsThisMachine(u.Hostname())):
		return problem.Invalid(field, "an https URL, or an address of this host", clip(endpoint))
	case u.Fragment != "":
		return problem.Invalid(field, "no fragment", clip(endpoint))
	}
	return nil
}

func (r *Registry) probe(ctx context.Context, endpoint string) error {
	if r.Probe == nil {
		return problem.New(problem.Malformed, "endpoint: expected an address of this host, got %s: this host reaches no other", clip(endpoint))
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := r.Probe(ctx, endpoint)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) || problem.Is(err, problem.TooMany) {
		return err
	}
	// Whatever the cause, it lies with the endpoint and not with the store.
	return problem.Wrap(problem.Malformed, err, "endpoint: expected one that answers: %s", problem.Of(err).Text())
}

// A process makes probesAtOnce probes, and then one in probeEvery: endpoints
// that hang take a fifth of its time at most, and the rest is for others'
// publications and revocations.
const (
	probesAtOnce = 5
	probeEvery   = 10 * time.Second
)

// FewProbes is probe for a process that serves one request at a time. Beyond
// the limit the error is TooMany.
func FewProbes(probe func(ctx context.Context, endpoint string) error, now func() time.Time) func(ctx context.Context, endpoint string) error {
	var mu sync.Mutex
	var bucket ratelimit.Bucket
	take := func() error {
		mu.Lock()
		defer mu.Unlock()
		bucket.Fill(1/probeEvery.Seconds(), now())
		if over := bucket.Spent + 1 - probesAtOnce; over > 0 {
			return problem.New(problem.TooMany, "this host tries too many endpoints already; publish again in %.0f s", math.Ceil(over*probeEvery.Seconds()))
		}
		bucket.Spent++
		return nil
	}
	return func(ctx context.Context, endpoint string) error {
		if err := take(); err != nil {
			return err
		}
		return probe(ctx, endpoint)
	}
}

// Prober is a Probe through c, which reaches public addresses only.
func Prober(c *outbound.Client) func(ctx context.Context, endpoint string) error {
	return func(ctx context.Context, endpoint string) error {
		reply, err := c.Do(ctx, outbound.Itself(), outbound.Request{Method: http.MethodGet, URL: endpoint, MaxReply: probeReply})
		if problem.Is(err, problem.TooLarge) {
			return nil // a long reply is a reply
		}
		if err != nil {
			return err
		}
		if reply.Status >= http.StatusInternalServerError {
			return problem.New(problem.Unavailable, "status %d", reply.Status)
		}
		return nil
	}
}

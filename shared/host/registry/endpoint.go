package registry

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const MaxEndpointBytes = 2 << 10

// setEndpoint checks the endpoint of a card and sets whether g is hosted. ProbeEndpoints contacts
// the endpoint later, because its server may hang.
func (r *Registry) setEndpoint(ctx context.Context, reg *Registration, c *card.Card) error {
	if reg.FirstSeq == 0 || parseEndpoint(reg.Card) != c.Endpoint {
		reg.isReachable = false
	}
	reg.Hosted, reg.AwaitsProbe = false, false
	if c.Endpoint == "" {
		return nil
	}
	if r.Endpoints != nil {
		hosted, err := r.Endpoints.IsEndpoint(ctx, c.VacantID, c.Endpoint)
		if err != nil {
			return err
		}
		if hosted {
			reg.Hosted, reg.isReachable = true, true
			return nil
		}
	}
	if err := r.checkEndpoint(c.Endpoint); err != nil {
		return err
	}
	reg.AwaitsProbe = reg.Visibility == lifecycle.Public && !reg.isReachable
	if reg.AwaitsProbe && !r.AllowRemote {
		return problem.New(problem.Malformed, "endpoint: expected an address of this host, got %s: this host does not list vacants on other hosts", quoteTruncated(c.Endpoint))
	}
	return nil
}

func parseEndpoint(cardBlob []byte) string {
	c, err := card.Parse(cardBlob)
	if err != nil {
		return ""
	}
	return c.Endpoint
}

func (r *Registry) checkEndpoint(endpoint string) error {
	// A host name is not resolved here, because outbound checks its address when it dials.
	const field = "endpoint"
	if len(endpoint) > MaxEndpointBytes {
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxEndpointBytes), strconv.Itoa(len(endpoint)))
	}
	u, err := outbound.ParseURL(endpoint)
	if err != nil {
		return problem.Wrap(problem.Malformed, err, "endpoint: %s", problem.AsError(err).Text())
	}
	isLocal := r.AllowLoopback && outbound.IsThisMachine(u.Hostname())
	switch reason := outbound.AddressRefusal(u.Hostname()); {
	case u.Scheme != "https" && !isLocal:
		return problem.Invalid(field, "an https URL, or an address of this host", quoteTruncated(endpoint))
	case reason != "" && !isLocal:
		return problem.Invalid(field, "a public address", quoteTruncated(u.Host)+", which is "+reason)
	case u.Fragment != "":
		return problem.Invalid(field, "no fragment", quoteTruncated(endpoint))
	}
	return nil
}

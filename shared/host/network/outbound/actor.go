package outbound

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// URLChooser identifies who chose a URL. Services on a machine often trust requests from the
// machine itself. On a host that others call, only URLs of the operator may therefore lead to this
// machine. The zero URLChooser is Stranger.
type URLChooser uint8

const (
	Stranger URLChooser = iota // URL in a card, a registration or a push configuration
	Tenant                     // URL set with a key of the tenant's account
	// URL set by the operator of the host, or by people on their own machine.
	Operator
)

// Actor is the origin of an outbound request: the host itself or one of its vacants, together with
// the chooser of the URL. The zero Actor cannot reach any URL, so a request is refused if the
// caller forgets the actor.
type Actor struct {
	isHost  bool
	vacant  identity.ID
	chooser URLChooser
	callee  *card.Card // unverified card of the called vacant, or nil
	// allowsPrivate means that the operator allows the URL to lead to a private address.
	allowsPrivate bool
}

// HostActor returns the actor for requests that the host makes for itself, such as probes and
// searches, and for requests of people on their own machine. These requests are not subject to the
// EndpointGuard.
func HostActor(chooser URLChooser) Actor { return Actor{isHost: true, chooser: chooser} }

func VacantActor(id identity.ID, chooser URLChooser) Actor {
	return Actor{vacant: id, chooser: chooser}
}

func (a Actor) WithPrivateAddresses() Actor {
	// The permission applies only to URLs that the operator chose.
	a.allowsPrivate = true
	return a
}

func (a Actor) WithCallee(callee *card.Card) Actor {
	a.callee = callee
	return a
}

func (a Actor) Vacant() (identity.ID, bool) { return a.vacant, !a.isHost && !a.vacant.IsZero() }

func (a Actor) Callee() *card.Card { return a.callee }

// EndpointGuard decides whether a hosted vacant may send a request to url. It is called for every
// request, after ParseURL has accepted url and before the host name is resolved. url is not
// normalized. A refusal must name the rule. An EndpointGuard must be safe for concurrent use.
type EndpointGuard func(ctx context.Context, as Actor, url string) error

func (c *Client) CheckPermission(ctx context.Context, actor Actor, url string) error {
	if actor.isHost {
		return nil
	}
	id, ok := actor.Vacant()
	switch {
	case !ok:
		return problem.New(problem.Forbidden, "no actor is given")
	case c.guard == nil:
		return problem.New(problem.Forbidden, "vacant %s may not send requests from this host", id.Short())
	}
	return c.guard(ctx, actor, url)
}

// ActorClient is a Client for one actor.
type ActorClient struct {
	client *Client
	actor  Actor
}

func (c *Client) ForActor(actor Actor) ActorClient { return ActorClient{c, actor} }

func (a ActorClient) Do(ctx context.Context, r Request) (Reply, error) {
	return a.client.Do(ctx, a.actor, r)
}

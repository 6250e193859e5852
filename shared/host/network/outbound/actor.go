package outbound

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// URLChooser identifies who chose a URL. Unless Options.AllowLoopback is set, only URLs of the
// operator may lead to this machine, because services often trust requests from their own machine.
type URLChooser uint8

const (
	Stranger URLChooser = iota
	Tenant
	Operator
)

// Actor is the origin of an outbound request: the host or one of its vacants. The zero Actor cannot
// reach any URL.
type Actor struct {
	isHost        bool
	vacant        identity.ID
	chooser       URLChooser
	callee        *card.Card // unverified; may be nil
	allowsPrivate bool
}

// HostActor returns the actor for requests of the host itself, which the EndpointGuard does not
// check.
func HostActor(chooser URLChooser) Actor { return Actor{isHost: true, chooser: chooser} }

func VacantActor(id identity.ID, chooser URLChooser) Actor {
	return Actor{vacant: id, chooser: chooser}
}

// WithPrivateAddresses allows private addresses in URLs that the operator chose.
func (a Actor) WithPrivateAddresses() Actor {
	a.allowsPrivate = true
	return a
}

func (a Actor) WithCallee(callee *card.Card) Actor {
	a.callee = callee
	return a
}

func (a Actor) Vacant() (identity.ID, bool) { return a.vacant, !a.isHost && !a.vacant.IsZero() }

func (a Actor) Callee() *card.Card { return a.callee }

// EndpointGuard decides whether a hosted vacant may send a request to url, which is not normalized.
// It must be safe for concurrent use.
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

type ActorClient struct {
	client *Client
	actor  Actor
}

func (c *Client) ForActor(actor Actor) ActorClient { return ActorClient{c, actor} }

func (a ActorClient) Do(ctx context.Context, r Request) (Reply, error) {
	return a.client.Do(ctx, a.actor, r)
}

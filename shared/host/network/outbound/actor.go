package outbound

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Chooser is the origin of a URL. Only the operator's URLs may lead to this
// machine if others call the host: another's would reach what listens on loopback
// because it trusts this machine. The zero Chooser is Stranger.
type Chooser uint8

// The choosers.
const (
	Stranger Chooser = iota // of a card, a registration or a push configuration
	Tenant                  // by a key of its account
	Operator                // of the host, or the person on their own machine
)

// Actor is the origin of an outbound request: the host itself or one of its
// vacants, and who chose the URL. The zero Actor may reach nothing, so that a
// forgotten actor is refused.
type Actor struct {
	host   bool
	vacant identity.ID
	by     Chooser
	callee *card.Card
	// private: the operator lets the URL lead to a private address.
	private bool
}

// Itself is the host, for its own probes and searches, or the person on their
// own machine, at a URL that by chose. No guard is asked.
func Itself(by Chooser) Actor { return Actor{host: true, by: by} }

// Vacant is a hosted vacant that calls an endpoint, such as its substrate's, at a
// URL that by chose.
func Vacant(id identity.ID, by Chooser) Actor { return Actor{vacant: id, by: by} }

// InPrivate is a at a URL that may lead to a private address, as the operator says.
func (a Actor) InPrivate() Actor {
	a.private = true
	return a
}

// Calling is a with the vacant that it calls, by the callee's card.
func (a Actor) Calling(callee *card.Card) Actor {
	a.callee = callee
	return a
}

// Vacant is the acting vacant's id; false if the actor is not a vacant.
func (a Actor) Vacant() (identity.ID, bool) { return a.vacant, !a.host && !a.vacant.IsZero() }

// Callee returns the called vacant's card, unverified, or nil.
func (a Actor) Callee() *card.Card { return a.callee }

// Guard decides whether a hosted vacant may reach url, which passed ParseURL
// and is given as written. A refusal names the rule. It is asked for every
// request, before the host name is resolved. Safe for concurrent use.
type Guard func(ctx context.Context, as Actor, url string) error

// Permit asks the guard if a vacant acts. Requests of this client are checked anyway.
func (c *Client) Permit(ctx context.Context, as Actor, url string) error {
	if as.host {
		return nil
	}
	id, ok := as.Vacant()
	switch {
	case !ok:
		return problem.New(problem.Forbidden, "no actor is given")
	case c.guard == nil:
		return problem.New(problem.Forbidden, "vacant %s reaches nothing from here", id.Short())
	}
	return c.guard(ctx, as, url)
}

// Acting is a Client for one actor.
type Acting struct {
	client *Client
	as     Actor
}

// As is c for one actor.
func (c *Client) As(a Actor) Acting { return Acting{c, a} }

// Do is Client.Do as the actor.
func (a Acting) Do(ctx context.Context, r Request) (Reply, error) { return a.client.Do(ctx, a.as, r) }

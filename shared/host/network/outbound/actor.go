package outbound

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Actor is the origin of an outbound request: the host itself or one of its
// vacants. The zero Actor may reach nothing, so that a forgotten actor is
// refused.
type Actor struct {
	host   bool
	vacant identity.ID
	callee *card.Card
}

// Itself is the host, for its own probes and searches, or the person on their
// own machine. No guard is asked.
func Itself() Actor { return Actor{host: true} }

// Vacant is a hosted vacant that calls an endpoint other than a vacant's, such
// as its substrate's.
func Vacant(id identity.ID) Actor { return Actor{vacant: id} }

// Calling is a with the vacant that it calls, by the callee's card.
func (a Actor) Calling(callee *card.Card) Actor {
	a.callee = callee
	return a
}

// Vacant is the acting vacant's id; false if the actor is not a vacant.
func (a Actor) Vacant() (identity.ID, bool) { return a.vacant, !a.host && !a.vacant.IsZero() }

// Callee is the called vacant's card, unverified; nil if there is none.
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

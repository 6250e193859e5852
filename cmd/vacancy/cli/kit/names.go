package kit

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Names maps the ids of vacants and identities to their names.
type Names map[identity.ID]string

func (n Names) NameOrID(id identity.ID) string { return EscapeLine(cmp.Or(n[id], id.Short())) }

func (n Names) NameOrText(text string) string {
	if id, err := identity.ParseID(text); err == nil {
		return n.NameOrID(id)
	}
	return EscapeLine(text)
}

func (n Names) NameAndID(id identity.ID) string {
	if name := n[id]; name != "" {
		return EscapeLine(name) + " (" + id.String() + ")"
	}
	return id.String()
}

func (a *App) IdentityNames() Names {
	names := Names{}
	dir, err := a.IdentityDir()
	if err != nil {
		return names
	}
	identities, _ := dir.Names()
	for _, name := range identities {
		if id, err := dir.Open(name); err == nil {
			names[id.ID()] = name
		}
	}
	return names
}

// HostNames returns the names of the user's identities and of a host's vacants. Unless c is an
// AdminAPI, it fetches the agent cards of vacants, at most maxNameCards.
func (a *App) HostNames(ctx context.Context, where HostFlags, c op.Client, vacants []identity.ID) Names {
	names := a.IdentityNames()
	ctx, cancel := context.WithTimeout(ctx, nameCardsTimeout)
	defer cancel()
	if adminAPI, ok := c.(*AdminAPI); ok {
		for v, err := range adminAPI.AllVacants(ctx, true) {
			if err != nil {
				break // the output has ids instead
			}
			names[v.ID] = v.Name
		}
		return names
	}
	base, err := a.GatewayURL(ctx, where)
	if err != nil {
		return names
	}
	transport := a.HTTPTransport(nameCardsTimeout)
	for _, id := range vacants[:min(len(vacants), maxNameCards)] {
		if card, err := agents.FetchCard(ctx, transport, base+"/v/"+id.String()); err == nil && card.VacantID == id {
			names[id] = Truncate(card.Name, maxCardName)
		}
	}
	return names
}

const (
	maxNameCards     = 20
	nameCardsTimeout = 2 * time.Second
	maxCardName      = 64
)

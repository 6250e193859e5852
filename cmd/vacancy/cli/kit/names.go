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

func (n Names) Of(id identity.ID) string { return Printable(cmp.Or(n[id], id.Short())) }

func (n Names) OfText(text string) string {
	if id, err := identity.ParseID(text); err == nil {
		return n.Of(id)
	}
	return Printable(text)
}

func (n Names) WithID(id identity.ID) string {
	if name := n[id]; name != "" {
		return Printable(name) + " (" + id.String() + ")"
	}
	return id.String()
}

func (a *App) OwnNames() Names {
	names := Names{}
	h, err := a.DataHome()
	if err != nil {
		return names
	}
	identities, _ := h.Names()
	for _, name := range identities {
		if id, err := h.Open(name); err == nil {
			names[id.ID()] = name
		}
	}
	return names
}

// HostNames returns the names of the user's identities and of a host's vacants. If the client c of
// the host is an AdminAPI, HostNames lists the vacants that the client administers. Otherwise it
// fetches the agent cards of the given vacants, but of at most maxNameCards.
func (a *App) HostNames(ctx context.Context, w Where, c op.Client, vacants []identity.ID) Names {
	names := a.OwnNames()
	ctx, cancel := context.WithTimeout(ctx, nameCardsTime)
	defer cancel()
	if operator, ok := c.(*AdminAPI); ok {
		for v, err := range operator.All(ctx, true) {
			if err != nil {
				break // the output has ids instead
			}
			names[v.ID] = v.Name
		}
		return names
	}
	base, err := a.HostURL(ctx, w)
	if err != nil {
		return names
	}
	web := a.HTTP(nameCardsTime)
	for _, id := range vacants[:min(len(vacants), maxNameCards)] {
		if card, err := agents.FetchCard(ctx, web, base+"/v/"+id.String()); err == nil && card.VacantID == id {
			names[id] = Clip(card.Name, maxCardName)
		}
	}
	return names
}

// Limits of the agent cards that HostNames reads.
const (
	maxNameCards  = 20
	nameCardsTime = 2 * time.Second
	maxCardName   = 64
)

package mcpserver

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// host implements mcptool.Host for the client of one request.
type host struct {
	*api
	r *request
}

func (h *host) Search(ctx context.Context, s mcptool.Search) (mcptool.Found, error) {
	return h.searchRegistry(ctx, registryclient.Query{Words: s.Query, Tag: s.Tag, MaxPrice: s.MaxPrice, Limit: s.Limit, Cursor: s.Cursor})
}

func (h *host) Show(ctx context.Context, name string) (mcptool.Shown, error) {
	a, err := h.openPublished(ctx, name)
	if err != nil {
		return mcptool.Shown{}, err
	}
	shown, there, err := mcptool.ShowByID(ctx, a.Vacant.ID, func(ctx context.Context, shortID string) (mcptool.Found, error) {
		return h.searchRegistry(ctx, registryclient.Query{ShortID: shortID, Limit: 1})
	})
	if err == nil && !there {
		err = h.r.recordError(notPublishedError(name))
	}
	return shown, err
}

func (h *host) Agent(ctx context.Context, name string) (mcptool.Agent, error) {
	a, err := h.openPublished(ctx, name)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// openPublished returns a published vacant of this host, whether or not it sleeps.
func (h *host) openPublished(ctx context.Context, name string) (*agent, error) {
	c, err := h.Agents.Open(h.r.Context(), h.r.Sender, name)
	if err == nil {
		var there bool
		if there, err = h.Published(ctx, c.Vacant.ID); err == nil && !there {
			err = notPublishedError(name)
		}
	}
	if problem.Is(err, problem.NotFound) {
		err = notPublishedError(name)
	}
	if err != nil {
		return nil, h.r.recordError(err)
	}
	return &agent{c, h.api, h.r}, nil
}

func notPublishedError(name string) error {
	return problem.New(problem.NotFound, "no agent %.80q is published here; find one with search_agents", name)
}

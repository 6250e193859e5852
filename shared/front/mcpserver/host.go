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
	req *request
}

func (h *host) SearchAgents(ctx context.Context, s mcptool.SearchArgs) (mcptool.SearchPage, error) {
	return h.searchRegistry(ctx, registryclient.Query{Words: s.Query, Tag: s.Tag, MaxPrice: s.MaxPrice, Limit: s.Limit, Cursor: s.Cursor})
}

func (h *host) DescribeAgent(ctx context.Context, name string) (mcptool.AgentInfo, error) {
	a, err := h.openPublished(ctx, name)
	if err != nil {
		return mcptool.AgentInfo{}, err
	}
	info, found, err := mcptool.FindAgentByID(ctx, a.Vacant.ID, func(ctx context.Context, shortID string) (mcptool.SearchPage, error) {
		return h.searchRegistry(ctx, registryclient.Query{ShortID: shortID, Limit: 1})
	})
	if err == nil && !found {
		err = h.req.recordError(notPublishedError(name))
	}
	return info, err
}

func (h *host) OpenAgent(ctx context.Context, name string) (mcptool.Agent, error) {
	a, err := h.openPublished(ctx, name)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (h *host) openPublished(ctx context.Context, name string) (*agent, error) {
	c, err := h.Plain.NewCaller(h.req.Context(), h.req.Sender, name)
	if err == nil {
		var isPublished bool
		if isPublished, err = h.IsPublished(ctx, c.Vacant.ID); err == nil && !isPublished {
			err = notPublishedError(name)
		}
	}
	if problem.Is(err, problem.NotFound) {
		err = notPublishedError(name)
	}
	if err != nil {
		return nil, h.req.recordError(err)
	}
	return &agent{c, h.api, h.req}, nil
}

func notPublishedError(name string) error {
	return problem.New(problem.NotFound, "no agent %.80q is published here; find one with search_agents", name)
}

package mcpserver

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
)

// teamClient implements mcptool.Team for the client of one request.
type teamClient struct {
	*team.Team
	caller team.Caller
	req    *request
}

func (h *host) Team() mcptool.Team {
	return &teamClient{h.api.Team, team.Caller{Payer: h.req.Payer, Address: h.req.Address.String()}, h.req}
}

func (m *teamClient) Agents(ctx context.Context) ([]team.Agent, error) {
	agents, err := m.Team.Agents(ctx, m.caller)
	return agents, m.req.recordError(err)
}

func (m *teamClient) Agent(ctx context.Context, name string) (team.Details, error) {
	d, err := m.Team.Agent(ctx, m.caller, name)
	return d, m.req.recordError(err)
}

func (m *teamClient) Dispatch(ctx context.Context, q team.Request) (team.Started, error) {
	s, err := m.Team.Dispatch(ctx, m.caller, q)
	return s, m.req.recordError(err)
}

func (m *teamClient) Status(ctx context.Context, id string) (team.Status, error) {
	s, err := m.Team.Status(ctx, m.caller, id, 0)
	teamapi.SetResultPath(&s, false)
	return s, m.req.recordError(err)
}

func (m *teamClient) Cancel(ctx context.Context, id string) (team.Status, error) {
	s, err := m.Team.CancelTask(ctx, m.caller, id)
	return s, m.req.recordError(err)
}

func (m *teamClient) Answer(ctx context.Context, id, text, key string) (team.Status, error) {
	s, err := m.Team.AnswerTask(ctx, m.caller, id, text, key)
	teamapi.SetResultPath(&s, false)
	return s, m.req.recordError(err)
}

func (m *teamClient) Locks(ctx context.Context) ([]locks.Lock, error) {
	heldLocks, _, err := m.HeldLocks(ctx, m.caller)
	return heldLocks, m.req.recordError(err)
}

package mcpserver

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
)

// members implements mcptool.Team for the client of one request.
type members struct {
	*team.Team
	caller team.Caller
	r      *request
}

func (h *host) Team() mcptool.Team {
	return &members{h.api.Team, team.Caller{Payer: h.r.Payer, Address: h.r.Address.String()}, h.r}
}

func (m *members) Agents(ctx context.Context) ([]team.Agent, error) {
	agents, err := m.Team.Agents(ctx, m.caller)
	return agents, m.r.recordError(err)
}

func (m *members) Agent(ctx context.Context, name string) (team.Details, error) {
	d, err := m.Team.Agent(ctx, m.caller, name)
	return d, m.r.recordError(err)
}

func (m *members) Dispatch(ctx context.Context, q team.Request) (team.Started, error) {
	s, err := m.Team.Dispatch(ctx, m.caller, q)
	return s, m.r.recordError(err)
}

func (m *members) Status(ctx context.Context, id string) (team.Status, error) {
	s, err := m.Team.Status(ctx, m.caller, id, 0)
	teamapi.Locate(&s, false)
	return s, m.r.recordError(err)
}

func (m *members) Cancel(ctx context.Context, id string) (team.Status, error) {
	s, err := m.Team.Cancel(ctx, m.caller, id)
	return s, m.r.recordError(err)
}

func (m *members) Answer(ctx context.Context, id, text, key string) (team.Status, error) {
	s, err := m.Team.Answer(ctx, m.caller, id, text, key)
	teamapi.Locate(&s, false)
	return s, m.r.recordError(err)
}

func (m *members) Locks(ctx context.Context) ([]locks.Lock, error) {
	heldLocks, _, err := m.HeldLocks(ctx, m.caller)
	return heldLocks, m.r.recordError(err)
}

package kit

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

func (a *App) Tokens(issuers []billing.Issuer) *tokens.Checker {
	anybody := func(context.Context, outbound.Actor, string) error { return nil }
	return tokens.New(billing.TokensConfig{
		Now: a.Now, Client: outbound.New(outbound.Options{OperatorLoopback: true, Guard: anybody}),
		Issuers: func(context.Context) ([]billing.Issuer, error) { return issuers, nil },
	})
}

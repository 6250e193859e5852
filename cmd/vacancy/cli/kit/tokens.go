package kit

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

func (a *App) TokenChecker(issuers []billing.Issuer) *tokens.Checker {
	allowAll := func(context.Context, outbound.Actor, string) error { return nil }
	return tokens.New(billing.TokenCheckerConfig{
		Now: a.Now, Client: outbound.New(outbound.Options{OperatorLoopback: true, Guard: allowAll}),
		Issuers: func(context.Context) ([]billing.Issuer, error) { return issuers, nil },
	})
}

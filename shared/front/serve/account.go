package serve

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
)

// AccountHandler returns the public handler of tenants, or nil if the host has no accounts. If open
// is nil, tenants cannot pay.
func (h *Server) AccountHandler(open func(paykeys.Config) billing.Payments) http.Handler {
	if h.Billing == nil {
		return nil
	}
	var payments billing.Payments
	if c := &h.config; open != nil {
		payments = open(paykeys.Config{
			Keys: h.paymentKeys, Client: h.Outbound,
			HostID: h.Vacants.HostID, BaseURL: h.gatewayURL, Now: c.Now,
		})
	}
	return account.TenantHandler(h.Billing, h.receipts(), payments, h.config.Log, h.config.Now)
}

func (h *Server) receipts() *account.Receipts {
	c := &h.config
	return &account.Receipts{
		PricedCall: h.Calls.FindPricedCall, Signer: h.SigningKeys.Signer, TenantOf: h.tenantOf,
		Callers: caller.Verifier{URL: h.Vacants.BaseURL, TrustHostHeader: c.TrustHostHeader, IsRevoked: h.Registry.IsRevoked, Now: c.Now},
	}
}

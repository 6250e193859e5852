package memhost_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// The example of the package doc.
func TestACallCostsItsPrice(t *testing.T) {
	h := memhost.Open(t)
	h.Serve()
	shop := h.Create(vacants.CreateSpec{Name: "shop", Capability: "sells", Substrate: "echo"})
	_, err := h.Vacants.SetPrice(t.Context(), shop.ID, price.Price{Flat: 2000})
	h.Must(err)
	buyer := h.Account("buyer", money.Dollar)
	answer := h.Do("POST", "/v/shop/text", h.Key(buyer, billing.KeyOptions{}), "hi")
	if got := h.Balance(buyer); answer.Status != 200 || got != money.Dollar-2000 {
		t.Errorf("the call = %d %s, balance %s", answer.Status, answer.Body, got)
	}
}

package admin

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// CurrentPrice is a vacant's price. Unreported is the number of answers in the last seven days
// without a report of the tokens on which the price depends.
type CurrentPrice struct {
	price.Price
	Unreported uint64 `json:"unreported,omitempty"`
}

// unreportedFor limits the age of the answers that CurrentPrice.Unreported counts.
const unreportedFor = 7 * 24 * time.Hour

func (d *api) price(ctx context.Context, rec *vacants.Record, in PriceVersion) (p CurrentPrice, err error) {
	if in.Version > 0 {
		if rec.Price == nil || in.Version > rec.Price.Version {
			return p, problem.New(problem.NotFound, "%s has no version %d of its price", rec.Name, in.Version)
		}
		p.Price, err = d.Billing.PriceVersion(ctx, rec.ID, in.Version)
		return p, err
	}
	if rec.Price != nil {
		p.Price = *rec.Price
	}
	if p.HasTokenPrice() {
		err = usage.EachOwned(ctx, d.Billing.Store, rec.Tenant, d.Billing.Now().Add(-unreportedFor), time.Time{}, func(h usage.Hour) error {
			if h.Vacant == rec.ID {
				p.Unreported += h.Unreported
			}
			return nil
		})
	}
	return p, err
}

func (d *api) setPrice(ctx context.Context, rec *vacants.Record, in With[NewPrice]) (Vacant, error) {
	n := &in.Body
	p := price.Price{Flat: n.Flat, In: n.In, Out: n.Out, MaxCharge: n.Most, Free: n.Free}
	p.SetDefaultFreeLimits(n.FreeAddress != nil, n.FreeAll != nil)
	if n.FreeAddress != nil {
		p.FreeAddress = *n.FreeAddress
	}
	if n.FreeAll != nil {
		p.FreeAll = *n.FreeAll
	}
	changed, err := d.Vacants.SetPrice(ctx, rec.ID, p)
	return vacantOf(&changed), err
}

// NewPrice is the next version of a price, in micro-dollars: Flat is the price of a call, In and
// Out are the prices of a million tokens, and MaxCharge limits the charge for a call with priced
// tokens.
// The defaults of FreeAddress and FreeAll are derived from Free (price.Price.SetDefaultFreeLimits).
type NewPrice struct {
	Flat        money.Amount `json:"flat"`
	In          money.Amount `json:"in"`
	Out         money.Amount `json:"out"`
	Most        money.Amount `json:"most"`
	Free        int64        `json:"free"`
	FreeAddress *int64       `json:"free_address,omitempty"`
	FreeAll     *int64       `json:"free_all,omitempty"`
}

// PriceOf returns a request to set the price p. The host chooses its version, time and fee.
func PriceOf(p price.Price) NewPrice {
	return NewPrice{p.Flat, p.In, p.Out, p.MaxCharge, p.Free, &p.FreeAddress, &p.FreeAll}
}

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

// CurrentPrice is a vacant's price. UnreportedAnswers is the number of answers in the last seven
// days whose tokens were not reported.
type CurrentPrice struct {
	price.Price
	UnreportedAnswers uint64 `json:"unreported,omitempty"`
}

const unreportedWindow = 7 * 24 * time.Hour

func (d *api) price(ctx context.Context, rec *vacants.Record, in PriceRequest) (p CurrentPrice, err error) {
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
		err = usage.EachEarnedHour(ctx, d.Billing.Store, rec.Tenant, d.Billing.Now().Add(-unreportedWindow), time.Time{}, func(h usage.Hour) error {
			if h.Vacant == rec.ID {
				p.UnreportedAnswers += h.UnreportedAnswers
			}
			return nil
		})
	}
	return p, err
}

func (d *api) setPrice(ctx context.Context, rec *vacants.Record, in VacantRequest[NewPrice]) (Vacant, error) {
	n := &in.Body
	p := price.Price{Flat: n.Flat, InputPrice: n.InputPrice, OutputPrice: n.OutputPrice, MaxCharge: n.MaxCharge, FreePerSigner: n.FreePerSigner}
	p.SetDefaultFreeLimits(n.FreePerAddress != nil, n.FreeTotal != nil)
	if n.FreePerAddress != nil {
		p.FreePerAddress = *n.FreePerAddress
	}
	if n.FreeTotal != nil {
		p.FreeTotal = *n.FreeTotal
	}
	updated, err := d.Vacants.SetPrice(ctx, rec.ID, p)
	return vacantOf(&updated), err
}

// NewPrice is the next version of a price, in micro-dollars. Flat is the price of a call, and
// InputPrice and OutputPrice are the prices of a million tokens.
type NewPrice struct {
	Flat           money.Amount `json:"flat"`
	InputPrice     money.Amount `json:"in"`
	OutputPrice    money.Amount `json:"out"`
	MaxCharge      money.Amount `json:"most"`
	FreePerSigner  int64        `json:"free"`
	FreePerAddress *int64       `json:"free_address,omitempty"`
	FreeTotal      *int64       `json:"free_all,omitempty"`
}

func NewPriceFrom(p price.Price) NewPrice {
	return NewPrice{p.Flat, p.InputPrice, p.OutputPrice, p.MaxCharge, p.FreePerSigner, &p.FreePerAddress, &p.FreeTotal}
}

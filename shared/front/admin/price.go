package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
)

// CurrentPrice is a vacant's price, and how many answers in the last seven days lacked a report of
// the tokens that it is by.
type CurrentPrice struct {
	price.Price
	Unreported uint64 `json:"unreported,omitempty"`
}

// unreportedFor is how far back answers count in CurrentPrice.
const unreportedFor = 7 * 24 * time.Hour

// price answers with a vacant's price, or a version of it.
func (d *api) price(w http.ResponseWriter, r *http.Request) error {
	version, err := number(r.URL.Query(), "version", 0)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if version > 0 {
		p, err := d.Billing.PriceVersion(r.Context(), rec.ID, version)
		if err != nil {
			return err
		}
		return httpapi.Answer(w, http.StatusOK, p)
	}
	var p CurrentPrice
	if rec.Price != nil {
		p.Price = *rec.Price
	}
	if p.ByTokens() {
		err = usage.Owned(r.Context(), d.Billing.Store, rec.Tenant, d.Billing.Now().Add(-unreportedFor), time.Time{}, func(h usage.Hour) error {
			if h.Vacant == rec.ID {
				p.Unreported += h.Unreported
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return httpapi.Answer(w, http.StatusOK, p)
}

func (d *api) setPrice(w http.ResponseWriter, r *http.Request) error {
	b, err := read[NewPrice](w, r)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if rec, err = d.Vacants.SetPrice(r.Context(), rec.ID, b.price()); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
}

// NewPrice is the next version of a price. The defaults of FreeAddress and FreeAll follow from
// Free (price.Price.BoundFree).
type NewPrice struct {
	Flat        money.Amount `json:"flat"`
	In          money.Amount `json:"in"`
	Out         money.Amount `json:"out"`
	Most        money.Amount `json:"most"`
	Free        int64        `json:"free"`
	FreeAddress *int64       `json:"free_address,omitempty"`
	FreeAll     *int64       `json:"free_all,omitempty"`
}

func (n *NewPrice) price() price.Price {
	p := price.Price{Flat: n.Flat, In: n.In, Out: n.Out, Most: n.Most, Free: n.Free}
	p.BoundFree(n.FreeAddress != nil, n.FreeAll != nil)
	if n.FreeAddress != nil {
		p.FreeAddress = *n.FreeAddress
	}
	if n.FreeAll != nil {
		p.FreeAll = *n.FreeAll
	}
	return p
}

// Price returns a vacant's price.
func (c *Client) Price(ctx context.Context, vacant string) (p CurrentPrice, err error) {
	return p, c.do(ctx, http.MethodGet, pathOf(vacant)+"/price", nil, &p)
}

// SetPrice sets the next version of a vacant's price; its version, time and fee are the
// host's.
func (c *Client) SetPrice(ctx context.Context, vacant string, p price.Price) (v Vacant, err error) {
	body := NewPrice{p.Flat, p.In, p.Out, p.Most, p.Free, &p.FreeAddress, &p.FreeAll}
	return v, c.put(ctx, http.MethodPut, pathOf(vacant)+"/price", body, &v)
}

func (d *api) recount(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	done, err := d.Recount(r.Context())
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, done)
}

// RecountUsage corrects usage by the rows.
func (c *Client) RecountUsage(ctx context.Context) (r usage.Recounted, err error) {
	return r, c.do(ctx, http.MethodPost, "/v1/admin/usage/recount", nil, &r)
}

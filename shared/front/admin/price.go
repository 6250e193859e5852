package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
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
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	p, err := readPrice(body)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	if rec, err = d.Vacants.SetPrice(r.Context(), rec.ID, p); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
}

func readPrice(body []byte) (p price.Price, err error) {
	d := canon.NewDecoder(body, limits())
	stated := map[string]bool{}
	err = d.Document(func(key string) (err error) {
		stated[key] = true
		amounts := map[string]*money.Amount{"flat": &p.Flat, "in": &p.In, "out": &p.Out, "most": &p.Most}
		counts := map[string]*int64{"free": &p.Free, "free_address": &p.FreeAddress, "free_all": &p.FreeAll}
		switch {
		case amounts[key] != nil:
			var n int64
			n, err = d.Int64()
			*amounts[key] = money.Amount(n)
		case counts[key] != nil:
			*counts[key], err = d.Int64()
		default:
			err = unknown("", key, "flat, in, out, most, free, free_address and free_all")
		}
		return err
	})
	p.BoundFree(stated["free_address"], stated["free_all"])
	return p, err
}

// Price returns a vacant's price.
func (c *Client) Price(ctx context.Context, vacant string) (p CurrentPrice, err error) {
	return p, c.do(ctx, http.MethodGet, pathOf(vacant)+"/price", nil, &p)
}

// SetPrice sets the next version of a vacant's price; its version, time and fee are the
// host's.
func (c *Client) SetPrice(ctx context.Context, vacant string, p price.Price) (v Vacant, err error) {
	body := map[string]any{"flat": p.Flat, "in": p.In, "out": p.Out, "most": p.Most, "free": p.Free, "free_address": p.FreeAddress, "free_all": p.FreeAll}
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

package account

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

// Issuers is the list of the issuers whose tokens count.
type Issuers struct {
	Issuers []billing.Issuer `json:"issuers"`
}

func (d *api) addIssuer(ctx context.Context, in op.Body[NewIssuer]) (billing.Issuer, error) {
	a, err := d.Find(ctx, in.Body.Tenant)
	if err != nil {
		return billing.Issuer{}, err
	}
	return d.AddIssuer(ctx, a.ID, in.Body.Issuer, in.Body.IssuerOptions)
}

func (d *api) issuers(ctx context.Context, _ op.None) (Issuers, error) {
	all, err := d.Issuers(ctx)
	return Issuers{append([]billing.Issuer{}, all...)}, err
}

func (d *api) forgetSubject(ctx context.Context, in OneSubject) (billing.NamedSubject, error) {
	a, err := d.Find(ctx, in.Account)
	if err != nil {
		return billing.NamedSubject{}, err
	}
	return d.ForgetSubject(ctx, a.ID, in.Subject)
}

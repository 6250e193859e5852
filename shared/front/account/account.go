// Package account serves the API of accounts: to operators below /v1/admin/accounts, and to tenants
// with a key of their account at /v1/account and /v1/keys.
//
// A tenant's request can read and change only the account of its key. A key cannot create a key or
// link with more rights than its own. A test key can only list, create and revoke test keys.
package account

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Account is the JSON form of an account. Balance includes the credit line. Held is money that has
// left Balance, but is not in usage yet. Lists omit Held.
type Account struct {
	billing.Account
	Balance money.Amount   `json:"balance"`
	Held    *money.Amount  `json:"held,omitempty"`
	Host    identity.ID    `json:"host_id"` // id of this host, which a PaymentClaim must name
	Links   []billing.Link `json:"links,omitempty"`
	Key     *billing.Key   `json:"key,omitempty"`
}

// Page is a page of accounts, sorted by tenant. Next is the cursor of the next page, or "" on the
// last page.
type Page struct {
	Accounts []Account `json:"accounts"`
	Next     string    `json:"next"`
}

type Change struct {
	Position uint64 `json:"position"`
	billing.Change
}

type Changes struct {
	Changes []Change `json:"changes"`
	Next    uint64   `json:"next"`
}

type Keys struct {
	Keys []billing.Key `json:"keys"`
}

type Issuers struct {
	Issuers []billing.Issuer `json:"issuers"`
}

// NewKey is a new key. Secret is shown only once.
type NewKey struct {
	billing.Key
	Secret string `json:"secret"`
}

func (m NewKey) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "key %s…", m.Prefix) }

type api struct {
	*billing.Billing
	receipts *Receipts        // nil if the host has no receipts
	payments billing.Payments // nil if the host has no payments
}

// OperatorRoutes returns the operator's routes, or nil if the host has no accounts. The host must
// authorize their requests.
func OperatorRoutes(b *billing.Billing, receipts *Receipts) []op.Route {
	if b == nil {
		return nil
	}
	return (&api{Billing: b, receipts: receipts}).operatorRoutes(op.Server{OperatorOnly: true})
}

func (d *api) operatorRoutes(s op.Server) []op.Route {
	return append(d.twinRoutes(s),
		op.NewRoute(s, OpenAccount, d.openAccount),
		op.NewRoute(s, ListAccounts, d.listAccounts),
		op.NewRoute(s, CreditAccount, d.moveMoney((*billing.Billing).Credit)),
		op.NewRoute(s, AdjustAccount, d.moveMoney((*billing.Billing).Adjust)),
		op.NewRoute(s, SetLine, changeHandler(d, func(ctx context.Context, id string, b Sum) (billing.Account, error) {
			return d.SetCreditLine(ctx, id, b.Amount, b.Note)
		})),
		op.NewRoute(s, SetCap, changeHandler(d, func(ctx context.Context, id string, b Limit) (billing.Account, error) {
			return d.SetDailyCap(ctx, id, b.Amount)
		})),
		op.NewRoute(s, SetTaskLifetime, changeHandler(d, func(ctx context.Context, id string, b Seconds) (billing.Account, error) {
			return d.SetTaskLifetime(ctx, id, b.Seconds)
		})),
		op.NewRoute(s, SuspendAccount, changeHandler(d, func(ctx context.Context, id string, b Note) (billing.Account, error) {
			return d.SetSuspended(ctx, id, true, b.Note)
		})),
		op.NewRoute(s, ResumeAccount, changeHandler(d, func(ctx context.Context, id string, b Note) (billing.Account, error) {
			return d.SetSuspended(ctx, id, false, b.Note)
		})),
		op.NewRoute(s, AddIssuer, func(ctx context.Context, in op.Body[NewIssuer]) (i billing.Issuer, err error) {
			a, err := d.FindAccount(ctx, in.Body.Tenant)
			if err != nil {
				return i, err
			}
			return d.AddIssuer(ctx, a.ID, in.Body.Issuer, in.Body.IssuerOptions)
		}),
		op.NewRoute(s, ListIssuers, func(ctx context.Context, _ op.None) (Issuers, error) {
			issuers, err := d.Issuers(ctx)
			return Issuers{append([]billing.Issuer{}, issuers...)}, err
		}),
		op.NewRoute(s, ShowIssuer, func(ctx context.Context, in IssuerRef) (billing.Issuer, error) { return d.Issuer(ctx, in.ID) }),
		op.NewRoute(s, RemoveIssuer, func(ctx context.Context, in IssuerRef) (billing.Issuer, error) { return d.RemoveIssuer(ctx, in.ID) }),
		op.NewRoute(s, ForgetSubject, withAccount(d, func(ctx context.Context, a *billing.Account, in SubjectRef) (billing.NamedSubject, error) {
			return d.ForgetSubject(ctx, a.ID, in.Subject)
		})),
		op.NewRoute(s, GetOperatorUsage, d.operatorUsage))
}

// TenantHandler returns the handler of the tenants' routes. If payments is nil, the payment routes
// answer with 404.
func TenantHandler(b *billing.Billing, receipts *Receipts, payments billing.Payments, log *slog.Logger, now func() time.Time) http.Handler {
	d := &api{Billing: b, receipts: receipts, payments: payments}
	return httpapi.API{Name: "account", Log: log, Now: now}.Mux(op.RoutesByPath(d.tenantRoutes(op.Server{Keys: b})...))
}

func (d *api) tenantRoutes(s op.Server) []op.Route {
	return slices.Concat(d.twinRoutes(s), []op.Route{op.NewRoute(s, GetHost, d.showHost)}, op.RoutesIf(d.payments != nil, "this host does not accept payments",
		op.NewRoute(s, MakePayment, d.startPayment),
		op.NewHandlerRoute(op.Spec{Method: "GET", Path: billing.CheckoutPath, Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "shows a message to a payer who returns from the checkout", AnswerMedia: []string{"text/plain"}, AnswerDoc: "A sentence for the payer."}, d.showCheckoutReturn),
		op.NewHandlerRoute(op.Spec{Method: "POST", Path: StripePath, Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "receives signed webhooks from Stripe"}, d.receiveStripeEvent)))
}

func Operations() []op.Spec {
	emptyAPI := &api{}
	return op.Specs(slices.Concat(emptyAPI.operatorRoutes(op.Server{OperatorOnly: true}), emptyAPI.tenantRoutes(op.Server{})))
}

func (d *api) twinRoutes(s op.Server) []op.Route {
	canRead := d.isReceiptParty
	if s.OperatorOnly {
		canRead = func(*http.Request, call.Pair, *call.RequestRow) (bool, error) { return true, nil }
	}
	return []op.Route{
		op.NewHandlerRoute(GetReceipt.For(s.OperatorOnly).Spec(), d.receiptHandler(canRead)),
		op.NewTwinRoute(s, ShowAccount.Twin, withAccount(d, func(ctx context.Context, a *billing.Account, _ Ref) (Account, error) {
			result, err := d.fullAccount(ctx, *a, nil)
			result.Key = op.CallerOf(ctx).Key
			return result, err
		})),
		op.NewTwinRoute(s, ListChanges.Twin, withAccount(d, d.listChanges)),
		op.NewTwinRoute(s, GetUsage.Twin, d.accountUsage),
		op.NewTwinRoute(s, GetStatement.Twin, d.monthStatement),
		op.NewTwinRoute(s, ListKeys.Twin, withAccount(d, func(ctx context.Context, a *billing.Account, _ Ref) (Keys, error) {
			result, err := d.Keys(ctx, a.ID)
			requestKey := op.CallerOf(ctx).Key
			result = slices.DeleteFunc(result, func(other billing.Key) bool { return !requestKey.CanSee(&other) })
			return Keys{append([]billing.Key{}, result...)}, err
		})),
		op.NewTwinRoute(s, MakeKey.Twin, withAccount(d, func(ctx context.Context, a *billing.Account, in Request[billing.KeyOptions]) (newKey NewKey, err error) {
			newKey.Key, newKey.Secret, err = d.MakeKeyBy(ctx, op.CallerOf(ctx).Key, a.ID, in.Body)
			return newKey, err
		})),
		op.NewTwinRoute(s, RevokeKey.Twin, withAccount(d, func(ctx context.Context, a *billing.Account, in RevokeKeyRequest) (r billing.Revocation, err error) {
			if in.OnlyThisKey {
				r.Key, err = d.RevokeSingleKey(ctx, op.CallerOf(ctx).Key, a.ID, in.Key)
				return r, err
			}
			return d.RevokeKey(ctx, op.CallerOf(ctx).Key, a.ID, in.Key)
		})),
		op.NewTwinRoute(s, LinkCaller.Twin, d.linkCaller),
		op.NewTwinRoute(s, UnlinkCaller.Twin, withAccount(d, func(ctx context.Context, a *billing.Account, in CallerRef) (op.None, error) {
			return op.None{}, d.Unlink(ctx, op.CallerOf(ctx).Key, a.ID, in.Caller)
		})),
	}
}

func (d *api) findAccount(ctx context.Context, in accountNamer) (billing.Account, error) {
	sender := op.CallerOf(ctx)
	if sender.IsOperator {
		return d.FindAccount(ctx, in.account())
	}
	return d.Billing.Account(ctx, sender.Key.Account)
}

func withAccount[In accountNamer, Out any](d *api, f func(context.Context, *billing.Account, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		a, err := d.findAccount(ctx, in)
		if err != nil {
			return out, err
		}
		return f(ctx, &a, in)
	}
}

func changeHandler[Body any](d *api, f func(ctx context.Context, id string, b Body) (billing.Account, error)) func(context.Context, Request[Body]) (Account, error) {
	return withAccount(d, func(ctx context.Context, a *billing.Account, in Request[Body]) (Account, error) {
		updated, err := f(ctx, a.ID, in.Body)
		return d.fullAccount(ctx, updated, err)
	})
}

func (d *api) fullAccount(ctx context.Context, a billing.Account, err error) (Account, error) {
	if err != nil {
		return Account{}, err
	}
	result, err := d.accountWithBalance(ctx, &a)
	if err != nil {
		return result, err
	}
	// The sum of all changes is in the balance, in usage, or held.
	heldAmount, err := d.SumChanges(ctx, &a, func(c billing.Change) money.Amount { return c.Amount })
	if err == nil {
		err = usage.EachSpentDay(ctx, d.Store, a.ID, func(_ time.Time, spent money.Amount) error {
			heldAmount -= spent
			return nil
		})
	}
	if err != nil {
		return result, err
	}
	// The values are read one after another, so a concurrent credit or call may make the difference
	// negative.
	heldAmount = max(heldAmount-result.Balance, 0)
	result.Held = &heldAmount
	result.Links, err = d.Billing.Links(ctx, a.ID)
	return result, err
}

func (d *api) accountWithBalance(ctx context.Context, a *billing.Account) (Account, error) {
	balance, err := d.Balance(ctx, a)
	if err != nil {
		return Account{}, err
	}
	hostID, err := d.Self(ctx)
	return Account{Account: *a, Balance: balance, Host: hostID}, err
}

func (d *api) openAccount(ctx context.Context, in op.Body[Opening]) (Account, error) {
	a, err := d.OpenAccount(ctx, in.Body.Tenant, in.Body.Shards)
	return d.fullAccount(ctx, a, err)
}

// maxPageSize is low because listing accounts reads the balance of each account.
const maxPageSize = 100

func pageSize(limit uint64) int { return int(min(cmp.Or(limit, maxPageSize), maxPageSize)) }

func (d *api) listAccounts(ctx context.Context, in ListRequest) (page Page, err error) {
	accounts, next, err := d.Accounts(ctx, in.Cursor, pageSize(in.Limit))
	if err != nil {
		return page, err
	}
	page = Page{Accounts: make([]Account, len(accounts)), Next: next}
	for i := range accounts {
		if page.Accounts[i], err = d.accountWithBalance(ctx, &accounts[i]); err != nil {
			return page, err
		}
	}
	return page, nil
}

type Moved struct {
	Account
	// Replayed is true if an earlier request with the same key moved the amount.
	Replayed bool `json:"replayed,omitempty"`
}

func (m *Moved) SetHeaders(h http.Header) int {
	if m.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	return 0
}

func (d *api) moveMoney(changeBalance func(b *billing.Billing, ctx context.Context, id string, amount money.Amount, key, note string) (billing.Account, bool, error)) func(context.Context, MoveRequest) (Moved, error) {
	return withAccount(d, func(ctx context.Context, a *billing.Account, in MoveRequest) (moved Moved, err error) {
		*a, moved.Replayed, err = changeBalance(d.Billing, ctx, a.ID, in.Body.Amount, in.Key, in.Body.Note)
		moved.Account, err = d.fullAccount(ctx, *a, err)
		return moved, err
	})
}

func (d *api) listChanges(ctx context.Context, a *billing.Account, in ChangesRequest) (Changes, error) {
	from := max(in.From, 1)
	entries, err := d.Changes(ctx, a.ID, from, pageSize(in.Limit))
	page := Changes{Changes: make([]Change, len(entries)), Next: from + uint64(len(entries))}
	for i, c := range entries {
		page.Changes[i] = Change{from + uint64(i), c}
	}
	return page, err
}

// Linked contains the new link of a caller, or nil if the request ended the link.
type Linked struct{ *billing.Link }

func (l *Linked) SetHeaders(http.Header) int {
	if l.Link == nil {
		return http.StatusNoContent
	}
	return 0
}

func (d *api) linkCaller(ctx context.Context, in Request[Claim]) (Linked, error) {
	if billing.IsUnlinkClaim(in.Body.Claim) {
		// The signer of a claim may end its link without a key.
		return Linked{}, d.UnlinkByClaim(ctx, in.Body.Claim)
	}
	ctx, err := op.RequireKey(ctx)
	if err != nil {
		return Linked{}, err
	}
	a, err := d.findAccount(ctx, in)
	if err != nil {
		return Linked{}, err
	}
	l, err := d.LinkBy(ctx, op.CallerOf(ctx).Key, a.ID, in.Body.Claim)
	return Linked{&l}, err
}

type Host struct {
	ID identity.ID `json:"host_id"`
}

func (d *api) showHost(ctx context.Context, _ op.None) (Host, error) {
	hostID, err := d.Self(ctx)
	return Host{hostID}, err
}

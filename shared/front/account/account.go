// Package account serves the API of accounts: to operators below /v1/admin/accounts, and to tenants
// with a key of their account at /v1/account and /v1/keys. It also receives the webhooks of the
// payment provider.
//
// A tenant's request can read and change only the account of its key. No key or link that a key
// creates has more rights than that key. A test key can list, create and revoke test keys; all
// other operations refuse it, because balance, usage, receipts, changes and links are live data. A
// secret appears only in the answer that creates it.
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

// Account is the JSON form of an account. Balance is the amount that the account can spend,
// including its credit line. Held is the amount reserved for calls that have not ended, plus the
// cost of calls and bookings that usage does not include yet. Lists omit Held. Links lists the
// callers for whose signed calls the account pays. Key is the key that sent the request.
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

// Change is an entry in the history of an account. Position is the number of the entry, starting at
// 1.
type Change struct {
	Position uint64 `json:"position"`
	billing.Change
}

// Changes is a page of an account's history. Next is the first position of the next page.
type Changes struct {
	Changes []Change `json:"changes"`
	Next    uint64   `json:"next"`
}

type Keys struct {
	Keys []billing.Key `json:"keys"`
}

// Issuers is the list of issuers whose tokens the host accepts.
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

// Operator returns the operator's routes, or nil if the host has no accounts. The host must
// authorize their requests.
func Operator(b *billing.Billing, receipts *Receipts) []op.Route {
	if b == nil {
		return nil
	}
	return (&api{Billing: b, receipts: receipts}).operator(op.Server{Operator: true})
}

func (d *api) operator(s op.Server) []op.Route {
	return append(d.twinRoutes(s),
		op.On(s, OpenAccount, d.open),
		op.On(s, ListAccounts, d.list),
		op.On(s, CreditAccount, d.move((*billing.Billing).Credit)),
		op.On(s, AdjustAccount, d.move((*billing.Billing).Adjust)),
		op.On(s, SetLine, change(d, func(ctx context.Context, id string, b Sum) (billing.Account, error) {
			return d.SetLine(ctx, id, b.Amount, b.Note)
		})),
		op.On(s, SetCap, change(d, func(ctx context.Context, id string, b Limit) (billing.Account, error) {
			return d.SetCap(ctx, id, b.Amount)
		})),
		op.On(s, SetTaskLifetime, change(d, func(ctx context.Context, id string, b Seconds) (billing.Account, error) {
			return d.SetTaskLifetime(ctx, id, b.Seconds)
		})),
		op.On(s, SuspendAccount, change(d, func(ctx context.Context, id string, b Note) (billing.Account, error) {
			return d.Suspend(ctx, id, true, b.Note)
		})),
		op.On(s, ResumeAccount, change(d, func(ctx context.Context, id string, b Note) (billing.Account, error) {
			return d.Suspend(ctx, id, false, b.Note)
		})),
		op.On(s, AddIssuer, func(ctx context.Context, in op.Body[NewIssuer]) (i billing.Issuer, err error) {
			a, err := d.Find(ctx, in.Body.Tenant)
			if err != nil {
				return i, err
			}
			return d.AddIssuer(ctx, a.ID, in.Body.Issuer, in.Body.IssuerOptions)
		}),
		op.On(s, ListIssuers, func(ctx context.Context, _ op.None) (Issuers, error) {
			issuers, err := d.Issuers(ctx)
			return Issuers{append([]billing.Issuer{}, issuers...)}, err
		}),
		op.On(s, ShowIssuer, func(ctx context.Context, in OneIssuer) (billing.Issuer, error) { return d.Issuer(ctx, in.ID) }),
		op.On(s, RemoveIssuer, func(ctx context.Context, in OneIssuer) (billing.Issuer, error) { return d.RemoveIssuer(ctx, in.ID) }),
		op.On(s, ForgetSubject, onAccount(d, func(ctx context.Context, a *billing.Account, in OneSubject) (billing.NamedSubject, error) {
			return d.ForgetSubject(ctx, a.ID, in.Subject)
		})),
		op.On(s, GetOperatorUsage, d.operatorUsage))
}

// Handler returns the handler of the tenants' routes. If payments is nil, the payment routes answer
// with 404.
func Handler(b *billing.Billing, receipts *Receipts, payments billing.Payments, log *slog.Logger, now func() time.Time) http.Handler {
	d := &api{Billing: b, receipts: receipts, payments: payments}
	return httpapi.API{Name: "account", Log: log, Now: now}.Mux(op.Routes(d.tenants(op.Server{Keys: b})...))
}

func (d *api) tenants(s op.Server) []op.Route {
	return slices.Concat(d.twinRoutes(s), []op.Route{op.On(s, GetHost, d.host)}, op.RoutesIf(d.payments != nil, "this host does not accept payments",
		op.On(s, MakePayment, d.pay),
		op.Handle(op.Spec{Method: "GET", Path: billing.CheckoutPath, Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "shows a message to a payer who returns from the checkout", Gives: []string{"text/plain"}, Answer: "A sentence for the payer."}, d.showCheckoutReturn),
		op.Handle(op.Spec{Method: "POST", Path: StripePath, Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "receives signed webhooks from Stripe"}, d.stripe)))
}

// Operations lists the operations of a host on which all features are enabled.
func Operations() []op.Spec {
	none := &api{}
	return op.Specs(slices.Concat(none.operator(op.Server{Operator: true}), none.tenants(op.Server{})))
}

// twinRoutes returns the routes of the operations that both the operator and account keys can use.
func (d *api) twinRoutes(s op.Server) []op.Route {
	mayRead := d.mayRead
	if s.Operator {
		mayRead = func(*http.Request, call.Pair, *call.RequestRow) (bool, error) { return true, nil }
	}
	return []op.Route{
		op.Handle(GetReceipt.For(s.Operator).Spec(), d.receipt(mayRead)),
		op.OnTwin(s, ShowAccount.Twin, onAccount(d, func(ctx context.Context, a *billing.Account, _ One) (Account, error) {
			result, err := d.whole(ctx, *a, nil)
			result.Key = op.CallerOf(ctx).Key
			return result, err
		})),
		op.OnTwin(s, ListChanges.Twin, onAccount(d, d.changes)),
		op.OnTwin(s, GetUsage.Twin, d.usage),
		op.OnTwin(s, GetStatement.Twin, d.statement),
		op.OnTwin(s, ListKeys.Twin, onAccount(d, func(ctx context.Context, a *billing.Account, _ One) (Keys, error) {
			result, err := d.Keys(ctx, a.ID)
			by := op.CallerOf(ctx).Key
			result = slices.DeleteFunc(result, func(other billing.Key) bool { return !by.CanSee(&other) })
			return Keys{append([]billing.Key{}, result...)}, err
		})),
		op.OnTwin(s, MakeKey.Twin, onAccount(d, func(ctx context.Context, a *billing.Account, in With[billing.KeyOptions]) (m NewKey, err error) {
			m.Key, m.Secret, err = d.MakeKeyBy(ctx, op.CallerOf(ctx).Key, a.ID, in.Body)
			return m, err
		})),
		op.OnTwin(s, RevokeKey.Twin, onAccount(d, func(ctx context.Context, a *billing.Account, in RevokedKey) (r billing.Revocation, err error) {
			if in.Only {
				r.Key, err = d.RevokeOnly(ctx, op.CallerOf(ctx).Key, a.ID, in.Key)
				return r, err
			}
			return d.RevokeKey(ctx, op.CallerOf(ctx).Key, a.ID, in.Key)
		})),
		op.OnTwin(s, LinkCaller.Twin, d.link),
		op.OnTwin(s, UnlinkCaller.Twin, onAccount(d, func(ctx context.Context, a *billing.Account, in OneCaller) (op.None, error) {
			return op.None{}, d.Unlink(ctx, op.CallerOf(ctx).Key, a.ID, in.Caller)
		})),
	}
}

// find returns the account that the operator's request names, or the account of the caller's key.
func (d *api) find(ctx context.Context, in ofAccount) (billing.Account, error) {
	by := op.CallerOf(ctx)
	if by.Operator {
		return d.Find(ctx, in.account())
	}
	return d.Billing.Account(ctx, by.Key.Account)
}

func onAccount[In ofAccount, Out any](d *api, f func(context.Context, *billing.Account, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		a, err := d.find(ctx, in)
		if err != nil {
			return out, err
		}
		return f(ctx, &a, in)
	}
}

func change[Body any](d *api, f func(ctx context.Context, id string, b Body) (billing.Account, error)) func(context.Context, With[Body]) (Account, error) {
	return onAccount(d, func(ctx context.Context, a *billing.Account, in With[Body]) (Account, error) {
		changed, err := f(ctx, a.ID, in.Body)
		return d.whole(ctx, changed, err)
	})
}

// whole returns an account with its balance, held amount and links. If err is not nil, it only
// returns err.
func (d *api) whole(ctx context.Context, a billing.Account, err error) (Account, error) {
	if err != nil {
		return Account{}, err
	}
	view, err := d.view(ctx, &a)
	if err != nil {
		return view, err
	}
	// Held is the sum of all changes, minus the balance and the spending that usage includes.
	held, err := d.Sum(ctx, &a, func(c billing.Change) money.Amount { return c.Amount })
	if err == nil {
		err = usage.EachSpent(ctx, d.Store, a.ID, func(_ time.Time, spent money.Amount) error {
			held -= spent
			return nil
		})
	}
	if err != nil {
		return view, err
	}
	// The three values are read one after another. If a credit is added between the reads, or
	// finished calls are added to usage, the difference may be negative.
	held = max(held-view.Balance, 0)
	view.Held = &held
	view.Links, err = d.Billing.Links(ctx, a.ID)
	return view, err
}

func (d *api) view(ctx context.Context, a *billing.Account) (Account, error) {
	balance, err := d.Balance(ctx, a)
	if err != nil {
		return Account{}, err
	}
	self, err := d.Self(ctx)
	return Account{Account: *a, Balance: balance, Host: self}, err
}

func (d *api) open(ctx context.Context, in op.Body[Opening]) (Account, error) {
	a, err := d.OpenAccount(ctx, in.Body.Tenant, in.Body.Shards)
	return d.whole(ctx, a, err)
}

// maxPage limits a page of accounts or changes. It is low because listing accounts reads the
// balance of each account.
const maxPage = 100

// pageSize limits the requested page size. Zero requests the maximum.
func pageSize(limit uint64) int { return int(min(cmp.Or(limit, maxPage), maxPage)) }

func (d *api) list(ctx context.Context, in List) (page Page, err error) {
	accounts, next, err := d.Accounts(ctx, in.Cursor, pageSize(in.Limit))
	if err != nil {
		return page, err
	}
	page = Page{Accounts: make([]Account, len(accounts)), Next: next}
	for i := range accounts {
		if page.Accounts[i], err = d.view(ctx, &accounts[i]); err != nil {
			return page, err
		}
	}
	return page, nil
}

type Moved struct {
	Account
	// Replayed is true if an earlier request with the same key moved the amount, so this request
	// moved no money.
	Replayed bool `json:"replayed,omitempty"`
}

func (m *Moved) Reply(h http.Header) int {
	if m.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	return 0
}

// move returns the function of an operation that changes the balance once per idempotency key.
func (d *api) move(change func(b *billing.Billing, ctx context.Context, id string, amount money.Amount, key, note string) (billing.Account, bool, error)) func(context.Context, Moving) (Moved, error) {
	return onAccount(d, func(ctx context.Context, a *billing.Account, in Moving) (m Moved, err error) {
		*a, m.Replayed, err = change(d.Billing, ctx, a.ID, in.Body.Amount, in.Key, in.Body.Note)
		m.Account, err = d.whole(ctx, *a, err)
		return m, err
	})
}

func (d *api) changes(ctx context.Context, a *billing.Account, in ChangeList) (Changes, error) {
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

func (l *Linked) Reply(http.Header) int {
	if l.Link == nil {
		return http.StatusNoContent
	}
	return 0
}

func (d *api) link(ctx context.Context, in With[Claim]) (Linked, error) {
	if billing.IsUnlinkClaim(in.Body.Claim) {
		// The signer of a claim may end its link without a key.
		return Linked{}, d.UnlinkBy(ctx, in.Body.Claim)
	}
	ctx, err := op.Admit(ctx)
	if err != nil {
		return Linked{}, err
	}
	a, err := d.find(ctx, in)
	if err != nil {
		return Linked{}, err
	}
	l, err := d.LinkBy(ctx, op.CallerOf(ctx).Key, a.ID, in.Body.Claim)
	return Linked{&l}, err
}

// Host contains the id of this host, which a PaymentClaim must name.
type Host struct {
	ID identity.ID `json:"host_id"`
}

func (d *api) host(ctx context.Context, _ op.None) (Host, error) {
	self, err := d.Self(ctx)
	return Host{self}, err
}

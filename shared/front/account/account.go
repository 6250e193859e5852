// Package account is the API of accounts: for operators below /v1/admin/accounts, and for
// tenants, by a key of their account, at /v1/account and /v1/keys. It receives the webhooks of
// the provider of payments.
//
// The invariants: a tenant's request reads and changes only the account of its key, and the
// key gains nothing by that: no key that it makes, and no link, may do more than itself. A
// secret is in the one answer that makes it, and nowhere else.
package account

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Paths of the API.
const (
	OperatorPath = "/v1/admin/accounts"
	TenantPath   = "/v1/account"
	KeysPath     = "/v1/keys"
	// OperatorReceiptsPath is where the operator reads receipts.
	OperatorReceiptsPath = "/v1/admin/receipts/"
)

// IsPath reports whether a path is Handler's.
func IsPath(path string) bool {
	return path == TenantPath || strings.HasPrefix(path, TenantPath+"/") || path == KeysPath || path == UsagePath || strings.HasPrefix(path, KeysPath+"/")
}

// Account is the JSON of an account. Balance is what it can spend, its line included. Held is
// what undecided calls hold of it, and what calls and bookings cost that usage does not count yet;
// lists do not have it.
type Account struct {
	billing.Account
	Balance money.Amount   `json:"balance"`
	Held    *money.Amount  `json:"held,omitempty"`
	Host    identity.ID    `json:"host_id"` // which claims name
	Links   []billing.Link `json:"links,omitempty"`
}

// Page is a page of accounts, by tenant. Next is the cursor of the next, "" after the last.
type Page struct {
	Accounts []Account `json:"accounts"`
	Next     string    `json:"next"`
}

// Change is a change of an account, at a position from 1.
type Change struct {
	Position uint64 `json:"position"`
	billing.Change
}

// Changes is a page of changes. Next is the position of the next page.
type Changes struct {
	Changes []Change `json:"changes"`
	Next    uint64   `json:"next"`
}

// Keys are the keys of an account.
type Keys struct {
	Keys []billing.Key `json:"keys"`
}

// Made is a new key. Secret is shown this once.
type Made struct {
	billing.Key
	Secret string `json:"secret"`
}

// Format prints no secret, for every verb.
func (m Made) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "key %s…", m.Prefix) }

// maxBody bounds a body in bytes.
const maxBody = 16 << 10

// api serves accounts that find finds for a request, if it may do what scope says.
type api struct {
	*billing.Billing
	receipts *Receipts        // nil: there are none
	payments billing.Payments // nil: there are none
	operator bool
	find     func(r *http.Request, scope billing.Scope) (billing.Account, *billing.Key, error)
}

// Operator returns the routes of the operator, for whom the host decides. They are nil
// for a host without accounts.
//
//	POST /v1/admin/accounts                          {"tenant", "shards"}       201
//	GET  /v1/admin/accounts?cursor=&limit=
//	GET  /v1/admin/accounts/{account}                by tenant or id
//	POST /v1/admin/accounts/{account}/credit         {"amount", "note"}, with Idempotency-Key; also /adjustment
//	PUT  /v1/admin/accounts/{account}/line           {"amount", "note"}; also /cap
//	POST /v1/admin/accounts/{account}/suspend        {"note"}; also /resume
//	GET  /v1/admin/accounts/{account}/changes?from=&limit=
//	GET  /v1/admin/receipts/{caller}/{vacant}/{position}       position "last" is the last answered call
//	GET  /v1/admin/accounts/{account}/usage?from=&until=&by=   also /v1/admin/usage, of the operator's vacants
//	GET  /v1/admin/accounts/{account}/statement?month=
//	GET  /v1/admin/accounts/{account}/keys           POST {"test", "scopes", "cap", "tier", "quota", "agent_ids", "expires"} 201
//	DELETE /v1/admin/accounts/{account}/keys/{key}
//	POST /v1/admin/accounts/{account}/links          {"claim"}                  201
//	DELETE /v1/admin/accounts/{account}/links/{caller}
func Operator(b *billing.Billing, receipts *Receipts) map[string]httpapi.Methods {
	if b == nil {
		return nil
	}
	d := &api{b, receipts, nil, true, func(r *http.Request, _ billing.Scope) (billing.Account, *billing.Key, error) {
		a, err := b.Find(r.Context(), r.PathValue("account"))
		return a, nil, err
	}}
	one := OperatorPath + "/{account}"
	return map[string]httpapi.Methods{
		OperatorReceiptsPath + receiptRoute: {http.MethodGet: d.receipt},
		OperatorPath:                        {http.MethodPost: d.open, http.MethodGet: d.list},
		one:                                 {http.MethodGet: d.show},
		one + "/credit":                     {http.MethodPost: d.move(b.Credit)},
		one + "/adjustment":                 {http.MethodPost: d.move(b.Adjust)},
		one + "/line":                       {http.MethodPut: d.line},
		one + "/cap":                        {http.MethodPut: d.cap},
		one + "/suspend":                    {http.MethodPost: d.suspend(true)},
		one + "/resume":                     {http.MethodPost: d.suspend(false)},
		OperatorUsagePath:                   {http.MethodGet: d.operatorUsage},
		one + "/usage":                      {http.MethodGet: d.usage},
		one + "/statement":                  {http.MethodGet: d.statement},
		one + "/changes":                    {http.MethodGet: d.changes},
		one + "/keys":                       {http.MethodGet: d.keys, http.MethodPost: d.makeKey},
		one + "/keys/{key}":                 {http.MethodDelete: d.revokeKey},
		one + "/links":                      {http.MethodPost: d.link},
		one + "/links/{caller}":             {http.MethodDelete: d.unlink},
	}
}

// Handler returns the handler of tenants. Requests carry a key of the account:
// Authorization: Bearer KEY.
//
//	GET  /v1/account                  scope read
//	GET  /v1/account/host             whom claims name; for anybody
//	GET  /v1/account/changes?from=&limit=
//	GET  /v1/usage?from=&until=&by=   by hour, day, vacant or caller
//	GET  /v1/account/statement?month=
//	GET  /v1/account/receipts/{caller}/{vacant}/{position}     for the caller by Vacancy-Caller, the payer's and the owner's keys
//	GET  /v1/keys                     scope manage; POST {"test", "scopes", "cap", "tier", "quota", "agent_ids", "expires"} 201
//	DELETE /v1/keys/{key}
//	POST /v1/account/links            {"claim"} 201; a claim that names no account ends its signer's link, and needs no key
//	DELETE /v1/account/links/{caller}
//	POST /v1/account/checkout         scope manage; {"amount"}, with Idempotency-Key if the same is to make one page  201
//	GET  /v1/account/checkout         where a payer returns to; for anybody
//	POST /v1/account/stripe           webhooks of Stripe, by their signature
//
// Without keys of Stripe, both POSTs of payments are answered with 404.
func Handler(b *billing.Billing, receipts *Receipts, payments billing.Payments, log *slog.Logger, now func() time.Time) http.Handler {
	d := &api{b, receipts, payments, false, func(r *http.Request, scope billing.Scope) (a billing.Account, by *billing.Key, err error) {
		secret, err := billing.Bearer(r)
		if err == nil && secret == "" {
			err = problem.New(problem.Unauthorized, "a key of an account is required: Authorization: Bearer KEY")
		}
		if err != nil {
			return a, nil, err
		}
		k, err := b.Authenticate(r.Context(), secret)
		switch {
		case err != nil:
			return a, nil, err
		case !k.Has(scope):
			return a, nil, billing.NeedsScope(scope)
		}
		a, err = b.Account(r.Context(), k.Account)
		return a, &k, err
	}}
	all := map[string]httpapi.Methods{
		TenantPath:                         {http.MethodGet: d.show},
		caller.ReceiptsPath + receiptRoute: {http.MethodGet: d.receipt},
		TenantPath + "/host":               {http.MethodGet: d.host},
		UsagePath:                          {http.MethodGet: d.usage},
		TenantPath + "/statement":          {http.MethodGet: d.statement},
		TenantPath + "/changes":            {http.MethodGet: d.changes},
		TenantPath + "/links":              {http.MethodPost: d.link},
		TenantPath + "/links/{caller}":     {http.MethodDelete: d.unlink},
		KeysPath:                           {http.MethodGet: d.keys, http.MethodPost: d.makeKey},
		KeysPath + "/{key}":                {http.MethodDelete: d.revokeKey},
	}
	if payments != nil {
		all[billing.CheckoutPath] = httpapi.Methods{http.MethodPost: d.checkout, http.MethodGet: d.returned}
		all[StripePath] = httpapi.Methods{http.MethodPost: d.stripe}
	}
	routes := httpapi.API{Name: "account", Log: log, Now: now}.Mux(all)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="vacancy"`)
		routes.ServeHTTP(&challenge{ResponseWriter: w}, r)
	})
}

// challenge leaves WWW-Authenticate to answers with 401.
type challenge struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *challenge) WriteHeader(status int) {
	if status != http.StatusUnauthorized {
		c.Header().Del("WWW-Authenticate")
	}
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c *challenge) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Bodies of requests.
type (
	// Opening opens an account.
	Opening struct {
		Tenant string `json:"tenant"`
		Shards int    `json:"shards,omitempty"`
	}
	// Sum is an amount of micro-dollars, and why.
	Sum struct {
		Amount money.Amount `json:"amount"`
		Note   string       `json:"note"`
	}
	// Limit is an amount of micro-dollars.
	Limit struct {
		Amount money.Amount `json:"amount"`
	}
	// Note says why.
	Note struct {
		Note string `json:"note"`
	}
	// Claim links a caller to an account, or ends its link.
	Claim struct {
		Claim string `json:"claim"`
	}
)

// read reads a body.
func read[T any](w http.ResponseWriter, r *http.Request) (body T, err error) {
	return body, httpapi.Read(w, r, maxBody, &body)
}

// number reads a positive number in the query.
func number(q url.Values, name string, missing uint64) (uint64, error) {
	s := q.Get(name)
	if s == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, problem.Invalid(name, "a positive number", httpapi.Clip(s))
	}
	return n, nil
}

// answer answers with an account and its balance.
func (d *api) answer(w http.ResponseWriter, r *http.Request, status int, a *billing.Account) error {
	view, err := d.view(r.Context(), a)
	if err != nil {
		return err
	}
	if view.Held, err = d.held(r.Context(), a, view.Balance); err != nil {
		return err
	}
	if view.Links, err = d.Billing.Links(r.Context(), a.ID); err != nil {
		return err
	}
	return httpapi.Answer(w, status, view)
}

func (d *api) view(ctx context.Context, a *billing.Account) (Account, error) {
	balance, err := d.Balance(ctx, a)
	if err != nil {
		return Account{}, err
	}
	self, err := d.Self(ctx)
	return Account{Account: *a, Balance: balance, Host: self}, err
}

// held is what was added to an account, less its balance and what usage says that it spent.
func (d *api) held(ctx context.Context, a *billing.Account, balance money.Amount) (*money.Amount, error) {
	held, err := d.Sum(ctx, a, func(c billing.Change) money.Amount { return c.Amount })
	if err != nil {
		return nil, err
	}
	err = usage.Spent(ctx, d.Store, a.ID, func(_ time.Time, spent money.Amount) error {
		held -= spent
		return nil
	})
	// The three are read one after another, so a credit or a fold in between may make the
	// difference negative.
	held = max(held-balance, 0)
	return &held, err
}

func (d *api) open(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Opening](w, r)
	if err != nil {
		return err
	}
	a, err := d.OpenAccount(r.Context(), b.Tenant, b.Shards)
	if err != nil {
		return err
	}
	return d.answer(w, r, http.StatusCreated, &a)
}

// maxPage bounds a page of accounts: each is read.
const maxPage = 100

func (d *api) list(w http.ResponseWriter, r *http.Request) error {
	n, err := number(r.URL.Query(), "limit", maxPage)
	if err != nil {
		return err
	}
	all, next, err := d.Accounts(r.Context(), r.URL.Query().Get("cursor"), int(min(n, maxPage)))
	if err != nil {
		return err
	}
	page := Page{Accounts: make([]Account, len(all)), Next: next}
	for i := range all {
		if page.Accounts[i], err = d.view(r.Context(), &all[i]); err != nil {
			return err
		}
	}
	return httpapi.Answer(w, http.StatusOK, page)
}

func (d *api) show(w http.ResponseWriter, r *http.Request) error {
	a, _, err := d.find(r, billing.ScopeRead)
	if err != nil {
		return err
	}
	return d.answer(w, r, http.StatusOK, &a)
}

// IdempotencyKey is the header of the key that a credit is made by once.
const IdempotencyKey = "Idempotency-Key"

// move serves a change of the balance.
func (d *api) move(change func(ctx context.Context, id string, amount money.Amount, key, note string) (billing.Account, bool, error)) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := read[Sum](w, r)
		if err != nil {
			return err
		}
		a, _, err := d.find(r, billing.ScopeManage)
		if err != nil {
			return err
		}
		a, replayed, err := change(r.Context(), a.ID, b.Amount, r.Header.Get(IdempotencyKey), b.Note)
		if err != nil {
			return err
		}
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		return d.answer(w, r, http.StatusOK, &a)
	}
}

func (d *api) line(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Sum](w, r)
	if err != nil {
		return err
	}
	a, _, err := d.find(r, billing.ScopeManage)
	if err == nil {
		a, err = d.SetLine(r.Context(), a.ID, b.Amount, b.Note)
	}
	if err != nil {
		return err
	}
	return d.answer(w, r, http.StatusOK, &a)
}

func (d *api) cap(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Limit](w, r)
	if err != nil {
		return err
	}
	a, _, err := d.find(r, billing.ScopeManage)
	if err == nil {
		a, err = d.SetCap(r.Context(), a.ID, b.Amount)
	}
	if err != nil {
		return err
	}
	return d.answer(w, r, http.StatusOK, &a)
}

func (d *api) suspend(suspended bool) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := read[Note](w, r)
		if err != nil {
			return err
		}
		a, _, err := d.find(r, billing.ScopeManage)
		if err == nil {
			a, err = d.Suspend(r.Context(), a.ID, suspended, b.Note)
		}
		if err != nil {
			return err
		}
		return d.answer(w, r, http.StatusOK, &a)
	}
}

func (d *api) changes(w http.ResponseWriter, r *http.Request) error {
	from, err := number(r.URL.Query(), "from", 1)
	if err != nil {
		return err
	}
	n, err := number(r.URL.Query(), "limit", maxPage)
	if err != nil {
		return err
	}
	a, _, err := d.find(r, billing.ScopeRead)
	if err != nil {
		return err
	}
	all, err := d.Changes(r.Context(), a.ID, from, int(min(n, maxPage)))
	if err != nil {
		return err
	}
	page := Changes{Changes: make([]Change, len(all)), Next: from + uint64(len(all))}
	for i, c := range all {
		page.Changes[i] = Change{from + uint64(i), c}
	}
	return httpapi.Answer(w, http.StatusOK, page)
}

func (d *api) keys(w http.ResponseWriter, r *http.Request) error {
	a, _, err := d.find(r, billing.ScopeManage)
	if err != nil {
		return err
	}
	all, err := d.Keys(r.Context(), a.ID)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Keys{append([]billing.Key{}, all...)})
}

func (d *api) makeKey(w http.ResponseWriter, r *http.Request) error {
	o, err := read[billing.KeyOptions](w, r)
	if err != nil {
		return err
	}
	a, by, err := d.find(r, billing.ScopeManage)
	if err != nil {
		return err
	}
	k, secret, err := d.MakeKeyBy(r.Context(), by, a.ID, o)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusCreated, Made{k, secret})
}

func (d *api) revokeKey(w http.ResponseWriter, r *http.Request) error {
	a, by, err := d.find(r, billing.ScopeManage)
	if err != nil {
		return err
	}
	k, err := d.RevokeKey(r.Context(), by, a.ID, r.PathValue("key"))
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, k)
}

func (d *api) link(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Claim](w, r)
	if err != nil {
		return err
	}
	if billing.Unlinks(b.Claim) {
		// The signer needs nobody's leave.
		if err := d.UnlinkBy(r.Context(), b.Claim); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	a, by, err := d.find(r, billing.ScopeManage)
	if err != nil {
		return err
	}
	l, err := d.LinkBy(r.Context(), by, a.ID, b.Claim)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusCreated, l)
}

// Host is the identity that claims name.
type Host struct {
	ID identity.ID `json:"host_id"`
}

func (d *api) host(w http.ResponseWriter, r *http.Request) error {
	self, err := d.Self(r.Context())
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Host{self})
}

func (d *api) unlink(w http.ResponseWriter, r *http.Request) error {
	caller, err := identity.ParseID(r.PathValue("caller"))
	if err != nil {
		return problem.Invalid("caller", "an id of 64 hex digits", httpapi.Clip(r.PathValue("caller")))
	}
	a, by, err := d.find(r, billing.ScopeManage)
	if err == nil {
		err = by.CheckLive()
	}
	if err == nil {
		err = d.Unlink(r.Context(), a.ID, caller)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

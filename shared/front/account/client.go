package account

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Caller sends requests (admin.Client).
type Caller interface {
	// Call sends a request, and reads the JSON of its answer unless into is nil.
	Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error
}

// Client is a client of the operator's routes, or of the tenant's if Account is "".
type Client struct {
	Caller
	Account string // a tenant or an id
}

func (c Client) path(rest string) string {
	if c.Account == "" {
		if rest == "/keys" || len(rest) > 6 && rest[:6] == "/keys/" {
			return "/v1" + rest
		}
		return TenantPath + rest
	}
	return OperatorPath + "/" + url.PathEscape(c.Account) + rest
}

func (c Client) send(ctx context.Context, method, path string, header http.Header, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return problem.Wrap(problem.Usage, err, "the request is not JSON")
		}
	}
	return c.Call(ctx, method, path, header, data, into)
}

// Open opens the account of a tenant.
func (c Client) Open(ctx context.Context, tenant string, shards int) (a Account, err error) {
	return a, c.send(ctx, http.MethodPost, OperatorPath, nil, Opening{tenant, shards}, &a)
}

// List returns a page of accounts; cursor is "" for the first.
func (c Client) List(ctx context.Context, cursor string) (p Page, err error) {
	return p, c.send(ctx, http.MethodGet, OperatorPath+"?cursor="+url.QueryEscape(cursor), nil, nil, &p)
}

// Show returns the account.
func (c Client) Show(ctx context.Context) (a Account, err error) {
	return a, c.send(ctx, http.MethodGet, c.path(""), nil, nil, &a)
}

// Credit adds money, once for a key; with adjust it corrects the balance.
func (c Client) Credit(ctx context.Context, amount money.Amount, key, note string, adjust bool) (a Account, err error) {
	path := "/credit"
	if adjust {
		path = "/adjustment"
	}
	return a, c.send(ctx, http.MethodPost, c.path(path), http.Header{IdempotencyKey: {key}}, Sum{amount, note}, &a)
}

// SetLine sets the credit line.
func (c Client) SetLine(ctx context.Context, amount money.Amount, note string) (a Account, err error) {
	return a, c.send(ctx, http.MethodPut, c.path("/line"), nil, Sum{amount, note}, &a)
}

// SetCap sets the cap of a day.
func (c Client) SetCap(ctx context.Context, amount money.Amount) (a Account, err error) {
	return a, c.send(ctx, http.MethodPut, c.path("/cap"), nil, Limit{amount}, &a)
}

// Suspend suspends the account, or resumes it.
func (c Client) Suspend(ctx context.Context, suspended bool, note string) (a Account, err error) {
	path := "/resume"
	if suspended {
		path = "/suspend"
	}
	return a, c.send(ctx, http.MethodPost, c.path(path), nil, Note{note}, &a)
}

// Changes returns a page of changes from a position.
func (c Client) Changes(ctx context.Context, from uint64) (p Changes, err error) {
	return p, c.send(ctx, http.MethodGet, c.path("/changes?from="+strconv.FormatUint(from, 10)), nil, nil, &p)
}

// Keys lists the keys.
func (c Client) Keys(ctx context.Context) (k Keys, err error) {
	return k, c.send(ctx, http.MethodGet, c.path("/keys"), nil, nil, &k)
}

// MakeKey makes a key.
func (c Client) MakeKey(ctx context.Context, o billing.KeyOptions) (m Made, err error) {
	return m, c.send(ctx, http.MethodPost, c.path("/keys"), nil, o, &m)
}

// RevokeKey revokes a key.
func (c Client) RevokeKey(ctx context.Context, id string) (k billing.Key, err error) {
	return k, c.send(ctx, http.MethodDelete, c.path("/keys/"+url.PathEscape(id)), nil, nil, &k)
}

// Link links a caller by its claim.
func (c Client) Link(ctx context.Context, claim string) (l billing.Link, err error) {
	return l, c.send(ctx, http.MethodPost, c.path("/links"), nil, Claim{claim}, &l)
}

// HostID returns the identity that claims name.
func (c Client) HostID(ctx context.Context) (identity.ID, error) {
	var h Host
	err := c.send(ctx, http.MethodGet, TenantPath+"/host", nil, nil, &h)
	return h.ID, err
}

// Unlink ends the link of a caller.
func (c Client) Unlink(ctx context.Context, caller string) error {
	return c.send(ctx, http.MethodDelete, c.path("/links/"+url.PathEscape(caller)), nil, nil, nil)
}

// UnlinkBy ends the link of a claim's signer.
func (c Client) UnlinkBy(ctx context.Context, claim string) error {
	return c.send(ctx, http.MethodPost, c.path("/links"), nil, Claim{claim}, nil)
}

package account

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

const (
	OperatorPath = "/v1/admin/accounts"
	TenantPath   = "/v1/account"
	KeysPath     = "/v1/keys"
	UsagePath    = "/v1/usage"
	// StripePath is the path to which Stripe sends webhooks.
	StripePath           = TenantPath + "/stripe"
	OperatorReceiptsPath = "/v1/admin/receipts/"

	one = OperatorPath + "/{account}"

	issuersPath = "/v1/admin/issuers"
	oneIssuer   = issuersPath + "/{id}"
)

// IsPath reports whether TenantHandler serves a path.
func IsPath(path string) bool {
	return path == TenantPath || strings.HasPrefix(path, TenantPath+"/") || path == KeysPath || path == UsagePath || strings.HasPrefix(path, KeysPath+"/")
}

// IdempotencyKey is the header of the idempotency key. Requests with the same key move money only
// once.
const IdempotencyKey = "Idempotency-Key"

const maxBody = 16 << 10

// The operations that only the operator may use.
var (
	OpenAccount      = op.Op[op.Body[Opening], Account]{Method: "POST", Path: OperatorPath, Status: http.StatusCreated, Limit: maxBody, Doc: "opens the account of a tenant"}
	ListAccounts     = op.Op[List, Page]{Method: "GET", Path: OperatorPath, Doc: "lists accounts by tenant"}
	CreditAccount    = op.Op[Moving, Moved]{Method: "POST", Path: one + "/credit", Limit: maxBody, Doc: "adds money to an account, once per idempotency key"}
	AdjustAccount    = op.Op[Moving, Moved]{Method: "POST", Path: one + "/adjustment", Limit: maxBody, Doc: "corrects the balance of an account, once per idempotency key"}
	SetLine          = op.Op[With[Sum], Account]{Method: "PUT", Path: one + "/line", Limit: maxBody, Doc: "sets the credit line of an account"}
	SetCap           = op.Op[With[Limit], Account]{Method: "PUT", Path: one + "/cap", Limit: maxBody, Doc: "sets what an account may spend in a UTC day"}
	SetTaskLifetime  = op.Op[With[Seconds], Account]{Method: "PUT", Path: one + "/task-lifetime", Limit: maxBody, Doc: "sets the time for which finished tasks of an account can be read"}
	SuspendAccount   = op.Op[With[Note], Account]{Method: "POST", Path: one + "/suspend", Limit: maxBody, Doc: "suspends an account: its calls are refused"}
	ResumeAccount    = op.Op[With[Note], Account]{Method: "POST", Path: one + "/resume", Limit: maxBody, Doc: "lets a suspended account pay again"}
	AddIssuer        = op.Op[op.Body[NewIssuer], billing.Issuer]{Method: "POST", Path: issuersPath, Status: http.StatusCreated, Limit: maxBody, Doc: "accepts an issuer's tokens for an account, or changes which tokens are accepted"}
	ListIssuers      = op.Op[op.None, Issuers]{Method: "GET", Path: issuersPath, Doc: "lists the issuers whose tokens the host accepts"}
	ShowIssuer       = op.Op[OneIssuer, billing.Issuer]{Method: "GET", Path: oneIssuer, Doc: "shows an issuer whose tokens the host accepts"}
	RemoveIssuer     = op.Op[OneIssuer, billing.Issuer]{Method: "DELETE", Path: oneIssuer, Doc: "stops accepting an issuer's tokens, from the next request on"}
	ForgetSubject    = op.Op[OneSubject, billing.NamedSubject]{Method: "DELETE", Path: one + "/subjects/{subject}", Doc: "deletes the stored name of a subject; rows contain only the subject's id"}
	GetOperatorUsage = op.Op[Span, Usage]{Method: "GET", Path: "/v1/admin/usage", Doc: "sums up the usage of the operator's own vacants"}
)

// Operations with two routes: the operator can use them for every account, and a key only for its
// own account.
var (
	ShowAccount  = twin[One, Account]("GET", "", billing.Demand{Scope: billing.ScopeRead}, "shows an account")
	ListChanges  = twin[ChangeList, Changes]("GET", "/changes", billing.Demand{Scope: billing.ScopeRead}, "lists changes of an account")
	GetUsage     = twin[OneSpan, Usage]("GET", "/usage", billing.Demand{Scope: billing.ScopeRead}, "sums up what an account paid for, and what its tenant's vacants earned")
	GetStatement = twin[Month, Statement]("GET", "/statement", billing.Demand{Scope: billing.ScopeRead}, "sums up a month of an account")
	ListKeys     = twin[One, Keys]("GET", "/keys", billing.Demand{Scope: billing.ScopeManage, Test: true}, "lists the keys of an account, without secrets")
	MakeKey      = twin[With[billing.KeyOptions], NewKey]("POST", "/keys", billing.Demand{Scope: billing.ScopeManage, Test: true}, "creates a key of an account; only this response contains the secret").withStatusCreated()
	RevokeKey    = twin[RevokedKey, billing.Revocation]("DELETE", "/keys/{key}", billing.Demand{Scope: billing.ScopeManage, Test: true}, "revokes a key of an account, and ends the keys and links that it made; with only=true it revokes only the key")
	LinkCaller   = twin[With[Claim], Linked]("POST", "/links", billing.Demand{Scope: billing.ScopeCall}, "links a caller by its claim, so that the account pays for it; a claim that names no account ends its signer's link, and needs no key").withStatusCreated().open()
	UnlinkCaller = twin[OneCaller, op.None]("DELETE", "/links/{caller}", billing.Demand{Scope: billing.ScopeCall, AltScope: billing.ScopeManage}, "ends the link of a caller; a key without the scope manage ends only links that it made")
)

// GetReceipt is an op.Twin and not a Twin, because its request does not name an account. Its public
// route requires no key: a caller can prove its identity by the header Vacancy-Caller.
var GetReceipt = op.Twin[OneReceipt, receipt.Receipt]{
	Operator: op.Op[OneReceipt, receipt.Receipt]{Method: "GET", Path: OperatorReceiptsPath + receiptRoute, Doc: aReceipt},
	Key:      op.Op[OneReceipt, receipt.Receipt]{Method: "GET", Path: call.ReceiptsPrefix + receiptRoute, Access: op.Access{Anybody: true, Key: billing.Demand{Scope: billing.ScopeRead}}, Doc: aReceipt},
}

const aReceipt = "shows the receipt of a call to its caller (Vacancy-Caller), its payer and the owner of the vacant"

// The operations that only tenants use.
var (
	GetHost     = op.Op[op.None, Host]{Method: "GET", Path: TenantPath + "/host", Access: op.Access{Anybody: true}, Doc: "shows the host id that claims must name"}
	MakePayment = op.Op[Payment, billing.Checkout]{Method: "POST", Path: billing.CheckoutPath, Status: http.StatusCreated, Access: op.Access{Key: billing.Demand{Scope: billing.ScopeManage}}, Limit: maxBody, Doc: "creates a checkout page on which the tenant pays by card, once per idempotency key"}
)

// Twin is an operation with two routes. The operator's route names the account, and the route for
// keys uses the account of the key.
type Twin[In ofAccount, Out any] struct{ op.Twin[In, Out] }

// ofAccount is a request about an account. account returns the account's tenant or id, or "" if the
// request is about the account of the key that sent it.
type ofAccount interface{ account() string }

// twin returns a Twin whose two paths end with path. demand is the permission that a key needs.
func twin[In ofAccount, Out any](method, path string, d billing.Demand, doc string) Twin[In, Out] {
	o := op.Op[In, Out]{Method: method, Path: one + path, Limit: maxBody, Doc: doc}
	t := o
	t.Access.Key = d
	t.Path = TenantPath + path
	if strings.HasPrefix(path, "/keys") || path == "/usage" {
		t.Path = "/v1" + path
	}
	return Twin[In, Out]{op.Twin[In, Out]{Operator: o, Key: t}}
}

func (t Twin[In, Out]) withStatusCreated() Twin[In, Out] {
	t.Operator.Status, t.Key.Status = http.StatusCreated, http.StatusCreated
	return t
}

// open returns t with a route for keys that also accepts requests without a key. If a request needs
// a key, the handler calls op.Admit.
func (t Twin[In, Out]) open() Twin[In, Out] {
	t.Key.Access.Anybody = true
	return t
}

// Call sends the request in to a host. If in names an account, Call uses the operator's route, and
// otherwise the route for keys.
func (t Twin[In, Out]) Call(ctx context.Context, c op.Client, in In) (Out, error) {
	return t.For(in.account() != "").Call(ctx, c, in)
}

// One names an account by its tenant or id. It is empty in a tenant's requests.
type One struct {
	Account string `path:"account"`
}

func (o One) account() string { return o.Account }

type With[Body any] struct {
	One
	Body Body `body:"json"`
}

func About[Body any](ref One, body Body) With[Body] { return With[Body]{ref, body} }

// Other requests.
type (
	// List requests a page of accounts.
	List struct {
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// Moving moves money once per idempotency key.
	Moving struct {
		With[Sum]
		Key string `header:"Idempotency-Key"`
	}
	// ChangeList requests a page of changes from a position.
	ChangeList struct {
		One
		From  uint64 `query:"from"`
		Limit uint64 `query:"limit"`
	}
	// Span selects hours of usage and their grouping. From and Until are UTC days or hours; if they
	// are "", the span is the current month. By is one of ByHour to BySubject.
	Span struct {
		From  string `query:"from"`
		Until string `query:"until"`
		By    string `query:"by"`
	}
	OneSpan struct {
		One
		Span
	}
	// Month is a month of an account, for example 2026-11. If it is "", it is the current month.
	Month struct {
		One
		Month string `query:"month"`
	}
	// RevokedKey names a key by its id. If OnlyThisKey is true, the keys and links that
	// the key created remain valid.
	RevokedKey struct {
		One
		op.IgnoreBody
		Key  string `path:"key"`
		Only bool   `query:"only"`
	}
	OneIssuer struct {
		op.IgnoreBody
		ID string `path:"id"`
	}
	OneSubject struct {
		One
		op.IgnoreBody
		Subject string `path:"subject"`
	}
	OneCaller struct {
		One
		op.IgnoreBody
		Caller identity.ID `path:"caller"`
	}
	// OneReceipt names a call by its pair and position. LastPosition names the last answered call.
	OneReceipt struct {
		Caller   string `path:"caller"`
		Vacant   string `path:"vacant"`
		Position string `path:"position"`
	}
	// Payment requests a payment page. Requests with the same Key get the same page.
	Payment struct {
		Body Limit  `body:"json"`
		Key  string `header:"Idempotency-Key"`
	}
)

// Bodies of requests.
type (
	Opening struct {
		Tenant string `json:"tenant"`
		Shards int    `json:"shards,omitempty"`
	}
	// NewIssuer asks the host to accept an issuer's tokens for the account of a tenant.
	NewIssuer struct {
		Tenant string `json:"tenant"`
		Issuer string `json:"issuer"`
		billing.IssuerOptions
	}
	// Sum is an amount in micro-dollars. Note is the reason for the change.
	Sum struct {
		Amount money.Amount `json:"amount"`
		Note   string       `json:"note"`
	}
	// Limit is an amount in micro-dollars: a daily cap, or the amount of a payment.
	Limit struct {
		Amount money.Amount `json:"amount"`
	}
	Seconds struct {
		Seconds int64 `json:"seconds"`
	}
	// Note contains the reason for an operation.
	Note struct {
		Note string `json:"note"`
	}
	// Claim contains a claim, signed by a caller, that links the caller to an account or ends its
	// link.
	Claim struct {
		Claim string `json:"claim"`
	}
)

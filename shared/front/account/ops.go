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
	OperatorPath         = "/v1/admin/accounts"
	TenantPath           = "/v1/account"
	KeysPath             = "/v1/keys"
	UsagePath            = "/v1/usage"
	StripePath           = TenantPath + "/stripe"
	OperatorReceiptsPath = "/v1/admin/receipts/"

	accountPath = OperatorPath + "/{account}"

	issuersPath = "/v1/admin/issuers"
	issuerPath  = issuersPath + "/{id}"
)

func IsTenantPath(path string) bool {
	return path == TenantPath || strings.HasPrefix(path, TenantPath+"/") || path == KeysPath || path == UsagePath || strings.HasPrefix(path, KeysPath+"/")
}

// IdempotencyHeader contains the idempotency key. Requests with the same key move money only once.
const IdempotencyHeader = "Idempotency-Key"

const maxBodyBytes = 16 << 10

var (
	OpenAccount      = op.Op[op.Body[Opening], Account]{Method: "POST", Path: OperatorPath, Status: http.StatusCreated, MaxBody: maxBodyBytes, Doc: "opens the account of a tenant"}
	ListAccounts     = op.Op[ListRequest, Page]{Method: "GET", Path: OperatorPath, Doc: "lists accounts by tenant"}
	CreditAccount    = op.Op[MoveRequest, Moved]{Method: "POST", Path: accountPath + "/credit", MaxBody: maxBodyBytes, Doc: "adds money to an account, once per idempotency key"}
	AdjustAccount    = op.Op[MoveRequest, Moved]{Method: "POST", Path: accountPath + "/adjustment", MaxBody: maxBodyBytes, Doc: "corrects the balance of an account, once per idempotency key"}
	SetLine          = op.Op[Request[Sum], Account]{Method: "PUT", Path: accountPath + "/line", MaxBody: maxBodyBytes, Doc: "sets the credit line of an account"}
	SetCap           = op.Op[Request[Limit], Account]{Method: "PUT", Path: accountPath + "/cap", MaxBody: maxBodyBytes, Doc: "sets what an account may spend in a UTC day"}
	SetTaskLifetime  = op.Op[Request[Seconds], Account]{Method: "PUT", Path: accountPath + "/task-lifetime", MaxBody: maxBodyBytes, Doc: "sets the time for which finished tasks of an account can be read"}
	SuspendAccount   = op.Op[Request[Note], Account]{Method: "POST", Path: accountPath + "/suspend", MaxBody: maxBodyBytes, Doc: "suspends an account: its calls are refused"}
	ResumeAccount    = op.Op[Request[Note], Account]{Method: "POST", Path: accountPath + "/resume", MaxBody: maxBodyBytes, Doc: "lets a suspended account pay again"}
	AddIssuer        = op.Op[op.Body[NewIssuer], billing.Issuer]{Method: "POST", Path: issuersPath, Status: http.StatusCreated, MaxBody: maxBodyBytes, Doc: "accepts an issuer's tokens for an account, or changes which tokens are accepted"}
	ListIssuers      = op.Op[op.None, Issuers]{Method: "GET", Path: issuersPath, Doc: "lists the issuers whose tokens the host accepts"}
	ShowIssuer       = op.Op[IssuerRef, billing.Issuer]{Method: "GET", Path: issuerPath, Doc: "shows an issuer whose tokens the host accepts"}
	RemoveIssuer     = op.Op[IssuerRef, billing.Issuer]{Method: "DELETE", Path: issuerPath, Doc: "stops accepting an issuer's tokens, from the next request on"}
	ForgetSubject    = op.Op[SubjectRef, billing.NamedSubject]{Method: "DELETE", Path: accountPath + "/subjects/{subject}", Doc: "deletes the stored name of a subject; rows contain only the subject's id"}
	GetOperatorUsage = op.Op[Span, Usage]{Method: "GET", Path: "/v1/admin/usage", Doc: "sums up the usage of the operator's own vacants"}
)

// Operations with two routes: the operator can use them for every account, and a key only for its
// own account.
var (
	ShowAccount  = newTwin[Ref, Account]("GET", "", billing.KeyRequirement{Scope: billing.ScopeRead}, "shows an account")
	ListChanges  = newTwin[ChangesRequest, Changes]("GET", "/changes", billing.KeyRequirement{Scope: billing.ScopeRead}, "lists changes of an account")
	GetUsage     = newTwin[UsageRequest, Usage]("GET", "/usage", billing.KeyRequirement{Scope: billing.ScopeRead}, "sums up what an account paid for, and what its tenant's vacants earned")
	GetStatement = newTwin[MonthRequest, Statement]("GET", "/statement", billing.KeyRequirement{Scope: billing.ScopeRead}, "sums up a month of an account")
	ListKeys     = newTwin[Ref, Keys]("GET", "/keys", billing.KeyRequirement{Scope: billing.ScopeManage, AllowsTest: true}, "lists the keys of an account, without secrets")
	MakeKey      = newTwin[Request[billing.KeyOptions], NewKey]("POST", "/keys", billing.KeyRequirement{Scope: billing.ScopeManage, AllowsTest: true}, "creates a key of an account; only this response contains the secret").withStatusCreated()
	RevokeKey    = newTwin[RevokeKeyRequest, billing.Revocation]("DELETE", "/keys/{key}", billing.KeyRequirement{Scope: billing.ScopeManage, AllowsTest: true}, "revokes a key of an account, and ends the keys and links that it made; with only=true it revokes only the key")
	LinkCaller   = newTwin[Request[Claim], Linked]("POST", "/links", billing.KeyRequirement{Scope: billing.ScopeCall}, "links a caller by its claim, so that the account pays for it; a claim that names no account ends its signer's link, and needs no key").withStatusCreated().withOptionalKey()
	UnlinkCaller = newTwin[CallerRef, op.None]("DELETE", "/links/{caller}", billing.KeyRequirement{Scope: billing.ScopeCall, AltScope: billing.ScopeManage}, "ends the link of a caller; a key without the scope manage ends only links that it made")
)

// GetReceipt is an op.Twin, because its request does not name an account. Its public route requires
// no key: a caller can prove its identity by the header Vacancy-Caller.
var GetReceipt = op.Twin[ReceiptRef, receipt.Receipt]{
	Operator: op.Op[ReceiptRef, receipt.Receipt]{Method: "GET", Path: OperatorReceiptsPath + receiptRoute, Doc: receiptDoc},
	Key:      op.Op[ReceiptRef, receipt.Receipt]{Method: "GET", Path: call.ReceiptsPrefix + receiptRoute, Access: op.Access{Anybody: true, Key: billing.KeyRequirement{Scope: billing.ScopeRead}}, Doc: receiptDoc},
}

const receiptDoc = "shows the receipt of a call to its caller (Vacancy-Caller), its payer and the owner of the vacant"

var (
	GetHost     = op.Op[op.None, Host]{Method: "GET", Path: TenantPath + "/host", Access: op.Access{Anybody: true}, Doc: "shows the host id that claims must name"}
	MakePayment = op.Op[PaymentRequest, billing.Checkout]{Method: "POST", Path: billing.CheckoutPath, Status: http.StatusCreated, Access: op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeManage}}, MaxBody: maxBodyBytes, Doc: "creates a checkout page on which the tenant pays by card, once per idempotency key"}
)

type Twin[In accountNamer, Out any] struct{ op.Twin[In, Out] }

// accountNamer is a request about an account. account returns "" for the account of the request's
// key.
type accountNamer interface{ account() string }

func newTwin[In accountNamer, Out any](method, path string, requirement billing.KeyRequirement, doc string) Twin[In, Out] {
	operatorOp := op.Op[In, Out]{Method: method, Path: accountPath + path, MaxBody: maxBodyBytes, Doc: doc}
	keyOp := operatorOp
	keyOp.Access.Key = requirement
	keyOp.Path = TenantPath + path
	if strings.HasPrefix(path, "/keys") || path == "/usage" {
		keyOp.Path = "/v1" + path
	}
	return Twin[In, Out]{op.Twin[In, Out]{Operator: operatorOp, Key: keyOp}}
}

func (t Twin[In, Out]) withStatusCreated() Twin[In, Out] {
	t.Operator.Status, t.Key.Status = http.StatusCreated, http.StatusCreated
	return t
}

// withOptionalKey returns t with a route for keys that also accepts requests without a key. The
// handler must call op.RequireKey if a request needs a key.
func (t Twin[In, Out]) withOptionalKey() Twin[In, Out] {
	t.Key.Access.Anybody = true
	return t
}

// Call uses the operator's route if in names an account, and otherwise the route for keys.
func (t Twin[In, Out]) Call(ctx context.Context, c op.Client, in In) (Out, error) {
	return t.For(in.account() != "").Call(ctx, c, in)
}

// Ref names an account by its tenant or id. It is empty in a tenant's requests.
type Ref struct {
	Account string `path:"account"`
}

func (o Ref) account() string { return o.Account }

type Request[Body any] struct {
	Ref
	Body Body `body:"json"`
}

func NewRequest[Body any](ref Ref, body Body) Request[Body] { return Request[Body]{ref, body} }

type (
	ListRequest struct {
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	MoveRequest struct {
		Request[Sum]
		Key string `header:"Idempotency-Key"`
	}
	ChangesRequest struct {
		Ref
		From  uint64 `query:"from"`
		Limit uint64 `query:"limit"`
	}
	// Span selects hours of usage and their grouping. From and Until are UTC days or hours. If they
	// are "", the span is the current month.
	Span struct {
		From  string `query:"from"`
		Until string `query:"until"`
		By    string `query:"by"`
	}
	UsageRequest struct {
		Ref
		Span
	}
	// MonthRequest requests a month of an account, for example 2026-11. "" means the current month.
	MonthRequest struct {
		Ref
		Month string `query:"month"`
	}
	// RevokeKeyRequest names a key by its id. If OnlyThisKey is true, the keys and links that
	// the key created remain valid.
	RevokeKeyRequest struct {
		Ref
		op.IgnoredBody
		Key         string `path:"key"`
		OnlyThisKey bool   `query:"only"`
	}
	IssuerRef struct {
		op.IgnoredBody
		ID string `path:"id"`
	}
	SubjectRef struct {
		Ref
		op.IgnoredBody
		Subject string `path:"subject"`
	}
	CallerRef struct {
		Ref
		op.IgnoredBody
		Caller identity.ID `path:"caller"`
	}
	// ReceiptRef names a call by its pair and position. LastPosition names the last answered call.
	ReceiptRef struct {
		Caller   string `path:"caller"`
		Vacant   string `path:"vacant"`
		Position string `path:"position"`
	}
	// PaymentRequest requests a payment page. Requests with the same Key get the same page.
	PaymentRequest struct {
		Body Limit  `body:"json"`
		Key  string `header:"Idempotency-Key"`
	}
)

type (
	Opening struct {
		Tenant string `json:"tenant"`
		Shards int    `json:"shards,omitempty"`
	}
	NewIssuer struct {
		Tenant string `json:"tenant"`
		Issuer string `json:"issuer"`
		billing.IssuerOptions
	}
	// Sum is an amount in micro-dollars.
	Sum struct {
		Amount money.Amount `json:"amount"`
		Note   string       `json:"note"`
	}
	// Limit is an amount in micro-dollars.
	Limit struct {
		Amount money.Amount `json:"amount"`
	}
	Seconds struct {
		Seconds int64 `json:"seconds"`
	}
	Note struct {
		Note string `json:"note"`
	}
	// Claim contains a caller's signed claim that links the caller to an account or ends its link.
	Claim struct {
		Claim string `json:"claim"`
	}
)

package billing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Issuer is an issuer of tokens. Account pays for calls with these tokens.
type Issuer struct {
	ID      string `json:"id"`
	URL     string `json:"issuer"` // spelled like iss in the tokens
	Account string `json:"account"`
	Tenant  string `json:"tenant"`
	IssuerOptions
	AddedAt time.Time `json:"added"`
}

type IssuerOptions struct {
	// Audiences are accepted in aud, in addition to the called URL.
	Audiences []string `json:"audiences,omitempty"`
	// The caps limit the spending of a UTC day.
	SubjectDailyCap money.Amount `json:"cap"`
	TotalDailyCap   money.Amount `json:"most"`
	// RequiredClaims contains the claims that a token must have. If AllowAll is set, everyone with
	// a token can spend the account's money.
	RequiredClaims map[string]string `json:"require,omitempty"`
	AllowAll       bool              `json:"anybody,omitempty"`
	// Scopes defaults to call.
	Scopes              []Scope `json:"scopes,omitempty"`
	SubjectClaim        string  `json:"subject_claim,omitempty"`
	Publish             bool    `json:"listed,omitempty"`
	AllowPrivateAddress bool    `json:"private,omitempty"`
}

const (
	maxIssuers         = 256
	maxIssuerURLBytes  = 512
	maxAudiences       = 16
	maxRequired        = 16
	maxClaimNameBytes  = 128
	maxClaimValueBytes = 512
)

// TokenScopes excludes scopes that need a revocable key.
func TokenScopes() []Scope { return []Scope{ScopeCall, ScopeRead, ScopeAgents} }

const DefaultSubjectClaim = "sub"

// transferableNames lists parts of the names of claims whose values may pass from one person to
// another.
var transferableNames = []string{"mail", "name", "phone", "upn", "nick"}

func (o *IssuerOptions) check() error {
	if len(o.Audiences) > maxAudiences {
		return problem.Invalid("audiences", fmt.Sprintf("at most %d", maxAudiences), fmt.Sprint(len(o.Audiences)))
	}
	for i, a := range o.Audiences {
		if a == "" || len(a) > maxIssuerURLBytes || canon.CheckSignedText("audience", a) != nil {
			return problem.Invalid(fmt.Sprintf("audiences[%d]", i), fmt.Sprintf("1 to %d bytes without control characters", maxIssuerURLBytes), fmt.Sprintf("%.80q", a))
		}
	}
	for _, bound := range []struct {
		field string
		of    money.Amount
	}{{"cap", o.SubjectDailyCap}, {"most", o.TotalDailyCap}} {
		if bound.of < 1 || bound.of > money.Max {
			return problem.Invalid(bound.field, fmt.Sprintf("1 to %d micro-dollars a day", money.Max), fmt.Sprint(int64(bound.of)))
		}
	}
	switch {
	case len(o.RequiredClaims) == 0 && !o.AllowAll:
		return problem.Invalid("require", "a claim with its value, or anybody", "neither, so everyone with a token of the issuer could spend the account's money")
	case len(o.RequiredClaims) > 0 && o.AllowAll:
		return problem.Invalid("anybody", "no claims in require together with anybody", fmt.Sprintf("%d", len(o.RequiredClaims)))
	case len(o.RequiredClaims) > maxRequired:
		return problem.Invalid("require", fmt.Sprintf("at most %d claims", maxRequired), fmt.Sprint(len(o.RequiredClaims)))
	}
	for _, claim := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		if err := checkClaimName("require", claim); err != nil {
			return err
		}
		if v := o.RequiredClaims[claim]; v == "" || len(v) > maxClaimValueBytes {
			return problem.Invalid("require."+claim, fmt.Sprintf("a value of 1 to %d bytes", maxClaimValueBytes), fmt.Sprintf("%d", len(v)))
		}
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []Scope{ScopeCall}
	}
	for _, s := range o.Scopes {
		if !slices.Contains(TokenScopes(), s) {
			return problem.Invalid("scopes", fmt.Sprintf("some of %v", TokenScopes()), fmt.Sprintf("%.40q", string(s)))
		}
	}
	o.SubjectClaim = cmp.Or(o.SubjectClaim, DefaultSubjectClaim)
	if err := checkClaimName("subject_claim", o.SubjectClaim); err != nil {
		return err
	}
	lower := strings.ToLower(o.SubjectClaim)
	if i := slices.IndexFunc(transferableNames, func(part string) bool { return strings.Contains(lower, part) }); i >= 0 {
		return problem.Invalid("subject_claim", "a claim that stays with one person, such as sub or oid", fmt.Sprintf("%q: addresses and names move from one person to another, and the tasks would move with them", o.SubjectClaim))
	}
	return nil
}

func checkClaimName(field, name string) error {
	if name == "" || len(name) > maxClaimNameBytes || canon.CheckSignedText("claim", name) != nil {
		return problem.Invalid(field, fmt.Sprintf("the name of a claim, 1 to %d bytes without control characters", maxClaimNameBytes), fmt.Sprintf("%.80q", name))
	}
	return nil
}

func CheckIssuerURL(s string) error {
	const want = "an https URL without query and fragment, spelled like iss in the tokens"
	u, err := outbound.ParseURL(s)
	switch {
	case err != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "", strings.HasSuffix(s, "#"), len(s) > maxIssuerURLBytes, canon.CheckSignedText("issuer", s) != nil:
		return problem.Invalid("issuer", want, fmt.Sprintf("%.80q", s))
	case u.Scheme != "https" && !outbound.IsThisMachine(u.Hostname()):
		return problem.Invalid("issuer", want+"; http is allowed only for this machine", fmt.Sprintf("%.80q", s))
	}
	return nil
}

func IssuerMetadataURLs(issuer string) []string {
	urls := []string{strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"}
	if u, err := url.Parse(issuer); err == nil {
		path := strings.TrimSuffix(u.EscapedPath(), "/")
		urls = append(urls, u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+path)
	}
	return urls
}

// AddIssuer adds an issuer to an account, or changes its options.
func (b *Billing) AddIssuer(ctx context.Context, accountID, issuerURL string, o IssuerOptions) (i Issuer, err error) {
	if err := CheckIssuerURL(issuerURL); err != nil {
		return i, err
	}
	if err := o.check(); err != nil {
		return i, err
	}
	issuers, err := b.Issuers(ctx)
	if err != nil {
		return i, err
	}
	sum := sha256.Sum256([]byte("vacancy issuer of account v1\x1f" + accountID + "\x1f" + issuerURL))
	i = Issuer{ID: hex.EncodeToString(sum[:8]), URL: issuerURL, Account: accountID, IssuerOptions: o, AddedAt: b.currentSecond()}
	if isKnown := slices.ContainsFunc(issuers, func(other Issuer) bool { return other.ID == i.ID }); !isKnown && len(issuers) >= maxIssuers {
		return i, problem.New(problem.Conflict, "the host has reached the limit of %d issuers; remove one first", len(issuers))
	}
	_, err = b.changeAccount(ctx, accountID, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		i.Tenant = a.Tenant
		d, err := tx.Doc(ctx, IssuerDocs.Key(i.ID))
		if err != nil {
			return Change{}, err
		}
		IssuerDocs.Put(tx, store.Doc{Key: d.Key}, i)
		return Change{Kind: IssuerAdded, Note: issuerURL}, nil
	})
	b.issuerCache.invalidate(struct{}{})
	return i, err
}

func (b *Billing) RemoveIssuer(ctx context.Context, id string) (i Issuer, err error) {
	if i, err = b.Issuer(ctx, id); err != nil {
		return i, err
	}
	_, err = b.changeAccount(ctx, i.Account, func(ctx context.Context, tx *store.Tx, _ *Account) (Change, error) {
		current, d, err := IssuerDocs.Get(ctx, tx, IssuerDocs.Key(id))
		switch {
		case err != nil:
			return Change{}, err
		case d.Version == 0:
			return Change{}, issuerNotFoundError(id)
		}
		i = current
		tx.Delete(d.Key)
		return Change{Kind: IssuerRemoved, Note: i.URL}, nil
	})
	b.issuerCache.invalidate(struct{}{})
	return i, err
}

func (b *Billing) Issuer(ctx context.Context, id string) (Issuer, error) {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 8 || hex.EncodeToString(raw) != id {
		return Issuer{}, issuerNotFoundError(id)
	}
	i, d, err := IssuerDocs.Get(ctx, b.Store, IssuerDocs.Key(id))
	if err != nil {
		return i, store.AsProblem(err)
	}
	if d.Version == 0 {
		return i, issuerNotFoundError(id)
	}
	return i, nil
}

func issuerNotFoundError(id string) error {
	return problem.New(problem.NotFound, "no issuer has the id %.40q; GET /v1/admin/issuers lists them", id)
}

func (b *Billing) Issuers(ctx context.Context) (issuers []Issuer, err error) {
	for i, err := range IssuerDocs.Each(ctx, b.Store, IssuerDocs.Range()) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		issuers = append(issuers, i)
	}
	return issuers, nil
}

// RecentIssuers returns issuers that may be a second old.
func (b *Billing) RecentIssuers(ctx context.Context) ([]Issuer, error) {
	select {
	case b.issuerReadLock <- struct{}{}:
		defer func() { <-b.issuerReadLock }()
	case <-ctx.Done():
		return nil, store.AsProblem(ctx.Err())
	}
	return b.issuerCache.getOrRead(struct{}{}, b.Now(), func() ([]Issuer, error) { return b.Issuers(ctx) })
}

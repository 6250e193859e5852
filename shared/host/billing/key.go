package billing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// The rights of a key are read from its document and never from its prefix. A test key calls only
// vacants of its own tenant, free of charge.
const (
	DefaultKeyPrefix    = "vac"
	DefaultAGPKeyPrefix = "agnt"

	liveInfix = "_live_"
	testInfix = "_test_"
)

const maxPrefixLength = 12

func CheckKeyPrefix(word string) error {
	if word == "" || len(word) > maxPrefixLength || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return problem.Invalid("the prefix of keys", fmt.Sprintf("1 to %d characters of a-z and 0-9", maxPrefixLength), fmt.Sprintf("%.40q", word))
	}
	return nil
}

// secretSize letters and digits contain 190 random bits.
const secretSize = 32

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

type Scope string

const (
	ScopeCall   Scope = "call"
	ScopeRead   Scope = "read"
	ScopeManage Scope = "manage"
	ScopeAGP    Scope = "agp"
	// Only the operator grants ScopeVacants, because vacants run at the host's cost.
	ScopeVacants Scope = "vacants"
	ScopeAgents  Scope = "agents"
	ScopeWork    Scope = "work"
)

func Scopes() []Scope {
	return []Scope{ScopeCall, ScopeRead, ScopeManage, ScopeAGP, ScopeVacants, ScopeAgents, ScopeWork}
}

func (s Scope) Description() string {
	return map[Scope]string{
		ScopeCall:    "call vacants, link callers and end the links that the key created",
		ScopeRead:    "read the account, its usage and its receipts",
		ScopeManage:  "list, create and revoke keys, end any link, pay in, see and answer all bookings",
		ScopeAGP:     "send AGP envelopes; requires a tier",
		ScopeVacants: "create and change the vacants of the account's tenant; only the operator grants it",
		ScopeAgents:  "dispatch tasks to agents, and manage these tasks",
		ScopeWork:    "run turns of the account tenant's vacants as a worker",
	}[s]
}

type Tier string

const (
	NoTier     Tier = ""
	Free       Tier = "free"
	Pro        Tier = "pro"
	Enterprise Tier = "enterprise"
)

// tierQuotas contains the daily AGP requests per tier. Zero means no limit.
var tierQuotas = map[Tier]int64{NoTier: 0, Free: 100, Pro: 10_000, Enterprise: 0}

type KeyOptions struct {
	Name string `json:"name,omitempty"`
	Test bool   `json:"test"`
	// Scopes defaults to call and read, or to agp and read if Tier is set.
	Scopes []Scope `json:"scopes,omitempty"`
	// DailyCap limits the spending of a UTC day. Zero means no limit.
	DailyCap money.Amount `json:"cap"`
	// MaxPrice limits the price of a call or a booking. Zero means no limit.
	MaxPrice money.Amount `json:"most,omitempty"`
	Tier     Tier         `json:"tier"`
	// Quota limits the AGP requests of a UTC day. Zero means the tier's quota.
	Quota int64 `json:"quota"`
	// AgentIDs lists the agents that may send requests. If it is empty, all agents may.
	AgentIDs []string  `json:"agent_ids,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
}

const (
	maxAgents         = 32
	maxAgentNameBytes = 256
	maxNameLength     = 64
)

func (o *KeyOptions) check(now time.Time) error {
	isUnprintable := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if utf8.RuneCountInString(o.Name) > maxNameLength || strings.ContainsFunc(o.Name, isUnprintable) || strings.TrimSpace(o.Name) != o.Name {
		return problem.Invalid("name", fmt.Sprintf("at most %d printable characters, without a space at either end", maxNameLength), fmt.Sprintf("%.80q", o.Name))
	}
	if err := checkAmount("cap", o.DailyCap); err != nil {
		return err
	}
	if err := checkAmount("most", o.MaxPrice); err != nil {
		return err
	}
	if _, ok := tierQuotas[o.Tier]; !ok {
		return problem.Invalid("tier", "free, pro or enterprise", fmt.Sprintf("%.40q", string(o.Tier)))
	}
	switch {
	case len(o.Scopes) > 0:
	case o.Tier != NoTier:
		o.Scopes = []Scope{ScopeAGP, ScopeRead}
	default:
		o.Scopes = []Scope{ScopeCall, ScopeRead}
	}
	for _, s := range o.Scopes {
		if !slices.Contains(Scopes(), s) {
			return problem.Invalid("scopes", fmt.Sprintf("some of %v", Scopes()), fmt.Sprintf("%.40q", s))
		}
		if s == ScopeAGP && o.Tier == NoTier {
			return problem.Invalid("tier", "a tier for the scope agp", "none")
		}
	}
	switch {
	case o.Tier == NoTier && (o.Quota != 0 || len(o.AgentIDs) > 0):
		return problem.Invalid("tier", "a tier for a quota or agents", "none")
	case o.Quota < 0 || o.Quota > int64(money.Max):
		return problem.Invalid("quota", "0 or more requests a day", fmt.Sprint(o.Quota))
	case len(o.AgentIDs) > maxAgents:
		return problem.Invalid("agent_ids", fmt.Sprintf("at most %d", maxAgents), fmt.Sprint(len(o.AgentIDs)))
	case !o.Expires.IsZero() && !o.Expires.After(now):
		return problem.Invalid("expires", "a time in the future", o.Expires.Format(time.RFC3339))
	}
	for i, a := range o.AgentIDs {
		if a == "" || len(a) > maxAgentNameBytes || canon.CheckSignedText("agent", a) != nil {
			return problem.Invalid(fmt.Sprintf("agent_ids[%d]", i), fmt.Sprintf("1 to %d bytes without control characters", maxAgentNameBytes), fmt.Sprintf("%.80q", a))
		}
	}
	return nil
}

func (b *Billing) newKeyPrefix(o *KeyOptions) string {
	word := cmp.Or(b.KeyPrefix, DefaultKeyPrefix)
	if o.Tier != NoTier {
		word = cmp.Or(b.AGPKeyPrefix, DefaultAGPKeyPrefix)
	}
	if o.Test {
		return word + testInfix
	}
	return word + liveInfix
}

type Key struct {
	ID        string       `json:"id"`
	Name      string       `json:"name,omitempty"`
	Account   string       `json:"account"`
	Tenant    string       `json:"tenant"`
	Prefix    string       `json:"prefix"` // start of the secret, for display
	Test      bool         `json:"test,omitempty"`
	Scopes    []Scope      `json:"scopes"`
	DailyCap  money.Amount `json:"cap,omitempty"`
	MaxPrice  money.Amount `json:"most,omitempty"`
	Tier      Tier         `json:"tier,omitempty"`
	Quota     int64        `json:"quota,omitempty"`
	AgentIDs  []string     `json:"agent_ids,omitempty"`
	CreatedAt time.Time    `json:"created"`
	Expires   time.Time    `json:"expires,omitzero"`
	RevokedAt time.Time    `json:"revoked,omitzero"`
	Maker
	// Only Billing.Keys sets LastUsed, the time of the last AGP request.
	LastUsed time.Time `json:"last_used,omitzero"`

	subject *Subject
}

func (k *Key) DayQuota() int64 { return cmp.Or(k.Quota, tierQuotas[k.Tier]) }

func (k *Key) HasScope(s Scope) bool { return slices.Contains(k.Scopes, s) }

type listedKey struct {
	SecretHash string `json:"hash,omitempty"`
	Key
}

func hashSecret(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// MakeKey returns a secret that cannot be read again.
func (b *Billing) MakeKey(ctx context.Context, account string, o KeyOptions) (k Key, secret string, err error) {
	return b.MakeKeyBy(ctx, nil, account, o)
}

// MakeKeyBy creates a key on behalf of maker, or of the operator if maker is nil. If the key would
// have more rights than maker, the error is Forbidden.
func (b *Billing) MakeKeyBy(ctx context.Context, maker *Key, account string, o KeyOptions) (k Key, secret string, err error) {
	if err := o.check(b.Now()); err != nil {
		return k, "", err
	}
	if err := maker.checkCanMake(&o); err != nil {
		return k, "", err
	}
	keyMaker := makerOf(maker)
	if len(keyMaker.Ancestors) >= maxGenerations {
		return k, "", problem.New(problem.Forbidden, "the key %s… cannot create keys: expected a key with at most %d makers above it, got one with %d", maker.Prefix, maxGenerations-1, len(keyMaker.Ancestors))
	}
	prefix := b.newKeyPrefix(&o)
	if secret, err = b.randomLetters(secretSize); err != nil {
		return k, "", err
	}
	id, err := b.randomLetters(12)
	if err != nil {
		return k, "", err
	}
	secret = prefix + secret
	k = Key{ID: id, Name: o.Name, Account: account, Prefix: secret[:len(prefix)+4], Test: o.Test, Scopes: o.Scopes, DailyCap: o.DailyCap, MaxPrice: o.MaxPrice,
		Tier: o.Tier, Quota: o.Quota, AgentIDs: o.AgentIDs, Expires: o.Expires.UTC(), CreatedAt: b.currentSecond(), Maker: keyMaker}
	_, err = b.changeAccount(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		if err := b.checkStillValid(ctx, tx, a, maker); err != nil {
			return Change{}, err
		}
		// The commit writes the account, so it conflicts with a concurrent new key.
		if err := b.makeRoomForKey(ctx, tx, a, maker); err != nil {
			return Change{}, err
		}
		k.Tenant = a.Tenant
		SecretDocs.Put(tx, store.Doc{Key: SecretDocs.Key(hashSecret(secret))}, k)
		KeyDocs.Put(tx, store.Doc{Key: KeyDocs.Key(account, id)}, listedKey{hashSecret(secret), k})
		return Change{Kind: KeyMade, Key: id, Name: k.Name, Maker: k.MadeBy}, nil
	})
	return k, secret, err
}

func (b *Billing) randomLetters(n int) (string, error) {
	// Bytes of this value or more would make some letters more likely.
	const firstSkipped = byte(256 / len(alphabet) * len(alphabet))
	out, buf := make([]byte, 0, n), make([]byte, 1)
	for len(out) < n {
		if _, err := io.ReadFull(b.Rand, buf); err != nil {
			return "", problem.Wrap(problem.Unavailable, err, "no randomness for a key")
		}
		if buf[0] < firstSkipped {
			out = append(out, alphabet[int(buf[0])%len(alphabet)])
		}
	}
	return string(out), nil
}

func (b *Billing) Keys(ctx context.Context, account string) (keys []Key, err error) {
	listed, err := b.listKeys(ctx, account)
	if err != nil {
		return nil, err
	}
	for _, entry := range listed {
		keys = append(keys, entry.Key)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range keys {
		if keys[i].Tier != NoTier {
			g.Go(func() error {
				use, err := b.loadUse(ctx, b.Store, keys[i].ID)
				keys[i].LastUsed = use.LastUsed
				return err
			})
		}
	}
	return keys, g.Wait()
}

func (b *Billing) listKeys(ctx context.Context, account string) (keys []listedKey, err error) {
	for k, err := range KeyDocs.Each(ctx, b.Store, KeyDocs.Range(account)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Authenticate uses no cache, so that a revoked key is refused at once.
func (b *Billing) Authenticate(ctx context.Context, secret string) (k Key, err error) {
	if !IsSecret(secret) {
		return k, problem.New(problem.Unauthorized, "Authorization: expected Bearer and a key of this host, such as %s…", cmp.Or(b.KeyPrefix, DefaultKeyPrefix)+liveInfix)
	}
	k, d, err := SecretDocs.Get(ctx, b.Store, SecretDocs.Key(hashSecret(secret)))
	if err != nil {
		return k, store.AsProblem(err)
	}
	if d.Version == 0 {
		return k, problem.New(problem.Unauthorized, "Authorization: this host has no such key")
	}
	return k, b.checkUsable(&k)
}

func (b *Billing) checkUsable(k *Key) error {
	switch {
	case !k.RevokedAt.IsZero():
		return problem.Wrap(problem.Unauthorized, ErrRevokedKey, "Authorization: the key %s… was revoked", k.Prefix)
	case !k.Expires.IsZero() && !b.Now().Before(k.Expires):
		return problem.Wrap(problem.Unauthorized, ErrExpiredKey, "Authorization: the key %s… expired at %s", k.Prefix, k.Expires.Format(time.RFC3339))
	}
	return nil
}

var (
	ErrRevokedKey = errors.New("revoked key")
	ErrExpiredKey = errors.New("expired key")
)

// IsSecret checks only the form of a secret, because the host may have changed its prefix.
func IsSecret(secret string) bool {
	prefix := strings.TrimRight(secret, alphabet)
	word, ok := strings.CutSuffix(prefix, liveInfix)
	if !ok {
		word, ok = strings.CutSuffix(prefix, testInfix)
	}
	return ok && CheckKeyPrefix(word) == nil && len(secret) == len(prefix)+secretSize
}

// BearerSecret returns the secret in a request's Authorization header, or "". Its errors do not
// contain the secret.
func BearerSecret(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return "", nil
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	secret = strings.TrimLeft(secret, " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", problem.New(problem.Unauthorized, "Authorization: expected one Bearer KEY")
	}
	return secret, nil
}

type KeyRequirement struct {
	Scope Scope
	// AllowsTest admits test keys. The handler must limit them to test data.
	AllowsTest bool
	// RequiresActive refuses keys of suspended accounts. The state of the account may be a second
	// old.
	RequiresActive bool
	AltScope       Scope
	ExtraScope     Scope
}

func CallRequirement() KeyRequirement {
	return KeyRequirement{Scope: ScopeCall, AllowsTest: true, RequiresActive: true}
}

var ErrNoKey = errors.New("no key")

// AuthenticateRequest returns the key of a request. Every handler that accepts account keys must
// call AuthenticateRequest.
func (b *Billing) AuthenticateRequest(ctx context.Context, r *http.Request, requirement KeyRequirement) (*Key, error) {
	secret, err := BearerSecret(r)
	if err == nil && secret == "" {
		err = problem.Wrap(problem.Unauthorized, ErrNoKey, "a key of an account is required: Authorization: Bearer KEY")
	}
	if err != nil {
		return nil, err
	}
	k, err := b.authenticateKeyOrToken(ctx, r, secret)
	if err == nil && k.isMadeByKey() {
		var a Account
		if a, err = b.Account(ctx, k.Account); err == nil {
			err = a.checkNotEnding(&k)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case k.Test && !requirement.AllowsTest:
		return nil, problem.New(problem.TestKeyNotAllowed, "this needs a live key, but %s… is a test key", k.Prefix)
	case requirement.Scope != "" && !k.HasScope(requirement.Scope) && !k.HasScope(requirement.AltScope):
		return nil, k.CheckScope(requirement.Scope)
	case requirement.ExtraScope != "" && !k.HasScope(requirement.ExtraScope):
		return nil, k.CheckScope(requirement.ExtraScope)
	case !requirement.RequiresActive:
		return &k, nil
	}
	return &k, b.checkAccountActiveCached(ctx, k.Account)
}

func (b *Billing) authenticateKeyOrToken(ctx context.Context, r *http.Request, secret string) (Key, error) {
	if b.tokenChecker == nil || !b.tokenChecker.LooksLikeToken(secret) {
		return b.Authenticate(ctx, secret)
	}
	s, err := b.tokenChecker.Check(ctx, secret, r)
	if err != nil {
		return Key{}, err
	}
	return s.key(), b.recordSubject(ctx, &s)
}

// Identify returns nil if the request has no key.
func (b *Billing) Identify(ctx context.Context, r *http.Request) (*call.Payer, error) {
	k, err := b.AuthenticateRequest(ctx, r, CallRequirement())
	switch {
	case errors.Is(err, ErrNoKey):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return k.Payer(), nil
}

func (k *Key) Payer() *call.Payer {
	p := &call.Payer{Account: k.Account, Tenant: k.Tenant, Key: k.ID, DailyCap: k.DailyCap, MaxWalkCost: k.MaxPrice, Test: k.Test}
	if s := k.subject; s != nil {
		p.Subject, p.Issuer, p.IssuerDailyCap = s.ID, s.Issuer.ID, s.Issuer.TotalDailyCap
		p.HasAgentsScope = k.HasScope(ScopeAgents)
	}
	return p
}

// RefreshPayer returns an error if the payer's key or token would be refused now. Otherwise, it
// updates the caps of the issuer.
func (b *Billing) RefreshPayer(ctx context.Context, p *call.Payer) error {
	if p.Issuer != "" {
		i, err := b.Issuer(ctx, p.Issuer)
		required := ScopeCall
		if p.HasAgentsScope {
			required = ScopeAgents
		}
		switch {
		case problem.Is(err, problem.NotFound):
			return problem.Wrap(problem.Unauthorized, err, "the host no longer accepts tokens from the issuer")
		case err != nil:
			return err
		case !slices.Contains(i.Scopes, required):
			return problem.New(problem.ScopeRequired, "tokens of the issuer no longer have the scope %s", required)
		}
		p.DailyCap, p.IssuerDailyCap = i.SubjectDailyCap, i.TotalDailyCap
		return b.checkAccountActiveCached(ctx, p.Account)
	}
	a, err := b.activeAccount(ctx, p.Account)
	if err != nil {
		return err
	}
	k, d, err := KeyDocs.Get(ctx, b.Store, KeyDocs.Key(p.Account, p.Key))
	switch {
	case err != nil:
		return store.AsProblem(err)
	case d.Version == 0:
		return problem.Wrap(problem.Unauthorized, ErrRevokedKey, "the key that dispatched the task was removed")
	}
	if err := b.checkUsable(&k.Key); err != nil {
		return err
	}
	return a.checkNotEnding(&k.Key)
}

func (k *Key) CheckScope(s Scope) error {
	switch {
	case k.HasScope(s):
		return nil
	case k.subject != nil:
		return problem.New(problem.ScopeRequired, "the token lacks the scope %s: expected it in scope or scp of the token, and among the scopes of its issuer at this host", s)
	}
	return MissingScopeError(s)
}

func MissingScopeError(s Scope) error {
	if s == ScopeManage {
		return problem.New(problem.ScopeRequired, "the key lacks the scope manage; create a key with it, for example: vacancy keys create TENANT --scope call,read,manage")
	}
	return problem.New(problem.ScopeRequired, "the key lacks the scope %s", s)
}

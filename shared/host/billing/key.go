package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The beginnings of keys. A test key calls its own tenant's vacants, and nothing is charged.
const (
	LivePrefix = "vac_live_"
	TestPrefix = "vac_test_"
)

// secretSize is how many letters and digits follow the prefix: 190 bits.
const secretSize = 32

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// Scope is what a key may do.
type Scope string

// The scopes.
const (
	ScopeCall   Scope = "call"   // call vacants
	ScopeRead   Scope = "read"   // read the account
	ScopeManage Scope = "manage" // keys and links of the account
)

// Scopes are all scopes.
func Scopes() []Scope { return []Scope{ScopeCall, ScopeRead, ScopeManage} }

// Key is an API key of an account, without its secret.
type Key struct {
	ID      string       `json:"id"`
	Account string       `json:"account"`
	Tenant  string       `json:"tenant"`
	Prefix  string       `json:"prefix"` // what is shown of the secret
	Test    bool         `json:"test,omitempty"`
	Scopes  []Scope      `json:"scopes"`
	Cap     money.Amount `json:"cap,omitempty"` // of a UTC day; 0: none
	Created time.Time    `json:"created"`
	Revoked time.Time    `json:"revoked,omitzero"`
}

// Has reports whether a key has a scope.
func (k *Key) Has(s Scope) bool { return slices.Contains(k.Scopes, s) }

type storedKey struct {
	Format int    `json:"format"`
	Hash   string `json:"hash,omitempty"` // in the account's list only
	Key
}

// secretKey is the document that a secret leads to. Its name is a hash: a secret has 190
// random bits, so the plain hash reveals nothing.
func secretKey(hash string) store.Key { return store.Key{Partition: "key#" + hash, Sort: "key"} }

const keyPrefix = "key#"

func listedKey(account, id string) store.Key {
	return store.Key{Partition: accountPartition(account), Sort: keyPrefix + id}
}

func hashOf(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// maxKeys bounds the keys of an account, revoked ones included.
const maxKeys = 1000

// MakeKey makes a key of an account, and returns its secret, which nobody can read again.
// No scopes are all of them.
func (b *Billing) MakeKey(ctx context.Context, account string, test bool, scopes []Scope, most money.Amount) (k Key, secret string, err error) {
	if err := checkCap(most); err != nil {
		return k, "", err
	}
	if len(scopes) == 0 {
		scopes = Scopes()
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return k, "", problem.Invalid("scopes", fmt.Sprintf("some of %v", Scopes()), fmt.Sprintf("%.40q", s))
		}
	}
	prefix := LivePrefix
	if test {
		prefix = TestPrefix
	}
	if secret, err = b.letters(secretSize); err != nil {
		return k, "", err
	}
	id, err := b.letters(12)
	if err != nil {
		return k, "", err
	}
	secret = prefix + secret
	k = Key{ID: id, Account: account, Prefix: secret[:len(prefix)+4], Test: test, Scopes: scopes, Cap: most, Created: b.now()}
	if all, err := b.Keys(ctx, account); err != nil || len(all) >= maxKeys {
		if err == nil {
			err = problem.New(problem.Conflict, "the account has %d keys, as many as it may", len(all))
		}
		return k, "", err
	}
	_, err = b.change(ctx, account, func(ctx context.Context, tx *store.Tx, a *Account) (Change, error) {
		k.Tenant = a.Tenant
		tx.Put(store.Doc{Key: secretKey(hashOf(secret)), Data: encode(storedKey{Format: format, Key: k})})
		tx.Put(store.Doc{Key: listedKey(account, id), Data: encode(storedKey{Format: format, Hash: hashOf(secret), Key: k})})
		return Change{Kind: KeyMade, Key: id}, nil
	})
	return k, secret, err
}

// letters returns n random letters and digits.
func (b *Billing) letters(n int) (string, error) {
	const fair = byte(256 / len(letters) * len(letters)) // above it, some letters would be more likely
	out, one := make([]byte, 0, n), make([]byte, 1)
	for len(out) < n {
		if _, err := io.ReadFull(b.Rand, one); err != nil {
			return "", problem.Wrap(problem.Unavailable, err, "no randomness for a key")
		}
		if one[0] < fair {
			out = append(out, letters[int(one[0])%len(letters)])
		}
	}
	return string(out), nil
}

// Keys lists the keys of an account, by id.
func (b *Billing) Keys(ctx context.Context, account string) (all []Key, err error) {
	return all, b.each(ctx, account, keyPrefix, func(d store.Doc) error {
		var s storedKey
		err := decode("a key of account "+account, d.Data, &s)
		all = append(all, s.Key)
		return err
	})
}

// each calls fn with each document of an account whose sort has a prefix.
func (b *Billing) each(ctx context.Context, account, prefix string, fn func(store.Doc) error) error {
	r := store.Range{Partition: accountPartition(account), First: prefix, Last: prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)}
	for cursor := ""; ; {
		docs, next, err := b.Store.Docs(ctx, r, store.MaxPage, cursor)
		if err != nil {
			return store.Problem(err)
		}
		for _, d := range docs {
			if err := fn(d); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// RevokeKey revokes a key of an account: the next request with it is refused. Revoking it
// again has no effect.
func (b *Billing) RevokeKey(ctx context.Context, account, id string) (k Key, err error) {
	if id == "" || strings.Trim(id, letters) != "" || len(id) > 64 {
		return k, problem.New(problem.NotFound, "no such key")
	}
	_, err = b.change(ctx, account, func(ctx context.Context, tx *store.Tx, _ *Account) (Change, error) {
		listed, err := tx.Doc(ctx, listedKey(account, id))
		if err != nil {
			return Change{}, err
		}
		if listed.Version == 0 {
			return Change{}, problem.New(problem.NotFound, "no such key")
		}
		var s storedKey
		if err := decode("a key of account "+account, listed.Data, &s); err != nil {
			return Change{}, err
		}
		if k = s.Key; !k.Revoked.IsZero() {
			return Change{}, nil
		}
		if _, err := tx.Doc(ctx, secretKey(s.Hash)); err != nil {
			return Change{}, err
		}
		k.Revoked = b.now()
		tx.Put(store.Doc{Key: secretKey(s.Hash), Data: encode(storedKey{Format: format, Key: k})})
		tx.Put(store.Doc{Key: listed.Key, Data: encode(storedKey{Format: format, Hash: s.Hash, Key: k})})
		return Change{Kind: KeyRevoked, Key: id}, nil
	})
	return k, err
}

// Authenticate returns the key of a secret, read from the store each time. The error is
// Unauthorized for a secret that is no key's. A malformed one costs no read.
func (b *Billing) Authenticate(ctx context.Context, secret string) (k Key, err error) {
	if !wellFormed(secret) {
		return k, problem.New(problem.Unauthorized, "Authorization: expected Bearer and a key of this host, such as %s…", LivePrefix)
	}
	d, err := b.Store.Doc(ctx, secretKey(hashOf(secret)))
	if err != nil {
		return k, store.Problem(err)
	}
	if d.Version == 0 {
		return k, problem.New(problem.Unauthorized, "Authorization: this is no key of this host")
	}
	var s storedKey
	if err := decode("a key", d.Data, &s); err != nil {
		return k, err
	}
	if k = s.Key; !k.Revoked.IsZero() {
		return k, problem.New(problem.Unauthorized, "Authorization: the key %s… was revoked", k.Prefix)
	}
	return k, nil
}

// wellFormed checks the form of a key before anything is read.
func wellFormed(secret string) bool {
	rest, live := strings.CutPrefix(secret, LivePrefix)
	if !live {
		var test bool
		if rest, test = strings.CutPrefix(secret, TestPrefix); !test {
			return false
		}
	}
	return len(rest) == secretSize && strings.Trim(rest, letters) == ""
}

// Bearer is the secret in a request's Authorization header; "" if it has none. Errors do
// not quote it.
func Bearer(r *http.Request) (string, error) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return "", nil
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	secret = strings.TrimLeft(secret, " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", problem.New(problem.Unauthorized, "Authorization: expected one Bearer KEY")
	}
	return secret, nil
}

// Identify returns the account that pays for a request, nil if it has no key.
func (b *Billing) Identify(ctx context.Context, r *http.Request) (*call.Payer, error) {
	secret, err := Bearer(r)
	if err != nil || secret == "" {
		return nil, err
	}
	k, err := b.Authenticate(ctx, secret)
	if err != nil {
		return nil, err
	}
	if !k.Has(ScopeCall) {
		return nil, NeedsScope(ScopeCall)
	}
	return &call.Payer{Account: k.Account, Tenant: k.Tenant, Key: k.ID, Cap: k.Cap, Test: k.Test}, nil
}

// NeedsScope is the refusal of a key without a scope.
func NeedsScope(s Scope) error {
	return problem.New(problem.Scope, "the key lacks the scope %s", s)
}

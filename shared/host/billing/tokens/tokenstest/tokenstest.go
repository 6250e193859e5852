// Package tokenstest contains an OpenID Connect provider for tests, which signs any token that a
// test needs.
package tokenstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

// Keys creates its keys once, because the creation of an RSA key is slow.
var Keys = sync.OnceValue(func() map[string]crypto.Signer {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"RS256": r, "PS256": r, "ES256": e, "EdDSA": ed}
})

// Provider is an issuer of tokens on loopback. Functions passed to Update may change its fields.
type Provider struct {
	*httptest.Server
	Keys            []any
	KeysURL, Issuer string
	RespondWithKeys func(http.ResponseWriter)
	// BeforeKeys runs before each answer with keys.
	BeforeKeys func()
	KeyFetches atomic.Int64

	mu sync.Mutex
}

func New() *Provider {
	p := &Provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	p.Issuer, p.KeysURL = p.URL, p.URL+"/keys"
	for alg, k := range Keys() {
		p.Keys = append(p.Keys, jose.JSONWebKey{Key: k.Public(), KeyID: alg, Use: "sig"})
	}
	return p
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var body any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		body = map[string]string{"issuer": p.Issuer, "jwks_uri": p.KeysURL}
	case "/keys":
		p.KeyFetches.Add(1)
		if p.BeforeKeys != nil {
			p.BeforeKeys()
		}
		if p.RespondWithKeys != nil {
			p.RespondWithKeys(w)
			return
		}
		body = map[string]any{"keys": p.Keys}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

func (p *Provider) Update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Sign returns a signed token. claims is a string with JSON, or a value that Sign encodes. header
// adds or replaces members of the token's header.
func Sign(alg, kid string, claims any, header map[string]any) (string, error) {
	o := (&jose.SignerOptions{}).WithHeader("kid", kid)
	for k, v := range header {
		o = o.WithHeader(jose.HeaderKey(k), v)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: Keys()[alg]}, o)
	if err != nil {
		return "", err
	}
	body, ok := claims.(string)
	if !ok {
		b, err := json.Marshal(claims)
		if err != nil {
			return "", err
		}
		body = string(b)
	}
	signed, err := s.Sign([]byte(body))
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// Package tokenstest has a provider of OpenID Connect for tests: it describes itself, publishes keys,
// and signs every token that a test wants.
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

// Keys has a key for each algorithm, by its name. They are made once, because an RSA key takes
// long.
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

// Provider is an issuer of tokens on loopback. Its fields may be changed by Set.
type Provider struct {
	*httptest.Server
	// Keys are the JWKs that the provider publishes. At first they are the keys of the function Keys, each with
	// its algorithm as kid.
	Keys []any
	// KeysURL and Issuer are in its metadata.
	KeysURL, Issuer string
	// Answer answers instead of the keys, if it is not nil.
	Answer func(http.ResponseWriter)
	// Hook runs before the keys are answered, if it is not nil.
	Hook func()
	// Fetches counts the requests for keys.
	Fetches atomic.Int64

	mu sync.Mutex
}

// New starts a provider. Close ends it.
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
		p.Fetches.Add(1)
		if p.Hook != nil {
			p.Hook()
		}
		if p.Answer != nil {
			p.Answer(w)
			return
		}
		body = map[string]any{"keys": p.Keys}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// Set changes the provider between two requests.
func (p *Provider) Set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Sign returns a token with claims, which are an object or its JSON as a string. header replaces
// members of the token's header.
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

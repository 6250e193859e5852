package tokens_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func keys() map[string]crypto.Signer { return tokenstest.Keys() }

func sign(t testing.TB, alg, kid string, claims any, header map[string]any) string {
	t.Helper()
	token, err := tokenstest.Sign(alg, kid, claims, header)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// world is a checker of a host at https://host.example.
type world struct {
	t testing.TB
	*tokenstest.Provider
	checker *tokens.Checker
	ahead   time.Duration
	issuers []billing.Issuer
}

const vacant = "https://host.example/v/clerk"

func newWorld(t testing.TB) *world {
	w := &world{t: t, Provider: tokenstest.New()}
	t.Cleanup(w.Close)
	w.issuers = []billing.Issuer{{ID: "0123456789abcdef", URL: w.URL, Account: "aa", Tenant: "acme", IssuerOptions: billing.IssuerOptions{
		Audiences: []string{"api://vacancy"}, RequiredClaims: map[string]string{"org": "acme"}, SubjectClaim: "sub", SubjectDailyCap: 1, TotalDailyCap: 1,
	}}}
	w.checker = w.another()
	return w
}

// another is another process of the host.
func (w *world) another() *tokens.Checker {
	return tokens.New(billing.TokenCheckerConfig{
		Now: w.now, Client: outbound.New(outbound.Options{OperatorLoopback: true, Timeout: 10 * time.Second}),
		Issuers:   func(context.Context) ([]billing.Issuer, error) { return w.issuers, nil },
		Resources: func(*http.Request) ([]string, error) { return []string{vacant + "/"}, nil },
	})
}

func (w *world) now() time.Time { return time.Now().Add(w.ahead) }

// claims returns the claims of a good token. with replaces some of them; a nil removes one.
func (w *world) claims(with map[string]any) map[string]any {
	now := w.now().Unix()
	all := map[string]any{"iss": w.URL, "sub": "ann", "aud": vacant, "exp": now + 600, "iat": now, "org": "acme"}
	maps.Copy(all, with)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (w *world) check(token string) (billing.Subject, error) {
	return w.checker.CheckForResources(w.t.Context(), token, []string{vacant + "/"})
}

func TestGoodTokensCount(t *testing.T) {
	w := newWorld(t)
	now := time.Now().Unix()
	for alg := range keys() {
		s, err := w.check(sign(t, alg, alg, w.claims(nil), nil))
		if err != nil || s.Name != "ann" || s.Issuer.Tenant != "acme" || s.ID != tokens.SubjectID(w.URL, "ann") {
			t.Errorf("%s: %+v, %v", alg, s, err)
		}
	}
	for name, with := range map[string]map[string]any{
		"aud as array":                 {"aud": []string{"other", vacant}},
		"aud with a slash":             {"aud": vacant + "/"},
		"a given audience":             {"aud": "api://vacancy"},
		"exp with a fraction":          {"exp": float64(now) + 600.5},
		"an exp that is just over":     {"exp": now - 30},
		"an nbf that is about to come": {"nbf": now + 30},
		"a required claim as array":    {"org": []string{"x", "acme"}},
		"other claims":                 {"cnf": map[string]any{"x": []any{1, 2.5, nil}}},
		"aud below the vacant's URL":   {"aud": vacant + "/v1/chat/completions"},
	} {
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(with), nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, header := range map[string]map[string]any{"at+jwt": {"typ": "at+jwt"}, "JWT": {"typ": "JWT"}, "jku": {"jku": "https://evil.example/keys"}} {
		if _, err := w.check(sign(t, "EdDSA", "EdDSA", w.claims(nil), header)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.KeyFetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
}

func TestTokensThatDoNotCount(t *testing.T) {
	w := newWorld(t)
	now := time.Now().Unix()
	good := sign(t, "ES256", "ES256", w.claims(nil), nil)
	part := strings.Split(good, ".")
	raw := func(header, claims string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	}
	body, _ := json.Marshal(w.claims(nil))
	public, _ := json.Marshal(jose.JSONWebKey{Key: keys()["RS256"].Public()})
	hs, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, (&jose.SignerOptions{}).WithHeader("kid", "RS256"))
	if err != nil {
		t.Fatal(err)
	}
	hmac, _ := hs.Sign(body)
	hs256, _ := hmac.CompactSerialize()
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: keys()["ES256"]}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	own, _ := embedded.Sign(body)
	withKey, _ := own.CompactSerialize()
	w.Update(func() { // one more of a kind: a header without kid is ambiguous
		k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		w.Keys = append(w.Keys, jose.JSONWebKey{Key: k.Public(), KeyID: "ES256-2"})
	})

	claim := func(with map[string]any) string { return sign(t, "ES256", "ES256", w.claims(with), nil) }
	for name, c := range map[string]struct{ token, says string }{
		"alg none":                  {raw(`{"alg":"none"}`, string(body)) + ".", "alg"},
		"alg none, signed":          {raw(`{"alg":"none","kid":"ES256"}`, string(body)) + "." + part[2], "alg"},
		"HS256 over the public key": {hs256, "alg"},
		"RS256's key for ES256":     {raw(`{"alg":"ES256","kid":"RS256"}`, string(body)) + "." + part[2], "no key"},
		"a key of its own":          {withKey, "kid"},
		"an unknown kid":            {sign(t, "ES256", "nobody", w.claims(nil), nil), "no key"},
		"no kid, of two keys":       {sign(t, "ES256", "", w.claims(nil), nil), "kid"},
		"crit":                      {sign(t, "ES256", "ES256", w.claims(nil), map[string]any{"crit": []string{"b64"}, "b64": true}), "crit"},
		"typ logout":                {sign(t, "ES256", "ES256", w.claims(nil), map[string]any{"typ": "logout+jwt"}), "typ"},
		"two kids":                  {raw(`{"alg":"ES256","kid":"x","kid":"ES256"}`, string(body)) + "." + part[2], "kid"},
		"two subjects":              {sign(t, "ES256", "ES256", strings.Replace(string(body), `"sub"`, `"sub":"bob","sub"`, 1), nil), "sub"},
		"another signature":         {part[0] + "." + part[1] + "." + strings.Split(claim(map[string]any{"sub": "bob"}), ".")[2], "does not verify"},
		"a changed claim":           {part[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), "ann", "eve", 1))) + "." + part[2], "does not verify"},
		"a wrong aud":               {claim(map[string]any{"aud": "https://host.example/v/other"}), vacant},
		"an aud beside it":          {claim(map[string]any{"aud": vacant + "er"}), vacant},
		"an aud that leads away":    {claim(map[string]any{"aud": vacant + "/../other"}), vacant},
		"a query in aud":            {claim(map[string]any{"aud": vacant + "/text?a"}), vacant},
		"a wrong aud, as array":     {claim(map[string]any{"aud": []string{"a", "b"}}), "aud"},
		"the host in place of it":   {claim(map[string]any{"aud": "https://host.example"}), "aud"},
		"no aud":                    {claim(map[string]any{"aud": nil}), "aud"},
		"aud as a number":           {claim(map[string]any{"aud": 7}), "aud"},
		"an iss with a slash more":  {claim(map[string]any{"iss": w.URL + "/"}), "does not accept tokens from the issuer"},
		"another iss":               {claim(map[string]any{"iss": "https://evil.example"}), "does not accept tokens from the issuer"},
		"no iss":                    {claim(map[string]any{"iss": nil}), "iss"},
		"iss as array":              {claim(map[string]any{"iss": []string{w.URL, "x"}}), "iss"},
		"expired":                   {claim(map[string]any{"exp": now - 61}), "expired"},
		"no exp":                    {claim(map[string]any{"exp": nil}), "exp"},
		"exp as text":               {claim(map[string]any{"exp": fmt.Sprint(now + 600)}), "exp"},
		"a future nbf":              {claim(map[string]any{"nbf": now + 90}), "nbf"},
		"a future iat":              {claim(map[string]any{"iat": now + 90}), "iat"},
		"another org":               {claim(map[string]any{"org": "other"}), "org"},
		"no org":                    {claim(map[string]any{"org": nil}), "org"},
		"no subject":                {claim(map[string]any{"sub": nil}), "sub"},
		"a subject as number":       {claim(map[string]any{"sub": 7}), "sub"},
		"a subject as array":        {claim(map[string]any{"sub": []string{"ann", "bob"}}), "sub"},
		"a long subject":            {claim(map[string]any{"sub": strings.Repeat("a", 256)}), "sub"},
		"a subject of 10 KB":        {claim(map[string]any{"sub": strings.Repeat("a", 10<<10)}), "at most 8192 bytes"},
		"claims that are no object": {sign(t, "ES256", "ES256", `[]`, nil), "claims"},
		"five parts":                {good + ".a.b", "three parts"},
		"padding":                   {part[0] + "=." + part[1] + "." + part[2], "base64url"},
	} {
		s, err := w.check(c.token)
		if !problem.Is(err, problem.Unauthorized) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v; want unauthorized, about %q", name, s, err, c.says)
		}
		if err != nil && len(c.token) > 40 && strings.Contains(err.Error(), c.token[len(c.token)-40:]) {
			t.Errorf("%s: the error quotes the token: %v", name, err)
		}
	}
}

func TestATokenHasEachRequiredClaim(t *testing.T) {
	w := newWorld(t)
	w.issuers[0].RequiredClaims = map[string]string{"org": "acme", "department": "sales", "site": "north"}
	all := map[string]any{"department": "sales", "site": "north"}
	if _, err := w.check(sign(t, "ES256", "ES256", w.claims(all), nil)); err != nil {
		t.Errorf("all three claims: %v", err)
	}
	for claim := range w.issuers[0].RequiredClaims {
		for name, value := range map[string]any{"another": "other", "none": nil} {
			with := maps.Clone(all)
			with[claim] = value
			if _, err := w.check(sign(t, "ES256", "ES256", w.claims(with), nil)); !problem.Is(err, problem.Unauthorized) || !strings.Contains(err.Error(), claim) {
				t.Errorf("%s %s: %v, want unauthorized", name, claim, err)
			}
		}
	}
}

// Subjects of two issuers have two ids, whatever they are called: an id has the limits and the tasks of its subject.
func TestSubjectsOfTwoIssuersAreTwo(t *testing.T) {
	ids := map[string][2]string{}
	for _, s := range [][2]string{{"https://a.example", "ann"}, {"https://b.example", "ann"}, {"https://a.example", "bob"}, {"https://a.example/", "ann"}, {"https://a.examplea", "nn"}, {"https://a.example", "Ann"}} {
		id := tokens.SubjectID(s[0], s[1])
		if other, taken := ids[id]; taken {
			t.Errorf("%v and %v have the id %s", s, other, id)
		}
		ids[id] = s
	}
	w := newWorld(t)
	provider := tokenstest.New()
	t.Cleanup(provider.Close)
	second := w.issuers[0]
	second.ID, second.URL = "fedcba9876543210", provider.URL
	w.issuers = append(w.issuers, second) // of the same account
	one, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil))
	if err != nil {
		t.Fatal(err)
	}
	two, err := w.check(sign(t, "ES256", "ES256", w.claims(map[string]any{"iss": provider.URL}), nil))
	if err != nil || one.ID == two.ID || one.Name != two.Name {
		t.Errorf("ann of one issuer is %+v, of the other %+v, %v", one, two, err)
	}
}

// A key of one issuer signs no tokens of another, in a process that has read the keys of both and in a new process.
func TestAnIssuerHasKeysOfItsOwn(t *testing.T) {
	w := newWorld(t)
	provider := tokenstest.New()
	t.Cleanup(provider.Close)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	provider.Update(func() { provider.Keys = []any{jose.JSONWebKey{Key: key.Public(), KeyID: "ES256", Use: "sig"}} })
	second := w.issuers[0]
	second.ID, second.URL = "fedcba9876543210", provider.URL
	w.issuers = append(w.issuers, second)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "ES256"))
	if err != nil {
		t.Fatal(err)
	}
	token := func(issuer string, isSecond bool) string {
		claims := w.claims(map[string]any{"iss": issuer})
		if !isSecond {
			return sign(t, "ES256", "ES256", claims, nil)
		}
		body, _ := json.Marshal(claims)
		signed, _ := signer.Sign(body)
		compact, _ := signed.CompactSerialize()
		return compact
	}
	for _, order := range [][2]string{{w.URL, provider.URL}, {provider.URL, w.URL}} {
		w.checker = w.another()
		for _, issuer := range order {
			for _, isSecond := range []bool{false, true} {
				_, err := w.check(token(issuer, isSecond))
				if isOwn := isSecond == (issuer == provider.URL); isOwn && err != nil || !isOwn && !problem.Is(err, problem.Unauthorized) {
					t.Errorf("after %s, a token of %s that is signed by its own key %t: %v", order[0], issuer, isOwn, err)
				}
			}
		}
	}
}

// An issuer of this machine says where its keys are, and does not choose what the host reaches.
func TestAnIssuerLeadsToNoOtherPort(t *testing.T) {
	w := newWorld(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	done := make(chan bool)
	go func() {
		defer close(done)
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	for _, keys := range []string{"https://" + other.Addr().String() + "/keys", "http://" + other.Addr().String() + "/keys", strings.Replace(w.URL, "http://", "https://", 1) + "/keys"} {
		w.Update(func() { w.KeysURL = keys })
		w.ahead += time.Minute
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Unauthorized) {
			t.Errorf("keys at %s: %v, want a refusal", keys, err)
		}
	}
	other.Close()
	<-done
	if n := reached.Load(); n > 0 {
		t.Errorf("%d connections to the other port, want none", n)
	}
}

func TestATokenFitsOneAccount(t *testing.T) {
	w := newWorld(t)
	other := w.issuers[0]
	other.ID, other.Account, other.Tenant, other.RequiredClaims = "fedcba9876543210", "bb", "other", map[string]string{"org": "other"}
	w.issuers = append(w.issuers, other)
	for org, want := range map[string]string{"acme": "acme", "other": "other", "third": ""} {
		s, err := w.check(sign(t, "ES256", "ES256", w.claims(map[string]any{"org": org}), nil))
		if s.Issuer.Tenant != want || (err == nil) != (want != "") {
			t.Errorf("org %s: %s, %v, want %q", org, s.Issuer.Tenant, err, want)
		}
	}
	if _, err := w.check(sign(t, "ES256", "ES256", w.claims(map[string]any{"org": []string{"acme", "other"}}), nil)); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a token for two accounts: %v", err)
	}
	w.issuers = nil
	if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a token of a removed issuer: %v", err)
	}
}

func TestKeysAreRotated(t *testing.T) {
	w := newWorld(t)
	old := func() error { _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); return err }
	next := func() error { _, err := w.check(sign(t, "EdDSA", "next", w.claims(nil), nil)); return err }
	if err := old(); err != nil {
		t.Fatal(err)
	}
	w.Update(func() { w.Keys = []any{jose.JSONWebKey{Key: keys()["EdDSA"].Public(), KeyID: "next"}} })
	if err := next(); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a new key, a moment after a fetch: %v", err)
	}
	w.ahead = 31 * time.Second
	if err := next(); err != nil {
		t.Errorf("a new key after 31 s: %v", err)
	}
	if err := old(); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("the old key, once the new one is known: %v", err)
	}
	// Without a look at unknown keys, a set is read again after ten minutes.
	w.Update(func() { w.Keys = []any{jose.JSONWebKey{Key: keys()["ES256"].Public(), KeyID: "ES256"}} })
	w.ahead += 11 * time.Minute
	if err := next(); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a withdrawn key after ten minutes: %v", err)
	}
}

// An issuer that changes its key, and gives keys no kid or the same kid, has its new tokens accepted
// after half a minute. Forged tokens make no more fetches than unknown kids.
func TestKeysAreRotatedWithoutKid(t *testing.T) {
	for _, kid := range []string{"", "one"} {
		w := newWorld(t)
		fresh, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		w.Update(func() { w.Keys = []any{jose.JSONWebKey{Key: keys()["ES256"].Public(), KeyID: kid}} })
		old := sign(t, "ES256", kid, w.claims(nil), nil)
		if _, err := w.check(old); err != nil {
			t.Fatal(err)
		}
		w.Update(func() { w.Keys = []any{jose.JSONWebKey{Key: fresh.Public(), KeyID: kid}} })
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: fresh}, (&jose.SignerOptions{}).WithHeader("kid", kid))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := json.Marshal(w.claims(nil))
		signed, err := signer.Sign(body)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := w.check(token); !problem.Is(err, problem.Unauthorized) {
				t.Errorf("kid %q: a moment after a fetch: %v", kid, err)
			}
		}
		if n := w.KeyFetches.Load(); n != 1 {
			t.Errorf("kid %q: %d fetches a moment after a fetch, want 1", kid, n)
		}
		w.ahead = 31 * time.Second
		if _, err := w.check(token); err != nil {
			t.Errorf("kid %q: after 31 s: %v", kid, err)
		}
		for range 20 {
			if _, err := w.check(old); !problem.Is(err, problem.Unauthorized) {
				t.Errorf("kid %q: the withdrawn key: %v", kid, err)
			}
		}
		if n := w.KeyFetches.Load(); n != 2 {
			t.Errorf("kid %q: %d fetches, want 2", kid, n)
		}
		// While the issuer is away, the token may be good.
		w.Update(func() { w.RespondWithKeys = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) } })
		w.ahead += 31 * time.Second
		if _, err := w.check(old); !problem.Is(err, problem.Unavailable) {
			t.Errorf("kid %q: while the issuer is away: %v", kid, err)
		}
		if _, err := w.check(token); err != nil {
			t.Errorf("kid %q: a good token while the issuer is away: %v", kid, err)
		}
	}
}

// A token with scope or scp has the scopes of its issuer that the claim names.
func TestScopesOfTokens(t *testing.T) {
	w := newWorld(t)
	call, read := billing.ScopeCall, billing.ScopeRead
	w.issuers[0].Scopes = []billing.Scope{call, read}
	for name, tt := range map[string]struct {
		claims map[string]any
		want   []billing.Scope
	}{
		"none":                 {nil, []billing.Scope{call, read}},
		"call":                 {map[string]any{"scope": "call"}, []billing.Scope{call}},
		"among others":         {map[string]any{"scope": "openid  call\tprofile"}, []billing.Scope{call}},
		"read":                 {map[string]any{"scope": "read"}, []billing.Scope{read}},
		"both":                 {map[string]any{"scope": "read call"}, []billing.Scope{call, read}},
		"others":               {map[string]any{"scope": "openid profile"}, nil},
		"an empty text":        {map[string]any{"scope": ""}, nil},
		"in a longer word":     {map[string]any{"scope": "call:all recall"}, nil},
		"manage":               {map[string]any{"scope": "manage vacants"}, nil},
		"scp, a list":          {map[string]any{"scp": []string{"openid", "call"}}, []billing.Scope{call}},
		"scp, a text":          {map[string]any{"scp": "openid call"}, []billing.Scope{call}},
		"scp without call":     {map[string]any{"scp": []string{"openid"}}, nil},
		"scope and scp":        {map[string]any{"scope": "openid", "scp": []string{"call"}}, []billing.Scope{call}},
		"scope that is a list": {map[string]any{"scope": []string{"call"}}, []billing.Scope{call}},
	} {
		s, err := w.check(sign(t, "ES256", "ES256", w.claims(tt.claims), nil))
		if err != nil || !slices.Equal(s.Scopes, tt.want) {
			t.Errorf("%s: %v, %v, want %v", name, s.Scopes, err, tt.want)
		}
	}
	w.issuers[0].RequiredClaims = map[string]string{"scope": "call"}
	for scope, want := range map[string]bool{"call openid": true, "openid": false} {
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(map[string]any{"scope": scope}), nil)); (err == nil) != want {
			t.Errorf("scope %q where call is required: %v", scope, err)
		}
	}
}

func TestUnknownKeysCostFewFetches(t *testing.T) {
	w := newWorld(t)
	tries := 100_000
	if testing.Short() {
		tries = 5_000
	}
	token := sign(t, "EdDSA", "nobody", w.claims(nil), nil)
	began, start := w.KeyFetches.Load(), time.Now()
	for i := range tries {
		// The tries take one minute of the host's clock, also on a slow machine.
		w.ahead = time.Minute*time.Duration(i)/time.Duration(tries) - time.Since(start)
		if _, err := w.check(token); !problem.Is(err, problem.Unauthorized) {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	if n := w.KeyFetches.Load() - began; n < 2 || n > 3 {
		t.Errorf("%d tokens within a minute made %d fetches, want 2 or 3", tries, n)
	}
}

func TestManyRequestsMakeOneFetch(t *testing.T) {
	w := newWorld(t)
	token := sign(t, "EdDSA", "EdDSA", w.claims(nil), nil)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, err := w.check(token); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.KeyFetches.Load(); n != 1 {
		t.Errorf("32 requests at once made %d fetches", n)
	}
}

// The signature of a token is checked after its keys are fetched, so anybody can begin a fetch.
func TestASenderThatHangsUpKeepsKeysFromNobody(t *testing.T) {
	w := newWorld(t)
	stranger := sign(t, "EdDSA", "nobody", w.claims(nil), nil)
	for range 5 {
		ctx, hangUp := context.WithCancel(t.Context())
		w.Update(func() { w.BeforeKeys = hangUp })
		_, err := w.checker.CheckForResources(ctx, stranger, []string{vacant + "/"})
		if !problem.Is(err, problem.Unauthorized) || ctx.Err() == nil {
			t.Errorf("a token of an unknown key whose sender has hung up: %v", err)
		}
		w.Update(func() { w.BeforeKeys = nil })
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); err != nil {
			t.Errorf("a good token, %s after the first: %v", w.ahead, err)
		}
		w.ahead += 31 * time.Minute
	}
}

func TestGoodTokensDoNotWaitForUnknownKeys(t *testing.T) {
	w := newWorld(t)
	good, stranger := sign(t, "ES256", "ES256", w.claims(map[string]any{"exp": 1 << 40}), nil), sign(t, "EdDSA", "nobody", w.claims(nil), nil)
	if _, err := w.check(good); err != nil {
		t.Fatal(err)
	}
	// The issuer is slow. Its keys are fresh at first, and then good because it is away.
	for _, later := range []time.Duration{31 * time.Second, 11 * time.Minute} {
		w.ahead = later
		began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		w.Update(func() { w.BeforeKeys = func() { close(began); <-goOn } })
		go func() {
			defer close(done)
			if _, err := w.check(stranger); !problem.Is(err, problem.Unauthorized) {
				t.Errorf("a token of an unknown key: %v", err)
			}
		}()
		<-began
		if _, err := w.check(good); err != nil {
			t.Errorf("a good token after %s: %v", later, err)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if _, err := w.checker.CheckForResources(gone, stranger, []string{vacant + "/"}); !problem.Is(err, problem.Unavailable) {
			t.Errorf("a second token of an unknown key, whose sender has hung up: %v, want unavailable", err)
		}
		select {
		case <-done:
			t.Errorf("after %s, tokens waited for the end of a fetch", later)
		default:
		}
		close(goOn)
		<-done
	}
}

func TestAnIssuerMayBeAwayForAnHour(t *testing.T) {
	w := newWorld(t)
	try := func() error { _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); return err }
	w.RespondWithKeys = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
	if err := try(); !problem.Is(err, problem.Unavailable) {
		t.Fatalf("an issuer that was never there: %v", err)
	}
	w.Update(func() { w.RespondWithKeys = nil })
	w.ahead = 31 * time.Second
	if err := try(); err != nil {
		t.Fatal(err)
	}
	w.Update(func() { w.RespondWithKeys = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) } })
	for _, after := range []time.Duration{11 * time.Minute, 30 * time.Minute, 59 * time.Minute} {
		w.ahead = after
		if err := try(); err != nil {
			t.Errorf("%s after the fetch: %v", after, err)
		}
	}
	// The issuer may have a new key, which cannot be fetched.
	for range 2 {
		if _, err := w.check(sign(t, "ES256", "new", w.claims(nil), nil)); !problem.Is(err, problem.Unavailable) {
			t.Errorf("a token of an unknown key: %v", err)
		}
	}
	w.ahead = 62 * time.Minute
	if err := try(); !problem.Is(err, problem.Unavailable) {
		t.Errorf("after an hour: %v", err)
	}
	w.Update(func() { w.RespondWithKeys = nil })
	w.ahead += 31 * time.Second
	if err := try(); err != nil {
		t.Errorf("once it is back: %v", err)
	}
}

func TestIssuersThatLie(t *testing.T) {
	big := strings.Repeat(" ", 10<<20)
	unfit := map[string]string{
		"another issuer's metadata": `/", the issuer in http`,
		"keys by http elsewhere":    "an https URL as jwks_uri",
		"keys in a file":            "an https URL as jwks_uri",
	}
	for name, change := range map[string]func(w *world){
		"another issuer's metadata": func(w *world) { w.Issuer = w.URL + "/" },
		"keys at a private address": func(w *world) { w.KeysURL = "https://10.0.0.1/keys" },
		"keys by http elsewhere":    func(w *world) { w.KeysURL = "http://keys.example/keys" },
		"keys in a file":            func(w *world) { w.KeysURL = "file:///etc/passwd" },
		"keys of 10 MB": func(w *world) {
			w.RespondWithKeys = func(w http.ResponseWriter) { fmt.Fprint(w, `{"keys":[]`, big, `}`) }
		},
		"a redirect": func(w *world) {
			w.RespondWithKeys = func(r http.ResponseWriter) { r.Header().Set("Location", w.URL+"/elsewhere"); r.WriteHeader(302) }
		},
		"no keys": func(w *world) { w.Keys = nil },
		"only a key for encryption": func(w *world) {
			w.Keys = []any{jose.JSONWebKey{Key: keys()["ES256"].Public(), KeyID: "ES256", Use: "enc"}}
		},
		"a symmetric key": func(w *world) { w.Keys = []any{map[string]string{"kty": "oct", "k": "c2VjcmV0", "kid": "ES256"}} },
		"not JSON":        func(w *world) { w.RespondWithKeys = func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") } },
		"a thousand keys": func(w *world) {
			for range 1000 {
				w.Keys = append(w.Keys, w.Keys[0])
			}
		},
	} {
		w := newWorld(t)
		change(w)
		want := problem.Unavailable
		if says, ok := unfit[name]; ok {
			want = problem.Unauthorized
			// A process that has not fetched says so, too, and adding the issuer says it first.
			for _, c := range []*tokens.Checker{w.checker, w.another()} {
				if _, err := c.CheckForResources(t.Context(), sign(t, "ES256", "ES256", w.claims(nil), nil), nil); !problem.Is(err, want) || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v, want %q", name, err, says)
				}
			}
			if _, err := w.checker.CountKeys(t.Context(), &w.issuers[0]); !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: Reach: %v, want %q", name, err, says)
			}
		}
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); !problem.Is(err, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if want == problem.Unauthorized { // the issuer mends its description
			w.Update(func() { w.Issuer, w.KeysURL = w.URL, w.URL+"/keys" })
			w.ahead = 31 * time.Second
			if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); err != nil {
				t.Errorf("%s, mended: %v", name, err)
			}
		}
	}
	// Keys that are of no use beside good ones decide nothing.
	w := newWorld(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	w.Keys = append([]any{map[string]string{"kty": "AKP", "kid": "ES256"}, jose.JSONWebKey{Key: small.Public(), KeyID: "small"}, 7, nil}, w.Keys...)
	if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); err != nil {
		t.Errorf("beside keys of no use: %v", err)
	}
}

func TestMembersOfKeysThatDecideNothing(t *testing.T) {
	w := newWorld(t)
	b, err := jose.JSONWebKey{Key: keys()["ES256"].Public(), KeyID: "ES256"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for member, value := range map[string]string{
		"x5c":      `["bm8gY2VydGlmaWNhdGU="]`, // of a kind that Go does not parse
		"x5t":      `"0011:2233"`,
		"x5t#S256": `"short"`,
		"x5u":      `"http://%"`,
		"issuer":   `"https://login.example.com/{tenantid}/v2.0"`,
		"key_ops":  `["verify"]`,
		"exp":      `1`,
	} {
		w.Update(func() {
			w.Keys = []any{json.RawMessage(strings.Replace(string(b), "{", `{"`+member+`":`+value+`,`, 1))}
		})
		w.checker = w.another()
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); err != nil {
			t.Errorf("a key with %s: %v", member, err)
		}
	}
	for member, value := range map[string]string{"use": `"enc"`, "key_ops": `["encrypt"]`, "alg": `"ECDH-ES"`, "d": `"AAAA"`} {
		w.Update(func() {
			w.Keys = []any{json.RawMessage(strings.Replace(string(b), "{", `{"`+member+`":`+value+`,`, 1))}
		})
		w.checker = w.another()
		if _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); err == nil {
			t.Errorf("a key with %s: it counts", member)
		}
	}
	// Numbers that are of no key verify nothing, and nothing panics.
	n := base64.RawURLEncoding.EncodeToString(append([]byte{0xff}, make([]byte, 255)...))
	for _, odd := range []string{
		`{"kty":"RSA","kid":"RS256","n":"` + n + `","e":"AQAB"}`,
		`{"kty":"RSA","kid":"RS256","n":"` + n + `","e":"_____________w"}`,
		`{"kty":"RSA","kid":"RS256","n":"` + n + `","e":""}`,
		`{"kty":"RSA","kid":"RS256"}`, `{"kty":"OKP","crv":"Ed25519","kid":"RS256","x":"AA"}`, `{"kty":"EC","crv":"P-256","kid":"RS256","x":"","y":""}`,
	} {
		w.Update(func() { w.Keys = []any{json.RawMessage(odd), json.RawMessage(b)} })
		w.checker = w.another()
		for _, alg := range []string{"RS256", "PS256"} {
			if _, err := w.check(sign(t, alg, "RS256", w.claims(nil), nil)); !problem.Is(err, problem.Unauthorized) {
				t.Errorf("%s: %v", odd, err)
			}
		}
	}
}

func TestClocksThatGoBack(t *testing.T) {
	w := newWorld(t)
	old := func() error { _, err := w.check(sign(t, "ES256", "ES256", w.claims(nil), nil)); return err }
	next := func() error { _, err := w.check(sign(t, "EdDSA", "next", w.claims(nil), nil)); return err }
	w.ahead = 24 * time.Hour
	if err := old(); err != nil {
		t.Fatal(err)
	}
	// The keys were fetched tomorrow. They are fetched once more.
	w.ahead = 0
	w.Update(func() { w.Keys = []any{jose.JSONWebKey{Key: keys()["EdDSA"].Public(), KeyID: "next"}} })
	if err := old(); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a withdrawn key: %v", err)
	}
	fetched := w.KeyFetches.Load()
	if err := next(); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if err := old(); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("a withdrawn key: %v", err)
	}
	if n := w.KeyFetches.Load() - fetched; n != 0 {
		t.Errorf("%d more fetches, want none", n)
	}
	// An issuer that is away counts for an hour then, too.
	w.ahead = -24 * time.Hour
	w.Update(func() { w.RespondWithKeys = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) } })
	if err := next(); err != nil {
		t.Errorf("an issuer that is away: %v", err)
	}
	w.ahead += 62 * time.Minute
	if err := next(); !problem.Is(err, problem.Unavailable) {
		t.Errorf("an hour later: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	w := newWorld(f)
	f.Add(sign(f, "ES256", "ES256", w.claims(nil), nil))
	f.Add("a.b.c")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		s, err := w.checker.CheckForResources(t.Context(), token, []string{vacant + "/"})
		switch {
		case err == nil && s.Name != "ann":
			t.Errorf("a token that nobody signed is of %q", s.Name)
		case err != nil && !problem.Is(err, problem.Unauthorized):
			t.Errorf("%v, want unauthorized", err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		b.Run(alg, func(b *testing.B) {
			w := newWorld(b)
			token := sign(b, alg, alg, w.claims(nil), nil)
			for b.Loop() {
				if _, err := w.check(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("an Ed25519 signature alone", func(b *testing.B) {
		key := keys()["EdDSA"].(ed25519.PrivateKey)
		message := make([]byte, 500)
		sig := ed25519.Sign(key, message)
		for b.Loop() {
			if !ed25519.Verify(key.Public().(ed25519.PublicKey), message, sig) {
				b.Fatal("it does not verify")
			}
		}
	})
}

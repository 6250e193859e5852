package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	// refreshAge is the age at which keys are refreshed.
	refreshAge = 10 * time.Minute
	// maxAge limits the age of keys that are used while the issuer does not answer.
	maxAge = time.Hour
	// fetchInterval is the minimum time between two fetches of an issuer's keys by a process.
	fetchInterval = 30 * time.Second
	// fetchTime limits a fetch, which reads two documents.
	fetchTime = 5 * time.Second
)

// Limits of the data that an issuer sends.
const (
	maxReply = 256 << 10
	maxKeys  = 100
	minRSA   = 2048
)

// keySet caches the keys of an issuer.
type keySet struct {
	mu      sync.Mutex // not held during a fetch
	keys    []key
	fetched time.Time // start of the fetch of keys
	tried   time.Time // start of the last fetch, even if it failed
	unfit   string    // error in the issuer's metadata, or ""
	// busy is closed when the current fetch ends. If no fetch is running, busy is nil.
	busy chan struct{}
}

// key is a key that verifies signatures.
type key struct {
	id     string
	alg    string // only algorithm of the key, or "" if every suitable one is allowed
	public any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

func (k *key) fits(alg jose.SignatureAlgorithm) bool {
	if k.alg != "" && k.alg != string(alg) {
		return false
	}
	switch k.public.(type) {
	case *rsa.PublicKey:
		return alg == jose.RS256 || alg == jose.PS256
	case *ecdsa.PublicKey:
		return alg == jose.ES256
	}
	return alg == jose.EdDSA
}

// verify checks the signature of a token. If the cached keys do not verify it, verify refreshes
// them, because an issuer's new key may have no kid or the kid of the old key.
func (c *Checker) verify(ctx context.Context, token string, i *billing.Issuer, h header) error {
	sig, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return rejectToken("the token is not a signed JWT")
	}
	var failed time.Time // time at which the keys that did not verify the token were fetched
	for range 2 {
		keys, fetched, err := c.keys(ctx, i, h, failed)
		if err != nil {
			return err
		}
		if fetched.Equal(failed) {
			break // the keys were not refreshed
		}
		for _, k := range keys {
			if _, err := sig.Verify(k.public); err == nil {
				return nil
			}
		}
		failed = fetched
	}
	return rejectToken("the signature of the token does not verify with the key of %s", i.Issuer)
}

// keys returns the keys of an issuer that may have signed a token with header h, and the time of their
// fetch. If h has no kid, exactly one key must be suitable. failed is the fetch time of keys that did
// not verify the token, or zero. If the cached keys have this fetch time, keys fetches them again,
// unless this process started a fetch less than fetchInterval ago. While another request fetches the
// keys, keys returns cached keys that are younger than maxAge and have another fetch time.
func (c *Checker) keys(ctx context.Context, i *billing.Issuer, h header, failed time.Time) ([]key, time.Time, error) {
	c.mu.Lock()
	s := c.sets[i.Issuer]
	if s == nil { // the number of sets is small, because the operator adds issuers
		s = &keySet{}
		c.sets[i.Issuer] = s
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error // error of this request's fetch
	for {
		// Round removes the monotonic time, because AWS Lambda may stop the monotonic clock between
		// two requests.
		now := c.Now().Round(0)
		if s.tried.After(now) { // the clock was set back, so the keys stay usable but are refreshed
			s.tried = time.Time{}
			if s.fetched.After(now.Add(-refreshAge)) {
				s.fetched = now.Add(-refreshAge)
			}
		}
		found, age := s.find(h), now.Sub(s.fetched)
		isGood := len(found) > 0 && age < maxAge
		isUsable := isGood && (failed.IsZero() || !s.fetched.Equal(failed))
		switch {
		case isUsable && (age < refreshAge || s.busy != nil):
			return found, s.fetched, nil
		case s.busy != nil:
			busy := s.busy
			s.mu.Unlock()
			select {
			case <-busy:
			case <-ctx.Done():
			}
			s.mu.Lock()
			if s.busy == busy {
				return nil, s.fetched, problem.New(problem.Unavailable, "the keys of the issuer %s are being fetched; try again in a second", i.Issuer)
			}
		case err == nil && !now.Before(s.tried.Add(fetchInterval)):
			err = c.refresh(ctx, i, s, now)
		case isUsable, isGood && err == nil:
			return found, s.fetched, nil
		case err != nil:
			return nil, s.fetched, err
		case s.unfit != "":
			return nil, s.fetched, rejectToken("the host cannot use the issuer: %s", s.unfit)
		// The keys are too old, or the last fetch failed, so the issuer may have published a newer key.
		case age >= maxAge, s.tried.After(s.fetched):
			return nil, s.fetched, unreachable(i.Issuer, nil)
		case h.kid == "":
			return nil, s.fetched, rejectToken("the token's header has no key id (kid), and the issuer %s does not have exactly one key for %s", i.Issuer, h.alg)
		default:
			return nil, s.fetched, rejectToken("the issuer %s has no key %.80q for %s", i.Issuer, h.kid, h.alg)
		}
	}
}

func unreachable(issuer string, err error) error {
	return problem.Wrap(problem.Unavailable, err, "the keys of the issuer %s cannot be fetched now; the token may be good, so try again in half a minute", issuer)
}

func (s *keySet) find(h header) (found []key) {
	for _, k := range s.keys {
		if k.fits(h.alg) && (h.kid == "" || h.kid == k.id) {
			found = append(found, k)
		}
	}
	if h.kid == "" && len(found) != 1 {
		return nil
	}
	return found
}

// refresh fetches the keys of an issuer for all requests. The caller must hold s.mu, which refresh
// releases during the fetch.
func (c *Checker) refresh(ctx context.Context, i *billing.Issuer, s *keySet, now time.Time) error {
	s.tried, s.busy = now, make(chan struct{})
	defer func() {
		close(s.busy)
		s.busy = nil
	}()
	keys, err := func() ([]key, error) {
		s.mu.Unlock()
		defer s.mu.Lock()
		// The fetch continues if the sender of this request hangs up. Otherwise, this sender could
		// prevent the fetch for all requests.
		end := time.Now().Add(fetchTime)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
			end = deadline
		}
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
		return c.fetch(ctx, i)
	}()
	switch {
	case problem.Is(err, problem.Malformed):
		s.unfit = problem.AsError(err).Text()
		return nil
	case err != nil:
		return unreachable(i.Issuer, err)
	}
	s.keys, s.fetched, s.unfit = keys, now, ""
	return nil
}

// fetch returns the keys that an issuer publishes. If the issuer's metadata is not suitable for the
// host, the error is Malformed.
func (c *Checker) fetch(ctx context.Context, i *billing.Issuer) (keys []key, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	keysURL, err := c.keysURL(ctx, i)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := c.get(ctx, reader(i, keysURL), keysURL, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d keys, got %d", keysURL, maxKeys, len(set.Keys))
	}
	for _, raw := range set.Keys {
		// Encryption keys, keys of other types, and keys that cannot be parsed are ignored.
		if k, err := parse(raw); err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, problem.New(problem.Unavailable, "%s has no key for %v", keysURL, algorithms)
	}
	return keys, nil
}

func (c *Checker) CountKeys(ctx context.Context, i *billing.Issuer) (int, error) {
	keys, err := c.fetch(ctx, i)
	return len(keys), err
}

func (c *Checker) keysURL(ctx context.Context, i *billing.Issuer) (string, error) {
	var failed []error
	for _, location := range billing.IssuerMetadata(i.Issuer) {
		var metadata struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		err := c.get(ctx, reader(i, location), location, &metadata)
		switch {
		case err == nil && metadata.Issuer != i.Issuer:
			err = problem.Invalid("issuer", fmt.Sprintf("%.200q, as %s spells it", metadata.Issuer, location), fmt.Sprintf("%q", i.Issuer))
		case err == nil && !strings.HasPrefix(metadata.Keys, "https://") && !sameOrigin(i.Issuer, metadata.Keys):
			err = problem.Invalid("issuer", "an https URL as jwks_uri in "+location, fmt.Sprintf("%.200q", metadata.Keys))
		case err == nil:
			return metadata.Keys, nil
		}
		failed = append(failed, err)
	}
	// The error of an unsuitable document is more helpful than the error of a missing document.
	if location := slices.IndexFunc(failed, func(err error) bool { return problem.Is(err, problem.Malformed) }); location >= 0 {
		return "", failed[location]
	}
	return "", errors.Join(failed...)
}

func sameOrigin(a, b string) bool {
	x, errA := url.Parse(a)
	y, errB := url.Parse(b)
	return errA == nil && errB == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// reader returns the actor for a request to a URL of an issuer. If the URL has the origin of the
// issuer, which the operator added, the actor is the operator. Otherwise the issuer chose the URL,
// and the actor is a stranger.
func reader(i *billing.Issuer, rawURL string) outbound.Actor {
	if !sameOrigin(i.Issuer, rawURL) {
		return outbound.HostActor(outbound.Stranger)
	}
	as := outbound.HostActor(outbound.Operator)
	if i.Private {
		as = as.WithPrivate()
	}
	return as
}

func (c *Checker) get(ctx context.Context, as outbound.Actor, rawURL string, into any) error {
	r, err := c.Client.Do(ctx, as, outbound.Request{Method: http.MethodGet, URL: rawURL, Header: http.Header{"Accept": {"application/json"}}, MaxReply: maxReply})
	switch {
	case err != nil:
		return err
	case r.Status != http.StatusOK:
		return problem.New(problem.Unavailable, "%s answered %d", rawURL, r.Status)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s: expected a JSON document", rawURL)
	}
	return nil
}

func parse(raw []byte) (k key, err error) {
	var about struct {
		Ops []string `json:"key_ops"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return k, err
	}
	// Certificates are not used, and a key may contain a certificate that cannot be parsed.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return k, err
	}
	for _, member := range []string{"x5c", "x5u", "x5t", "x5t#S256"} {
		delete(members, member)
	}
	if raw, err = json.Marshal(members); err != nil {
		return k, err
	}
	var j jose.JSONWebKey
	if err := j.UnmarshalJSON(raw); err != nil {
		return k, err
	}
	k = key{id: j.KeyID, alg: j.Algorithm, public: j.Key}
	if j.Use != "" && j.Use != "sig" || len(about.Ops) > 0 && !slices.Contains(about.Ops, "verify") {
		return k, errors.New("it is not for signatures")
	}
	switch public := j.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSA {
			return k, fmt.Errorf("it has %d bits", public.N.BitLen())
		}
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return k, errors.New("it is of another curve")
		}
	case ed25519.PublicKey:
	default:
		return k, fmt.Errorf("it is a %T", j.Key)
	}
	return k, nil
}
